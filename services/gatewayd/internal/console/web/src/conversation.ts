// A session's events, folded into what a person reads: messages, tool calls, notes.
import type { Event } from "@acphost/proto/supervisor/v1/event";
import type { PlanEntry, ToolCallContent, Location } from "@acphost/proto/supervisor/v1/content";
import { words } from "./content";
import { line } from "./safe";
import { Timeline } from "./timeline";

export interface Tool {
  id: string;
  title: string;
  kind: string;
  status: string;
  content: ToolCallContent[];
  locations: Location[];
  input: string;
  output: string;
  raw: string;
}

export interface Item {
  /** Its place, from 0: items are never taken away. */
  at: number;
  kind: "user" | "agent" | "thought" | "tool" | "note" | "error";
  /** It continues the item before it. */
  more: boolean;
  message: string;
  text: string;
  tool?: Tool;
  /** It grows with each change. */
  version: number;
}

/** How long a piece of a message gets, in characters, before another one begins: each is laid out at once. */
const maxPiece = 3_000;
/** How much of a command's output is kept, in characters. */
const maxOutput = 20_000;

export class Conversation {
  items: Item[] = [];
  plan: PlanEntry[] = [];
  mode = "";
  turn = false;
  /** It was closed, and not opened again. */
  closed = false;
  cursor = "";
  lastAt = 0;
  timeline = new Timeline();
  private tools = new Map<string, Item>();

  private add(kind: Item["kind"], text: string, message = "", more = false): Item {
    const item: Item = { at: this.items.length, kind, text, message, more, version: 0 };
    this.items.push(item);
    return item;
  }

  private say(kind: "user" | "agent" | "thought", text: string, message: string): void {
    let last = this.items.at(-1);
    let more = last?.kind === kind && last.message === message;
    while (text) {
      if (!more || !last || last.text.length >= maxPiece) last = this.add(kind, "", message, more);
      const room = maxPiece - last.text.length;
      let cut = Math.min(room, text.length);
      if (cut < text.length) {
        const end = text.lastIndexOf("\n", cut);
        if (end > 0) cut = end + 1;
        else if (text.charCodeAt(cut - 1) >= 0xd800 && text.charCodeAt(cut - 1) < 0xdc00) cut++; // not through a character
      }
      last.text += text.slice(0, cut);
      last.version++;
      text = text.slice(cut);
      more = true;
      if (text) last = undefined;
    }
  }

  /** Takes an event. */
  take(e: Event): void {
    if (e.cursor) this.cursor = e.cursor;
    if (e.time) this.lastAt = Number(e.time.seconds) * 1000;
    const v = e.event;
    switch (v.case) {
      case "userMessage":
        if (e.history) this.say("user", words(v.value.content), v.value.messageId);
        break;
      case "agentMessage":
        this.say("agent", words(v.value.content), v.value.messageId);
        break;
      case "agentThought":
        this.say("thought", words(v.value.content), v.value.messageId);
        break;
      case "turnStarted":
        this.turn = true;
        this.add("user", v.value.prompt.map(words).join("\n"), e.cursor);
        break;
      case "turnEnded":
        this.turn = false;
        if (v.value.error) this.add("error", v.value.error.message);
        else if (v.value.stopReason && v.value.stopReason !== "end_turn") this.add("note", `The turn ended: ${line(v.value.stopReason)}`);
        break;
      case "toolCall":
      case "toolCallUpdate": {
        const r = v.value;
        let item = this.tools.get(r.toolCallId);
        const ended = item?.tool?.status === "completed" || item?.tool?.status === "failed";
        if (!item || (v.case === "toolCall" && ended)) {
          item = this.add("tool", "");
          item.tool = { id: r.toolCallId, title: "", kind: "", status: "pending", content: [], locations: [], input: "", output: "", raw: "" };
          this.tools.set(r.toolCallId, item);
        }
        const t = item.tool!;
        if (r.title !== undefined) t.title = r.title;
        if (r.kind !== undefined) t.kind = r.kind;
        if (r.status !== undefined) t.status = r.status;
        if (r.contentSet) t.content = r.content;
        if (r.locationsSet) t.locations = r.locations;
        if (r.rawInput && (r.rawInput !== "{}" || !t.input)) t.input = r.rawInput;
        if (r.rawOutput) t.raw = r.rawOutput;
        if (r.output) {
          t.output = ((r.output.replaces ? "" : t.output) + r.output.text + (r.output.omitted ? `\n[${r.output.omitted} bytes left out]\n` : "") + r.output.tail).slice(-maxOutput);
          if (r.output.exitCode !== undefined && r.output.ended) t.output += `\n[status ${r.output.exitCode}]`;
        }
        item.version++;
        break;
      }
      case "plan":
        this.plan = v.value.entries;
        break;
      case "currentMode":
        this.mode = v.value.modeId;
        break;
      case "notice":
        this.add(v.value.severity === "error" ? "error" : "note", `${v.value.fromAcphost ? "acphost" : "The agent"}: ${v.value.title}${v.value.description ? "\n" + v.value.description : ""}`);
        break;
      case "questionAnswered":
        this.add("note", `A question was answered: ${line(v.value.outcome)} by ${line(v.value.answeredBy)}`);
        break;
      case "sessionOpened":
        this.closed = false;
        break;
      case "sessionClosed":
        this.turn = false;
        this.closed = true;
        this.add("note", `The session was closed: ${line(v.value.reason)}`);
        break;
      case "compaction":
        this.add("note", `The agent compacts its context: ${line(v.value.status)}`);
        break;
      case "gap":
        this.add("note", `Events are missing here: ${line(v.value.reason)}`);
        break;
    }
    const tool = v.case === "toolCall" || v.case === "toolCallUpdate" ? v.value.toolCallId : v.case === "questionAsked" ? v.value.permission?.toolCallId : undefined;
    this.timeline.take(e, (tool !== undefined ? this.tools.get(tool)?.at : undefined) ?? Math.max(0, this.items.length - 1));
  }
}
