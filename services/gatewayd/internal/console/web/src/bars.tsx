// The timeline of a session: a bar for each turn, tool call, request, decision and wait, by which the conversation is
// found.
import { useEffect, useReducer, useRef, useState } from "preact/hooks";
import { lanes, layout, names, summary, told, type Timeline } from "./timeline";

/** How often a timeline that changes is drawn, in ms. */
const every = 1_000;
/** A phone has no room for it until somebody asks for it. */
const wide = "(min-width: 40rem)";

/** go brings an item of the conversation into view. live: what goes on has not ended with its record. */
export function Bars({ of, live, go }: { of: Timeline; live: boolean; go: (item: number) => void }) {
  const [, again] = useReducer((n: number) => n + 1, 0);
  const [open, setOpen] = useState(() => matchMedia(wide).matches);
  const [at, setAt] = useState<[lane: number, bar: number]>([0, 0]);
  const box = useRef<HTMLDivElement>(null);
  const drawn = useRef(-1);
  useEffect(() => {
    const tick = setInterval(() => {
      if (drawn.current !== of.version || (open && live && of.busy)) again(0);
    }, every);
    return () => clearInterval(tick);
  }, [of, open, live]);
  drawn.current = of.version;

  const bars = open ? layout(of, live ? Date.now() : of.last) : undefined;
  // One bar can be reached by Tab, the others from it by arrows. A lane without bars is passed over.
  const rows = lanes.map((l) => bars?.[l] ?? []);
  const lane = rows[at[0]]?.length ? at[0] : Math.max(0, rows.findIndex((r) => r.length > 0));
  const bar = Math.min(at[1], (rows[lane]?.length ?? 1) - 1);
  const current = rows[lane]?.[bar];

  const key = (e: KeyboardEvent) => {
    const row = rows[lane]!;
    let to: [number, number] | undefined;
    const beside = (step: number) => {
      for (let l = lane + step; l >= 0 && l < rows.length; l += step) {
        const near = rows[l]!;
        if (near.length === 0) continue;
        let best = 0;
        near.forEach((b, i) => { if (Math.abs(b.x - current!.x) < Math.abs(near[best]!.x - current!.x)) best = i; });
        return [l, best] as [number, number];
      }
      return undefined;
    };
    if (!current) return;
    if (e.key === "ArrowLeft") to = [lane, Math.max(0, bar - 1)];
    else if (e.key === "ArrowRight") to = [lane, Math.min(row.length - 1, bar + 1)];
    else if (e.key === "Home") to = [lane, 0];
    else if (e.key === "End") to = [lane, row.length - 1];
    else if (e.key === "ArrowUp") to = beside(-1);
    else if (e.key === "ArrowDown") to = beside(1);
    else return;
    e.preventDefault();
    if (!to) return;
    setAt(to);
    box.current?.querySelector<HTMLElement>(`[data-bar="${to[0]}.${to[1]}"]`)?.focus();
  };

  return (
    <details class="timeline" open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>Timeline: {summary(of)}</summary>
      {bars && (
        <>
          <div class="scroll">
            <div ref={box} class="lanes" role="group" aria-label="Timeline; arrow keys go from bar to bar" onKeyDown={key}>
              {lanes.map((l, i) =>
                rows[i]!.length === 0 ? null : (
                  <div key={l} class="lane">
                    <span id={"lane-" + l} class="dim">{names[l][2]}</span>
                    <ol aria-labelledby={"lane-" + l}>
                      {rows[i]!.map((b) => [b, told(b)] as const).map(([b, words], j) => (
                        <li key={j} style={{ left: `${b.x * 100}%`, width: `${b.width * 100}%` }}>
                          <button
                            type="button"
                            class={`bar ${l}${b.bad ? " bad" : ""}${b.first.state === "silent" ? " silent" : ""}`}
                            data-bar={`${i}.${j}`}
                            tabIndex={i === lane && j === bar ? 0 : -1}
                            aria-label={words}
                            title={words}
                            onFocus={() => setAt([i, j])}
                            onClick={() => { setAt([i, j]); go(b.first.at); }}
                          />
                        </li>
                      ))}
                    </ol>
                  </div>
                ),
              )}
            </div>
          </div>
          {current && <p class="dim told" aria-hidden="true">{told(current)}</p>}
        </>
      )}
    </details>
  );
}
