"""The transport of an acphost handler in Python: copy this file, and write your own program beside it.

It keeps to the contract in docs/plugin-contract.md and knows nothing of what the handler does. It needs Python 3.9, grpcio, protobuf
and cryptography, and acphost.binpb beside it, which generate.sh makes of acphost's .proto files.

As a child it speaks mutual TLS over a private unix socket. As a sidecar it is started with
  --listen unix:///PATH|tcp://HOST:PORT [--settings FILE.json]
and with --tls-ca FILE --tls-cert FILE --tls-key FILE, or on a unix socket with --secret-file FILE.
"""

import argparse
import asyncio
import base64
import datetime
import hmac
import inspect
import json
import logging
import os
import re
import signal
import stat
import sys
import threading

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

COOKIE = ('ACPHOST_HANDLER_COOKIE', 'd1f2a8c04b6e4f3795a0c7e21b8d6f43')
MAX_MESSAGE = 64 << 20  # bytes
DRAIN = 10  # seconds, for the calls in flight after SIGTERM
DRAIN_CHILD = 3  # likewise, for a supervisor's child: 5 s after the end of its stdin it is told once more

log = logging.getLogger('handler')


class Status(Exception):
    """An answer that is a gRPC status: raise Status(grpc.StatusCode.NOT_FOUND, 'what was not found')."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def _load():
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet()
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'acphost.binpb'), 'rb') as f:
        files.ParseFromString(f.read())
    for file in files.file:
        pool.Add(file)
    return pool


_pool = _load()


def message(name):
    """The class of a message, by its full name: message('acphost.permission.v1.DecideResponse')."""
    descriptor = _pool.FindMessageTypeByName(name)
    if hasattr(message_factory, 'GetMessageClass'):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(_pool).GetPrototype(descriptor)  # protobuf before 4.22


def serve(name, version, services, configure=None):
    """Runs the handler until it is asked to end.

    services: full gRPC service name → {RPC name: function(request) → response message}; the functions may be async, and the
    others run in threads, several at a time.
    configure(settings, host, validate_only): settings is a dict, host an acphost.plugin.v1.Host or None. Raise ValueError to
    refuse the settings. May return a list of notes for people.
    A Status that is raised is that gRPC status; any other exception is INTERNAL, and the log has it.
    """
    logging.basicConfig(stream=sys.stderr, format='%(levelname)s %(message)s')
    child = os.environ.get(COOKIE[0]) == COOKIE[1]
    flags = argparse.ArgumentParser(prog=name, description=f'{name} {version}, a handler for acphost. acphost starts it; by hand it is run as a sidecar.')
    for flag in ('listen', 'tls-ca', 'tls-cert', 'tls-key', 'secret-file', 'settings'):
        flags.add_argument('--' + flag)
    args = flags.parse_args()
    if not child and not args.listen:
        flags.exit(2, f"{name} {version} is a handler for acphost and not run by hand: name it in acphost's configuration\n")
    try:
        asyncio.run(_serve(name, version, services, configure or _refuse_all, args, child))
    except (OSError, ValueError) as error:
        flags.exit(1, f'{name} does not start: {error}\n')


async def _serve(name, version, services, configure, args, child):
    out = os.dup(1)
    os.dup2(2, 1)  # nothing but the handshake belongs to stdout
    loop, end = asyncio.get_running_loop(), asyncio.Event()
    address, credentials, handshake, secret = _as_child() if child else _as_sidecar(args)
    server = grpc.aio.server(
        interceptors=[_Bearer(secret)] if secret else [],
        options=[('grpc.max_receive_message_length', MAX_MESSAGE + (1 << 20)), ('grpc.max_send_message_length', -1)],
    )
    answer = {n: message('acphost.plugin.v1.' + n + 'Response') for n in ('Describe', 'Configure', 'Hold')}

    def configured(request):
        host = request.host if request.HasField('host') and child else None
        try:
            notes = configure(json_format.MessageToDict(request.settings), host, request.validate_only or not child)
        except ValueError as error:
            raise Status(grpc.StatusCode.INVALID_ARGUMENT, str(error)) from None
        return answer['Configure'](notes=notes or [])

    async def hold(request, context):  # this handler owns nothing for a session, so nothing is released when it ends
        if not re.fullmatch('[0-9a-f]{32}', request.scope):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, 'scope must be 32 characters of lower-case hexadecimal')
        yield answer['Hold']()
        await end.wait()

    def describe(_):
        return answer['Describe'](name=name, version=version, services=list(services), max_message_bytes=MAX_MESSAGE)

    _add(server, 'acphost.plugin.v1.PluginService', {'Describe': describe, 'Configure': configured, 'Hold': hold})
    for service, methods in services.items():
        _add(server, service, methods)
    _add_health(server, end)
    if args.settings:
        with open(args.settings, encoding='utf-8') as f:
            configure(json.load(f), None, False)

    # Who may open the socket: this user. With certificates of their own, supervisors of other users too: the certificate counts.
    umask = os.umask(0o111 if credentials and not child else 0o077)
    if credentials:
        port = server.add_secure_port(address, credentials)
    else:
        port = server.add_insecure_port(address)
    if not port:
        raise OSError(f'cannot listen on {address}: see the lines above')
    await server.start()
    os.umask(umask)
    if handshake:
        os.write(out, handshake.encode() + b'\n')
    os.close(out)
    loop.add_signal_handler(signal.SIGTERM, end.set)
    if child:  # the supervisor is gone, or wants it so
        def until_closed():
            while os.read(0, 4096):
                pass
            loop.call_soon_threadsafe(end.set)
        threading.Thread(target=until_closed, daemon=True).start()
    await end.wait()
    await server.stop(DRAIN_CHILD if child else DRAIN)
    if address.startswith('unix:'):
        try:
            os.unlink(address[len('unix:'):])
        except FileNotFoundError:
            pass


def _as_child():
    """Makes its own certificate, and trusts only the supervisor's. The keys never leave their processes."""
    supervisor, folder = os.environ.get('PLUGIN_CLIENT_CERT'), os.environ['PLUGIN_UNIX_SOCKET_DIR']
    for variable in list(os.environ):
        if variable == COOKIE[0] or variable.startswith('PLUGIN_'):
            del os.environ[variable]  # not for our own children
    socket = os.path.join(folder, 'handler.sock')
    handshake = f'1|1|unix|{socket}|grpc|'
    if not supervisor:
        return 'unix:' + socket, None, handshake, None
    key, pem, der = _certificate()
    handshake += base64.b64encode(der).decode().rstrip('=')
    return 'unix:' + socket, grpc.ssl_server_credentials([(key, pem)], supervisor.encode(), True), handshake, None


def _certificate():
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, 'localhost')])
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=1)).not_valid_after(now + datetime.timedelta(days=30 * 365))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName('localhost')]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding
    private = key.private_bytes(encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return private, certificate.public_bytes(encoding.PEM), certificate.public_bytes(encoding.DER)


def _as_sidecar(args):
    kind, _, place = args.listen.partition('://')
    if kind not in ('unix', 'tcp') or not place:
        raise ValueError(f'--listen {args.listen}: unix:///PATH or tcp://HOST:PORT is expected')
    address = 'unix:' + place if kind == 'unix' else place
    if kind == 'unix' and os.path.lexists(place):
        if not stat.S_ISSOCK(os.lstat(place).st_mode):
            raise ValueError(f'--listen {args.listen}: there is something else than a socket: name another path, or remove it')
        os.unlink(place)
    if args.secret_file:
        if kind != 'unix' or args.tls_ca or args.tls_cert or args.tls_key:
            raise ValueError('--secret-file is for unix sockets, without TLS')
        with open(args.secret_file, encoding='ascii') as f:
            if os.fstat(f.fileno()).st_mode & 0o077:
                raise ValueError(f'{args.secret_file}: other users can read or write the secret: chmod 600 it')
            secret = f.read().strip()
        if len(secret) < 32:
            raise ValueError(f'{args.secret_file}: a secret has 32 characters or more')
        return address, None, None, secret
    parts = []
    for flag in ('tls_ca', 'tls_cert', 'tls_key'):
        if not getattr(args, flag):
            raise ValueError(f"--listen takes --{flag.replace('_', '-')} too, or on a unix socket --secret-file")
        with open(getattr(args, flag), 'rb') as f:
            parts.append(f.read())
    return address, grpc.ssl_server_credentials([(parts[2], parts[1])], parts[0], True), None, None


class _Bearer(grpc.aio.ServerInterceptor):
    """Answers those who know the secret, and refuses everybody else."""

    def __init__(self, secret):
        self._want = 'Bearer ' + secret

    async def intercept_service(self, continuation, details):
        shown = [value for name, value in details.invocation_metadata if name == 'authorization']
        if len(shown) == 1 and hmac.compare_digest(shown[0].encode(), self._want.encode()):
            return await continuation(details)

        async def refuse(_, context):  # of any kind of method, before anything is read
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, 'a bearer token is needed: the secret of --secret-file')
            yield b''
        return grpc.stream_stream_rpc_method_handler(refuse)


def _add(server, service, methods):
    """Registers a service by its descriptor."""
    handlers = {}
    for method in _pool.FindServiceByName(service).methods:
        answer = methods.get(method.name)
        if answer is None:
            continue  # the server answers UNIMPLEMENTED
        request, response = message(method.input_type.full_name), message(method.output_type.full_name)
        make = grpc.unary_stream_rpc_method_handler if inspect.isasyncgenfunction(answer) else grpc.unary_unary_rpc_method_handler
        handlers[method.name] = make(
            answer if inspect.isasyncgenfunction(answer) else _unary(answer), request.FromString, response.SerializeToString)
    if set(methods) - set(handlers):
        raise ValueError(f'{service} has no {sorted(set(methods) - set(handlers))}')
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))


def _unary(answer):
    async def call(request, context):
        try:
            if inspect.iscoroutinefunction(answer):
                return await answer(request)
            return await asyncio.to_thread(answer, request)
        except Status as status:
            code, text = status.code, str(status)
        except Exception:
            log.exception('a call failed')
            code, text = grpc.StatusCode.INTERNAL, 'the handler failed: its log has the stack'
        await context.abort(code, text)
    return call


def _add_health(server, end):
    """grpc.health.v1.Health: SERVING, for every service. The messages are small enough to be written down."""
    serving = b'\x08\x01'

    async def check(_, __):
        return serving

    async def watch(_, __):
        yield serving
        await end.wait()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler('grpc.health.v1.Health', {
        'Check': grpc.unary_unary_rpc_method_handler(check),
        'Watch': grpc.unary_stream_rpc_method_handler(watch),
    }),))


def _refuse_all(settings, host, validate_only):
    for name in settings:
        raise ValueError(f'settings: {name}: there are no settings')
