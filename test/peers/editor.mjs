// An editor on the TypeScript SDK: node editor.mjs PLAN -- COMMAND [ARGUMENT…] runs an agent, plays a plan, and prints
// what happened as one JSON object: {results, requests, updates, errors, closed, exit}. The SDK checks each message by its schema, so an
// update that acphost made itself and made wrongly ends here as an error.
//
// PLAN is JSON: {"cwd": DIR, "capabilities": {…}, "answer": KIND, "prompts": [TEXT, …], "cancelOn": TEXT}. answer is the
// kind of the option that every permission question gets; cancelOn is a text in the agent's message on which the turn is
// cancelled.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const [planText, , command, ...args] = process.argv.slice(2);
const plan = JSON.parse(planText);
const seen = { results: [], requests: [], updates: [], errors: [] };
console.error = (...words) => seen.errors.push(words.map(String).join(" ")); // how the SDK tells of bad messages

const child = spawn(command, args, { cwd: plan.cwd, stdio: ["pipe", "pipe", "inherit"] });
const exited = new Promise((done) => child.on("exit", (code, signal) => done({ code, signal })));

const note = (method, answer) => ({ params }) => {
  seen.requests.push({ method, params });
  return answer(params);
};

const app = acp
  .client({ name: "typescript-editor" })
  .onNotification("session/update", async ({ params, agent }) => {
    seen.updates.push(params.update);
    if (plan.cancelOn && params.update.content?.text?.includes(plan.cancelOn)) {
      await agent.notify("session/cancel", { sessionId: params.sessionId });
    }
  })
  .onRequest("session/request_permission", note("session/request_permission", (p) => {
    const option = p.options.find((o) => o.kind === (plan.answer ?? "allow_once"));
    return { outcome: option ? { outcome: "selected", optionId: option.optionId } : { outcome: "cancelled" } };
  }))
  .onRequest("fs/read_text_file", note("fs/read_text_file", () => ({ content: "the editor's own text" })))
  .onRequest("fs/write_text_file", note("fs/write_text_file", () => ({})))
  .onRequest("elicitation/create", note("elicitation/create", () => ({ action: "decline" })));

const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout), { maxMessageBytes: 256 << 20 });
const play = async (agent) => {
  const initialized = await agent.request("initialize", { protocolVersion: 1, clientCapabilities: plan.capabilities ?? {} });
  const { sessionId } = await agent.request("session/new", { cwd: plan.cwd, mcpServers: [] });
  seen.results.push(initialized);
  for (const text of plan.prompts) {
    try {
      seen.results.push(await agent.request("session/prompt", { sessionId, prompt: [{ type: "text", text }] }));
    } catch (e) {
      seen.results.push({ error: { code: e.code, message: e.message } });
    }
  }
};
try {
  await app.connectWith(stream, play);
} catch (e) {
  seen.closed = { code: e.code, message: e.message }; // initialize or session/new failed, or the agent is gone
}
child.stdin.end();
seen.exit = await exited;
process.stdout.write(`${JSON.stringify(seen)}\n`, () => process.exit(0));
