// A live terminal: what a command prints, as it comes.
//
// xterm writes style elements, which the page's policy refuses. It takes another document, though, so it gets one whose style
// elements are style sheets that the CSSOM makes: they need no exception from the policy. One part of it, the viewport, makes its
// element by the window's document in spite of that (xterm 6.0.0: "this._document ?? (…) ? window.document"), while it opens.
import { useEffect, useRef, useState } from "preact/hooks";
import { Terminal } from "@xterm/xterm";
import { problem, state, watch } from "./api";
import { line } from "./safe";

/** A stand-in for a style element: its text is a constructed style sheet of the page while it is in the page. */
function styleElement(): HTMLElement {
  const stand = Document.prototype.createElement.call(document, "span");
  stand.hidden = true;
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets.push(sheet);
  Object.defineProperty(stand, "textContent", {
    get: () => "",
    set: (css: string) => sheet.replaceSync(css),
  });
  stand.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((s) => s !== sheet);
    Element.prototype.remove.call(stand);
  };
  return stand;
}

const styled = new Proxy(document, {
  get(target, name) {
    if (name === "createElement")
      return (tag: string, options?: ElementCreationOptions) =>
        tag.toLowerCase() === "style" ? styleElement() : target.createElement(tag, options);
    const value = Reflect.get(target, name, target) as unknown;
    return typeof value === "function" ? (value.bind(target) as unknown) : value;
  },
});

/** Opens a terminal; style elements that are made meanwhile are stand-ins. */
function open(term: Terminal, at: HTMLElement): void {
  const make = document.createElement.bind(document) as (tag: string, options?: ElementCreationOptions) => HTMLElement;
  Object.defineProperty(document, "createElement", {
    configurable: true,
    value: (tag: string, options?: ElementCreationOptions) => (tag.toLowerCase() === "style" ? styleElement() : make(tag, options)),
  });
  try {
    term.open(at);
  } finally {
    delete (document as { createElement?: unknown }).createElement;
  }
}

export function TerminalView({ id }: { id: string }) {
  const place = useRef<HTMLDivElement>(null);
  const [note, setNote] = useState("");
  useEffect(() => {
    const at = place.current;
    if (!at) return;
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const columns = Math.max(20, Math.min(120, Math.floor(at.clientWidth / 7.3)));
    const term = new Terminal({
      documentOverride: styled,
      cols: columns,
      rows: 16,
      fontSize: 12,
      scrollback: 2000,
      disableStdin: true,
      convertEol: false,
      screenReaderMode: false,
      linkHandler: { activate: () => {} }, // what a command prints opens nothing
      theme: dark ? { background: "#11151a", foreground: "#dde3ea" } : { background: "#ffffff", foreground: "#1b2026", cursor: "#1b2026", selectionBackground: "#b5d5ff" },
    });
    open(term, at);
    // It accepts no keys: its input field cannot be focused.
    for (const field of at.querySelectorAll("textarea")) {
      field.tabIndex = -1;
      field.setAttribute("aria-hidden", "true");
    }
    const gone = new AbortController();
    void watch(
      gone.signal,
      (signal) => {
        term.reset();
        return state.watchOutput({ terminalId: id }, { signal });
      },
      (m) => {
        if (m.data.length > 0) term.write(m.data);
        if (m.missed > 0n) setNote(`${m.missed} bytes are missing`);
        if (m.ended) {
          setNote(m.signal ? `ended by ${line(m.signal)}` : `ended with status ${m.exitCode ?? 0}`);
          gone.abort();
        }
      },
      (err) => (setNote(problem(err)), false),
    );
    return () => {
      gone.abort();
      term.dispose();
    };
  }, [id]);
  return (
    <figure class="terminal">
      <div ref={place} role="group" aria-label={`Output of terminal ${line(id)}`} />
      <figcaption class="dim">terminal {line(id)} {note}</figcaption>
    </figure>
  );
}
