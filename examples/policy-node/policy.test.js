import assert from 'node:assert/strict';
import test from 'node:test';

import { Policy } from './policy.js';

const file = (path, more) => ({ path, resolvedPath: path, access: 'ACCESS_READ', insideRoots: true, ...more });
const found = (path, more) => ({ path, insideRoots: false, builtin: false, doubt: '', ...more });
const own = { gitDir: '/w/.git', atRoot: true, suspects: [], doubt: '' };
const sub = (line, more) => ({
  argv: line.split(' '), redirections: [], assignments: [], wrappers: [], dynamic: false, cwd: '', cwdUnknown: false,
  program: found(`/usr/bin/${line.split(' ')[0]}`), repository: line.startsWith('git ') ? own : null, ...more,
});
const run = (subCommands, more) => ({
  kind: 'terminal.create', paths: [], unparsed: '', command: { subCommands, env: [], unparsed: '', ...more },
});
const act = (kind, ...paths) => ({ kind, paths, command: null, unparsed: '' });

const policy = new Policy();
policy.configure({ commands: ['npm test', 'git status'] }, false);

for (const [what, action, verdict, rule] of [
  ['reading a file', act('fs.read', file('/w/a.js')), 'ALLOW', 'read-inside-roots'],
  ['reading outside', act('fs.read', file('/etc/hosts', { insideRoots: false })), 'ASK', 'else'],
  ['reading without a path', act('tool.read'), 'ASK', 'else'],
  ['reading a secret', act('fs.read', file('/w/.env')), 'DENY', 'secrets'],
  ['reading a secret through a link', act('fs.read', file('/w/x', { resolvedPath: '/home/me/.ssh/id_ed25519' })), 'DENY', 'secrets'],
  ['a secret in capitals', act('fs.read', file('/w/SERVER.PEM')), 'DENY', 'secrets'],
  ['writing a file', act('fs.write', file('/w/a.js')), 'ASK', 'else'],
  ['a read that runs a command', { ...run([sub('make')]), kind: 'tool.read', paths: [file('/w/a')] }, 'ASK', 'else'],
  ['a known command', run([sub('npm test')]), 'ALLOW', 'known-commands'],
  ['two known commands', run([sub('git status'), sub('npm test')]), 'ALLOW', 'known-commands'],
  ['a known and an unknown one', run([sub('npm test'), sub('rm -rf x')]), 'ASK', 'else'],
  ['a known command with more', run([sub('npm test --foo')]), 'ASK', 'else'],
  ['two words in one', run([sub('npm test', { argv: ['npm test'] })]), 'ASK', 'else'],
  ['a program that is not found', run([sub('npm test', { program: null })]), 'ASK', 'else'],
  ['a program in the workspace', run([sub('npm test', { program: found('/w/node_modules/.bin/npm', { insideRoots: true }) })]), 'ASK', 'else'],
  ['git in another repository', run([sub('git status', { repository: { ...own, atRoot: false } })]), 'ASK', 'else'],
  ['git in a repository that names a program', run([sub('git status', { repository: { ...own, suspects: ['core.fsmonitor'] } })]), 'ASK', 'else'],
  ['a known command as root', run([sub('npm test', { wrappers: ['sudo'] })]), 'ASK', 'else'],
  ['a known command elsewhere', run([sub('npm test', { cwd: '/tmp/evil' })]), 'ASK', 'else'],
  ['a known command, redirected', run([sub('npm test', { redirections: [{ path: '/w/x', resolvedPath: '/w/x' }] })]), 'ASK', 'else'],
  ['a secret, redirected', run([sub('npm test', { redirections: [{ path: '/w/.env', resolvedPath: '' }] })]), 'DENY', 'secrets'],
  ['a known command with assignments', run([sub('npm test', { assignments: ['PATH=/tmp'] })]), 'ASK', 'else'],
  ['a known command with an environment', run([sub('npm test')], { env: ['PATH=/tmp'] }), 'ASK', 'else'],
  ['words known only at run time', run([sub('npm test', { dynamic: true })]), 'ASK', 'else'],
  ['a line that was not parsed', run([sub('npm test')], { unparsed: 'a quote is open' }), 'ASK', 'unclear'],
  ['an action that was not parsed', { ...act('fs.read', file('/w/a')), unparsed: 'no path' }, 'ASK', 'unclear'],
  ['no commands', run([]), 'ASK', 'else'],
  ['no action', null, 'ASK', 'else'],
]) {
  test(what, () => {
    const got = policy.decide(action);
    assert.equal(got.verdict, `VERDICT_${verdict}`);
    assert.equal(got.rule, rule);
  });
}

test('an unparsed action cannot be remembered', () => {
  assert.ok(!policy.decide({ ...act('fs.read'), unparsed: 'x' }).grantable);
  assert.ok(policy.decide(act('tool.fetch')).grantable);
});

test('rejected settings keep the old ones', () => {
  for (const bad of [{ comands: [] }, { commands: 'npm test' }, { commands: [1] }, { commands: {} }]) {
    assert.throws(() => policy.configure(bad, false), /settings: com/);
  }
  policy.configure({ commands: [] }, true);
  assert.equal(policy.decide(run([sub('npm test')])).verdict, 'VERDICT_ALLOW');
});
