// Package wire contains the definitions that both ends of a handler's connection share: the cookie that marks a child's
// environment, the plugin protocol version, and the limits and buffers of the gRPC transport. It also contains code
// that hosts share with the conformance cases or with sidecars: the check of a child's handshake line, the identity for
// calls, and the parsing of addresses.
//
// The package does not know processes or services, and opens no sockets.
package wire

import (
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/acphost/acphost/internal/peer"
)

const (
	// CookieKey is the environment variable that marks a child.
	CookieKey = peer.HandlerCookie
	// CookieValue is its value. It is not secret: it distinguishes a start by a host from a start by a person.
	CookieValue = "d1f2a8c04b6e4f3795a0c7e21b8d6f43"

	// ProtocolVersion is go-plugin's application protocol version. It stays 1: an incompatible change gets a new proto
	// package.
	ProtocolVersion = 1

	// HealthService is the name under which every handler answers grpc.health.v1.Health/Check. go-plugin's servers
	// register it, so sidecars do too.
	HealthService = "plugin"

	// LogEnv names the environment variable that sets a handler's log level.
	LogEnv = "ACPHOST_LOG"

	// DefaultMaxMessage is the size of the largest request, in bytes, that a handler accepts unless Describe returns
	// another limit.
	DefaultMaxMessage = 64 << 20

	// MaxReply is the size of the largest reply, in bytes, that a host accepts.
	MaxReply = 128 << 20

	// envelope is added to a handler's limit, so that a text of exactly the limit fits in a message with other fields.
	envelope = 1 << 20

	// The windows are fixed: with gRPC's own estimator a large message needs several round trips while its window
	// grows.
	streamWindow = 8 << 20
	connWindow   = 16 << 20
	bufferSize   = 128 << 10
)

// Handshake returns the values that host and child compare first.
func Handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{ProtocolVersion: ProtocolVersion, MagicCookieKey: CookieKey, MagicCookieValue: CookieValue}
}

// ServerOptions returns the transport's limits and buffers on the handler's side. maxMessage is in bytes; 0 means
// DefaultMaxMessage.
func ServerOptions(maxMessage uint64) []grpc.ServerOption {
	const most = 1<<31 - 1 - envelope
	limit := DefaultMaxMessage
	if maxMessage != 0 {
		limit = int(min(maxMessage, most))
	}
	return []grpc.ServerOption{
		// gRPC's default of 4 MiB would reject a write of a large source file.
		grpc.MaxRecvMsgSize(limit + envelope),
		grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(connWindow),
		grpc.ReadBufferSize(bufferSize),
		grpc.WriteBufferSize(bufferSize),
	}
}

// DialOptions returns the same for the host's side. gRPC must not retry: a forwarded write must not happen twice.
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
