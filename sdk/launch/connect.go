package launch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"crypto/tls"

	"github.com/acphost/acphost/sdk/internal/wire"
)

var errLost = errors.New("its connection is lost")

// connect runs gRPC over socket, once: gRPC must not dial again, because another process could answer then. A nil
// config means plain text. shown, if not nil, is sent with every call. connect returns when the other end has
// authenticated itself, if TLS is used, and speaks HTTP/2.
func connect(ctx context.Context, socket net.Conn, config *tls.Config, creds *secretCredentials) (*grpc.ClientConn, error) {
	trust := insecure.NewCredentials()
	if config != nil {
		trust = credentials.NewTLS(config)
	}
	var used atomic.Bool
	opts := append(wire.DialOptions(),
		grpc.WithTransportCredentials(trust),
		grpc.WithAuthority("localhost"),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			if used.Swap(true) {
				return nil, errLost
			}
			return socket, nil
		}),
	)
	if creds != nil {
		opts = append(opts, grpc.WithPerRPCCredentials(creds))
	}
	if config != nil && config.ServerName != "" {
		opts = append(opts, grpc.WithAuthority(config.ServerName))
	}
	conn, err := grpc.NewClient("passthrough:///handler", opts...)
	if err != nil {
		_ = socket.Close()
		return nil, err
	}
	if err := waitReady(ctx, conn); err != nil {
		_ = socket.Close()
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// waitReady waits until conn is ready.
func waitReady(ctx context.Context, conn *grpc.ClientConn) error {
	conn.Connect()
	for {
		switch state := conn.GetState(); state {
		case connectivity.Ready:
			return nil
		case connectivity.TransientFailure, connectivity.Shutdown:
			// Only a call returns the reason.
			_, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
			if err == nil {
				return errLost
			}
			return fmt.Errorf("the connection fails: %s", status.Convert(err).Message())
		default:
			if !conn.WaitForStateChange(ctx, state) {
				return fmt.Errorf("no answer on the connection: %w", context.Cause(ctx))
			}
		}
	}
}

// watchLoss calls lost when conn is no longer ready, and returns. It returns without the call if ctx is done first.
func watchLoss(ctx context.Context, conn *grpc.ClientConn, lost func()) {
	for conn.GetState() == connectivity.Ready {
		if !conn.WaitForStateChange(ctx, connectivity.Ready) {
			return
		}
	}
	lost()
}
