// The transport of the TypeScript SDK's client between standard input and output and an agent elsewhere: "node ts-stream.mjs URL",
// with the token in the file that EDITOR_TOKEN_FILE names. Each line is a message that is given to the stream, and each message of
// the stream is a line. So a test plays an editor that is anywhere, message by message.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { createHttpStream } from "@agentclientprotocol/sdk/experimental/http-client";
import { createWebSocketStream } from "@agentclientprotocol/sdk/experimental/ws-client";
import { WebSocket } from "ws";

const [url] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${readFileSync(process.env.EDITOR_TOKEN_FILE, "utf8").trim()}` };
const stream = url.startsWith("ws") ? createWebSocketStream(url, { headers, WebSocket }) : createHttpStream(url, { headers });

const fail = (error) => (console.error("the stream:", error), process.exit(1));

(async () => {
  for await (const message of stream.readable) process.stdout.write(JSON.stringify(message) + "\n");
})().then(() => process.exit(0), fail);

const writer = stream.writable.getWriter();
for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  writer.write(JSON.parse(line)).catch(fail); // in the order of the lines; the stream waits for what it must
}
await writer.close().catch(fail);
