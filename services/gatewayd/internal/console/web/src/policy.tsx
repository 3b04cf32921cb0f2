// Policy: what is decided, as it comes and in numbers; the answers that are remembered; which handlers decide.
import { useEffect, useState } from "preact/hooks";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import { GrantScope, type Grant } from "@acphost/proto/supervisor/v1/permission";
import { HandlerState, type GetStatusResponse, type HandlerStatus, type Session } from "@acphost/proto/supervisor/v1/state";
import { control, may, problem, state } from "./api";
import { count } from "./board";
import { Decisions } from "./decisions";
import { Replay } from "./replay";
import { line, text } from "./safe";

export function Policy({ role }: { role: string }) {
  const [grants, setGrants] = useState<Grant[]>([]);
  const [status, setStatus] = useState<GetStatusResponse>();
  const [handlers, setHandlers] = useState<HandlerStatus[]>([]);
  const [sessions, setSessions] = useState<Session[]>([]);
  const [error, setError] = useState("");
  useEffect(() => {
    const gone = new AbortController();
    const options = { signal: gone.signal };
    const read = async () => {
      if (document.hidden) return;
      try {
        const [g, s, h, open] = await Promise.all([
          state.listGrants({}, options), state.getStatus({}, options), state.listHandlers({}, options), state.listSessions({}, options),
        ]);
        setGrants(g.grants);
        setStatus(s);
        setHandlers(h.handlers);
        setSessions(open.sessions);
      } catch (err) {
        if (!gone.signal.aborted) setError(problem(err));
      }
    };
    void read();
    const tick = setInterval(() => void read(), 3_000);
    return () => {
      gone.abort();
      clearInterval(tick);
    };
  }, []);
  const revoke = async (id: string) => {
    try {
      await control.revokeGrants({ ids: [id] });
      setGrants((all) => all.filter((g) => g.id !== id));
      setError("");
    } catch (err) {
      setError(problem(err));
    }
  };
  const g = status?.gate;
  const rows: [string, bigint | number | undefined][] = [
    ["Calls that were allowed", g?.callsAllowed],
    ["Calls that were denied", g?.callsDenied],
    ["Calls for which a person was asked", g?.callsAsked],
    ["Requests of agents that the policy allowed", g?.allowed],
    ["Requests of agents that the policy denied", g?.denied],
    ["Requests of agents that a person answered", g?.forwarded],
    ["Attempts on acphost's own files", g?.protected],
    ["Refused, and done nevertheless", g?.notPrevented],
    ["Decisions that could not be recorded", g?.unrecorded],
  ];
  return (
    <main>
      <h1>Policy</h1>
      {error && <p class="error" role="alert">{error}</p>}
      <Decisions sessions={sessions} />
      {may(role, "operator") && <Replay sessions={sessions} />}
      <h2>Decisions since the start</h2>
      <table>
        <tbody>{rows.map(([name, n]) => <tr key={name}><th scope="row">{name}</th><td class="number">{n === undefined ? "" : count(n)}</td></tr>)}</tbody>
      </table>
      <h2>Remembered answers</h2>
      {grants.length === 0 && <p class="dim">There is none.</p>}
      <ul class="cards">
        {grants.map((x) => (
          <li key={x.id} class="card">
            <p><b>{x.refuse ? "Refuse" : "Allow"} {line(x.action)}</b> <code>{text(x.argv.length ? x.argv.join(" ") + (x.prefix ? " …" : "") : x.path || (x.exactly ? "exactly one action" : ""))}</code></p>
            <p class="dim">
              {GrantScope[x.scope]?.toLowerCase()}{x.workspace && ` · ${text(x.workspace)}`}{x.agent && ` · ${line(x.agent)}`} · by {line(x.grantedBy)}
              {x.createTime && ` · ${timestampDate(x.createTime).toLocaleString()}`}{x.expireTime && ` · until ${timestampDate(x.expireTime).toLocaleString()}`}
            </p>
            {may(role, "operator") && <button type="button" onClick={() => void revoke(x.id)}>Revoke<span class="unseen"> {line(x.id)}</span></button>}
          </li>
        ))}
      </ul>
      <h2>Handlers</h2>
      <ul class="cards">
        {handlers.map((h) => (
          <li key={h.name} class="card">
            <p><b>{line(h.name)}</b> {HandlerState[h.state]?.toLowerCase()} · {line(h.description)}</p>
            {h.notes.map((n, i) => <p key={i} class="dim">{line(n, 500)}</p>)}
            {h.error && <p class="error">{line(h.error, 500)}</p>}
          </li>
        ))}
      </ul>
      {status?.protection?.notes.map((n, i) => <p key={i} class="reason">{line(n, 500)}</p>)}
    </main>
  );
}
