// The transport of an acphost handler in Node.js: copy this file, and write your own main.js. It keeps to the contract in
// docs/plugin-contract.md and knows nothing of what the handler does.
//
// As a child it speaks mutual TLS over a private unix socket. As a sidecar it is started with
//   --listen unix:///PATH|tcp://HOST:PORT --tls-ca FILE --tls-cert FILE --tls-key FILE [--settings FILE.json]
import { X509Certificate } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import tls from 'node:tls';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

import grpc from '@grpc/grpc-js';
import protoLoader from '@grpc/proto-loader';
import { HealthImplementation } from 'grpc-health-check';
import selfsigned from 'selfsigned';

const COOKIE = ['ACPHOST_HANDLER_COOKIE', 'd1f2a8c04b6e4f3795a0c7e21b8d6f43'];
const MAX_MESSAGE = 64 << 20; // bytes
const DRAIN_MS = 10_000; // for the calls in flight after SIGTERM

// acphost's .proto files: beside this file in a copy of the example, else where they are in acphost's repository.
const here = path.dirname(fileURLToPath(import.meta.url));
const protos = [path.join(here, 'proto'), path.join(here, '../../proto')].find((dir) => fs.existsSync(dir));

// serve runs the handler until it is asked to end.
//   services: full gRPC service name → {method: (request) => response}, by RPC name in lowerCamelCase, async or not.
//   configure(settings, validateOnly): settings is a plain object; throw to refuse it. May return notes for people.
// A thrown error with a numeric code is that gRPC status; any other is INTERNAL (from configure: INVALID_ARGUMENT).
export async function serve(handler) {
  await start(handler).catch((error) => {
    console.error(`${handler.name} does not start: ${error.message}`);
    process.exit(1);
  });
}

async function start({ name, version, services, configure = refuseAll }) {
  console.log = console.info = console.error; // stdout belongs to the handshake
  const { values: flags } = parseArgs({ options: Object.fromEntries(
    ['listen', 'tls-ca', 'tls-cert', 'tls-key', 'settings'].map((flag) => [flag, { type: 'string' }])) });
  const child = process.env[COOKIE[0]] === COOKIE[1];
  if (!child && !flags.listen) {
    console.error(`${name} ${version} is a handler for acphost and not run by hand: name it in acphost's configuration`);
    process.exit(2);
  }
  tls.DEFAULT_MIN_VERSION = 'TLSv1.3';
  process.umask(0o077);
  const { address, credentials, handshake } = child ? await asChild() : asSidecar(flags);

  const server = new grpc.Server({
    'grpc.max_receive_message_length': MAX_MESSAGE + (1 << 20),
    'grpc.max_send_message_length': -1,
  });
  add(server, 'acphost.plugin.v1.PluginService', {
    describe: () => ({ name, version, services: Object.keys(services), maxMessageBytes: MAX_MESSAGE }),
    configure: async ({ settings, validateOnly }) => {
      try {
        return { notes: (await configure(plainStruct(settings), validateOnly || !child)) ?? [] };
      } catch (error) {
        throw status(error.code ?? grpc.status.INVALID_ARGUMENT, error.message);
      }
    },
    hold, // this handler owns nothing for a session, so nothing is released when it ends
  });
  for (const [service, methods] of Object.entries(services)) add(server, service, methods);
  new HealthImplementation({ '': 'SERVING', plugin: 'SERVING' }).addToServer(server);

  if (flags.settings) await configure(JSON.parse(fs.readFileSync(flags.settings, 'utf8')), false);
  await new Promise((done, fail) => server.bindAsync(address, credentials, (error) => (error ? fail(error) : done())));
  if (handshake) process.stdout.write(`${handshake}\n`);

  const end = (code) => {
    server.forceShutdown();
    if (address.startsWith('unix:')) fs.rmSync(address.slice('unix:'.length), { force: true });
    process.exit(code);
  };
  process.once('SIGTERM', () => {
    server.tryShutdown(() => end(0));
    setTimeout(() => end(0), DRAIN_MS).unref();
  });
  if (child) process.stdin.on('close', () => end(0)).resume(); // the supervisor is gone, or wants it so
}

// asChild makes a certificate of its own and trusts the supervisor's alone. The keys never leave their processes.
async function asChild() {
  const { PLUGIN_CLIENT_CERT: supervisor, PLUGIN_UNIX_SOCKET_DIR: dir } = process.env;
  for (const variable of Object.keys(process.env)) {
    if (variable === COOKIE[0] || variable.startsWith('PLUGIN_')) delete process.env[variable]; // not for our own children
  }
  const socket = path.join(dir, 'handler.sock');
  const handshake = `1|1|unix|${socket}|grpc|`;
  if (!supervisor) return { address: `unix:${socket}`, handshake, credentials: grpc.ServerCredentials.createInsecure() };
  const own = await selfsigned.generate([{ name: 'commonName', value: 'localhost' }], {
    keyType: 'ec', curve: 'P-256', algorithm: 'sha256',
    notBeforeDate: new Date(Date.now() - 60e3), notAfterDate: new Date(Date.now() + 30 * 365 * 864e5),
  });
  return {
    address: `unix:${socket}`,
    credentials: mutualTLS(supervisor, own.cert, own.private),
    handshake: handshake + new X509Certificate(own.cert).raw.toString('base64'),
  };
}

function asSidecar(flags) {
  const [ca, cert, key] = ['tls-ca', 'tls-cert', 'tls-key'].map((flag) => {
    if (!flags[flag]) throw new Error(`--listen takes --${flag} too`);
    return fs.readFileSync(flags[flag]);
  });
  // Node.js cannot ask a unix socket who its peer is, so this sidecar takes mutual TLS in every case.
  const address = flags.listen.replace(/^tcp:\/\//, '').replace(/^unix:\/\//, 'unix:');
  if (address.startsWith('unix:')) fs.rmSync(address.slice('unix:'.length), { force: true });
  return { address, credentials: mutualTLS(ca, cert, key) };
}

function mutualTLS(ca, cert, key) {
  return grpc.ServerCredentials.createSsl(Buffer.from(ca), [{ cert_chain: Buffer.from(cert), private_key: Buffer.from(key) }], true);
}

// add registers a service by its .proto: acphost.plugin.v1.X is in acphost/plugin/v1/*.proto.
function add(server, service, methods) {
  const folder = service.split('.').slice(0, -1).join('/');
  const files = fs.readdirSync(path.join(protos, folder)).filter((f) => f.endsWith('.proto')).map((f) => `${folder}/${f}`);
  const loaded = protoLoader.loadSync(files, { includeDirs: [protos], defaults: true, oneofs: true, enums: String, longs: Number });
  server.addService(loaded[service], Object.fromEntries(Object.entries(methods).map(
    ([method, answer]) => [method, answer === hold ? hold : unary(answer)])));
}

function unary(answer) {
  return async (call, callback) => {
    try {
      callback(null, await answer(call.request, call));
    } catch (error) {
      if (!Number.isInteger(error.code)) console.error(error.stack);
      callback(Number.isInteger(error.code) ? error : status(grpc.status.INTERNAL, 'the handler failed: its log has the stack'));
    }
  };
}

// hold lives as long as a session.
function hold(call) {
  if (!/^[0-9a-f]{32}$/.test(call.request.scope)) {
    call.emit('error', status(grpc.status.INVALID_ARGUMENT, 'scope must be 32 characters of lower-case hexadecimal'));
    return;
  }
  call.write({});
}

function refuseAll(settings) {
  for (const name of Object.keys(settings)) throw new Error(`settings: ${name}: there are no settings`);
}

function status(code, message) {
  return Object.assign(new Error(message), { code });
}

// plainStruct is a google.protobuf.Struct as an object.
function plainStruct(struct) {
  return Object.fromEntries(Object.entries(struct?.fields ?? {}).map(([name, value]) => [name, plain(value)]));
}

function plain(value) {
  switch (value.kind) {
    case 'structValue': return plainStruct(value.structValue);
    case 'listValue': return value.listValue.values.map(plain);
    case 'nullValue': return null;
    default: return value[value.kind];
  }
}
