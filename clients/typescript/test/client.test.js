import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

import { Code, ConnectError } from '@connectrpc/connect';
import { AcpAdapter, agentErrorOf, cancel, choose, Client, Supervisor } from '@acphost/client';

const bin = path.resolve(process.env.ACPHOST_BIN ?? fileURLToPath(new URL('../../../bin', import.meta.url)));
const program = path.join(bin, 'acphost');
const demoagent = [path.join(bin, 'demoagent')];

// place makes a home and a folder to work in. What cleanup gets is done at the end of the test, the latest first.
function place(t) {
  const home = fs.mkdtempSync(path.join(os.tmpdir(), 'acphost-ts-'));
  const cleanups = [() => fs.rmSync(home, { recursive: true, force: true })];
  t.after(async () => {
    while (cleanups.length > 0) await cleanups.pop()();
  });
  const cwd = path.join(home, 'work');
  fs.mkdirSync(cwd);
  return { cwd, cleanup: (what) => cleanups.push(what), env: { PATH: `${bin}:${process.env.PATH}`, HOME: home, XDG_RUNTIME_DIR: home } };
}

async function start(t, args = [], { cwd, env, cleanup } = place(t)) {
  const supervisor = await Supervisor.start({ program, env, args });
  cleanup(() => supervisor.stop());
  const client = await supervisor.client();
  cleanup(() => client.close());
  return { supervisor, client, cwd, env };
}

async function open(client, cwd) {
  const { agent } = await client.agents.startAgent({ command: demoagent, cwd });
  const { session } = await client.sessions.newSession({ agentId: agent.id, cwd });
  return { agent, sessionId: session.sessionId };
}

// play reads a turn, calling on with each event, and returns its end and the agent's message.
async function play(turn, on = () => {}) {
  let said = '';
  for (;;) {
    const { done, value } = await turn.next();
    if (done) return { end: value, said };
    const { event } = value;
    if (event.case === 'agentMessage' && event.value.content.content.case === 'text') said += event.value.content.content.value.text;
    await on(value);
  }
}

test('a turn streams events, answers a question and is cancelled', async (t) => {
  const { supervisor, client, cwd } = await start(t);
  assert.equal(client.pid, supervisor.pid);
  const { sessionId } = await open(client, cwd);
  for (const [option, outcome] of [['allow_once', 'allowed'], ['reject_once', 'denied']]) {
    let answered;
    const { end, said } = await play(client.prompt({ sessionId, prompt: `/ask ${cwd}/notes.md` }), async ({ event }) => {
      if (event.case !== 'questionAsked') return;
      answered = await client.approvals.answerApproval({ id: event.value.id, answer: choose(option), answeredBy: 'test' });
    });
    assert.equal(end.stopReason, 'end_turn');
    assert.equal(answered.answer.outcome, outcome);
    assert.match(said, /ask/);
  }
  const cancelled = await play(client.prompt({ sessionId, prompt: '/wait' }), async ({ event }) => {
    if (event.case === 'agentMessage') await client.sessions.cancelPrompt({ sessionId });
  });
  assert.equal(cancelled.end.stopReason, 'cancelled');
});

test('a message of 8 MiB is complete', async (t) => {
  const { client, cwd } = await start(t);
  const { sessionId } = await open(client, cwd);
  const { said } = await play(client.prompt({ sessionId, prompt: '/big 8' }));
  assert.equal(said.length, 8 << 20);
});

test('cancelOnDisconnect ends the turn when the reader leaves', async (t) => {
  const { client, cwd } = await start(t);
  const { sessionId } = await open(client, cwd);
  for await (const { event } of client.prompt({ sessionId, prompt: '/wait', cancelOnDisconnect: true })) {
    if (event.case === 'agentMessage') break;
  }
  const leave = new AbortController();
  for await (const { event } of client.sessions.watchSession({ sessionId }, { signal: leave.signal })) {
    if (event.event.case === 'turnEnded') {
      assert.equal(event.event.value.stopReason, 'cancelled');
      break;
    }
  }
  leave.abort();
});

test('a crashed agent ends its turn with the reason', async (t) => {
  const { client, cwd } = await start(t);
  const { sessionId } = await open(client, cwd);
  let failed;
  const { end } = await play(client.prompt({ sessionId, prompt: '/kill' })).catch((error) => { failed = error; return {}; });
  const agent = failed ? agentErrorOf(failed) : end.error;
  assert.equal(agent.signal, 'SIGKILL', `${failed ?? JSON.stringify(end)}`);
});

test('a failed call has the message of the supervisor', async (t) => {
  const { client, cwd } = await start(t);
  await assert.rejects(client.agents.startAgent({ command: ['/no/such/agent'], cwd }), (error) => {
    assert.ok(error instanceof ConnectError);
    assert.equal(error.code, Code.NotFound);
    assert.match(error.message, /\/no\/such\/agent/);
    assert.ok(agentErrorOf(error));
    return true;
  });
});

test('a killed supervisor ends every call with the reason', async (t) => {
  const { supervisor, client, cwd } = await start(t);
  const { sessionId } = await open(client, cwd);
  const turn = client.prompt({ sessionId, prompt: '/wait' });
  await assert.rejects(play(turn, ({ event }) => {
    if (event.case === 'agentMessage') process.kill(supervisor.pid, 'SIGKILL');
  }), (error) => error.code === Code.Unavailable && /supervisor has ended the connection/.test(error.message));
  assert.match((await client.closed).message, /supervisor has ended the connection/);
  await assert.rejects(client.state.getStatus({}), (error) => error.code === Code.Unavailable);
  await assert.rejects(supervisor.client(), new RegExp(`no supervisor runs as process ${supervisor.pid}`));
});

test('a closed client rejects calls', async (t) => {
  const { client } = await start(t);
  await client.state.getStatus({});
  client.close();
  await assert.rejects(client.state.getStatus({}), (error) => error.code === Code.Unavailable && /was closed/.test(error.message));
  assert.equal(await client.closed, undefined);
});

test('dial reports a missing supervisor and a missing program', async (t) => {
  const { env } = place(t);
  await assert.rejects(Client.dial({ program, env }), /no supervisor is running/);
  await assert.rejects(Client.dial({ program: '/no/acphost', env }), /ENOENT/);
  await assert.rejects(Client.dial({ program: '/bin/echo', env }), /run \/bin\/echo dial: exit status 0/);
  await assert.rejects(Supervisor.start({ program, env, args: ['--no-such-flag'] }), /exit status 2.*no-such-flag/s);
});

test('a supervisor ends with the program that started it', async (t) => {
  const { env } = place(t);
  const child = spawn(process.execPath, ['--input-type=module', '--eval', `
    import { Supervisor } from '@acphost/client';
    const supervisor = await Supervisor.start({ program: ${JSON.stringify(program)} });
    console.log(supervisor.pid);`], { env, cwd: fileURLToPath(new URL('..', import.meta.url)), stdio: ['ignore', 'pipe', 'inherit'] });
  const pid = Number(String((await once(child.stdout, 'data'))[0]));
  child.kill('SIGKILL');
  for (const until = Date.now() + 20_000; ; await new Promise((resolve) => setTimeout(resolve, 20))) {
    try {
      if (/ Z /.test(fs.readFileSync(`/proc/${pid}/stat`, 'latin1'))) break;
    } catch {
      break;
    }
    assert.ok(Date.now() < until, `supervisor ${pid} still runs`);
  }
});

test('mutual TLS applies the role in the certificate', async (t) => {
  const at = place(t);
  const { env, cwd, cleanup } = at;
  const server = path.join(env.HOME, 'server');
  const keys = path.join(env.HOME, 'keys');
  const made = spawnSync(program, ['certs', 'init', keys], { env, encoding: 'utf8' });
  assert.equal(made.status, 0, made.stderr);
  fs.renameSync(path.join(keys, 'server'), server);
  const { client: local } = await start(t, ['--listen', '127.0.0.1:0', '--tls-dir', server], at);
  const { adminAddress } = await local.state.getStatus({});
  for (const [role, allowed] of [['operator', true], ['viewer', false]]) {
    const client = Client.tls({ address: adminAddress, dir: path.join(keys, role) });
    cleanup(() => client.close());
    assert.ok((await client.state.getStatus({})).pid > 0n);
    const started = client.agents.startAgent({ command: demoagent, cwd });
    if (allowed) {
      assert.equal((await started).agent.name, 'demoagent');
    } else {
      await assert.rejects(started, (error) => error.code === Code.PermissionDenied);
    }
  }
});

test('an adapter opens a session, asks and leaves nothing', async (t) => {
  const { cwd, env, cleanup } = place(t);
  fs.writeFileSync(path.join(cwd, 'notes.md'), 'We will recieve it.\n');
  const asked = [];
  const adapter = new AcpAdapter({
    agent: demoagent, cwd, supervisor: { program, env },
    permission: async ({ title, options }) => { asked.push(title); return options.find(({ kind }) => kind === 'allow_once').optionId; },
  });
  cleanup(() => adapter.disconnect());
  await assert.rejects(adapter.prompt('too early'), /call connect first/);
  await adapter.connect();
  await assert.rejects(adapter.prompt('too early'), /call initialize first/);
  const { agent } = await adapter.initialize();
  assert.equal(agent.name, 'demoagent');
  let text = '';
  let events = 0;
  adapter.on('text', (piece) => { text += piece; });
  adapter.on('event', () => { events += 1; });
  assert.equal((await adapter.prompt('Fix the spelling')).stopReason, 'end_turn');
  assert.match(fs.readFileSync(path.join(cwd, 'notes.md'), 'utf8'), /receive it/);
  assert.ok(text.length > 0 && events > 5 && asked.length > 0, `${events} events, asked ${asked}, said ${text}`);
  adapter.once('text', () => { void adapter.cancel(); });
  assert.equal((await adapter.prompt('/wait')).stopReason, 'cancelled');
  await adapter.disconnect();
});

test('an adapter without an answer allows nothing and reports failed answers', async (t) => {
  const { client, cwd } = await start(t);
  const outcomes = [];
  const silent = new AcpAdapter({ agent: demoagent, cwd, client });
  silent.on('event', ({ event }) => { if (event.case === 'questionAnswered') outcomes.push(event.value.outcome); });
  await silent.connect();
  await silent.initialize();
  await silent.prompt(`/ask ${cwd}/a`);
  await silent.disconnect();
  assert.deepEqual(outcomes, ['cancelled']);
  const failing = new AcpAdapter({ agent: demoagent, cwd, client, permission: async () => { throw new Error('no idea'); } });
  await failing.connect();
  await failing.initialize();
  await assert.rejects(failing.prompt(`/ask ${cwd}/a`), /no idea/);
  await failing.disconnect();
  const wrong = new AcpAdapter({ agent: demoagent, cwd, client, permission: async () => 'no such option' });
  await wrong.connect();
  await wrong.initialize();
  await assert.rejects(wrong.prompt(`/ask ${cwd}/a`), (error) => error.code === Code.InvalidArgument);
  await wrong.disconnect();
  assert.ok((await client.state.getStatus({})).pid > 0n, 'the connection that was given is closed');
});

test('an adapter rejects calls when its supervisor is killed', async (t) => {
  const { supervisor, client, cwd } = await start(t);
  const adapter = new AcpAdapter({ agent: demoagent, cwd, client });
  await adapter.connect();
  await adapter.initialize();
  const gone = once(adapter, 'disconnected');
  adapter.once('text', () => process.kill(supervisor.pid, 'SIGKILL'));
  await assert.rejects(adapter.prompt('/wait'), (error) => error.code === Code.Unavailable);
  assert.match((await gone)[0].message, /supervisor has ended the connection/);
  await adapter.disconnect();
});

// example starts an example in a folder with something to correct.
function example(t, name) {
  const { cwd, env, cleanup } = place(t);
  const notes = path.join(cwd, 'notes.md');
  fs.writeFileSync(notes, 'We will recieve it.\n');
  const file = fileURLToPath(new URL(`../build/${name}.js`, import.meta.url));
  const child = spawn(process.execPath, [file, 'Fix the spelling', ...demoagent], { cwd, env });
  cleanup(() => child.kill('SIGKILL'));
  const said = { out: '', err: '' };
  child.stdout.setEncoding('utf8').on('data', (piece) => { said.out += piece; });
  child.stderr.setEncoding('utf8').on('data', (piece) => { said.err += piece; });
  return { child, said, notes };
}

test('the example streamed-prompt streams a turn and allows nothing', async (t) => {
  const { child, said } = example(t, 'streamed-prompt');
  assert.deepEqual(await once(child, 'close'), [0, null], said.err);
  assert.match(said.err, /\[not answered: .*\[end_turn\]/s);
  assert.match(said.out, /\S/);
});

test('the example acp-adapter asks and does what is allowed', async (t) => {
  const { child, said, notes } = example(t, 'acp-adapter');
  let answered = 0;
  child.stderr.on('data', () => {
    for (const asked = said.err.split('? 1 ').length - 1; answered < asked; answered += 1) child.stdin.write('1\n');
  });
  assert.deepEqual(await once(child, 'close'), [0, null], said.err);
  assert.match(said.err, /\[end_turn\]/);
  assert.ok(answered > 0, said.err);
  assert.match(fs.readFileSync(notes, 'utf8'), /receive/);
});
