import { spawn, type ChildProcess } from 'node:child_process';

import { Client } from './client.js';
import { program } from './program.js';

/** How a supervisor is started. */
export interface SupervisorOptions {
  /** Further arguments of "acphost serve", such as ["--policy", "workspace"]. Without a policy, agents' commands run unasked. */
  args?: string[];
  /** The file of the program acphost. Default: that of the npm package acphost, else "acphost" in PATH. */
  program?: string;
  /** The supervisor's environment, which agents inherit. Default: this process's. */
  env?: NodeJS.ProcessEnv;
  /** Receives the supervisor's standard error. */
  log?: (text: string) => void;
}

/** A supervisor that this process has started, "acphost serve". It ends with this process, however that ends. */
export class Supervisor {
  /** Resolves when the supervisor has ended, with how. Never rejects. */
  readonly ended: Promise<string>;

  private constructor(private readonly child: ChildProcess, private readonly options: SupervisorOptions) {
    this.ended = new Promise((resolve) => {
      child.on('error', (error) => resolve(error.message));
      child.on('exit', (code, signal) => resolve(signal ?? `exit status ${code}`));
    });
  }

  /** Starts a supervisor, and waits until it serves. Rejects with its standard error if it ends before. */
  static async start(options: SupervisorOptions = {}): Promise<Supervisor> {
    // The supervisor holds the other end of file 3, and ends when this process is gone.
    const child = spawn(options.program ?? program(), ['serve', ...(options.args ?? [])], {
      stdio: ['ignore', 'ignore', 'pipe', 'pipe'], env: { ...(options.env ?? process.env), ACPHOST_LAUNCHER_FD: '3' },
    });
    const supervisor = new Supervisor(child, options);
    child.stdio[3]?.on('error', () => {});
    let stderr = '';
    const serving = new Promise<'serving'>((resolve) => {
      child.stderr!.setEncoding('utf8').on('data', (piece: string) => {
        options.log?.(piece);
        stderr = (stderr + piece).slice(-65536);
        if (/^acphost: serving at /m.test(stderr)) resolve('serving');
      });
    });
    const how = await Promise.race([serving, supervisor.ended]);
    if (how !== 'serving') throw new Error(`acphost serve ended (${how}): ${stderr.trim()}`);
    return supervisor;
  }

  /** The supervisor's process id. */
  get pid(): number {
    return this.child.pid!;
  }

  /** Connects to the supervisor. */
  client(): Promise<Client> {
    const { program, env } = this.options;
    return Client.dial({ pid: this.pid, program, env });
  }

  /** Ends the supervisor in order, with everything that it started, and waits for that. */
  async stop(): Promise<void> {
    this.child.kill('SIGTERM');
    await this.ended;
  }
}
