// A client on the TypeScript SDK whose connections are cut: "node ts-cuts.mjs URL CWD CUTS", with the token in the file that
// EDITOR_TOKEN_FILE names. It gives an agent one prompt after the other. Whenever it loses its connection, it makes a new one and
// loads its session, as the SDK's documentation describes, and checks that each turn whose answer it has is there once, in order. It
// exits with status 1 if something is missing.
import { readFileSync } from "node:fs";
import * as acp from "@agentclientprotocol/sdk";
import { createHttpStream } from "@agentclientprotocol/sdk/experimental/http-client";
import { createWebSocketStream } from "@agentclientprotocol/sdk/experimental/ws-client";
import { WebSocket } from "ws";

const [url, cwd, cuts] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${readFileSync(process.env.EDITOR_TOKEN_FILE, "utf8").trim()}` };
const { agent, client } = acp.methods;

let answered = []; // the prompts of turns whose answer arrived
const doubtful = new Set(); // those that were cut off: they may or may not have been played
let sessionId, next = 0, lost = 0, loads = 0, turns = 0;

class Broken extends Error {}
const expect = (ok, words) => { if (!ok) throw new Broken(words); };

// wordsOf returns the agent's message, which identifies the turn.
const wordsOf = (updates) => updates.filter((u) => u.sessionUpdate === "agent_message_chunk").map((u) => u.content.text).join("");

function whole(updates) {
  const told = [...wordsOf(updates).matchAll(/\[(\d+)\]/g)].map((m) => Number(m[1]));
  const sure = told.filter((n) => !doubtful.has(n));
  expect(JSON.stringify(sure) === JSON.stringify(answered), `the loaded session has the turns ${told}, want ${answered}, and perhaps some of ${[...doubtful]}`);
  expect(told.every((n, i) => i === 0 || told[i - 1] < n), `turns are doubled or out of order: ${told}`);
}

async function live() {
  const updates = [];
  const app = acp
    .client({ name: "ts-cuts" })
    .onNotification(client.session.update, ({ params }) => void updates.push(params.update))
    .onRequest("*", ({ method }) => { throw acp.RequestError.methodNotFound(method); });
  const stream = url.startsWith("ws") ? createWebSocketStream(url, { headers, WebSocket }) : createHttpStream(url, { headers });
  await app.connectWith(stream, async (ctx) => {
    const hello = await ctx.request(agent.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
    expect(hello.agentCapabilities.loadSession, "the agent loads no sessions");
    if (sessionId) {
      await ctx.request(agent.session.load, { sessionId, cwd, mcpServers: [] });
      loads++;
    } else {
      ({ sessionId } = await ctx.request(agent.session.new, { cwd, mcpServers: [] }));
    }
    while (lost < cuts) {
      if (answered.length === 8) { // a history that is too long never arrives before the next cut
        [answered, sessionId] = [[], undefined];
        doubtful.clear();
        return;
      }
      const n = next++;
      doubtful.add(n);
      const { stopReason } = await ctx.request(agent.session.prompt, { sessionId, prompt: [{ type: "text", text: `repeat [${n}] ${"x".repeat((n % 7) * 40)}` }] });
      expect(stopReason === "end_turn", `turn ${n} ended with ${stopReason}`);
      doubtful.delete(n);
      answered.push(n);
      turns++;
      whole(updates); // over HTTP the answer to session/load may overtake the history, the answer to a prompt does not
    }
  });
}

while (lost < cuts) {
  try {
    await live();
  } catch (error) {
    if (error instanceof Broken) {
      console.error(error.message);
      process.exit(1);
    }
    lost++;
  }
}
expect(loads > 0 && turns > 0, `${loads} sessions were loaded, ${turns} turns were answered`);
console.log(`${turns} turns, ${loads} loads`);
process.exit(0);
