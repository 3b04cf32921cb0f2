// What a session did when: its turns, the tool calls and requests of the agent in them, decisions, and waits.
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { FileAction, type Event } from "@acphost/proto/supervisor/v1/event";
import { line } from "./safe";

export const lanes = ["turn", "tool", "call", "decision", "wait"] as const;
export type Lane = (typeof lanes)[number];

/** Something that took time, or that happened at once; or several such, one after the other. */
export interface Span {
  lane: Lane;
  /** When it began, and when it ended, in ms; Infinity: it has not ended. */
  from: number;
  to: number;
  /** What it was, as others called it, and how it ended or was decided. */
  what: string;
  state: string;
  /** How many they are, and how many of them failed or were not allowed. */
  count: number;
  bad: number;
  /** The item of the conversation that belongs to it. */
  at: number;
}

/** How long an agent is silent before that is a wait, in ms. */
export const silence = 3_000;
/** How much of a name is kept, in characters. */
const maxName = 500;
/** How many spans of a kind are kept apart, and how many may go on at once. An agent may do more, and it is counted. */
const maxSpans = 4_000;
const maxOpen = 1_000;

/** Takes a session's events. Taking one costs the same however many there were. */
export class Timeline {
  spans: Record<Lane, Span[]> = { turn: [], tool: [], call: [], decision: [], wait: [] };
  /** The times in which something went on, in order. Nothing is drawn of the others. */
  active: { from: number; to: number }[] = [];
  /** It grows with each change. */
  version = 0;
  last = 0;
  /** How many there were of each, and for how long questions waited, in ms. */
  counts = { turn: 0, tool: 0, call: 0, allowed: 0, denied: 0, asked: 0, waited: 0 };
  private open = new Map<string, Span>();

  /** Whether something is active, and whether that is only the turn: the agent has sent nothing yet. */
  get busy(): boolean {
    return this.open.size > 0;
  }
  get silent(): boolean {
    return this.open.size === 1 && this.open.has("turn");
  }

  private add(span: Span): void {
    const all = this.spans[span.lane];
    if (all.push(span) > maxSpans) this.spans[span.lane] = thinned(all);
  }

  private begin(key: string, lane: "turn" | "tool" | "call" | "wait", what: string, at: number): void {
    if (lane !== "wait") this.counts[lane]++;
    if (this.open.size >= maxOpen) return;
    const span: Span = { lane, from: this.last, to: Infinity, what: what.slice(0, maxName), state: "", count: 1, bad: 0, at };
    if (!this.busy) this.active.push({ from: this.last, to: this.last });
    this.open.set(key, span);
    this.add(span);
  }

  private end(key: string, state: string, bad: boolean): Span | undefined {
    const span = this.open.get(key);
    if (!span) return undefined;
    this.open.delete(key);
    span.to = this.last;
    span.state = state;
    span.bad = bad ? 1 : 0;
    if (span.lane === "wait") this.counts.waited += span.to - span.from;
    return span;
  }

  private decide(what: string, how: "allowed" | "denied" | "asked" | "", state: string, at: number): void {
    if (!this.busy && this.active.at(-1)?.to !== this.last) this.active.push({ from: this.last, to: this.last });
    if (how) this.counts[how]++;
    this.add({ lane: "decision", from: this.last, to: this.last, what: what.slice(0, maxName), state, count: 1, bad: how === "denied" || how === "" ? 1 : 0, at });
  }

  /** Takes an event; at is the item of the conversation that belongs to it. */
  take(e: Event, at: number): void {
    if (e.history || !e.time) return; // what an agent repeats has the time of the repetition
    const now = Math.max(this.last, timestampMs(e.time));
    if (this.silent && now - this.last >= silence) this.add({ lane: "wait", from: this.last, to: now, what: "", state: "silent", count: 1, bad: 0, at });
    if (this.busy) this.active.at(-1)!.to = now;
    this.last = now;
    this.version++;
    const v = e.event;
    switch (v.case) {
      case "turnStarted":
        this.over("");
        this.begin("turn", "turn", v.value.prompt.map((b) => (b.content.case === "text" ? b.content.value.text : `[${b.content.case}]`).slice(0, maxName)).join(" "), at);
        break;
      case "turnEnded":
        this.over(v.value.error ? "failed" : v.value.stopReason, !!v.value.error);
        break;
      case "sessionClosed":
        this.over("closed");
        break;
      case "toolCall":
      case "toolCallUpdate": {
        const t = v.value;
        const key = "tool " + t.toolCallId;
        const span = this.open.get(key);
        if (!span && (v.case === "toolCall" || (t.status !== undefined && t.status !== "completed" && t.status !== "failed"))) this.begin(key, "tool", t.title || t.kind || "", at);
        else if (span && t.title) span.what = t.title.slice(0, maxName);
        if (t.status === "completed" || t.status === "failed") this.end(key, t.status, t.status === "failed");
        else if (span && t.status) span.state = t.status;
        break;
      }
      case "callStarted": {
        const key = "call " + v.value.id;
        this.begin(key, "call", `${v.value.method} ${v.value.path || v.value.terminalId}`.trim(), at);
        const span = this.open.get(key);
        if (span && v.value.to === "gate") span.state = "gate";
        break;
      }
      case "callEnded": {
        const key = "call " + v.value.id;
        const asked = this.open.get(key)?.state === "gate";
        const span = this.end(key, v.value.error ? "failed" : "completed", v.value.error !== "");
        if (span && refused(e)) this.decide(`${span.what}: ${v.value.error}`, "denied", (span.state = "denied"), at);
        else if (span && asked && !span.bad) this.decide(span.what, "allowed", "allowed", span.at);
        break;
      }
      case "questionAsked": {
        const what = v.value.permission?.title || v.value.permission?.kind || v.value.elicitation?.message || "";
        this.decide(what, "asked", "asked", at);
        this.begin("question " + handle(v.value.id), "wait", what, at);
        break;
      }
      case "questionAnswered": {
        const how = { allowed: "allowed", accepted: "allowed", denied: "denied", declined: "denied" }[v.value.outcome] as "allowed" | "denied" | undefined;
        const span = this.end("question " + handle(v.value.id), v.value.outcome, how !== "allowed");
        this.decide(span?.what ?? "", how ?? "", `${v.value.outcome} by ${v.value.answeredBy}`, at);
        break;
      }
    }
  }

  /** Ends all that goes on: a turn's tool calls, requests and questions do not outlive it. */
  private over(state: string, bad = false): void {
    for (const [key, span] of this.open) this.end(key, span.lane === "turn" ? state : span.state, span.lane === "turn" && bad);
  }
}

/** Spans of which the older half are joined by two, if they have ended. */
function thinned(all: Span[]): Span[] {
  const kept: Span[] = [];
  all.forEach((s, i) => {
    const last = kept.at(-1);
    if (i % 2 === 0 || i >= all.length / 2 || !last || last.to === Infinity || s.to === Infinity) return kept.push(s);
    kept[kept.length - 1] = { ...last, to: Math.max(last.to, s.to), count: last.count + s.count, bad: last.bad + s.bad };
    return 0;
  });
  return kept;
}

/** An id without what lets somebody answer, which not every event has: a dot and 26 characters. */
const handle = (id: string): string => id.replace(/\.[^./]{26}$/, "");

/** Whether a request of the agent's was refused by a decision, and did not only fail. */
function refused(e: Event): boolean {
  if (e.event.case !== "callEnded" || !e.event.value.error) return false;
  if (e.touches.some((t) => t.action === FileAction.BLOCKED) || e.event.value.error.startsWith("denied by ")) return true;
  try {
    return (JSON.parse(e.raw) as { data?: { code?: unknown } }).data?.code === "PERMISSION_DENIED";
  } catch {
    return false; // it is left out, or of another kind
  }
}

/** What is drawn for one span, or for several that are too close to each other. */
export interface Bar {
  /** Its place and its width, from 0 to 1. */
  x: number;
  width: number;
  /** The first of its spans, how many they are, and how many of them are bad. */
  first: Span;
  count: number;
  bad: number;
  from: number;
  to: number;
}

/** How many bars a lane has at most. */
const cells = 100;
/** How much of the width is between the times in which something went on, at most. */
const between = 0.15;

/** Lays a timeline out, as of a time in ms. What begins in the same hundredth of its width is one bar. */
export function layout(t: Timeline, now: number): Record<Lane, Bar[]> {
  const end = t.busy ? Math.max(now, t.last) : t.last;
  const active = t.active.map((a, i) => ({ from: a.from, to: i === t.active.length - 1 && t.busy ? end : a.to, before: 0 }));
  let total = 0;
  for (const a of active) {
    a.before = total;
    total += a.to - a.from;
  }
  const gap = active.length > 1 ? Math.min(0.01, between / (active.length - 1)) : 0;
  const scale = total > 0 ? (1 - gap * (active.length - 1)) / total : 0;
  const place = (time: number): number => {
    let low = 0;
    for (let high = active.length; high - low > 1; ) {
      const middle = (low + high) >> 1;
      if (active[middle]!.from <= time) low = middle;
      else high = middle;
    }
    const a = active[low];
    return a ? gap * low + (a.before + Math.min(Math.max(0, time - a.from), a.to - a.from)) * scale : 0;
  };
  const silent: Span[] = t.silent && end - t.last >= silence ? [{ lane: "wait", from: t.last, to: Infinity, what: "", state: "silent", count: 1, bad: 0, at: Infinity }] : [];
  const drawn = {} as Record<Lane, Bar[]>;
  for (const lane of lanes) {
    const bars: Bar[] = [];
    let cell = -1;
    for (const s of lane === "wait" ? t.spans.wait.concat(silent) : t.spans[lane]) {
      const to = Math.min(s.to, end);
      const x = place(s.from);
      const width = place(to) - x;
      let last = bars.at(-1);
      if (last && Math.floor(x * cells) <= cell) {
        last.count += s.count;
        last.width = Math.max(last.width, x + width - last.x);
        last.to = Math.max(last.to, to);
      } else {
        bars.push((last = { x, width, first: s, count: s.count, bad: 0, from: s.from, to }));
        cell = Math.floor(x * cells);
      }
      last.bad += s.bad;
    }
    drawn[lane] = bars;
  }
  return drawn;
}

export const names: Record<Lane, [one: string, many: string, title: string]> = {
  turn: ["turn", "turns", "Turns"],
  tool: ["tool call", "tool calls", "Tools"],
  call: ["request", "requests", "Requests"],
  decision: ["decision", "decisions", "Decisions"],
  wait: ["wait", "waits", "Waits"],
};

/** A time in ms, for people. */
export function lasting(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  return s < 10 ? `${s.toFixed(1)} s` : s < 120 ? `${Math.round(s)} s` : s < 7200 ? `${Math.round(s / 60)} min` : `${(s / 3600).toFixed(1)} h`;
}

/** When something was, by the clock here. What the browser has for that takes too long for hundreds of bars. */
function clock(ms: number): string {
  const d = new Date(ms);
  return [d.getHours(), d.getMinutes(), d.getSeconds()].map((n) => String(n).padStart(2, "0")).join(":");
}

/** What a bar is, in words. */
export function told(b: Bar): string {
  const [one, many] = names[b.first.lane];
  const when = `${b.to > b.from ? lasting(b.to - b.from) + ", " : ""}${b.count > 1 ? "from" : "at"} ${clock(b.from)}`;
  if (b.count > 1) return `${b.count} ${many}${b.bad ? `, ${b.bad} denied or failed` : ""}, ${when}`;
  const s = b.first;
  const name = s.lane !== "wait" ? one : s.state === "silent" ? "nothing was said" : "a question waited for an answer";
  const state = s.state === "gate" ? "is decided" : s.state === "silent" ? "" : s.state;
  return [name[0]!.toUpperCase() + name.slice(1), line(s.what), line(state) || (s.to === Infinity && s.lane !== "wait" ? "is going on" : ""), when].filter(Boolean).join(", ");
}

/** What there is, in numbers. */
export function summary(t: Timeline): string {
  const said: string[] = [];
  for (const lane of ["turn", "tool", "call"] as const) {
    const n = t.counts[lane];
    if (n) said.push(`${n} ${names[lane][n === 1 ? 0 : 1]}`);
  }
  for (const how of ["allowed", "denied", "asked"] as const) if (t.counts[how]) said.push(`${t.counts[how]} ${how}`);
  if (t.counts.waited >= 1000) said.push(`waited ${lasting(t.counts.waited)} for answers`);
  return said.join(" · ") || "nothing yet";
}
