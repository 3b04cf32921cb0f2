// A plot of days: one line for each agent. uPlot draws on a canvas and sets styles by the CSSOM alone, so that the
// page's policy needs no exception. For those who do not see it, it is a picture with a description; its numbers stand
// in a table elsewhere.
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";

/** A line of a plot: one value for each day, null for a day without a value. */
export interface Line {
  name: string;
  values: (number | null)[];
  colour: string;
  dash: number[];
}

const colours = {
  light: ["#1d4fbf", "#a3221b", "#1b6b35", "#7a4b00", "#6b2fb3", "#00687a", "#9c1f6b"],
  dark: ["#8ab4ff", "#ff9a91", "#7fd99a", "#f2c063", "#c9a4ff", "#6fd3e6", "#ff9ad1"],
};
const dashes = [[], [7, 4], [2, 3]];

/** The colour and the dashes of the nth line: no two of 21 look alike. */
export function look(n: number, dark: boolean): { colour: string; dash: number[] } {
  const all = dark ? colours.dark : colours.light;
  return { colour: all[n % all.length]!, dash: dashes[Math.floor(n / all.length) % dashes.length]! };
}

const scheme = matchMedia("(prefers-color-scheme: dark)");

/** Whether the page is dark. */
export function useDark(): boolean {
  const [dark, setDark] = useState(scheme.matches);
  useEffect(() => {
    const changed = () => setDark(scheme.matches);
    scheme.addEventListener("change", changed);
    changed();
    return () => scheme.removeEventListener("change", changed);
  }, []);
  return dark;
}

const height = 220;

export function Plot({ title, says, days, lines, dark, format }: {
  title: string;
  /** What it shows, in words. */
  says: string;
  days: string[];
  lines: Line[];
  dark: boolean;
  format: (value: number) => string;
}) {
  const place = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState<number | null>(null);
  useEffect(() => {
    const box = place.current;
    if (!box) return;
    const style = getComputedStyle(box);
    const axis = { stroke: style.color, grid: { stroke: style.borderTopColor, width: 1 }, ticks: { stroke: style.borderTopColor, width: 1 }, font: "12px system-ui, sans-serif" };
    const plot = new uPlot(
      {
        width: Math.max(200, box.clientWidth),
        height,
        legend: { show: false },
        cursor: { drag: { x: false, y: false }, y: false },
        scales: { x: { time: false, range: (_, min, max) => [min - 0.5, max + 0.5] }, y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
        axes: [
          { ...axis, size: 34, incrs: [1, 2, 7, 14, 28, 56, 91], space: 70, values: (_, all) => all.map((n) => days[n]?.slice(5) ?? "") },
          { ...axis, size: 70, values: (_, all) => all.map(format) },
        ],
        series: [{}, ...lines.map((l) => ({ label: l.name, stroke: l.colour, dash: l.dash, width: 2, spanGaps: true, points: { show: true, size: 6, fill: l.colour } }))],
        hooks: { setCursor: [(u: uPlot) => setAt(u.cursor.idx ?? null)] },
      },
      [days.map((_, i) => i), ...lines.map((l) => l.values)],
      box,
    );
    const sized = new ResizeObserver(() => plot.setSize({ width: Math.max(200, box.clientWidth), height }));
    sized.observe(box);
    return () => {
      sized.disconnect();
      plot.destroy();
    };
  }, [days, lines, dark]);
  const shown = at === null ? [] : lines.filter((l) => l.values[at] != null);
  return (
    <figure class="plot">
      <figcaption>{title}</figcaption>
      <div ref={place} class="canvas" role="img" aria-label={`${title}: ${says}`} />
      <p class="dim at" aria-hidden="true">{at !== null && `${days[at]}${shown.length ? "" : ": nothing"}`}{shown.map((l) => ` · ${l.name} ${format(l.values[at!]!)}`)}</p>
    </figure>
  );
}
