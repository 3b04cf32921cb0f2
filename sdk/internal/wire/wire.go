// Package wire holds what both ends of a handler's connection must agree on: the cookie that tells a binary
// that it was started as a child, the plugin protocol version, and the limits and buffers of the gRPC transport. What
// hosts and the conformance cases, or hosts and sidecars, do alike is here too: they check a child's handshake line, make
// an identity to call it with, and take an address apart.
//
// It does not know processes or services, and opens no sockets.
package wire

import (
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/acphost/acphost/internal/peer"
)

const (
	// CookieKey is the environment variable that marks a child.
	CookieKey = peer.HandlerCookie
	// CookieValue is what it holds. It is no secret: it tells a person's mistake from a host's start.
	CookieValue = "d1f2a8c04b6e4f3795a0c7e21b8d6f43"

	// ProtocolVersion is go-plugin's application protocol version. It stays 1: what breaks is a new proto package.
	ProtocolVersion = 1

	// HealthService is the name under which every handler answers grpc.health.v1.Health/Check. go-plugin's servers
	// register it, so sidecars do too.
	HealthService = "plugin"

	// LogEnv names the environment variable that sets a handler's log level.
	LogEnv = "ACPHOST_LOG"

	// DefaultMaxMessage is the largest request, in bytes, that a handler takes unless it says otherwise in Describe.
	DefaultMaxMessage = 64 << 20

	// MaxReply is the largest reply, in bytes, that a host takes.
	MaxReply = 128 << 20

	// envelope is allowed on top of a handler's limit, so that a text of exactly the limit fits with the fields that
	// travel beside it.
	envelope = 1 << 20

	// The windows are fixed: with grpc's own estimator a large message pays several round trips while its window grows.
	streamWindow = 8 << 20
	connWindow   = 16 << 20
	bufferSize   = 128 << 10
)

// Handshake is what host and child compare before anything else.
func Handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{ProtocolVersion: ProtocolVersion, MagicCookieKey: CookieKey, MagicCookieValue: CookieValue}
}

// ServerOptions are the transport's limits and buffers on the handler's side. maxMessage is in bytes; 0 is
// DefaultMaxMessage.
func ServerOptions(maxMessage uint64) []grpc.ServerOption {
	const most = 1<<31 - 1 - envelope
	limit := DefaultMaxMessage
	if maxMessage != 0 {
		limit = int(min(maxMessage, most))
	}
	return []grpc.ServerOption{
		// grpc's default of 4 MiB would refuse an ordinary source file's write.
		grpc.MaxRecvMsgSize(limit + envelope),
		grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(connWindow),
		grpc.ReadBufferSize(bufferSize),
		grpc.WriteBufferSize(bufferSize),
	}
}

// DialOptions are the same on the host's side. Nothing is retried: a routed write must not happen twice.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(MaxReply),
			grpc.MaxCallSendMsgSize(1<<31-1),
		),
		grpc.WithInitialWindowSize(streamWindow),
		grpc.WithInitialConnWindowSize(connWindow),
		grpc.WithReadBufferSize(bufferSize),
		grpc.WithWriteBufferSize(bufferSize),
		grpc.WithIdleTimeout(0),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithNoProxy(),
	}
}
