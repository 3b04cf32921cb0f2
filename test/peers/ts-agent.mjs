// An agent on the TypeScript SDK. The first word of a prompt names what the turn does; what came of it is reported as one
// JSON object in the last agent_message_chunk of the turn, {"report": ...}, so that the editor's side can check it.
import { readFile } from "node:fs/promises";
import { Readable, Writable } from "node:stream";
import * as path from "node:path";
import * as acp from "@agentclientprotocol/sdk";

const { client: ask } = acp.methods;
const roots = new Map(); // session id to working directory
const turns = new Map(); // session id to the AbortController of its turn
let sessions = 0;
let offered = {}; // the client's capabilities

// outcome of a request, as data: what it was answered with, whatever that was.
const outcome = (promise) =>
  promise.then(
    (result) => ({ result }),
    (error) => ({ error: { code: error.code, message: error.message, data: error.data } }),
  );

const text = (t) => ({ type: "text", text: t });

// Every client method of ACP v1, one after the other, in a turn with every kind of update.
async function everything({ client, sessionId, cwd, update }) {
  const report = {};
  const file = path.join(cwd, "every.txt");
  await update({ sessionUpdate: "agent_thought_chunk", content: text("What is there to do?") });
  await update({ sessionUpdate: "plan", entries: [{ content: "everything", priority: "high", status: "in_progress" }] });
  await update({ sessionUpdate: "available_commands_update", availableCommands: [{ name: "every", description: "does everything" }] });
  await update({ sessionUpdate: "current_mode_update", currentModeId: "code" });
  await update({ sessionUpdate: "tool_call", toolCallId: "t1", title: "Edit every.txt", kind: "edit", status: "pending", locations: [{ path: file }] });

  report.write = await outcome(client.request(ask.fs.writeTextFile, { sessionId, path: file, content: "one\ntwo\nthree\n" }));
  report.read = await outcome(client.request(ask.fs.readTextFile, { sessionId, path: file }));
  report.readPart = await outcome(client.request(ask.fs.readTextFile, { sessionId, path: file, line: 2, limit: 1 }));
  report.readMissing = await outcome(client.request(ask.fs.readTextFile, { sessionId, path: path.join(cwd, "missing.txt") }));
  report.readOutside = await outcome(client.request(ask.fs.readTextFile, { sessionId, path: "/etc/hostname" }));
  report.permission = await outcome(
    client.request(ask.session.requestPermission, {
      sessionId,
      toolCall: { toolCallId: "t1" },
      options: [
        { optionId: "yes", name: "Yes", kind: "allow_once" },
        { optionId: "no", name: "No", kind: "reject_once" },
      ],
    }),
  );
  await update({ sessionUpdate: "tool_call_update", toolCallId: "t1", status: "completed", content: [{ type: "diff", path: file, newText: "one\ntwo\nthree\n" }] });

  const terminal = await client.createTerminal({ sessionId, command: "sh", args: ["-c", "echo out; echo err >&2; exit 3"], cwd });
  await update({ sessionUpdate: "tool_call", toolCallId: "t2", title: "Run", kind: "execute", status: "in_progress", content: [{ type: "terminal", terminalId: terminal.id }] });
  report.exit = await outcome(terminal.waitForExit());
  report.output = await outcome(terminal.currentOutput());
  report.release = await outcome(terminal.release());
  report.outputAfterRelease = await outcome(terminal.currentOutput());
  await update({ sessionUpdate: "tool_call_update", toolCallId: "t2", status: "completed" });

  const endless = await client.createTerminal({ sessionId, command: "sleep 1000" });
  const waiting = outcome(endless.waitForExit());
  report.kill = await outcome(endless.kill());
  report.killedExit = await waiting;
  report.killedRelease = await outcome(endless.release());

  report.elicitation = await outcome(
    client.request(ask.elicitation.create, {
      sessionId,
      mode: "form",
      message: "Which colour?",
      requestedSchema: { type: "object", properties: { colour: { type: "string" } }, required: ["colour"] },
    }),
  );
  await client.notify(ask.elicitation.complete, { elicitationId: "e1" });
  report.unknown = await outcome(client.request("_nobody/knows", { sessionId }));
  return report;
}

// Many reads at once, each of its own file.
async function concurrent({ client, sessionId, cwd }, count) {
  const reads = Array.from({ length: Number(count) }, (_, i) =>
    outcome(client.request(ask.fs.readTextFile, { sessionId, path: path.join(cwd, `f${i}.txt`) })),
  );
  const answers = await Promise.all(reads);
  return { contents: answers.map((a) => a.result?.content ?? a.error.message) };
}

// A wait that is cancelled, then the terminal that lived on is killed.
async function cancelWait({ client, sessionId }) {
  const report = {};
  const terminal = await client.createTerminal({ sessionId, command: "sleep 1000" });
  const controller = new AbortController();
  const waiting = outcome(
    client.request(ask.terminal.waitForExit, { sessionId, terminalId: terminal.id }, { cancellationSignal: controller.signal }),
  );
  controller.abort();
  report.cancelled = await waiting;
  report.output = await outcome(terminal.currentOutput());
  report.kill = await outcome(terminal.kill());
  report.exit = await outcome(terminal.waitForExit());
  report.release = await outcome(terminal.release());
  return report;
}

// Questions that the agent withdraws as soon as it has asked them: each must be answered once, wherever it was by then.
async function cancelQuestions({ client, sessionId }, count) {
  const questions = Array.from({ length: Number(count) }, (_, i) => {
    const controller = new AbortController();
    const asking = outcome(
      client.request(
        ask.session.requestPermission,
        { sessionId, toolCall: { toolCallId: `q${i}`, title: "Withdrawn" }, options: [{ optionId: "yes", name: "Yes", kind: "allow_once" }] },
        { cancellationSignal: controller.signal },
      ),
    );
    // Some at once, some a little later.
    if (i % 2) controller.abort();
    else setTimeout(() => controller.abort(), i % 7);
    return asking;
  });
  return { cancelled: await Promise.all(questions) };
}

// A turn that lasts until it is cancelled, with a question open.
async function untilCancelled({ client, sessionId, signal }) {
  const question = outcome(
    client.request(ask.session.requestPermission, {
      sessionId,
      toolCall: { toolCallId: "w", title: "Wait" },
      options: [{ optionId: "yes", name: "Yes", kind: "allow_once" }],
    }),
  );
  await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
  return { question: await question };
}

// One message of many MiB.
async function big({ update }, mib) {
  const unit = "0123456789abcdef\u2028ü\"\\\n\t<&>";
  const size = Number(mib) << 20;
  await update({ sessionUpdate: "agent_message_chunk", content: text(unit.repeat(Math.ceil(size / unit.length))) });
  return { characters: unit.length * Math.ceil(size / unit.length) };
}

// The tour that the demo agent makes, told by another implementation: every update that ACP v1 has, with every field, and
// everything asked for once. What the client does not offer is left out.
async function tour({ client, sessionId, cwd, update }) {
  const steps = JSON.parse(await readFile(new URL("../../examples/demoagent/tour.json", import.meta.url), "utf8"));
  const has = {
    form: offered.elicitation?.form,
    url: offered.elicitation?.url,
    notices: offered.session?.notices,
    compaction: offered.session?.compaction,
    boolean: offered.session?.configOptions?.boolean,
  };
  let terminal;
  const fill = (value) => {
    if (typeof value === "string") return value.replaceAll("${cwd}", cwd).replaceAll("${terminal}", terminal);
    if (Array.isArray(value)) return value.map(fill);
    return value && typeof value === "object" ? Object.fromEntries(Object.entries(value).map(([k, v]) => [k, fill(v)])) : value;
  };
  const report = {};
  for (const step of steps) {
    if (step.needs && !has[step.needs]) continue;
    if (step.update) {
      await update(fill(step.update));
      continue;
    }
    const answer = await outcome(client.request(step.call, { sessionId, ...fill(step.params) }));
    if (step.completes && answer.result) await client.notify(ask.elicitation.complete, { elicitationId: step.completes });
    terminal = answer.result?.terminalId ?? terminal;
    report[step.as] = answer;
  }
  return report;
}

const scripts = { tour, everything, concurrent, cancelWait, cancelQuestions, untilCancelled, big };

const app = acp
  .agent({ name: "ts-agent" })
  .onRequest(acp.methods.agent.initialize, ({ params }) => {
    offered = params.clientCapabilities ?? {};
    return {
      protocolVersion: acp.PROTOCOL_VERSION,
      agentInfo: { name: "ts-agent", version: "1.0.0" },
      agentCapabilities: { promptCapabilities: { embeddedContext: true }, _meta: { clientCapabilities: params.clientCapabilities } },
    };
  })
  .onRequest(acp.methods.agent.session.new, ({ params }) => {
    const sessionId = `ts-${++sessions}`;
    roots.set(sessionId, params.cwd);
    return { sessionId, modes: { currentModeId: "ask", availableModes: [{ id: "ask", name: "Ask" }, { id: "code", name: "Code" }] } };
  })
  .onNotification(acp.methods.agent.session.cancel, ({ params }) => turns.get(params.sessionId)?.abort())
  .onRequest(acp.methods.agent.session.prompt, async ({ params, client }) => {
    const { sessionId } = params;
    const turn = new AbortController();
    turns.set(sessionId, turn);
    const update = (u) => client.notify(ask.session.update, { sessionId, update: u });
    const [name, ...args] = params.prompt[0].text.split(" ", 3);
    const script = scripts[name];
    if (!script) throw acp.RequestError.invalidParams({ prompt: `there is no script ${name.slice(0, 40)}` });
    const report = await script({ client, sessionId, cwd: roots.get(sessionId), signal: turn.signal, update }, ...args);
    report.promptCharacters = params.prompt.reduce((sum, block) => sum + (block.text?.length ?? 0), 0);
    await update({ sessionUpdate: "agent_message_chunk", content: text(JSON.stringify({ report })) });
    return { stopReason: turn.signal.aborted ? "cancelled" : "end_turn" };
  });

const limits = { maxMessageBytes: 200 << 20 };
const connection = app.connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin), limits));
await connection.closed;
