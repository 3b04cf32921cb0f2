// The inbox: questions, whole, with what is needed to decide, and one key for each answer.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ConnectError } from "@connectrpc/connect";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import { ApprovalAnswerSchema, Surface, type Approval, type Elicitation, type PermissionOption, type PermissionQuestion } from "@acphost/proto/supervisor/v1/approval";
import { approvals, may, problem, state } from "./api";
import { Address, Pre, Said, ToolContent, pieces } from "./content";
import { Form } from "./form";
import { questions, settle, useQuestions, type Asked } from "./questions";
import { line, text } from "./safe";

export function Inbox({ role }: { role: string }) {
  const q = useQuestions();
  const all = [...q.all.values()];
  // Puts the focus on a question that comes, if it is nowhere. In a session somebody may go on to write.
  useEffect(() => {
    if (document.activeElement === document.body) waiting()[0]?.focus();
  }, [q.waiting().length > 0]);
  return (
    <main>
      <h1>Inbox</h1>
      <p class="dim" role="status">
        {!q.known ? "…" : q.waiting().length === 0 ? "No question waits." : `${q.waiting().length} waiting`}
      </p>
      <Questions all={all} role={role} />
    </main>
  );
}

export function Questions({ all, role }: { all: Asked[]; role: string }) {
  return (
    <>
      {all.map((a) => (
        <Question key={a.approval.id} asked={a} role={role} />
      ))}
    </>
  );
}

const letters: Record<string, string> = { allow_once: "a", allow_always: "A", reject_once: "r", reject_always: "R" };
const meaning: Record<string, string> = {
  allow_once: "allows this once",
  allow_always: "allows this from now on",
  reject_once: "rejects this once",
  reject_always: "rejects this from now on",
};

/** The key of each option: the letter of its kind for the first of that kind, else its number. */
function keysOf(options: PermissionOption[]): string[] {
  const free = { ...letters };
  return options.map((o, i) => {
    const key = free[o.kind];
    delete free[o.kind];
    return key ?? String(i + 1);
  });
}

function Question({ asked, role }: { asked: Asked; role: string }) {
  const a = asked.approval;
  const card = useRef<HTMLElement>(null);
  const [sending, setSending] = useState(false);
  const [error, setError] = useState("");
  const p = a.permission;
  const [directory, setDirectory] = useState("");
  useEffect(() => {
    const gone = new AbortController();
    if (a.sessionId)
      state.getSession({ agentId: a.agentId, sessionId: a.sessionId }, { signal: gone.signal }).then(
        (got) => setDirectory(got.session?.roots[0] ?? ""),
        () => undefined, // the question is complete without it
      );
    return () => gone.abort();
  }, [a.agentId, a.sessionId]);
  const mayAnswer = may(role, "approver") && !asked.answer;
  // The focus moves to the next question, so that keys reach it. The cleanup of a layout effect runs while the card is still in the page.
  useLayoutEffect(() => () => {
    const all = waiting();
    if (card.current?.contains(document.activeElement)) (all.find((c) => card.current!.compareDocumentPosition(c) & Node.DOCUMENT_POSITION_FOLLOWING) ?? all.at(-1))?.focus();
  }, []);

  // A question that has only just come, or that another one's end has moved, takes no answer: it was meant for what stood there.
  const ready = () => performance.now() > Math.max(asked.since + settle, questions.locked);

  const answer = async (value: Parameters<typeof approvals.answerApproval>[0]["answer"]) => {
    if (!mayAnswer || sending || !ready()) return;
    setSending(true);
    setError("");
    try {
      const got = await approvals.answerApproval({ id: a.id, answer: value!, surface: Surface.INPUT });
      if (got.answer) questions.ended(a.id, got.answer);
    } catch (err) {
      const other = err instanceof ConnectError ? err.findDetails(ApprovalAnswerSchema)[0] : undefined;
      if (other) questions.ended(a.id, other); // somebody else was faster
      else setError(problem(err));
    }
    setSending(false);
  };

  const keys = p ? keysOf(p.options) : [];
  const key = (e: KeyboardEvent) => {
    const target = e.target as HTMLElement;
    if (e.ctrlKey || e.metaKey || e.altKey || target.closest("input,textarea,select")) return;
    if (e.key === "j" || e.key === "k") {
      const cards = [...document.querySelectorAll<HTMLElement>("article.question")];
      cards[cards.indexOf(card.current!) + (e.key === "j" ? 1 : -1)]?.focus();
      return;
    }
    const at = keys.indexOf(e.key) >= 0 ? keys.indexOf(e.key) : Number(e.key) - 1;
    const o = p?.options[at];
    if (o) {
      e.preventDefault();
      void answer({ case: "optionId", value: o.optionId });
    } else if (a.elicitation?.mode === "url" && (e.key === "y" || e.key === "n")) {
      void answer(e.key === "y" ? { case: "accept", value: "{}" } : { case: "decline", value: true });
    }
  };

  return (
    <article ref={card} class={"question" + (asked.answer ? " over" : "")} tabIndex={0} onKeyDown={key} aria-label={subject(a)}>
      <header>
        <h2>{subject(a)}</h2>
        <p class="dim">
          <a href={`#/session/${encodeURIComponent(a.agentId)}/${encodeURIComponent(a.sessionId)}`}>{line(a.agentId)}</a>
          {" · "}
          {a.time && timestampDate(a.time).toLocaleTimeString()}
          {a.expireTime && <> · until {timestampDate(a.expireTime).toLocaleTimeString()}</>}
          {" · "}
          {p?.fromAcphost ? "acphost asks about what the agent does" : "the agent asks"}
        </p>
        {directory && <p class="dim">session in <code>{text(directory)}</code></p>}
      </header>
      {p && <Permission p={p} />}
      {a.elicitation && <Elicited e={a.elicitation} answer={answer} mayAnswer={mayAnswer} />}
      {asked.answer ? (
        <p class="answered" role="status">
          {line(asked.answer.outcome)} by {line(asked.answer.answeredBy)}
        </p>
      ) : p ? (
        <div class="options" role="group" aria-label="Answers">
          {p.options.map((o, i) => (
            <button
              key={o.optionId}
              type="button"
              class={o.kind.startsWith("allow") ? "allow" : o.kind.startsWith("reject") ? "reject" : ""}
              disabled={!mayAnswer || sending}
              aria-keyshortcuts={keys[i]}
              onClick={() => void answer({ case: "optionId", value: o.optionId })}
            >
              <kbd>{keys[i]}</kbd> {line(o.name, 300)} <small>{meaning[o.kind] ?? line(o.kind)}</small>
            </button>
          ))}
        </div>
      ) : null}
      {!may(role, "approver") && <p class="dim">Your role is {role}: approvers answer.</p>}
      {error && <p class="error" role="alert">{error}</p>}
    </article>
  );
}

/** The heading of a question: acphost's own words, or the agent's, which may contradict what the question is about. */
export function subject(a: Approval): string {
  if (a.elicitation) return line(pieces(a.elicitation.message.slice(0, 800)).map((p) => p.text).join(" ")) || "the agent wants to know something";
  const title = line(a.permission?.title ?? "") || line(a.permission?.kind ?? "") || "an action of the agent's";
  return a.permission?.fromAcphost ? title : `The agent asks: ${title}`;
}

interface Input {
  command?: string;
  /** The directory of the command. */
  where?: string;
  whole: string;
  /** The input has members that neither the command nor the content of the question shows: an answer allows them, too. */
  more: boolean;
}

/** Whether a member changes nothing of what is done. */
function harmless(name: string, value: unknown, command: boolean): boolean {
  if (name === "description") return command && typeof value === "string";
  if (name === "timeout" || name === "timeout_ms") return typeof value === "number";
  return value === false && ["is_background", "run_in_background", "replace_all"].includes(name);
}

/** Reads an agent's raw input. */
function inputOf(p: PermissionQuestion): Input {
  const raw = p.rawInput;
  try {
    const v = JSON.parse(raw) as Record<string, unknown>;
    // A member that is there twice, or a number that is too large, is lost in v: then the input is shown as it was
    // sent.
    if (JSON.stringify(v).length !== raw.replace(/("(?:[^"\\]|\\.)*")|\s+/g, "$1").length) return { whole: raw, more: true };
    const rest = new Map(Object.entries(v));
    const take = (...names: string[]): unknown => {
      const name = names.find((n) => rest.has(n));
      const value = rest.get(name ?? "");
      if (name) rest.delete(name);
      return value;
    };
    const found: Input = { whole: JSON.stringify(v, null, 2), more: true };
    const command = take("command", "cmd");
    const words = Array.isArray(command) ? command : typeof command === "string" ? [command] : [];
    if (words.length > 0) {
      const args = rest.get("args");
      if (Array.isArray(args)) words.push(...(take("args") as unknown[]));
      found.command = typeof command === "string" && words.length === 1 ? command : words.map((c) => JSON.stringify(c)).join(" ");
      const where = take("cwd", "workdir", "directory", "dir_path");
      if (typeof where === "string") found.where = where;
      else if (where !== undefined) return found;
    } else if (command !== undefined) return found;
    const seen = new Set<unknown>();
    for (const { item } of p.content) {
      if (item.case === "diff") for (const x of [item.value.path, item.value.oldText, item.value.newText]) seen.add(x);
      if (item.case === "content" && item.value.content.case === "text") seen.add(item.value.content.value.text);
    }
    for (const l of p.locations) seen.add(l.path);
    found.more = [...rest].some(([name, value]) => !seen.has(value) && !harmless(name, value, found.command !== undefined));
    return found;
  } catch {
    return { whole: raw, more: true };
  }
}

function Permission({ p }: { p: PermissionQuestion }) {
  const input = inputOf(p);
  const shown = p.content.length > 0 || input.command !== undefined;
  return (
    <div class="asked">
      {p.reason && !p.fromAcphost && <p class="reason">Asked because: {text(p.reason)}</p>}
      {p.title.length > 200 && <Pre of={p.title} />}
      {input.command !== undefined && <pre class="exact command" tabIndex={0} aria-label="Command">{text(input.command)}</pre>}
      {input.where !== undefined && <p>in <code>{text(input.where)}</code></p>}
      <ToolContent of={p.content} whole />
      {p.locations.length > 0 && (
        <ul class="places">{p.locations.map((l, i) => <li key={i}><code>{text(l.path)}{l.line ? `:${l.line}` : ""}</code></li>)}</ul>
      )}
      {p.detail && (
        <details>
          <summary>Why in detail</summary>
          <p>{text(p.detail)}</p>
        </details>
      )}
      {p.rawInput && p.rawInput !== "{}" && (
        <details open={!shown || input.more}>
          <summary>Input</summary>
          <pre class="exact" tabIndex={0}>{text(input.whole)}</pre>
        </details>
      )}
    </div>
  );
}

type Answer = (value: { case: "accept"; value: string } | { case: "decline"; value: true }) => Promise<void>;

function Elicited({ e, answer, mayAnswer }: { e: Elicitation; answer: Answer; mayAnswer: boolean }) {
  return (
    <div class="asked">
      <Said of={e.message} whole />
      {e.mode === "url" ? (
        <>
          <p>Open this page: <Address of={e.url} /></p>
          <div class="options" role="group" aria-label="Answers">
            <button type="button" class="allow" disabled={!mayAnswer} onClick={() => void answer({ case: "accept", value: "{}" })}><kbd>y</kbd> I opened it, go on</button>
            <button type="button" class="reject" disabled={!mayAnswer} onClick={() => void answer({ case: "decline", value: true })}><kbd>n</kbd> I do not want to</button>
          </div>
        </>
      ) : (
        <Form schema={e.requestedSchema} disabled={!mayAnswer} accept={(json) => void answer({ case: "accept", value: json })} decline={() => void answer({ case: "decline", value: true })} />
      )}
    </div>
  );
}

/** The questions that can be answered, in their order. */
const waiting = (): HTMLElement[] => [...document.querySelectorAll<HTMLElement>("article.question:not(.over)")];

/** Has "j" lead to the first question and "k" to the last from wherever the focus is, but for where they are written. */
export function useKeys(): void {
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      if (e.ctrlKey || e.metaKey || e.altKey || (e.target as Element).closest?.("article.question,input,textarea,select")) return;
      if (e.key === "j") waiting()[0]?.focus();
      if (e.key === "k") waiting().at(-1)?.focus();
    };
    addEventListener("keydown", key);
    return () => removeEventListener("keydown", key);
  }, []);
}
