// A session: the conversation as it streams, what the agent works on, and a place for the next prompt.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Session, TouchedFile } from "@acphost/proto/supervisor/v1/state";
import { FileAction } from "@acphost/proto/supervisor/v1/event";
import { Code, ConnectError } from "@connectrpc/connect";
import { may, problem, sessions, state, watch } from "./api";
import { Bars } from "./bars";
import { age, cost, count } from "./board";
import { Pre, ToolContent } from "./content";
import { Conversation, type Item, type Tool } from "./conversation";
import { Questions } from "./inbox";
import { List } from "./list";
import { Prompt } from "./prompt";
import { useQuestions } from "./questions";
import { line, printed, text } from "./safe";
import { TerminalView } from "./terminal";

export function SessionView({ agentId, sessionId, role }: { agentId: string; sessionId: string; role: string }) {
  const talk = useRef(new Conversation());
  const [, again] = useState(0);
  const [session, setSession] = useState<Session>();
  const [error, setError] = useState("");
  const [missing, setMissing] = useState(false);
  const q = useQuestions();

  useEffect(() => {
    const gone = new AbortController();
    talk.current = new Conversation();
    let drawn = 0;
    let due = 0;
    const read = () => {
      due ||= window.setTimeout(async () => {
        due = 0;
        try {
          setSession((await state.getSession({ agentId, sessionId }, { signal: gone.signal })).session);
          setMissing(false);
        } catch (err) {
          // It is not open any more; what was recorded of it is still shown.
          if (err instanceof ConnectError && err.code === Code.NotFound) setMissing(true);
        }
      }, 300);
    };
    read();
    void watch(
      gone.signal,
      (signal) => {
        // A record whose cursor is not known any more is read from its beginning.
        return sessions.watchSession({ agentId, sessionId, cursor: talk.current.cursor }, { signal });
      },
      (m) => {
        const e = m.event;
        if (!e) return;
        talk.current.take(e);
        if (["turnStarted", "turnEnded", "usage", "currentMode", "configOptions", "sessionOpened", "sessionClosed", "sessionInfo"].includes(e.event.case ?? "")) read();
        drawn ||= requestAnimationFrame(() => {
          drawn = 0;
          again((n) => n + 1);
        });
      },
      (err) => (setError(problem(err)), false),
    );
    const tick = setInterval(() => again((n) => n + 1), 5_000);
    return () => {
      gone.abort();
      clearInterval(tick);
      clearTimeout(due);
      cancelAnimationFrame(drawn);
    };
  }, [agentId, sessionId]);

  const c = talk.current;
  const closed = missing || c.closed;
  const turn = !closed && (session?.turnActive ?? c.turn);
  const waits = q.waiting().some((a) => a.approval.sessionId === sessionId && a.approval.agentId === agentId);
  const attempt = async (what: () => Promise<unknown>) => {
    setError("");
    try {
      await what();
    } catch (err) {
      setError(problem(err));
    }
  };
  const live = lastTerminal(c);
  const reach = useRef<(at: number) => void>(undefined);
  const runs = !closed && (session?.turnActive ?? false);

  return (
    <main class="session">
      <header>
        <h1>{line(session?.title ?? "") || line(session?.roots[0] ?? "") || line(sessionId)}</h1>
        <p class="dim">
          {line(agentId)} · {closed ? <b>closed</b> : waits ? <b>waits for an answer</b> : turn ? <b>works{c.lastAt ? `, quiet for ${age(c.lastAt)}` : ""}</b> : "idle"}
          {session?.tokens && ` · ${count(session.tokens.total)} tokens`}
          {session && cost(session) && ` · ${cost(session)}`}
        </p>
        <div class="tools">
          {session && !closed && session.modes.length > 0 && (
            <label>
              Mode{" "}
              <select value={session.mode} disabled={!may(role, "operator")} onChange={(e) => { const modeId = e.currentTarget.value; void attempt(async () => setSession((await sessions.setMode({ agentId, sessionId, modeId })).session)); }}>
                {session.modes.map((m) => <option key={m.id} value={m.id}>{line(m.name)}</option>)}
              </select>
            </label>
          )}
          {session && !closed && session.models.length > 0 && (
            <label>
              Model{" "}
              <select value={session.model} disabled={!may(role, "operator")} onChange={(e) => { const modelId = e.currentTarget.value; void attempt(async () => setSession((await sessions.setModel({ agentId, sessionId, modelId })).session)); }}>
                {session.models.map((m) => <option key={m.value} value={m.value}>{line(m.name)}</option>)}
              </select>
            </label>
          )}
          {may(role, "operator") && !closed && <button type="button" disabled={!turn} onClick={() => void attempt(() => sessions.cancelPrompt({ agentId, sessionId }))}>Cancel the turn</button>}
        </div>
        <Plan of={c.plan.length ? c.plan : (session?.plan ?? [])} />
        <Files agentId={agentId} sessionId={sessionId} />
      </header>
      {useMemo(() => <Bars of={c.timeline} live={runs} go={(at) => reach.current?.(at)} />, [c, runs])}
      <List items={c.items} label="Conversation" reach={reach} guess={guess} draw={(item) => <Entry item={item} version={item.version} live={live} />} />
      {useMemo(() => <Now agentId={agentId} sessionId={sessionId} role={role} />, [agentId, sessionId, role])}
      {error && <p class="error" role="alert">{error}</p>}
      {closed ? <p class="dim" role="status">The session is closed: it takes no prompts.</p> : may(role, "operator") ? <Prompt agentId={agentId} sessionId={sessionId} disabled={turn} /> : <p class="dim">Your role is {role}: operators give prompts.</p>}
    </main>
  );
}

/** The questions of a session. It draws when they change, and not with each event. */
function Now({ agentId, sessionId, role }: { agentId: string; sessionId: string; role: string }) {
  const asked = [...useQuestions().all.values()].filter((a) => a.approval.sessionId === sessionId && a.approval.agentId === agentId);
  return <section class="now" aria-label="Questions of this session"><Questions all={asked} role={role} /></section>;
}

/** The terminal that is shown without being asked for: that of the last tool call that runs. */
function lastTerminal(c: Conversation): string {
  for (let i = c.items.length - 1; i >= Math.max(0, c.items.length - 50); i--) {
    const t = c.items[i]?.tool;
    if (!t || t.status === "completed" || t.status === "failed") continue;
    for (const x of t.content) if (x.item.case === "terminalId") return x.item.value;
  }
  return "";
}

const names: Record<Item["kind"], string> = { user: "You", agent: "Agent", thought: "Agent thinks", tool: "Tool", note: "", error: "" };

/** About how high an item is drawn, in px. */
function guess(item: Item): number {
  const t = item.tool;
  if (t) return 45 + 22 * Math.min(5, t.locations.length) + (t.content.some((c) => c.item.case === "diff") ? 250 : 0);
  let lines = 1 + item.text.length / 120;
  for (let at = item.text.indexOf("\n"); at >= 0; at = item.text.indexOf("\n", at + 1)) lines++;
  return 35 + 22 * lines;
}

/** An item. It is drawn again when its version has changed. */
function Entry({ item, version, live }: { item: Item; version: number; live: string }) {
  return useMemo(
    () =>
      item.tool ? (
        <ToolEntry t={item.tool} live={live} />
      ) : (
        <div class={"entry " + item.kind}>
          {!item.more && names[item.kind] && <p class="who">{names[item.kind]}</p>}
          <Pre of={item.text} />
        </div>
      ),
    [item, version, live],
  );
}

function ToolEntry({ t, live }: { t: Tool; live: string }) {
  const over = t.status === "completed" || t.status === "failed";
  const terminals = t.content.flatMap((c) => (c.item.case === "terminalId" ? [c.item.value] : []));
  const rest = t.content.filter((c) => c.item.case !== "terminalId");
  const long = rest.length > 0 || t.output !== "" || t.input !== "";
  return (
    <div class={"entry tool " + t.status}>
      <p class="who"><span class="status">{line(t.status)}</span>{t.kind && ` ${line(t.kind)}`} <span class="title">{line(t.title, 300) || "tool call"}</span></p>
      {t.locations.slice(0, 5).map((l, i) => <p key={i} class="dim"><code>{text(l.path)}{l.line ? `:${l.line}` : ""}</code></p>)}
      {terminals.map((id) => <Shown key={id} id={id} auto={id === live && !over} />)}
      {long && (
        <details open={rest.some((c) => c.item.case === "diff")}>
          <summary>Details</summary>
          <ToolContent of={rest} />
          {t.output && <pre class="exact" tabIndex={0} aria-label="Output">{printed(t.output)}</pre>}
          {t.input && t.input !== "{}" && <pre class="exact" tabIndex={0} aria-label="Input">{text(t.input.slice(0, 20_000))}</pre>}
        </details>
      )}
    </div>
  );
}

function Shown({ id, auto }: { id: string; auto: boolean }) {
  const [open, setOpen] = useState(auto);
  useEffect(() => { if (auto) setOpen(true); }, [auto]);
  return open ? <TerminalView id={id} /> : <button type="button" onClick={() => setOpen(true)}>Show terminal {line(id)}</button>;
}

function Plan({ of }: { of: { content: string; status: string; priority: string }[] }) {
  if (of.length === 0) return null;
  const done = of.filter((p) => p.status === "completed").length;
  return (
    <details>
      <summary>Plan: {done} of {of.length} done</summary>
      <ol class="plan">{of.map((p, i) => <li key={i} class={p.status === "completed" ? "done" : p.status === "in_progress" ? "doing" : ""}>{line(p.content, 500)} <span class="dim">{line(p.status)}</span></li>)}</ol>
    </details>
  );
}

/** The files that the agent works with, the hottest first; read while they are looked at. */
function Files({ agentId, sessionId }: { agentId: string; sessionId: string }) {
  const [open, setOpen] = useState(false);
  const [files, setFiles] = useState<TouchedFile[]>([]);
  useEffect(() => {
    if (!open) return;
    const gone = new AbortController();
    const read = async () => {
      try {
        const got = await state.listFiles({ agentId, sessionId }, { signal: gone.signal });
        setFiles(got.sessions.flatMap((s) => s.files).slice(0, 100));
      } catch {
        // The next look may succeed.
      }
    };
    void read();
    const tick = setInterval(() => void read(), 2_000);
    return () => {
      gone.abort();
      clearInterval(tick);
    };
  }, [open, agentId, sessionId]);
  return (
    <details onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>Files</summary>
      {files.length === 0 && <p class="dim">None is in use.</p>}
      <ul class="files">
        {files.map((f) => (
          <li key={f.path}>
            <meter min={0} max={1} value={f.heat} aria-label={`Heat of ${line(f.path)}`} /> <code>{text(f.path)}</code> <span class="dim">{FileAction[f.action]?.toLowerCase().replace("_", " ")}{f.refusals ? `, refused ${f.refusals} times` : ""}</span>
          </li>
        ))}
      </ul>
    </details>
  );
}
