// A client for acphost, the host for coding agents that speak the Agent Client Protocol.
export { AcpAdapter, type AdapterOptions, type Permission } from './adapter.js';
export { Client, agentErrorOf, type PromptOptions } from './client.js';
export { type DialOptions, type TlsOptions } from './connection.js';
export { Supervisor, type SupervisorOptions } from './supervisor.js';
export { accept, cancel, choose, decline, text } from './words.js';
