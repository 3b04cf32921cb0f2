// The server of the TypeScript SDK before an agent that speaks on standard input and output: "node ts-server.mjs COMMAND…" serves
// ACP over WebSocket and HTTP at an address of the loopback, and prints its port. Each connection has its own process.
import { createServer } from "node:http";
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";
import { AcpServer } from "@agentclientprotocol/sdk/experimental/server";
import { createNodeHttpHandler, createNodeWebSocketUpgradeHandler } from "@agentclientprotocol/sdk/experimental/node";
import { WebSocketServer } from "ws";

const [program, ...args] = process.argv.slice(2);

const connector = {
  connect(stream) {
    const agent = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
    const lines = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
    const closed = Promise.allSettled([lines.readable.pipeTo(stream.writable), stream.readable.pipeTo(lines.writable)]).then(() => void agent.kill());
    return { closed };
  },
};

const server = new AcpServer({ createAgent: () => connector });
const http = createServer(createNodeHttpHandler(server));
http.on("upgrade", createNodeWebSocketUpgradeHandler(server, new WebSocketServer({ noServer: true })));
http.listen(0, "127.0.0.1", () => console.log(http.address().port));
process.stdin.on("end", () => process.exit(0)).resume(); // it ends with its parent
