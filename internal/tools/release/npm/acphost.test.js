'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const test = require('node:test');
const { once } = require('node:events');
const { spawn, spawnSync } = require('node:child_process');

const bin = process.env.ACPHOST_BIN ?? path.join(__dirname, '../../../../bin');
const platform = `${process.platform}-${process.arch}`;

// install makes a folder as npm makes it: the launcher, and beside it the program for this system, if one is given.
function install(t, program) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'acphost-npm-'));
  t.after(() => fs.rmSync(dir, { recursive: true, force: true }));
  const launcher = path.join(dir, 'node_modules/acphost/bin/acphost.js');
  fs.mkdirSync(path.dirname(launcher), { recursive: true });
  fs.copyFileSync(path.join(__dirname, 'acphost.js'), launcher);
  if (program !== undefined) {
    const own = path.join(dir, 'node_modules/@acphost', platform);
    fs.mkdirSync(path.join(own, 'bin'), { recursive: true });
    fs.writeFileSync(path.join(own, 'package.json'), '{}');
    if (program.startsWith('#!')) {
      fs.writeFileSync(path.join(own, 'bin/acphost'), program, { mode: 0o755 });
    } else {
      fs.symlinkSync(program, path.join(own, 'bin/acphost'));
    }
  }
  return launcher;
}

// launch starts the launcher in a session of its own, so that a terminal of whoever runs the tests is not its.
function launch(t, launcher, args = [], options = {}) {
  const child = spawn(process.execPath, [launcher, ...args], { detached: true, stdio: ['pipe', 'pipe', 'pipe'], ...options });
  t.after(() => child.kill('SIGKILL'));
  return child;
}

const line = async (stream) => {
  let text = '';
  for await (const piece of stream.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    text += piece;
    if (text.includes('\n')) break;
  }
  return text.slice(0, text.indexOf('\n'));
};

const runs = (pid) => {
  try {
    process.kill(pid, 0);
    return !(process.platform === 'linux' && / Z /.test(fs.readFileSync(`/proc/${pid}/stat`, 'latin1')));
  } catch {
    return false;
  }
};

const ended = async (pid) => {
  for (const until = Date.now() + 20_000; runs(pid);) {
    assert.ok(Date.now() < until, `process ${pid} still runs`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
};

test('arguments, standard files and the exit status are passed through', (t) => {
  const launcher = install(t, '#!/bin/sh\nprintf "%s|" "$@"; cat; echo problem >&2; exit 7\n');
  const got = spawnSync(process.execPath, [launcher, 'a b', '', '--', '*'], { input: 'in', encoding: 'utf8' });
  assert.deepEqual([got.stdout, got.stderr, got.status], ['a b||--|*|in', 'problem\n', 7]);
});

test('a megabyte is passed through', (t) => {
  const input = Buffer.alloc(1 << 20, 'abcdefg\n');
  const got = spawnSync(process.execPath, [install(t, '#!/bin/sh\nexec cat\n')], { input, maxBuffer: 1 << 21 });
  assert.ok(got.stdout.equals(input));
});

for (const signal of ['SIGTERM', 'SIGKILL', 'SIGSEGV', 'SIGHUP']) {
  test(`a program that ${signal} ends is reported with its signal`, (t) => {
    const got = spawnSync(process.execPath, [install(t, `#!/bin/sh\nkill -${signal.slice(3)} $$\n`)]);
    assert.equal(got.signal, signal);
  });
}

for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2']) {
  test(`${signal} is forwarded to the program`, async (t) => {
    const name = signal.slice(3);
    const launcher = install(t, `#!/bin/sh\ntrap 'echo got ${name}; exit 5' ${name}\necho ready\nread -r wait\n`);
    const child = launch(t, launcher);
    assert.equal(await line(child.stdout), 'ready');
    child.kill(signal);
    const exit = once(child, 'exit');
    assert.equal(await line(child.stdout), `got ${name}`);
    assert.deepEqual(await exit, [5, null]);
  });
}

test('a signal during the start is forwarded', async (t) => {
  const launcher = install(t, '#!/bin/sh\nexec sleep 60\n');
  const change = path.join(path.dirname(launcher), 'early.js');
  fs.writeFileSync(change, `const child_process = require('node:child_process');
    const { spawn } = child_process;
    child_process.spawn = (...args) => { process.kill(process.pid, 'SIGTERM'); return spawn(...args); };
    process.execve = undefined;`);
  const child = spawn(process.execPath, ['--require', change, launcher], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => child.kill('SIGKILL'));
  child.stdout.resume();
  const closed = once(child.stdout, 'close'); // when the program, which has it too, has ended
  assert.deepEqual(await once(child, 'exit'), [null, 'SIGTERM']);
  await closed;
});

test('acphost shuts down when its launcher is killed', async (t) => {
  const launcher = install(t, path.join(bin, 'acphost'));
  const home = fs.mkdtempSync(path.join(os.tmpdir(), 'acphost-home-'));
  t.after(() => fs.rmSync(home, { recursive: true, force: true }));
  const env = { PATH: process.env.PATH, HOME: home, XDG_RUNTIME_DIR: home };
  fs.chmodSync(home, 0o700);
  const child = launch(t, launcher, ['serve', '--', path.join(bin, 'demoagent')], { env });
  let said = '';
  for await (const piece of child.stderr.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    said += piece;
    if (said.includes('serving at')) break;
  }
  const listed = spawnSync(path.join(bin, 'acphost'), ['ps', '--json'], { env, encoding: 'utf8' });
  const pids = [...listed.stdout.matchAll(/"pid":\s*(\d+)/g)].map((found) => Number(found[1]));
  assert.ok(pids.length > 0 && pids.every(runs), `acphost ps says ${listed.stdout}${listed.stderr}`);
  if (process.execve !== undefined) {
    assert.ok(pids.includes(child.pid), `the launcher has not become acphost: ${pids}`);
  }
  child.kill('SIGKILL');
  for (const pid of pids) {
    await ended(pid);
  }
  if (process.execve !== undefined) return; // acphost itself was killed, and cannot remove its socket
  assert.deepEqual(fs.readdirSync(home, { recursive: true }).filter((name) => name.endsWith('.sock')), [], 'sockets are left');
});

test('a missing program is named with advice', (t) => {
  const got = spawnSync(process.execPath, [install(t), 'version'], { encoding: 'utf8' });
  assert.equal(got.status, 1);
  assert.match(got.stderr, new RegExp(`^acphost: the package @acphost/${platform}, .*--omit=optional.*npm install acphost\n$`));
});

for (const [system, arch] of [['win32', 'x64'], ['linux', 'ia32'], ['freebsd', 'x64']]) {
  test(`an unsupported system (${system} ${arch}) is reported`, (t) => {
    const change = path.join(path.dirname(install(t)), 'system.js');
    fs.writeFileSync(change, `Object.defineProperty(process, 'platform', { value: '${system}' });
      Object.defineProperty(process, 'arch', { value: '${arch}' });`);
    const got = spawnSync(process.execPath, ['--require', change, path.join(path.dirname(change), 'acphost.js')], { encoding: 'utf8' });
    assert.equal(got.status, 1);
    assert.match(got.stderr, new RegExp(`^acphost: there is no program for ${system} on ${arch}\\. .*Windows.*WSL\n$`));
  });
}

test('a program that cannot be executed is named', (t) => {
  const launcher = install(t, '#!/bin/sh\n');
  fs.chmodSync(path.join(launcher, '../../../@acphost', platform, 'bin/acphost'), 0o644);
  const got = spawnSync(process.execPath, [launcher], { encoding: 'utf8' });
  assert.equal(got.status, 126);
  assert.match(got.stderr, /^acphost: the program .*bin\/acphost cannot be executed/);
});
