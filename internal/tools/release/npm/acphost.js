#!/usr/bin/env node
// Starts acphost. The program is in a package of its own for each system, of which npm installs the one that fits. Node.js from
// 22.15 on becomes the program. An older Node.js starts it, and behaves like it: standard files, signals, exit status.
'use strict';

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const tty = require('node:tty');
const { spawn } = require('node:child_process');

const packages = {
  'linux x64': '@acphost/linux-x64',
  'linux arm64': '@acphost/linux-arm64',
  'darwin x64': '@acphost/darwin-x64',
  'darwin arm64': '@acphost/darwin-arm64',
};

function fail(status, message) {
  fs.writeSync(2, `acphost: ${message}\n`);
  process.exit(status);
}

// program returns the file of the program for this system.
function program() {
  const name = packages[`${process.platform} ${process.arch}`];
  if (name === undefined) {
    fail(1, `there is no program for ${process.platform} on ${process.arch}. acphost runs on Linux and macOS, on x64 and arm64. ` +
      'On Windows, use it inside of WSL');
  }
  let file;
  try {
    file = path.join(path.dirname(require.resolve(`${name}/package.json`)), 'bin', 'acphost');
    fs.accessSync(file, fs.constants.X_OK);
  } catch (error) {
    if (file !== undefined) {
      fail(126, `the program ${file} cannot be executed: ${error.message}`);
    }
    fail(1, `the package ${name}, which has the program for this system, is not installed. npm leaves it out with ` +
      '--omit=optional (or --no-optional), and when node_modules was made on another system. Install acphost again without that: ' +
      'npm install acphost');
  }
  return file;
}

// fromTerminal reports whether this process is in the foreground of a terminal. The terminal sends its signals to each process
// there, so that the program has them already, and a second one would end it at once.
function fromTerminal() {
  try {
    const stat = fs.readFileSync('/proc/self/stat', 'latin1');
    const [, , group, , terminal, foreground] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return terminal !== '0' && group === foreground;
  } catch {
    return tty.isatty(0) || tty.isatty(1) || tty.isatty(2); // macOS has no /proc
  }
}

function start(file, args) {
  // The handlers come first: a signal that arrives while the program is started must not end this process alone.
  let child;
  const early = [];
  const forward = (signal) => {
    if (child === undefined) {
      early.push(signal);
    } else {
      child.kill(signal);
    }
  };
  for (const signal of ['SIGTERM', 'SIGUSR1', 'SIGUSR2']) {
    process.on(signal, forward);
  }
  for (const signal of ['SIGINT', 'SIGQUIT', 'SIGHUP']) {
    process.on(signal, () => fromTerminal() || forward(signal));
  }
  // The program holds the other end of file 3: if this process is killed, it sees the end of the file, and ends.
  child = spawn(file, args, { stdio: ['inherit', 'inherit', 'inherit', 'pipe'], env: { ...process.env, ACPHOST_LAUNCHER_FD: '3' } });
  child.on('error', (error) => fail(126, `start ${file}: ${error.message}`));
  child.stdio[3].on('error', () => {}); // it has ended: see exit
  child.on('exit', (status, signal) => {
    if (signal === null) {
      process.exit(status);
    }
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
    process.exit(128 + os.constants.signals[signal]); // Node.js ignores some signals
  });
  early.forEach(forward);
}

const file = program();
const args = process.argv.slice(2);
if (process.execve !== undefined) {
  process.execve(file, [file, ...args], process.env); // does not return
}
start(file, args);
