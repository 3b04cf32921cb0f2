// A reader of file activity that takes nothing on trust. It is written from the description of the protocol alone, and knows
// nothing of how acphost serves it: node feed-reader.mjs PORT
//
// Lines of standard input go to the feed, but for "pause" and "resume", which stop and continue reading. Each line of the feed is checked and then printed. The first one that is wrong ends
// the reader with status 1, and standard error states the mistake. So do questions without an answer at the end, which
// is when standard input ends.
import * as net from "node:net";
import * as readline from "node:readline";

const fail = (why, line) => {
  process.stderr.write(`${why}\n${line === undefined ? "" : `in ${line.slice(0, 2000)}\n`}`);
  process.exit(1);
};

const kinds = {
  text: (v) => typeof v === "string",
  name: (v) => typeof v === "string" && v !== "",
  path: (v) => typeof v === "string" && v !== "" && (v === "/" || !v.endsWith("/")) && !v.startsWith("./") && !v.split("/").includes(".."),
  count: (v) => Number.isSafeInteger(v) && v >= 0,
  amount: (v) => typeof v === "number" && Number.isFinite(v) && v >= 0,
  heat: (v) => typeof v === "number" && v > 0 && v <= 1,
  flag: (v) => typeof v === "boolean",
  time: (v) => Number.isSafeInteger(v) && v > 1_500_000_000_000 && v < 10_000_000_000_000, // in milliseconds, not in seconds
  mode: (v) => v === "single_agent" || v === "orchestrator",
  action: (v) => ["user_provided", "user_referenced", "read", "write", "search", "blocked"].includes(v),
  refused: (v) => kinds.action(v) && v !== "blocked",
  id: (v) => typeof v === "string" || typeof v === "number" || v === null,
  code: (v) => v === 400 || v === 404 || v === 500,
  any: (v) => v !== undefined,
  node: (v, at) => check(v, shapes.node, at),
  nodes: (v, at) => check(v, null, at) && Object.entries(v).every(([path, n]) => kinds.node(n, `${at}.${path}`) && n.path === path),
  updates: (v, at) => Array.isArray(v) && v.every((n, i) => kinds.node(n, `${at}[${i}]`)) && unique(v.map((n) => n.path)),
  removed: (v) => Array.isArray(v) && v.every((path) => kinds.path(path)) && unique(v),
  cost: (v, at) => check(v, shapes.cost, at),
  error: (v, at) => check(v, shapes.error, at),
};

const about = { type: "text", agent_id: "text", session_id: "text" };
const shapes = {
  node: { path: "path", heat: "heat", in_context: "flag", last_action: "action", turn_accessed: "count", timestamp_ms: "time" },
  cost: { amount: "amount", currency: "name" },
  error: { code: "code", message: "name" },
  snapshot: { ...about, session_mode: "mode", seq: "count", nodes: "nodes" },
  delta: { ...about, session_mode: "mode", seq: "count", updates: "updates", removed: "removed" },
  usage: { ...about, session_mode: "mode", used: "count", size: "count", "cost?": "cost" },
  blocked: { ...about, path: "path", action: "refused", timestamp_ms: "time" },
  rpc_result: { type: "text", id: "id", result: "any" },
  rpc_error: { type: "text", id: "id", error: "error" },
};

const unique = (list) => new Set(list).size === list.length;
const own = (o, name) => Object.prototype.hasOwnProperty.call(o, name);

// check holds an object to a shape: these members, all of them but those with a question mark, and no others.
function check(v, shape, at) {
  if (typeof v !== "object" || v === null || Array.isArray(v)) throw new Error(`${at} is no object`);
  if (shape === null) return true;
  const members = Object.entries(shape).map(([name, kind]) => ({ name: name.replace("?", ""), kind, optional: name.endsWith("?") }));
  for (const { name, kind, optional } of members) {
    if (!own(v, name)) {
      if (!optional) throw new Error(`${at} has no ${name}`);
    } else if (!kinds[kind](v[name], `${at}.${name}`)) {
      throw new Error(`${at}.${name} is no ${kind}: ${JSON.stringify(v[name])?.slice(0, 200)}`);
    }
  }
  for (const name of Object.keys(v)) {
    if (!members.some((m) => m.name === name)) throw new Error(`${at} has ${name}, which is unknown`);
  }
  return true;
}

const sessions = new Map(); // the received state: by agent and session, seq and nodes
const asked = new Map(); // ids of rpcs without an answer
let lines = 0;

const sameNode = (a, b) => a !== undefined && Object.keys(shapes.node).every((name) => a[name] === b[name]);

// follow applies a line, and finds contradictions to earlier lines.
function follow(m) {
  const key = JSON.stringify([m.agent_id, m.session_id]);
  const known = sessions.get(key);
  switch (m.type) {
    case "snapshot":
      if (known !== undefined && m.seq < known.seq) throw new Error(`seq falls from ${known.seq} to ${m.seq}`);
      if (known !== undefined && m.seq === known.seq) {
        for (const [path, n] of Object.entries(m.nodes)) {
          if (!sameNode(known.nodes.get(path), n)) throw new Error(`${path} is not what the lines before it come to`);
        }
        if (known.nodes.size !== Object.keys(m.nodes).length) throw new Error("nodes are missing that the lines before it come to");
      }
      sessions.set(key, { seq: m.seq, nodes: new Map(Object.entries(m.nodes)) });
      return;
    case "delta":
      if (known === undefined) throw new Error("a delta comes before the snapshot of its session");
      if (m.seq !== known.seq + 1) throw new Error(`seq goes from ${known.seq} to ${m.seq}`);
      if (m.updates.length + m.removed.length === 0) throw new Error("a delta is empty");
      known.seq = m.seq;
      for (const n of m.updates) known.nodes.set(n.path, n);
      for (const path of m.removed) {
        if (m.updates.some((n) => n.path === path)) throw new Error(`${path} is updated and removed`);
        if (!known.nodes.delete(path)) throw new Error(`${path} is removed, and was not there`);
      }
      return;
    case "blocked":
      if (known?.nodes.get(m.path)?.last_action !== "blocked") throw new Error(`${m.path} was not blocked last`);
      return;
    case "usage":
      if (known === undefined) throw new Error("usage comes before the snapshot of its session");
      return;
    default:
      if (m.id !== null && !asked.delete(m.id)) throw new Error("there was no request, or it was answered before");
  }
}

function take(line) {
  let m;
  try {
    m = JSON.parse(line);
    if (!own(shapes, m?.type)) throw new Error(`there are no lines of the type ${m?.type}`);
    check(m, shapes[m.type], m.type);
    if (lines++ === 0 && m.type !== "snapshot") throw new Error("the first line is no snapshot");
    follow(m);
  } catch (err) {
    fail(err.message, line);
  }
  process.stdout.write(`${line}\n`);
}

const feed = net.connect({ host: "127.0.0.1", port: Number(process.argv[2]) });
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
let rest = "";
feed.on("data", (data) => {
  try {
    rest += decoder.decode(data, { stream: true });
  } catch {
    fail("the feed is no UTF-8");
  }
  const complete = rest.split("\n");
  rest = complete.pop();
  complete.forEach(take);
});
feed.on("error", (err) => fail(`the feed cannot be read: ${err.message}`));
feed.on("close", () => {
  if (rest !== "") fail("the feed ends within a line", rest);
  if (asked.size > 0) fail(`not answered: ${JSON.stringify([...asked.keys()])}`);
});

readline
  .createInterface({ input: process.stdin })
  .on("line", (line) => {
    if (line === "pause") return void feed.pause();
    if (line === "resume") return void feed.resume();
    const m = JSON.parse(line);
    if (m.type === "rpc") asked.set(m.id, m.method);
    feed.write(`${line}\n`);
  })
  .on("close", () => feed.end());
