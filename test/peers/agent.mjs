// An agent on the TypeScript SDK. A prompt's text is its script, a JSON array of steps; what came of each step is in
// the answer's _meta.results, in the same order: {"result": …} or {"error": {code, message, data}}.
//
//   {"request": METHOD, "params": {…}, "save": NAME, "cancel": "now"}   a request of the client
//   {"notify": METHOD, "params": {…}}                                  a notification
//   {"update": {…}}                                                    a session/update
//   {"together": [STEP, …]}                                            all at once; its result is an array
//   {"start": STEP, "save": NAME}, {"wait": NAME}                      begin a step, and wait for it later
//   {"big": BYTES}                                                     an agent_message_chunk with so much text
//   {"until": "cancelled"}                                             wait for session/cancel
//
// "$session" stands for the session's id in params, "$NAME.field" for a field of a saved result. The capabilities that
// the client sent are in the answer's _meta.capabilities.
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

let capabilities;
const cancelled = new Map(); // session id → AbortController
let sessions = 0;

class Play {
  constructor(session, client, abort) {
    Object.assign(this, { session, client, abort, saved: {}, started: {} });
  }

  fill(value) {
    if (typeof value === "string" && value.startsWith("$")) {
      const [name, field] = value.slice(1).split(".");
      if (name === "session") return this.session;
      return this.saved[name][field];
    }
    if (Array.isArray(value)) return value.map((v) => this.fill(v));
    if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, this.fill(v)]));
    return value;
  }

  async step(s) {
    try {
      const result = await this.run(s);
      if (s.save && !s.start) this.saved[s.save] = result;
      return { result };
    } catch (e) {
      if (!(e instanceof acp.RequestError)) return { error: { code: 0, message: String(e) } };
      return { error: { code: e.code, message: e.message, data: e.data } };
    }
  }

  async run(s) {
    if (s.request) {
      const stop = new AbortController();
      const answer = this.client.request(s.request, this.fill(s.params), { cancellationSignal: stop.signal });
      if (s.cancel) stop.abort();
      return await answer;
    }
    if (s.notify) return await this.client.notify(s.notify, this.fill(s.params));
    if (s.update) return await this.update(this.fill(s.update));
    if (s.together) return await Promise.all(s.together.map((each) => this.step(each)));
    if (s.start) {
      this.started[s.save] = this.step(s.start);
      return null;
    }
    if (s.wait) return await this.started[s.wait];
    if (s.big) return await this.update({ sessionUpdate: "agent_message_chunk", content: { type: "text", text: "ä".repeat(s.big / 2) } });
    if (s.until === "cancelled") {
      if (!this.abort.signal.aborted) await new Promise((done) => this.abort.signal.addEventListener("abort", done));
      return null;
    }
    throw new Error(`the script has no step ${JSON.stringify(s)}`);
  }

  update(update) {
    return this.client.notify("session/update", { sessionId: this.session, update });
  }
}

const app = acp
  .agent({ name: "typescript-agent" })
  .onRequest("initialize", ({ params }) => {
    capabilities = params.clientCapabilities;
    return { protocolVersion: 1, agentInfo: { name: "typescript-agent", version: "1" }, agentCapabilities: {}, authMethods: [] };
  })
  .onRequest("session/new", () => ({ sessionId: `typescript-${++sessions}` }))
  .onRequest("session/prompt", async ({ params, client }) => {
    const abort = new AbortController();
    cancelled.set(params.sessionId, abort);
    const play = new Play(params.sessionId, client, abort);
    const results = [];
    for (const s of JSON.parse(params.prompt[0].text)) results.push(await play.step(s));
    return { stopReason: abort.signal.aborted ? "cancelled" : "end_turn", _meta: { results, capabilities } };
  })
  .onNotification("session/cancel", ({ params }) => cancelled.get(params.sessionId)?.abort());

const connection = app.connect(
  acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin), { maxMessageBytes: 256 << 20 }),
);
await connection.closed;
