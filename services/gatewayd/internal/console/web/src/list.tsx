// A list of which only what can be seen is in the page, however long it is: a drawing takes time for what is seen, not
// for what there is.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useReducer, useRef } from "preact/hooks";
import { Heights } from "./heights";

interface Props<T> {
  /** The items. More may be added to the end of the same list. */
  items: readonly T[];
  label: string;
  /** About how high an item is that was never seen, in px. If it is far off, more is laid out at once than can be seen. */
  guess: (item: T) => number;
  draw: (item: T) => ComponentChildren;
  /** Gets how to bring an item into view. */
  reach?: { current: ((at: number) => void) | undefined };
}

/** How much is drawn above and below what is seen, in px. */
const beyond = 600;

export function List<T>({ items, label, guess, draw, reach }: Props<T>) {
  const box = useRef<HTMLDivElement>(null);
  const made = useRef<Heights | undefined>(undefined);
  const heights = (made.current ??= new Heights());
  const atEnd = useRef(true);
  const wanted = useRef(-1);
  const left = useRef(0); // where it was last scrolled to, as far as is known here
  const [, again] = useReducer((n: number) => n + 1, 0);
  const sizes = useRef<ResizeObserver | undefined>(undefined);

  const scroll = (to: number) => {
    box.current!.scrollTop = to;
    left.current = box.current!.scrollTop;
  };
  if (!sizes.current)
    sizes.current = new ResizeObserver((changes) => {
      const list = box.current;
      if (!list) return;
      let moved = 0;
      let changed = false;
      let room = false; // there may be room for more items
      const top = list.scrollTop;
      for (const c of changes) {
        const el = c.target as HTMLElement;
        if (!el.isConnected) continue;
        if (el === list) changed = room = true;
        if (el.dataset["at"] === undefined) continue;
        const at = Number(el.dataset["at"]);
        const h = c.borderBoxSize[0]?.blockSize ?? el.offsetHeight;
        const had = heights.of(at);
        if (Math.abs(had - h) < 0.5) continue;
        heights.set(at, h);
        changed = true;
        room ||= h < had;
        if (el.offsetTop < top) moved += h - had; // what is seen stays where it is
      }
      if (!changed) return;
      if (atEnd.current && !room) return scroll(list.scrollHeight);
      if (!atEnd.current && wanted.current < 0 && moved) scroll(top + moved);
      again(0);
    });

  useLayoutEffect(() => {
    sizes.current!.observe(box.current!);
    return () => sizes.current!.disconnect();
  }, []);
  useLayoutEffect(() => {
    const el = box.current;
    if (!el) return;
    if (atEnd.current) scroll(el.scrollHeight);
    else if (wanted.current >= 0) scroll(heights.before(wanted.current));
  });
  if (reach)
    reach.current = (at) => {
      atEnd.current = false;
      wanted.current = Math.max(0, Math.min(at, items.length - 1)); // until somebody scrolls: the heights around it are not known yet
      again(0);
    };

  while (heights.length < items.length) heights.push(guess(items[heights.length]!));

  // What is seen, in px from the top.
  const total = heights.before(items.length);
  const tall = box.current?.clientHeight || 600;
  const from = atEnd.current ? Math.max(0, total - tall) : wanted.current >= 0 ? heights.before(wanted.current) : (box.current?.scrollTop ?? 0);
  const first = heights.at(from - beyond);
  const above = heights.before(first);
  let last = first;
  let shown = above;
  while (last < items.length && shown < from + tall + beyond) shown += heights.of(last++);

  const scrolled = () => {
    const el = box.current;
    if (!el || el.scrollTop === left.current) return; // the list is gone already, or it was not a person
    // The end that moves away, because of more items or of less room, is followed; only who goes up leaves it.
    if (wanted.current < 0) {
      if (el.scrollHeight - el.scrollTop - el.clientHeight < 30) atEnd.current = true;
      else if (el.scrollTop < left.current - 1) atEnd.current = false;
    }
    left.current = el.scrollTop;
    again(0);
  };
  const free = () => { wanted.current = -1; };

  return (
    <div ref={box} class="list" role="log" aria-live="off" aria-label={label} tabIndex={0} onScroll={scrolled} onWheel={free} onPointerDown={free} onTouchStart={free} onKeyDown={free}>
      <div style={{ height: `${above}px` }} />
      {items.slice(first, last).map((item, i) => (
        <Row key={first + i} at={first + i} sizes={sizes.current!} reached={first + i === wanted.current}>{draw(item)}</Row>
      ))}
      <div style={{ height: `${Math.max(0, total - shown)}px` }} />
    </div>
  );
}

function Row({ at, sizes, reached, children }: { at: number; sizes: ResizeObserver; reached: boolean; children: ComponentChildren }) {
  const el = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const mine = el.current!;
    sizes.observe(mine);
    return () => sizes.unobserve(mine);
  }, []);
  return <div ref={el} class={reached ? "row reached" : "row"} data-at={at}>{children}</div>;
}
