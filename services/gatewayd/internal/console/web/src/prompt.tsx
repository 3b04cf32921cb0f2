// The place for the next prompt, and for the files that go with it.
import { useEffect, useRef, useState } from "preact/hooks";
import type { AgentCapabilities } from "@acphost/proto/supervisor/v1/agent";
import { agents, problem, sessions } from "./api";
import { attach, lengthOf, maxBytes, maxFiles, size, type Attachment, type Block } from "./attach";
import { line } from "./safe";

/** How many refusals are shown. */
const maxShown = 5;

/** Begins a turn. Its events come with those of the session, so this stream is left once the turn has begun. */
async function begin(agentId: string, sessionId: string, prompt: Block[]): Promise<void> {
  for await (const m of sessions.prompt({ agentId, sessionId, prompt })) if (m.event?.event.case === "turnStarted" || m.event?.cursor) return;
}

export function Prompt({ agentId, sessionId, disabled }: { agentId: string; sessionId: string; disabled: boolean }) {
  const [words, setWords] = useState("");
  const [files, setFiles] = useState<Attachment[]>([]);
  const [errors, setErrors] = useState<string[]>([]);
  const [sending, setSending] = useState(false);
  const chooser = useRef<HTMLInputElement>(null);
  const held = useRef(files);
  held.current = files;
  const can = useRef<AgentCapabilities>(undefined);
  const adding = useRef(Promise.resolve());

  const keep = (now: Attachment[]) => setFiles((held.current = now));
  const add = (chosen: Iterable<File>) => {
    const all = [...chosen];
    if (all.length === 0) return;
    // One after the other, so that each is held to what the ones before it leave.
    adding.current = adding.current.then(async () => {
      const refused: string[] = [];
      try {
        can.current ??= (await agents.getAgent({ agentId })).agent?.info?.capabilities;
      } catch (err) {
        refused.push(problem(err));
      }
      for (const file of all) {
        try {
          keep([...held.current, await attach(file, held.current, can.current)]);
        } catch (err) {
          refused.push(problem(err));
        }
      }
      setErrors(refused.length > maxShown ? [...refused.slice(0, maxShown), `${refused.length - maxShown} more are not attached.`] : refused);
    });
  };

  // Else the browser leaves the page for a file that is dropped beside the prompt.
  useEffect(() => {
    const over = (e: DragEvent) => { if (e.dataTransfer?.types.includes("Files")) e.preventDefault(); };
    const drop = (e: DragEvent) => {
      if (!e.dataTransfer?.types.includes("Files")) return;
      e.preventDefault();
      add(e.dataTransfer.files);
    };
    addEventListener("dragover", over);
    addEventListener("drop", drop);
    return () => {
      removeEventListener("dragover", over);
      removeEventListener("drop", drop);
    };
  }, [agentId]);

  const submit = async (e: Event) => {
    e.preventDefault();
    const w = words.trim();
    if ((!w && files.length === 0) || disabled || sending) return;
    const total = files.reduce((sum, a) => sum + a.size, lengthOf(w));
    if (total > maxBytes) return setErrors([`The prompt is not sent: it has ${size(total)}, and at most ${size(maxBytes)} can be sent at once.`]);
    setErrors([]);
    setSending(true);
    setWords("");
    keep([]);
    try {
      const said: Block[] = w ? [{ content: { case: "text", value: { text: w } } }] : [];
      await begin(agentId, sessionId, [...said, ...files.map((a) => a.block)]);
    } catch (err) {
      // What was written is not lost, and what was written since is kept.
      setWords((now) => now || words);
      keep([...files, ...held.current].slice(0, maxFiles));
      setErrors([problem(err)]);
    }
    setSending(false);
  };

  return (
    <form class="prompt" onSubmit={(e) => void submit(e)}>
      {errors.length > 0 && <div class="error" role="alert">{errors.map((e, i) => <p key={i}>{line(e, 400)}</p>)}</div>}
      {files.length > 0 && (
        <ul class="attached" aria-label="Attachments">
          {files.map((a) => (
            <li key={a.id}>
              <span>{line(a.name, 80) || "a file"} <span class="dim">{a.kind}, {size(a.size)}</span></span>
              <button type="button" aria-label={`Remove ${line(a.name, 80)}`} onClick={() => keep(held.current.filter((b) => b.id !== a.id))}>Remove</button>
            </li>
          ))}
        </ul>
      )}
      <label for="prompt" class="unseen">Prompt</label>
      <textarea
        id="prompt"
        rows={2}
        placeholder={disabled ? "A turn is in progress." : "Prompt. Enter sends, Shift+Enter begins a line."}
        value={words}
        onInput={(e) => setWords(e.currentTarget.value)}
        onKeyDown={(e) => { if (e.key === "Enter" && !e.shiftKey && !e.isComposing) void submit(e); }}
        onPaste={(e) => {
          const pasted = e.clipboardData;
          if (!pasted || pasted.files.length === 0 || pasted.types.includes("text/plain")) return; // a copied cell is a picture, too
          e.preventDefault();
          add(pasted.files);
        }}
      />
      <input ref={chooser} type="file" multiple hidden onChange={(e) => { add(e.currentTarget.files ?? []); e.currentTarget.value = ""; }} />
      <button type="button" aria-label="Attach files" onClick={() => chooser.current?.click()}>Attach</button>
      <button type="submit" disabled={disabled || sending || (!words.trim() && files.length === 0)}>Send</button>
    </form>
  );
}
