// An editor on the TypeScript SDK: "node ts-editor.mjs CWD PROMPT -- COMMAND…" starts the command as its agent, plays one
// turn with the prompt and prints what it saw as one JSON object. A prompt "cancel:TEXT" sends TEXT and cancels the turn
// once it is asked for permission; "big:MIB" appends that many MiB to the prompt. EDITOR_TERMINAL_OUTPUT=1 makes it one
// that shows output from _meta. In the place of a command, a URL is that of an agent elsewhere: "http:" and "https:" by POST and
// server-sent events, "ws:" and "wss:" by WebSocket, with the token in the file that EDITOR_TOKEN_FILE names.
import { readFileSync } from "node:fs";
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";
import { createHttpStream } from "@agentclientprotocol/sdk/experimental/http-client";
import { createWebSocketStream } from "@agentclientprotocol/sdk/experimental/ws-client";
import { WebSocket } from "ws";

const dashes = process.argv.indexOf("--");
const [cwd, prompt] = process.argv.slice(2, dashes);
const [program, ...args] = process.argv.slice(dashes + 1);
const limits = { maxMessageBytes: 200 << 20 };

function local() {
  const agent = spawn(program, args, { cwd, stdio: ["pipe", "pipe", "inherit"] });
  const exited = new Promise((resolve) => agent.on("exit", (code, signal) => resolve({ code, signal })));
  return {
    stream: acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout), limits),
    end: () => (agent.stdin.end(), exited),
  };
}

function elsewhere() {
  const headers = { Authorization: `Bearer ${readFileSync(process.env.EDITOR_TOKEN_FILE, "utf8").trim()}` };
  const stream = program.startsWith("ws")
    ? createWebSocketStream(program, { headers, WebSocket, ...limits })
    : createHttpStream(program, { headers, ...limits });
  return { stream, end: () => ({ code: 0, signal: null }) };
}

const far = /^(http|ws)s?:/.test(program) ? elsewhere() : local();

const seen = { updates: [], requests: [], cancelRequests: 0, longest: 0 };
const asked = (method, answer) => (context) => {
  seen.requests.push({ method, params: context.params });
  return answer(context);
};
let cancel;

const app = acp
  .client({ name: "ts-editor" })
  .onNotification(acp.methods.client.session.update, ({ params }) => {
    const { update } = params;
    const words = update.content?.text ?? "";
    seen.longest = Math.max(seen.longest, words.length);
    if (words.startsWith('{"report":')) Object.assign(seen, JSON.parse(words));
    seen.updates.push(words.length > 4096 ? { sessionUpdate: update.sessionUpdate, characters: words.length } : update);
  })
  .onNotification(acp.methods.client.elicitation.complete, () => void (seen.completed = true))
  .onRequest(
    acp.methods.client.session.requestPermission,
    asked("session/request_permission", async ({ params, signal }) => {
      if (cancel) {
        await cancel(params.sessionId);
        return { outcome: { outcome: "cancelled" } };
      }
      if (params.toolCall.title === "Withdrawn") {
        await new Promise((resolve) => (signal.aborted ? resolve() : signal.addEventListener("abort", resolve, { once: true })));
        seen.cancelRequests++;
        return { outcome: { outcome: "cancelled" } };
      }
      return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
    }),
  )
  .onRequest(acp.methods.client.elicitation.create, asked("elicitation/create", () => ({ action: "accept", content: { colour: "blue" } })))
  .onRequest("*", asked("*", ({ method }) => { throw acp.RequestError.methodNotFound(method); }));

await app.connectWith(far.stream, async (ctx) => {
  const _meta = process.env.EDITOR_TERMINAL_OUTPUT ? { terminal_output: true } : {};
  seen.initialize = await ctx.request(acp.methods.agent.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientInfo: { name: "ts-editor", version: "1.0.0" },
    clientCapabilities: { fs: { readTextFile: false, writeTextFile: false }, terminal: false, elicitation: { form: {} }, _meta },
  });
  seen.session = await ctx.request(acp.methods.agent.session.new, { cwd, mcpServers: [] });
  const { sessionId } = seen.session;
  const blocks = [];
  if (prompt.startsWith("cancel:")) {
    cancel = () => ctx.notify(acp.methods.agent.session.cancel, { sessionId });
    blocks.push({ type: "text", text: prompt.slice("cancel:".length) });
  } else if (prompt.startsWith("big:")) {
    const mib = Number(prompt.slice("big:".length));
    blocks.push({ type: "text", text: `big ${mib}` }, { type: "text", text: "x".repeat(mib << 20) });
  } else {
    blocks.push({ type: "text", text: prompt });
  }
  seen.answer = await ctx.request(acp.methods.agent.session.prompt, { sessionId, prompt: blocks }).catch((e) => ({ error: { code: e.code, message: e.message } }));
});
seen.exit = await far.end();
process.stdout.write(JSON.stringify(seen) + "\n");
