// The board: all agents and sessions, and what each does now.
import { useEffect, useState } from "preact/hooks";
import { timestampDate, type Timestamp } from "@bufbuild/protobuf/wkt";
import { AgentState, type Agent } from "@acphost/proto/supervisor/v1/agent";
import type { Event } from "@acphost/proto/supervisor/v1/event";
import type { Session } from "@acphost/proto/supervisor/v1/state";
import { agents, problem, state, watch } from "./api";
import { useQuestions } from "./questions";
import { line } from "./safe";

/** Keeps agents and sessions as they are now. Sessions are read again when one opens, closes or ends a turn. */
export function useBoard(): { agents: Agent[]; sessions: Session[]; now: Map<string, { what: string; at: number }>; error: string } {
  const [all, setAll] = useState<{ agents: Agent[]; sessions: Session[] }>({ agents: [], sessions: [] });
  const [now] = useState(() => new Map<string, { what: string; at: number }>());
  const [, again] = useState(0);
  const [error, setError] = useState("");
  useEffect(() => {
    const gone = new AbortController();
    let due = 0;
    let drawn = 0;
    const read = () => {
      due ||= window.setTimeout(async () => {
        due = 0;
        try {
          const [a, s] = await Promise.all([
            agents.listAgents({}, { signal: gone.signal }),
            state.listSessions({}, { signal: gone.signal }),
          ]);
          setAll({ agents: a.agents, sessions: s.sessions });
          setError("");
        } catch (err) {
          if (!gone.signal.aborted) setError(problem(err));
        }
      }, 300);
    };
    void watch(
      gone.signal,
      (signal) => {
        read();
        return state.watchEvents({ maxBatch: 256 }, { signal });
      },
      (m) => {
        for (const e of m.events) {
          if (["sessionOpened", "sessionClosed", "turnStarted", "turnEnded", "agent", "sessionInfo", "currentMode"].includes(e.event.case ?? "")) read();
          if (e.sessionId) now.set(`${e.agentId}/${e.sessionId}`, { what: doing(e) || now.get(`${e.agentId}/${e.sessionId}`)?.what || "", at: when(e.time) });
        }
        drawn ||= window.setTimeout(() => {
          drawn = 0;
          again((n) => n + 1);
        }, 200);
      },
      (err) => (setError(problem(err)), true),
    );
    const tick = setInterval(() => again((n) => n + 1), 5_000); // for the ages
    return () => {
      gone.abort();
      clearInterval(tick);
      clearTimeout(due);
      clearTimeout(drawn);
    };
  }, []);
  return { ...all, now, error };
}

const when = (t: Timestamp | undefined): number => (t ? timestampDate(t).getTime() : Date.now());

/** The activity of an agent in an event; "" if there is no activity. */
function doing(e: Event): string {
  switch (e.event.case) {
    case "agentMessage":
      return "writes";
    case "agentThought":
      return "thinks";
    case "toolCall":
    case "toolCallUpdate": {
      const t = e.event.value;
      if (t.status === "completed" || t.status === "failed") return "works";
      return t.title ? line(t.title, 120) : "";
    }
    case "turnStarted":
      return "begins a turn";
    case "turnEnded":
      return "idle";
    case "callStarted":
      return `${e.event.value.method} ${e.event.value.path}`.trim();
  }
  return "";
}

export function age(at: number): string {
  const s = Math.max(0, Math.round((Date.now() - at) / 1000));
  return s < 60 ? `${s} s` : s < 3600 ? `${Math.floor(s / 60)} min` : `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}

export const count = (n: bigint | number): string => Number(n).toLocaleString("en");

/** What a session has cost; "": its agent does not say. */
export const cost = (s: Session): string => (s.usage?.cost !== undefined ? `${s.usage.cost.toFixed(4)} ${line(s.usage.currency)}` : "");

export function Board() {
  const board = useBoard();
  const q = useQuestions();
  const waits = (s: Session) => q.waiting().filter((w) => w.approval.sessionId === s.sessionId && w.approval.agentId === s.agentId).length;
  return (
    <main>
      <h1>Board</h1>
      {board.error && <p class="error" role="alert">{board.error}</p>}
      <h2>Sessions</h2>
      {board.sessions.length === 0 && <p class="dim">There is no session.</p>}
      <ul class="cards">
        {board.sessions.map((s) => {
          const n = board.now.get(`${s.agentId}/${s.sessionId}`);
          const asked = waits(s);
          const running = s.toolCalls.findLast((t) => t.status === "in_progress" || t.status === "pending");
          const what = asked > 0 ? `waits for ${asked === 1 ? "an answer" : `${asked} answers`}` : !s.turnActive ? "idle" : n?.what || line(running?.title ?? "") || "works";
          return (
            <li key={s.agentId + s.sessionId} class={"card" + (asked ? " asks" : s.turnActive ? " busy" : "")}>
              <h3><a href={`#/session/${encodeURIComponent(s.agentId)}/${encodeURIComponent(s.sessionId)}`}>{line(s.title) || line(s.roots[0] ?? "") || line(s.sessionId)}</a></h3>
              <p>{line(s.agentId)} · <b>{what}</b>{n && s.turnActive ? ` · quiet for ${age(n.at)}` : ""}</p>
              <p class="dim">
                {line(s.roots[0] ?? "")}{s.mode ? ` · mode ${line(s.mode)}` : ""} · {count(s.turns)} {s.turns === 1n ? "turn" : "turns"}
                {s.tokens && ` · ${count(s.tokens.total)} tokens`}
                {s.usage && ` · context ${count(s.usage.used)} of ${count(s.usage.size)}`}
                {cost(s) && ` · ${cost(s)}`}
                {s.incomplete && " · some events were lost"}
              </p>
            </li>
          );
        })}
      </ul>
      <h2>Agents</h2>
      {board.agents.length === 0 && <p class="dim">No agent runs.</p>}
      <ul class="cards">
        {board.agents.map((a) => (
          <li key={a.id} class="card">
            <h3>{line(a.id)}</h3>
            <p><b>{AgentState[a.state]?.toLowerCase() ?? "?"}</b> · {line(a.info?.title || a.info?.name || a.name)} {line(a.info?.version ?? "")}{a.startTime ? ` · since ${timestampDate(a.startTime).toLocaleString()}` : ""}{a.restarts ? ` · ${a.restarts} restarts` : ""}</p>
            <p class="dim"><code>{line(a.command.join(" "), 400)}</code></p>
            {a.error && <p class="error">{line(a.error.message, 600)}</p>}
          </li>
        ))}
      </ul>
    </main>
  );
}
