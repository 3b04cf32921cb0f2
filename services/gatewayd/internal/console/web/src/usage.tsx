// Usage: tokens and cost of the sessions that are open, by agent, and all of it as CSV.
import type { Session } from "@acphost/proto/supervisor/v1/state";
import { cost, count, useBoard } from "./board";
import { line } from "./safe";

/** A cell of CSV. A program for tables does not take it for a formula. */
function cell(s: string): string {
  const safe = /^[=+\-@\t\r]/.test(s) ? "'" + s : s;
  return `"${safe.replaceAll('"', '""')}"`;
}

function csv(all: Session[]): string {
  const rows = [["agent", "session", "directory", "turns", "tokens", "input", "output", "context", "context_size", "cost", "currency"]];
  for (const s of all)
    rows.push([
      s.agentId, s.sessionId, s.roots[0] ?? "", String(s.turns), String(s.tokens?.total ?? ""), String(s.tokens?.input ?? ""), String(s.tokens?.output ?? ""),
      String(s.usage?.used ?? ""), String(s.usage?.size ?? ""), String(s.usage?.cost ?? ""), s.usage?.currency ?? "",
    ]);
  return rows.map((r) => r.map(cell).join(",")).join("\r\n") + "\r\n";
}

export function Usage() {
  const { sessions, error } = useBoard();
  const most = Math.max(1, ...sessions.map((s) => Number(s.tokens?.total ?? s.usage?.used ?? 0n)));
  const save = () => {
    const a = document.createElement("a");
    a.href = URL.createObjectURL(new Blob([csv(sessions)], { type: "text/csv" }));
    a.download = "acphost-usage.csv";
    a.click();
    setTimeout(() => URL.revokeObjectURL(a.href), 1000);
  };
  return (
    <main>
      <h1>Usage</h1>
      {error && <p class="error" role="alert">{error}</p>}
      <p class="dim">What agents report of the sessions that are open.</p>
      <div class="scroll" tabIndex={0} role="region" aria-label="Usage by session">
        <table>
          <thead><tr><th scope="col">Session</th><th scope="col">Agent</th><th scope="col">Turns</th><th scope="col">Tokens</th><th scope="col">Context</th><th scope="col">Cost</th></tr></thead>
          <tbody>
            {sessions.map((s) => {
              const n = Number(s.tokens?.total ?? s.usage?.used ?? 0n);
              return (
                <tr key={s.agentId + s.sessionId}>
                  <th scope="row">{line(s.title) || line(s.roots[0] ?? "") || line(s.sessionId)}</th>
                  <td>{line(s.agentId)}</td>
                  <td class="number">{count(s.turns)}</td>
                  <td class="number"><meter min={0} max={most} value={n} aria-label="Tokens" /> {s.tokens ? count(s.tokens.total) : ""}</td>
                  <td class="number">{s.usage ? `${count(s.usage.used)} of ${count(s.usage.size)}` : ""}</td>
                  <td class="number">{cost(s)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      <p><button type="button" onClick={save}>Save as CSV</button></p>
    </main>
  );
}
