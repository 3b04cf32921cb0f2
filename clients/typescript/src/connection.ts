// Connections to a supervisor. One to a supervisor of this user is made by "acphost dial": the supervisor tells its callers apart
// by the kernel's word, and Node.js can neither connect to its control socket nor ask the kernel who serves it.
import { spawn, type ChildProcess } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';

import { Code, ConnectError, type Interceptor, type Transport } from '@connectrpc/connect';
import { createGrpcTransport, Http2SessionManager } from '@connectrpc/connect-node';

import { program } from './program.js';

/** Which supervisor of this user is meant. Without pid and socket there must be exactly one. */
export interface DialOptions {
  /** Its process id. */
  pid?: number;
  /** The path of its admin socket. */
  socket?: string;
  /** The file of the program acphost. Default: that of the npm package acphost, else "acphost" in PATH. */
  program?: string;
  /** The environment of the program, by which it finds supervisors. Default: this process's. */
  env?: NodeJS.ProcessEnv;
}

/** A supervisor at an address, over mutual TLS. */
export interface TlsOptions {
  /** HOST:PORT. */
  address: string;
  /** A client's folder, as "acphost certs init" makes it: ca.crt, client.crt and client.key. */
  dir: string;
}

/** A connection. */
export interface Connection {
  readonly transport: Transport;
  /** The supervisor's process id. Undefined: not known. */
  readonly pid?: number;
  /** Resolves when the connection has ended, with the reason; undefined: close ended it. Never rejects. */
  readonly closed: Promise<Error | undefined>;
  close(): void;
}

// The longest time of a timer: the connection is closed by its owner alone.
const never = 0x7fffffff;

// How long received data may be read after the end of a connection, and how long a failed call waits for the reason, in ms.
const grace = 200;

/** Connects to a supervisor of this user. Rejects with an Error whose message states what to do. */
export async function dial(options: DialOptions): Promise<Connection> {
  const file = options.program ?? program();
  const args = ['dial', '--fd', '3'];
  if (options.pid !== undefined) args.push('--pid', String(options.pid));
  if (options.socket !== undefined) args.push('--socket', options.socket);
  // Node.js makes a pair of unix sockets for a "pipe", which acphost requires. File 3 is one that goes both ways.
  const child = spawn(file, args, { stdio: ['ignore', 'ignore', 'pipe', 'pipe'], env: options.env ?? process.env });
  const wire = child.stdio[3] as Socket;
  let complaint = '';
  child.stderr!.setEncoding('utf8').on('data', (piece: string) => { complaint = (complaint + piece).slice(-4096); });
  let connected = false;
  let closing = false;
  const closed = ended(child).then((how) => {
    if (closing) return undefined;
    const why = complaint.trim().replace(/^acphost: /, '');
    return new Error(why || (connected ? `the supervisor has ended the connection (acphost dial: ${how})` : `run ${file} dial: ${how}`));
  });
  wire.on('error', () => {}); // closed has the reason
  const line = await firstLine(wire);
  if (line === undefined) throw await closed;
  const pid = /^connected (\d+)$/.exec(line)?.[1];
  if (pid === undefined) {
    child.kill();
    throw new Error(`${file} dial printed ${JSON.stringify(line)} instead of "connected PID": is it acphost?`);
  }
  connected = true;
  const manager = new Http2SessionManager('http://acphost', { idleConnectionTimeoutMs: never }, { createConnection: () => wire });
  // Received data is still read. After that, no call may wait: a stream without a reader does not report its end.
  void closed.then((why) => {
    setTimeout(() => { manager.abort(why); wire.destroy(); }, grace);
  });
  const link = new Link(closed);
  const transport = createGrpcTransport({ baseUrl: 'http://acphost', sessionManager: manager, interceptors: [link.interceptor] });
  return {
    transport, closed, pid: Number(pid),
    close() {
      closing = true;
      link.end();
      manager.abort(new Error('the connection was closed'));
      wire.destroy();
      child.kill();
    },
  };
}

/** Connects to a supervisor at an address, with the first call. */
export function connectTls(options: TlsOptions): Connection {
  const read = (name: string) => fs.readFileSync(path.join(options.dir, name));
  let close!: () => void;
  const closed = new Promise<undefined>((resolve) => { close = () => resolve(undefined); });
  const url = `https://${options.address}`;
  const manager = new Http2SessionManager(url, {}, {
    ca: read('ca.crt'), cert: read('client.crt'), key: read('client.key'), minVersion: 'TLSv1.3',
  });
  const link = new Link(closed);
  const transport = createGrpcTransport({ baseUrl: url, sessionManager: manager, interceptors: [link.interceptor] });
  return { transport, closed, close() { link.end(); close(); manager.abort(new Error('the connection was closed')); } };
}

// Link replaces errors of calls by the reason why the connection ended, and rejects later calls with it. HTTP/2 would report
// "socket hang up".
class Link {
  private reason: ConnectError | undefined;

  constructor(private readonly closed: Promise<Error | undefined>) {
    void closed.then((why) => { this.end(why); });
  }

  /** Rejects calls from now on. */
  end(why?: Error): void {
    this.reason ??= new ConnectError(why?.message ?? 'the connection was closed', Code.Unavailable);
  }

  readonly interceptor: Interceptor = (next) => async (request) => {
    if (this.reason !== undefined) throw this.reason;
    try {
      const response = await next(request);
      return response.stream ? { ...response, message: this.explained(response.message) } : response;
    } catch (error) {
      throw await this.explain(error);
    }
  };

  private async *explained<T>(messages: AsyncIterable<T>): AsyncIterable<T> {
    try {
      yield* messages;
    } catch (error) {
      throw await this.explain(error);
    }
  }

  private async explain(error: unknown): Promise<unknown> {
    if (error instanceof ConnectError && error.metadata.has('grpc-status')) return error;
    const code = ConnectError.from(error).code;
    if (![Code.Unavailable, Code.Aborted, Code.Internal, Code.Unknown, Code.Canceled].includes(code)) return error;
    // A stream may end a moment before the process that carries it.
    await Promise.race([this.closed, new Promise((resolve) => { setTimeout(resolve, grace); })]);
    return this.reason ?? error;
  }
}

// ended resolves with the exit status of a process, or the reason why it did not start, after its standard error was read.
async function ended(child: ChildProcess): Promise<string> {
  const read = new Promise<void>((resolve) => { child.stderr!.on('close', resolve); });
  const how = await new Promise<string>((resolve) => {
    child.on('error', (error) => resolve(error.message));
    child.on('exit', (code, signal) => resolve(signal ?? `exit status ${code}`));
  });
  await read;
  return how;
}

/** The first line of a stream, without what ends it. What follows stays in the stream. Undefined: it ended before. */
async function firstLine(stream: Readable): Promise<string | undefined> {
  let text = Buffer.alloc(0);
  for (;;) {
    const piece = stream.read() as Buffer | null;
    if (piece !== null) {
      text = Buffer.concat([text, piece]);
      const end = text.indexOf('\n');
      if (end >= 0) {
        if (end + 1 < text.length) stream.unshift(text.subarray(end + 1));
        return text.toString('utf8', 0, end);
      }
      continue;
    }
    if (stream.readableEnded || stream.destroyed) return undefined;
    await new Promise<void>((resolve) => {
      const events = ['readable', 'end', 'close', 'error'];
      const wake = () => { events.forEach((event) => stream.off(event, wake)); resolve(); };
      events.forEach((event) => stream.on(event, wake));
    });
  }
}
