// A change of a file, the old text beside the new one. On a narrow screen they stand one above the other, as in a unified diff.
import { useMemo, useState } from "preact/hooks";
import type { Diff } from "@acphost/proto/supervisor/v1/content";
import { line, text } from "./safe";

interface Row {
  kind: "same" | "changed" | "skipped";
  old?: string;
  new?: string;
  oldAt?: number;
  newAt?: number;
}

/** How many lines around a change are shown, and how many rows at first. */
const around = 3;
const first = 200;
/** The longest table of a comparison, in cells; beyond it, all between the common ends counts as changed. */
const maxCells = 2_000_000;

function linesOf(s: string): string[] {
  if (s === "") return [];
  const all = text(s).split("\n");
  if (all.at(-1) === "") all.pop();
  return all;
}

/** Which lines of two lists are the same ones: pairs of places, by a longest common subsequence. */
function common(a: string[], b: string[]): [number, number][] {
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const pairs: [number, number][] = [];
  for (let i = 0; i < head; i++) pairs.push([i, i]);
  const n = a.length - head - tail;
  const m = b.length - head - tail;
  if (n > 0 && m > 0 && n * m <= maxCells) {
    const longest = new Uint32Array((n + 1) * (m + 1));
    const at = (i: number, j: number) => i * (m + 1) + j;
    for (let i = n - 1; i >= 0; i--)
      for (let j = m - 1; j >= 0; j--)
        longest[at(i, j)] =
          a[head + i] === b[head + j]
            ? longest[at(i + 1, j + 1)]! + 1
            : Math.max(longest[at(i + 1, j)]!, longest[at(i, j + 1)]!);
    for (let i = 0, j = 0; i < n && j < m; )
      if (a[head + i] === b[head + j]) pairs.push([head + i++, head + j++]);
      else if (longest[at(i + 1, j)]! >= longest[at(i, j + 1)]!) i++;
      else j++;
  }
  for (let i = tail; i > 0; i--) pairs.push([a.length - i, b.length - i]);
  return pairs;
}

function rowsOf(before: string, after: string): Row[] {
  const a = linesOf(before);
  const b = linesOf(after);
  const rows: Row[] = [];
  let i = 0;
  let j = 0;
  for (const [x, y] of [...common(a, b), [a.length, b.length] as [number, number]]) {
    while (i < x || j < y) {
      const row: Row = { kind: "changed" };
      if (i < x) (row.old = a[i]!), (row.oldAt = ++i);
      if (j < y) (row.new = b[j]!), (row.newAt = ++j);
      rows.push(row);
    }
    if (x < a.length) rows.push({ kind: "same", old: a[i]!, new: b[j]!, oldAt: ++i, newAt: ++j });
  }
  // What is far from all changes is left out.
  const near = new Uint8Array(rows.length);
  rows.forEach((r, at) => {
    if (r.kind === "changed") near.fill(1, Math.max(0, at - around), at + around + 1);
  });
  const out: Row[] = [];
  for (let at = 0; at < rows.length; at++) {
    if (near[at]) out.push(rows[at]!);
    else if (out.at(-1)?.kind !== "skipped") out.push({ kind: "skipped" });
  }
  return out;
}

export function DiffView({ diff, whole }: { diff: Diff; whole?: boolean }) {
  const rows = useMemo(() => rowsOf(diff.oldText ?? "", diff.newText), [diff.oldText, diff.newText]);
  const [all, setAll] = useState(false);
  const shown = all || whole ? rows : rows.slice(0, first);
  const plus = rows.filter((r) => r.kind === "changed" && r.new !== undefined).length;
  const minus = rows.filter((r) => r.kind === "changed" && r.old !== undefined).length;
  return (
    <figure class="diff">
      <figcaption>
        <span class="path">{text(diff.path)}</span>{" "}
        <span class="dim">{diff.oldText === undefined ? "new file" : ""} +{plus} −{minus}</span>
      </figcaption>
      <div class="scroll" tabIndex={0} role="region" aria-label={`Change of ${line(diff.path)}`}>
        <table>
          <thead class="unseen">
            <tr><th scope="col">line</th><th scope="col">old</th><th scope="col">line</th><th scope="col">new</th></tr>
          </thead>
          <tbody>
            {shown.map((r, i) =>
              r.kind === "skipped" ? (
                <tr key={i} class="skipped"><td colSpan={4}>⋯</td></tr>
              ) : (
                <tr key={i} class={r.kind}>
                  <td class="at">{r.oldAt}</td>
                  <td class={r.old === undefined ? "none" : "old"}>{r.old}</td>
                  <td class="at">{r.newAt}</td>
                  <td class={r.new === undefined ? "none" : "new"}>{r.new}</td>
                </tr>
              ),
            )}
          </tbody>
        </table>
      </div>
      {shown.length < rows.length && (
        <button type="button" onClick={() => setAll(true)}>Show {rows.length - shown.length} more lines</button>
      )}
    </figure>
  );
}
