import { Code, ConnectError, createClient, type Client as ServiceClient } from '@connectrpc/connect';

import { type Connection, connectTls, dial, type DialOptions, type TlsOptions } from './connection.js';
import { type AgentError, AgentErrorSchema, AgentService } from './gen/acphost/supervisor/v1/agent_pb.js';
import { ApprovalService } from './gen/acphost/supervisor/v1/approval_pb.js';
import type { ContentBlock } from './gen/acphost/supervisor/v1/content_pb.js';
import { SupervisorControlService } from './gen/acphost/supervisor/v1/control_pb.js';
import type { Event, TurnEnded } from './gen/acphost/supervisor/v1/event_pb.js';
import { SessionService } from './gen/acphost/supervisor/v1/session_pb.js';
import { SupervisorStateService } from './gen/acphost/supervisor/v1/state_pb.js';
import { text } from './words.js';

/** A prompt. */
export interface PromptOptions {
  /** The agent's id. Needed only if two agents have a session with this id. */
  agentId?: string;
  sessionId: string;
  /** A text, or blocks: see ContentBlock. */
  prompt: string | ContentBlock[];
  /** Ends the reading of events. */
  signal?: AbortSignal;
  /** Cancel the turn when its events are no longer read. Default: false, the turn continues. */
  cancelOnDisconnect?: boolean;
}

/**
 * A connection to a supervisor, with its gRPC services as fields. A call that fails rejects with a ConnectError, whose message is the
 * supervisor's own sentence; an agent may have chosen some of its words. After the connection has ended, calls reject with
 * Code.Unavailable, and the reason.
 */
export class Client {
  readonly agents: ServiceClient<typeof AgentService>;
  readonly sessions: ServiceClient<typeof SessionService>;
  readonly state: ServiceClient<typeof SupervisorStateService>;
  readonly approvals: ServiceClient<typeof ApprovalService>;
  readonly control: ServiceClient<typeof SupervisorControlService>;
  /** Resolves when the connection has ended, with the reason; undefined: close ended it. */
  readonly closed: Promise<Error | undefined>;
  /** The supervisor's process id. Undefined: it is at an address. */
  readonly pid: number | undefined;

  private constructor(private readonly connection: Connection) {
    const { transport } = connection;
    this.agents = createClient(AgentService, transport);
    this.sessions = createClient(SessionService, transport);
    this.state = createClient(SupervisorStateService, transport);
    this.approvals = createClient(ApprovalService, transport);
    this.control = createClient(SupervisorControlService, transport);
    this.closed = connection.closed;
    this.pid = connection.pid;
  }

  /** Connects to a running supervisor of this user, by the command "acphost dial". */
  static async dial(options: DialOptions = {}): Promise<Client> {
    return new Client(await dial(options));
  }

  /** Connects to a supervisor at an address, over mutual TLS, with the first call. */
  static tls(options: TlsOptions): Client {
    return new Client(connectTls(options));
  }

  /** Ends the connection and all calls on it. */
  close(): void {
    this.connection.close();
  }

  /**
   * Prompts an agent, and yields the events of the turn. The last one is turnEnded, whose value is returned, too. A turn that
   * breaks off throws. If the caller reads too slowly and the supervisor ends the stream, the rest comes from the record.
   */
  async *prompt(options: PromptOptions): AsyncGenerator<Event, TurnEnded> {
    const { agentId = '', sessionId, cancelOnDisconnect = false } = options;
    const prompt = typeof options.prompt === 'string' ? [text(options.prompt)] : options.prompt;
    const leave = new AbortController();
    const signal = options.signal === undefined ? leave.signal : AbortSignal.any([leave.signal, options.signal]);
    let cursor = '';
    let events: AsyncIterable<{ event?: Event }> = this.sessions.prompt({ agentId, sessionId, prompt, cancelOnDisconnect }, { signal });
    try {
      for (;;) {
        try {
          for await (const { event } of events) {
            if (event === undefined) continue;
            cursor = event.cursor || cursor;
            yield event;
            if (event.event.case === 'turnEnded') return event.event.value;
          }
          throw new ConnectError('the turn broke off without an end', Code.Aborted);
        } catch (error) {
          if (!(error instanceof ConnectError) || error.code !== Code.ResourceExhausted || cursor === '' || cancelOnDisconnect) throw error;
          events = this.sessions.watchSession({ agentId, sessionId, cursor }, { signal });
        }
      }
    } finally {
      leave.abort();
    }
  }
}

/** What is known of the agent, if an error of a call is the agent's doing. */
export function agentErrorOf(error: unknown): AgentError | undefined {
  return error instanceof ConnectError ? error.findDetails(AgentErrorSchema)[0] : undefined;
}
