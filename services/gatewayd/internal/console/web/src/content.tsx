// Content of agents: of messages and of tool calls.
import type { ContentBlock, ToolCallContent } from "@acphost/proto/supervisor/v1/content";
import { DiffView } from "./diff";
import { TerminalView } from "./terminal";
import { address, line, text } from "./safe";

/** The content of a block, as text. */
export function words(b: ContentBlock | undefined): string {
  const c = b?.content;
  switch (c?.case) {
    case "text":
      return c.value.text;
    case "image":
      return `[image, ${c.value.mimeType}${bytes(c.value.data)}]`;
    case "audio":
      return `[audio, ${c.value.mimeType}${bytes(c.value.data)}]`;
    case "resourceLink":
      return `[${c.value.name}](${c.value.uri})`;
    case "resource":
      return `[${c.value.uri}]\n` + (c.value.contents.case === "text" ? c.value.contents.value : "");
    case "other":
      return c.value;
  }
  return "";
}

/** How much data there is. A turn's prompt is shown without what is large. */
const bytes = (data: Uint8Array): string => (data.length ? `, ${data.length} bytes` : "");

/** How much of a text is shown at once, in characters: a browser lays out more than that for too long. */
const maxText = 20_000;

export function Pre({ of, kind }: { of: string; kind?: string }) {
  const cut = of.length > maxText;
  return (
    <pre class={kind ?? "prose"}>
      {text(of.slice(0, maxText))}
      {cut && <span class="dim">{`\n[${of.length - maxText} more characters]`}</span>}
    </pre>
  );
}

export interface Piece { code: boolean; info: string; text: string }

const fence = /^ {0,12}(```+|~~~+)[ \t]*([^`\n]*)$/;

/** A text as what is said and the blocks of code in it. Nothing is left out but their fences. */
export function pieces(s: string): Piece[] {
  const all: Piece[] = [];
  let lines: string[] = [];
  let open = "";
  let info = "";
  const take = (code: boolean) => {
    if (lines.length > 0 || (code && info)) all.push({ code, info: code ? info : "", text: lines.join("\n") });
    lines = [];
  };
  for (const l of s.split("\n")) {
    const whole = l.replace(/\r$/, "");
    const marks = whole.trim();
    const begins = open ? null : fence.exec(whole);
    if (begins) {
      take(false);
      open = begins[1]!;
      info = begins[2]!.trim();
    } else if (open && marks.length >= open.length && marks === open[0]!.repeat(marks.length)) {
      take(true);
      open = info = "";
    } else {
      lines.push(l);
    }
  }
  take(open !== "");
  return all;
}

/** A text of an agent, with its blocks of code as code. whole: all of it is shown, because an answer may allow it. */
export function Said({ of, whole }: { of: string; whole?: boolean }) {
  const shown = whole ? of : of.slice(0, maxText);
  return (
    <>
      {pieces(shown).map((p, i) =>
        p.code ? (
          <figure key={i} class="code">
            {p.info && <figcaption class="dim">{text(p.info)}</figcaption>}
            <pre class="exact" tabIndex={0}>{text(p.text)}</pre>
          </figure>
        ) : (
          <pre key={i} class="prose">{text(p.text)}</pre>
        ),
      )}
      {of.length > shown.length && <p class="dim">{`[${of.length - shown.length} more characters]`}</p>}
    </>
  );
}

/** An address that a person may open. Only those of the web are links. */
export function Address({ of }: { of: string }) {
  const to = address(of);
  return to ? <a href={to} target="_blank" rel="noopener noreferrer">{to}</a> : <code>{text(of)}</code>;
}

export function ToolContent({ of, whole, live }: { of: ToolCallContent[]; whole?: boolean; live?: boolean }) {
  return (
    <>
      {of.map((c, i) => {
        switch (c.item.case) {
          case "content":
            return <Said key={i} of={words(c.item.value)} {...(whole ? { whole } : {})} />;
          case "diff":
            return <DiffView key={i} diff={c.item.value} {...(whole ? { whole } : {})} />;
          case "terminalId":
            return live ? <TerminalView key={c.item.value} id={c.item.value} /> : <p key={i} class="dim">terminal {line(c.item.value)}</p>;
          case "other":
            return <Pre key={i} of={c.item.value} kind="exact" />;
        }
        return null;
      })}
    </>
  );
}
