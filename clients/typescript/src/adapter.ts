import { EventEmitter } from 'node:events';

import { Code, ConnectError } from '@connectrpc/connect';

import { Client } from './client.js';
import type { Agent } from './gen/acphost/supervisor/v1/agent_pb.js';
import type { Approval, PermissionQuestion } from './gen/acphost/supervisor/v1/approval_pb.js';
import type { Event, TurnEnded } from './gen/acphost/supervisor/v1/event_pb.js';
import type { Session } from './gen/acphost/supervisor/v1/state_pb.js';
import { Supervisor, type SupervisorOptions } from './supervisor.js';
import { type Answer, cancel, choose } from './words.js';

/** What an agent asks to be allowed. */
export interface Permission extends PermissionQuestion {
  /** The whole question. */
  approval: Approval;
}

/** How an AcpAdapter works. */
export interface AdapterOptions {
  /** The agent: the name of one that acphost knows ("claude"), or a command. */
  agent: string | string[];
  /** The session's working directory, absolute. */
  cwd: string;
  /**
   * Answers what the agent asks to be allowed: with the id of an option, or a kind ("allow_once", "reject_once"); undefined: not decided.
   * The agent waits for the promise. Default: nothing is decided, so that nothing is allowed.
   */
  permission?: (permission: Permission) => Promise<string | undefined>;
  /** Answers what else the agent wants to know: a form, or a page to open. Default: nothing is decided. */
  elicitation?: (approval: Approval) => Promise<Answer>;
  /** A connection that exists, which disconnect leaves open. Default: a supervisor of the adapter's own. */
  client?: Client;
  /** How the adapter's own supervisor is started. */
  supervisor?: SupervisorOptions;
}

interface Events {
  /** Each event of a turn, in order. */
  event: [Event];
  /** Each piece of the agent's message. */
  text: [string];
  /** The connection has ended by itself. Turns under way reject, too. */
  disconnected: [Error];
}

/**
 * One session with one agent, as an event emitter: connect, initialize, prompt as often as needed, disconnect.
 */
export class AcpAdapter extends EventEmitter<Events> {
  private supervisor: Supervisor | undefined;
  private client: Client | undefined;
  private agent: Agent | undefined;
  private session: Session | undefined;

  constructor(private readonly options: AdapterOptions) {
    super();
  }

  /** Starts a supervisor and connects to it, unless a connection was given. */
  async connect(): Promise<void> {
    if (this.client !== undefined) return;
    let client = this.options.client;
    if (client === undefined) {
      this.supervisor = await Supervisor.start(this.options.supervisor);
      try {
        client = await this.supervisor.client();
      } catch (error) {
        await this.disconnect();
        throw error;
      }
    }
    this.client = client;
    void client.closed.then((reason) => { if (reason !== undefined) this.emit('disconnected', reason); });
  }

  /** Starts the agent, which answers ACP's initialize, and opens a session. */
  async initialize(): Promise<{ agent: Agent; session: Session }> {
    const client = this.connected();
    const { agent: named, cwd } = this.options;
    const started = await client.agents.startAgent({
      ...(typeof named === 'string' ? { preset: named } : { command: named }),
      cwd, separate: true, attended: this.options.elicitation !== undefined,
    });
    this.agent = started.agent!;
    const opened = await client.sessions.newSession({ agentId: this.agent.id, cwd });
    this.session = opened.session!;
    return { agent: this.agent, session: this.session };
  }

  /** Prompts the agent. Resolves with how the turn ended; meanwhile its events are emitted, and its questions answered. */
  async prompt(prompt: string): Promise<TurnEnded> {
    const client = this.connected();
    const turn = client.prompt({ ...this.opened(), prompt, cancelOnDisconnect: true });
    let failed: unknown;
    const fail = (error: unknown) => { failed ??= error; };
    try {
      for (;;) {
        const { done, value } = await turn.next();
        if (failed !== undefined) throw failed;
        if (done) return value;
        if (value.event.case === 'questionAsked') void this.answer(client, value.event.value, fail);
        this.emit('event', value);
        if (value.event.case === 'agentMessage' && value.event.value.content?.content.case === 'text') {
          this.emit('text', value.event.value.content.content.value.text);
        }
      }
    } finally {
      await turn.return(undefined as never).catch(() => {});
    }
  }

  /** Asks the agent to end its turn. prompt then resolves with the stop reason "cancelled". */
  async cancel(): Promise<void> {
    await this.connected().sessions.cancelPrompt(this.opened());
  }

  /** Ends the agent, and what connect has started. */
  async disconnect(): Promise<void> {
    const { client, agent, supervisor } = this;
    this.client = this.agent = this.session = this.supervisor = undefined;
    if (client !== undefined && agent !== undefined) {
      await client.agents.stopAgent({ agentId: agent.id }).catch(() => {}); // it may have ended
    }
    if (supervisor !== undefined) {
      client?.close();
      await supervisor.stop();
    }
  }

  // answer answers a question. It reports an error before the agent continues, so that the turn cannot end without the report.
  private async answer(client: Client, approval: Approval, fail: (error: unknown) => void): Promise<void> {
    let answer: Answer = cancel;
    try {
      if (approval.permission !== undefined) {
        const option = await this.options.permission?.({ ...approval.permission, approval });
        if (option !== undefined) answer = choose(option);
      } else {
        answer = await this.options.elicitation?.(approval) ?? cancel;
      }
    } catch (error) {
      fail(error);
    }
    try {
      await client.approvals.answerApproval({ id: approval.id, answer, answeredBy: 'adapter' });
    } catch (error) {
      // Somebody else may have answered meanwhile. An answer that the question does not offer leaves it open.
      if (error instanceof ConnectError && error.code === Code.FailedPrecondition) return;
      fail(error);
      await client.approvals.answerApproval({ id: approval.id, answer: cancel, answeredBy: 'adapter' }).catch(() => {});
    }
  }

  private connected(): Client {
    if (this.client === undefined) throw new Error('there is no connection: call connect first');
    return this.client;
  }

  private opened(): { agentId: string; sessionId: string } {
    if (this.agent === undefined || this.session === undefined) throw new Error('there is no session: call initialize first');
    return { agentId: this.agent.id, sessionId: this.session.sessionId };
  }
}
