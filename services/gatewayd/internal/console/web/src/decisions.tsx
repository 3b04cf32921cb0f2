// The decisions as they come: what an agent wanted, what was decided, by whom and why.
import { useEffect, useState } from "preact/hooks";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import type { Decision } from "@acphost/proto/supervisor/v1/decision";
import type { Session } from "@acphost/proto/supervisor/v1/state";
import { decisions, problem, watch } from "./api";
import { line, text } from "./safe";

/** How many decisions the page keeps, the newest; and how many are shown at first. */
const kept = 500;
const shownAtFirst = 20;

/** Keeps the newest decisions, the newest first. undefined: they are not known yet. */
function useDecisions(): { all: Decision[] | undefined; note: string; error: string } {
  const [all, setAll] = useState<Decision[]>();
  const [note, setNote] = useState("");
  const [error, setError] = useState("");
  useEffect(() => {
    const gone = new AbortController();
    let now: Decision[] = [];
    let known = false;
    let due = 0;
    const draw = () => {
      due ||= window.setTimeout(() => {
        due = 0;
        setAll(now);
        setError("");
      }, 100);
    };
    void watch(
      gone.signal,
      (signal) => {
        now = [];
        known = false;
        return decisions.watchDecisions({ latest: kept }, { signal });
      },
      (m) => {
        now = [...m.decisions.toReversed(), ...now].slice(0, kept);
        if (m.decisions.length === 0) {
          known = true;
          setNote(m.note);
        }
        if (known) draw();
      },
      (err) => (setError(problem(err)), false),
    );
    return () => {
      gone.abort();
      clearTimeout(due);
    };
  }, []);
  return { all, note, error };
}

/** The outcome, if it differs from the verdict. */
const outcomes: Record<string, string> = { allowed: "allow", denied: "deny" };

/** Where it was asked, in words. */
const doors: [string, string][] = [
  ["request", "the agent asked"],
  ["call", "a call of the agent"],
  ["kernel", "in the sandbox"],
  ["report", "reported afterwards"],
];

/** Who decided in the end. */
export function decidedBy(d: Decision): string {
  const r = d.record!;
  switch (r.answeredBy) {
    case "policy":
      return r.rule ? "a rule" : "the policy: no rule matches";
    case "acphost":
      return "acphost itself";
    case "command":
      return "the command that was allowed, and did it";
    case "grant":
      return "a remembered answer";
    case "earlier answer":
      return "an earlier answer in the turn";
    case "timeout":
      return "no user answered in time";
    case "nobody":
      return "nobody could be asked";
    case "front":
      return "a person, at the client";
  }
  return `a person: ${line(r.answeredBy)}`;
}

/** A decision: what, and below it who decided and why. */
export function Decided({ d, at, children }: { d: Decision; at: string | undefined; children?: preact.ComponentChildren }) {
  const r = d.record!;
  const [whole, setWhole] = useState(false);
  const a = r.action;
  const what = a?.command?.text ? a.command.text : a?.paths.map((p) => p.path).join("\n");
  const outcome = outcomes[r.outcome] === r.verdict ? "" : r.outcome;
  return (
    <li class={`card decision ${r.outcome === "allowed" ? "allowed" : "refused"}`}>
      <p>
        <b class="verdict">{line(r.verdict)}{outcome && ` → ${line(outcome)}`}</b> <code>{line(d.what, 300)}</code>
      </p>
      <p class="why">
        {r.rule && <>rule <b>{line(r.rule)}</b>{r.place && <> in <code>{line(r.place, 600)}</code></>}{r.reason && ": "}</>}{line(r.reason, 1000)}
      </p>
      {r.detail && (
        <details>
          <summary>Why in detail</summary>
          <p>{line(r.detail, 4096)}</p>
        </details>
      )}
      {children}
      <p class="dim">
        {r.time && <time dateTime={timestampDate(r.time).toISOString()}>{timestampDate(r.time).toLocaleString()}</time>} · {line(r.agent) || "no agent"} ·{" "}
        {at ? <a href={`#/session/${encodeURIComponent(at)}/${encodeURIComponent(r.sessionId)}`}>session {line(r.sessionId, 40)}</a> : `session ${line(r.sessionId, 40)}`} · {doors.find(([id]) => id === r.door)?.[1] ?? line(r.door)} · by {decidedBy(d)}
        {r.option && ` (${line(r.option).replaceAll("_", " ")})`}{r.grants.length > 0 && ` · answers ${line(r.grants.join(", "))}`}{r.repeats > 0n && ` · ${r.repeats} times more in the turn`}
      </p>
      {what && what.length > 80 && <p><button type="button" aria-expanded={whole} onClick={() => setWhole(!whole)}>{whole ? "Less" : "All of it"}</button></p>}
      {whole && <pre class="exact">{text((what ?? "").slice(0, 20_000))}</pre>}
    </li>
  );
}

/** The key of a record: an id can occur twice, with a count. */
const keyOf = (d: Decision): string => `${d.record!.id}.${d.record!.time?.seconds}.${d.record!.time?.nanos}`;

/** The agent's id of a session that is open. */
export const agentOf = (sessions: Session[], d: Decision): string | undefined =>
  d.record!.sessionId ? sessions.find((s) => s.sessionId === d.record!.sessionId)?.agentId : undefined;

export function Decisions({ sessions }: { sessions: Session[] }) {
  const { all, note, error } = useDecisions();
  const [verdict, setVerdict] = useState("");
  const [agent, setAgent] = useState("");
  const [door, setDoor] = useState("");
  const [most, setMost] = useState(shownAtFirst);
  const agents = [...new Set((all ?? []).map((d) => d.record!.agent))].filter(Boolean).sort();
  const wanted = (all ?? []).filter((d) => {
    const r = d.record!;
    return (!verdict || r.verdict === verdict || r.outcome === verdict) && (!agent || r.agent === agent) && (!door || r.door === door);
  });
  const choice = (label: string, value: string, set: (v: string) => void, options: [string, string][]) => (
    <label>{label} <select value={value} onChange={(e) => set(e.currentTarget.value)}><option value="">all</option>{options.map(([id, name]) => <option key={id} value={id}>{name}</option>)}</select></label>
  );
  return (
    <section aria-labelledby="decisions">
      <h2 id="decisions">Decisions</h2>
      {error && <p class="error" role="alert">{error}</p>}
      {note && <p class="reason">{note}</p>}
      <div class="choices">
        {choice("Verdict", verdict, setVerdict, [["allow", "allow"], ["ask", "ask"], ["deny", "deny"], ["denied", "denied in the end"]])}
        {choice("Agent", agent, setAgent, agents.map((a) => [a, line(a)]))}
        {choice("Door", door, setDoor, doors)}
      </div>
      {all && wanted.length === 0 && <p class="dim">{all.length === 0 ? "No decision is recorded yet." : "No decision is like that."}</p>}
      <ol class="cards one" reversed aria-label="Decisions, the newest first">
        {wanted.slice(0, most).map((d) =>
          d.record!.action ? (
            <Decided key={keyOf(d)} d={d} at={agentOf(sessions, d)} />
          ) : (
            <li key={keyOf(d)} class="card"><p class="dim">{d.record!.time && timestampDate(d.record!.time).toLocaleString()} · {line(d.record!.note, 500)}</p></li>
          ),
        )}
      </ol>
      {wanted.length > most && <button type="button" onClick={() => setMost(most + 100)}>Show more ({wanted.length - most})</button>}
    </section>
  );
}
