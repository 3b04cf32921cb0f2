// Usage: what agents took, by day and agent, as plots, as a table, and as CSV; and the sessions that are open.
import { useEffect, useMemo, useState } from "preact/hooks";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { Durations, GetUsageResponse, Session, UsageRow } from "@acphost/proto/supervisor/v1/state";
import { problem, state } from "./api";
import { cost, count, useBoard } from "./board";
import { save } from "./csv";
import { look, Plot, useDark, type Line } from "./plot";
import { line } from "./safe";

/** How many rows the table shows. A file has all. */
const maxRows = 400;

/** When the last n days begin here, and when today ends. */
function daysBack(n: number): Date[] {
  const now = new Date();
  return Array.from({ length: n + 1 }, (_, i) => new Date(now.getFullYear(), now.getMonth(), now.getDate() - n + 1 + i));
}

const two = (n: number): string => String(n).padStart(2, "0");
const dated = (d: Date): string => `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;

/** A duration in microseconds, for people. */
function took(micros: number): string {
  const round = (n: number): string => n.toLocaleString("en", { maximumSignificantDigits: 3 });
  if (micros === 0) return "0";
  if (micros < 1e3) return `${round(micros)} µs`;
  if (micros < 1e6) return `${round(micros / 1e3)} ms`;
  if (micros < 120e6) return `${round(micros / 1e6)} s`;
  return micros < 7200e6 ? `${round(micros / 60e6)} min` : `${round(micros / 3600e6)} h`;
}

const compact = (n: number): string => n.toLocaleString("en", { notation: "compact", maximumFractionDigits: 1 });
const money = (n: number): string => n.toLocaleString("en", { maximumFractionDigits: 4 });

/** The days and their rows. */
interface Days {
  days: string[];
  got: GetUsageResponse;
}

/** Reads the usage of the last n days, again when asked to. */
function useUsage(n: number): { read?: Days; reading: boolean; error: string; again: () => void } {
  const [read, setRead] = useState<Days>();
  const [reading, setReading] = useState(true);
  const [error, setError] = useState("");
  const [times, again] = useState(0);
  useEffect(() => {
    const gone = new AbortController();
    const days = daysBack(n);
    setReading(true);
    state.getUsage({ days: days.map(timestampFromDate) }, { signal: gone.signal }).then(
      (got) => {
        setRead({ days: days.slice(0, -1).map(dated), got });
        setError("");
        setReading(false);
      },
      (err: unknown) => {
        if (gone.signal.aborted) return;
        setError(problem(err));
        setReading(false);
      },
    );
    return () => gone.abort();
  }, [n, times]);
  return { read, reading, error, again: () => again((t) => t + 1) };
}

/** The name of an agent; "" stands for the agents without separate rows. */
const named = (agent: string): string => (agent === "" ? "other agents" : line(agent));

type Value = (r: UsageRow) => number | null;

const median = (d: Durations | undefined): number | null => (d ? Number(d.medianMicros) : null);
const tokens: Value = (r) => Number(r.tokens?.total || (r.tokens?.input ?? 0n) + (r.tokens?.output ?? 0n));
const paid = (currency: string): Value => (r) => r.costs.find((c) => c.currency === currency)?.amount ?? null;

export function Usage() {
  const [n, setDays] = useState(30);
  const { read, reading, error, again } = useUsage(n);
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const dark = useDark();
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const rows = useMemo(() => read?.got.rows.toReversed() ?? [], [read]);
  // Those that are not named stand last.
  const agents = useMemo(() => [...new Set(read?.got.rows.map((r) => r.agent))].sort((a, b) => Number(a === "") - Number(b === "") || (a < b ? -1 : 1)), [read]);
  const toggle = (agent: string) => setHidden((h) => (h.has(agent) ? new Set([...h].filter((a) => a !== agent)) : new Set([...h, agent])));
  const others = read?.got.otherAgents ?? 0;
  return (
    <main>
      <h1>Usage</h1>
      {error && <p class="error" role="alert">{error}</p>}
      <div class="tools">
        <label>Days <select value={n} onChange={(e) => setDays(Number(e.currentTarget.value))}>{[7, 30, 90, 366].map((d) => <option key={d} value={d}>{d}</option>)}</select></label>
        <button type="button" disabled={reading} onClick={again}>Read again</button>
        <button type="button" disabled={!read} onClick={() => read && save("acphost-usage.csv", byDay(read))}>Save as CSV</button>
      </div>
      <p class="dim" role="status">{reading ? "Reading what is recorded…" : `What is recorded, by the days of ${zone}. A turn counts on the day that it ended.`}</p>
      {read?.got.notRecorded.map((why) => <p key={why} class="reason">{line(why, 500)}</p>)}
      {read && rows.length === 0 && <p>Nothing is recorded of these days.</p>}
      {read && rows.length > 0 && (
        <>
          <fieldset class="agents">
            <legend>Agents</legend>
            {agents.map((a, i) => (
              <label key={a}>
                <input type="checkbox" checked={!hidden.has(a)} onChange={() => toggle(a)} />
                <Swatch n={i} dark={dark} /> {named(a)}
              </label>
            ))}
            {others > 0 && <p class="dim">{others > 80 ? "More than 80 agents" : others === 1 ? "One agent" : `${others} agents`} that did least {others === 1 ? "is" : "are"} summed up as other agents.</p>}
          </fieldset>
          <Plots read={read} agents={agents} hidden={hidden} dark={dark} />
          <h2>By day</h2>
          <Table days={read.days} rows={rows.filter((r) => !hidden.has(r.agent))} />
        </>
      )}
      <OpenSessions />
    </main>
  );
}

function Swatch({ n, dark }: { n: number; dark: boolean }) {
  const { colour, dash } = look(n, dark);
  return <svg class="swatch" width="24" height="8" aria-hidden="true"><line x1="0" y1="4" x2="24" y2="4" stroke={colour} stroke-width="3" stroke-dasharray={dash.join(" ")} /></svg>;
}

function Plots({ read, agents, hidden, dark }: { read: Days; agents: string[]; hidden: ReadonlySet<string>; dark: boolean }) {
  const plots = useMemo(() => {
    const currencies = [...new Set(read.got.rows.flatMap((r) => r.costs.map((c) => c.currency)))].sort();
    const plot = (title: string, value: Value, format: (n: number) => string, sum: boolean) => {
      const lines: Line[] = [];
      const words: string[] = [];
      agents.forEach((a, i) => {
        const mine = read.got.rows.filter((r) => r.agent === a && value(r) !== null);
        if (hidden.has(a) || mine.length === 0 || (sum && mine.every((r) => value(r) === 0))) return;
        const values: (number | null)[] = read.days.map(() => (sum ? 0 : null));
        for (const r of mine) values[r.day] = value(r);
        lines.push({ name: named(a), values, ...look(i, dark) });
        const all = mine.map((r) => value(r)!);
        words.push(`${named(a)} ${sum ? format(all.reduce((x, y) => x + y)) : `${format(Math.min(...all))} to ${format(Math.max(...all))}`}`);
      });
      return { title, lines, format, says: words.length > 0 ? `${words.join("; ")}. The table has each day.` : "nothing" };
    };
    return [
      plot("Tokens", tokens, compact, true),
      ...currencies.map((c) => plot(c ? `Cost in ${line(c)}` : "Cost, in no currency that is known", paid(c), money, true)),
      plot("Time of turns, median", (r) => median(r.turnTimes), took, false),
      plot("Time of decisions by policies, median", (r) => median(r.policyTimes), took, false),
      plot("Time that people took to answer, median", (r) => median(r.userTimes), took, false),
    ];
  }, [read, agents, hidden, dark]);
  return (
    <div class="plots">
      {plots.map((p) => p.lines.length > 0 ? <Plot key={p.title} {...p} days={read.days} dark={dark} /> : <p key={p.title} class="dim">{p.title}: nothing is reported.</p>)}
    </div>
  );
}

/** A row as text: of people, or of programs. */
function cells(r: UsageRow): { turns: string[]; tokens: string[]; decisions: string[]; times: (Durations | undefined)[] } {
  return {
    turns: [String(r.turns)],
    tokens: r.tokens ? [r.tokens.total, r.tokens.input, r.tokens.output].map(String) : ["", "", ""],
    decisions: [r.allowed, r.denied, r.asked, r.unasked].map(String),
    times: [r.turnTimes, r.policyTimes, r.userTimes],
  };
}

function Table({ days, rows }: { days: string[]; rows: UsageRow[] }) {
  const heads = ["Turns", "Median", "95 % below", "Tokens", "Input", "Output", "Cost", "Allowed", "Denied", "Asked", "Not asked", "Policy, median", "95 % below", "People, median", "95 % below"];
  const number = (s: string): string => (s === "" ? "" : count(BigInt(s)));
  const times = (d: Durations | undefined): string[] => (d ? [took(Number(d.medianMicros)), took(Number(d.p95Micros))] : ["", ""]);
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label="Usage by day and agent">
        <table class="days">
          <thead><tr><th scope="col">Day</th><th scope="col">Agent</th>{heads.map((h, i) => <th key={i} scope="col">{h}</th>)}</tr></thead>
          <tbody>
            {rows.slice(0, maxRows).map((r) => {
              const c = cells(r);
              const all = [
                ...c.turns.map(number), ...times(c.times[0]), ...c.tokens.map(number), r.costs.map((x) => `${money(x.amount)} ${line(x.currency)}`.trim()).join(", "),
                ...c.decisions.map(number), ...times(c.times[1]), ...times(c.times[2]),
              ];
              return <tr key={`${r.day} ${r.agent}`}><th scope="row">{days[r.day]}</th><td>{named(r.agent)}</td>{all.map((s, i) => <td key={i} class="number">{s}</td>)}</tr>;
            })}
          </tbody>
        </table>
      </div>
      {rows.length > maxRows && <p class="dim">{count(rows.length - maxRows)} more rows are in the CSV.</p>}
    </>
  );
}

/** The rows of the file: times in microseconds. The cost in a second currency has a separate row. */
function byDay({ days, got }: Days): string[][] {
  const names = ["turn", "policy", "people"];
  const rows = [["day", "agent", "turns", "tokens", "input", "output", "allowed", "denied", "asked", "not_asked",
    ...names.flatMap((t) => [`${t}_times`, `${t}_sum_micros`, `${t}_median_micros`, `${t}_p95_micros`]), "cost", "currency"]];
  for (const r of got.rows) {
    const c = cells(r);
    const [first, ...more] = r.costs;
    const who = [days[r.day] ?? "", r.agent === "" ? "" : line(r.agent)];
    const times = c.times.flatMap((d) => (d ? [d.count, d.sumMicros, d.medianMicros, d.p95Micros].map(String) : ["", "", "", ""]));
    const most = [...who, ...c.turns, ...c.tokens, ...c.decisions, ...times];
    rows.push([...most, first ? String(first.amount) : "", first?.currency ?? ""]);
    for (const x of more) rows.push([...who, ...most.slice(2).map(() => ""), String(x.amount), x.currency]);
  }
  return rows;
}

function openSessions(all: Session[]): string[][] {
  const rows = [["agent", "session", "directory", "turns", "tokens", "input", "output", "context", "context_size", "cost", "currency"]];
  for (const s of all)
    rows.push([
      s.agentId, s.sessionId, s.roots[0] ?? "", String(s.turns), String(s.tokens?.total ?? ""), String(s.tokens?.input ?? ""), String(s.tokens?.output ?? ""),
      String(s.usage?.used ?? ""), String(s.usage?.size ?? ""), String(s.usage?.cost ?? ""), s.usage?.currency ?? "",
    ]);
  return rows;
}

function OpenSessions() {
  const { sessions, error } = useBoard();
  const most = Math.max(1, ...sessions.map((s) => Number(s.tokens?.total ?? s.usage?.used ?? 0n)));
  return (
    <>
      <h2>Sessions that are open</h2>
      {error && <p class="error" role="alert">{error}</p>}
      {sessions.length === 0 ? <p class="dim">There is no session.</p> : (
        <>
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
          <p><button type="button" onClick={() => save("acphost-sessions.csv", openSessions(sessions))}>Save the sessions as CSV</button></p>
        </>
      )}
    </>
  );
}
