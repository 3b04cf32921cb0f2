// A list of which only what can be seen is in the page, however long it is.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useReducer, useRef } from "preact/hooks";

interface Props<T> {
  items: T[];
  label: string;
  draw: (item: T) => ComponentChildren;
}

/** The height that is taken for an item that was never seen, in px; how much is drawn above and below what is seen. */
const guess = 56;
const beyond = 600;

export function List<T>({ items, label, draw }: Props<T>) {
  const box = useRef<HTMLDivElement>(null);
  const heights = useRef<number[]>([]);
  const atEnd = useRef(true);
  const [, again] = useReducer((n: number) => n + 1, 0);
  const sizes = useRef<ResizeObserver | undefined>(undefined);

  if (!sizes.current)
    sizes.current = new ResizeObserver((changes) => {
      let moved = 0;
      let changed = false;
      const top = box.current?.scrollTop ?? 0;
      for (const c of changes) {
        const el = c.target as HTMLElement;
        if (!el.isConnected) continue;
        const at = Number(el.dataset["at"]);
        const h = c.borderBoxSize[0]?.blockSize ?? el.offsetHeight;
        const had = heights.current[at] ?? guess;
        if (Math.abs(had - h) < 0.5) continue;
        heights.current[at] = h;
        changed = true;
        if (el.offsetTop < top) moved += h - had; // what is seen stays where it is
      }
      if (!changed) return;
      if (!atEnd.current && moved && box.current) box.current.scrollTop += moved;
      again(0);
    });

  useLayoutEffect(() => () => sizes.current?.disconnect(), []);
  useLayoutEffect(() => {
    const el = box.current;
    if (el && atEnd.current) el.scrollTop = el.scrollHeight;
  });

  // What is seen, in px from the top.
  let total = 0;
  for (let i = 0; i < items.length; i++) total += heights.current[i] ?? guess;
  const tall = box.current?.clientHeight || 600;
  const from = atEnd.current ? Math.max(0, total - tall) : (box.current?.scrollTop ?? 0);
  let first = 0;
  let above = 0;
  while (first < items.length && above + (heights.current[first] ?? guess) < from - beyond) above += heights.current[first++] ?? guess;
  let last = first;
  let shown = above;
  while (last < items.length && shown < from + tall + beyond) shown += heights.current[last++] ?? guess;

  const scrolled = () => {
    const el = box.current!;
    atEnd.current = el.scrollHeight - el.scrollTop - el.clientHeight < 30;
    again(0);
  };

  return (
    <div ref={box} class="list" role="log" aria-live="off" aria-label={label} tabIndex={0} onScroll={scrolled}>
      <div style={{ height: `${above}px` }} />
      {items.slice(first, last).map((item, i) => (
        <Row key={first + i} at={first + i} sizes={sizes.current!}>{draw(item)}</Row>
      ))}
      <div style={{ height: `${Math.max(0, total - shown)}px` }} />
    </div>
  );
}

function Row({ at, sizes, children }: { at: number; sizes: ResizeObserver; children: ComponentChildren }) {
  const el = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const mine = el.current!;
    sizes.observe(mine);
    return () => sizes.unobserve(mine);
  }, []);
  return <div ref={el} class="row" data-at={at}>{children}</div>;
}
