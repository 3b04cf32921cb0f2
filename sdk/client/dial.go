package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/acphost/acphost/internal/keyfiles"
	"github.com/acphost/acphost/internal/peer"
)

// The connection timeouts of a local socket and of an address.
const (
	dialTimeout       = 2 * time.Second
	remoteDialTimeout = 10 * time.Second
)

// maxAnswerBytes limits an answer of a supervisor, in bytes. The client trusts the supervisor, and an event contains a
// whole message of an agent.
const maxAnswerBytes = math.MaxInt32

// DialTLS returns a connection to a supervisor at HOST:PORT over mutual TLS. dir is a client's folder as "acphost certs
// init" makes it: ca.crt, client.crt, client.key. The first call connects.
func DialTLS(address, dir string) (*Client, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("the supervisor's address: expected HOST:PORT, got %q", address)
	}
	config, err := keyfiles.ClientFiles(dir).Client(host)
	if err != nil {
		return nil, fmt.Errorf("the keys for %s: %w: name a client's folder, such as the viewer folder that \"acphost certs init\" makes", address, err)
	}
	return dialWith(address, address, credentials.NewTLS(config), func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{Timeout: remoteDialTimeout}).DialContext(ctx, "tcp", address)
	})
}

// DialGateway returns a connection to the supervisor behind a gateway (gatewayd) at HOST:PORT. The gateway identifies
// the caller by a token of "acphost tokens create" or, if the token is empty, by the certificate in config. With a nil
// config the connection has no TLS: every host on the network path can read the token. The first call connects.
func DialGateway(address string, config *tls.Config, token string) (*Client, error) {
	secure := insecure.NewCredentials()
	if config != nil {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, fmt.Errorf("the gateway's address: expected HOST:PORT, got %q", address)
		}
		if config = config.Clone(); config.ServerName == "" {
			config.ServerName = host
		}
		secure = credentials.NewTLS(config)
	}
	var options []grpc.DialOption
	if token != "" {
		options = append(options, grpc.WithPerRPCCredentials(bearer{token, config != nil}))
	}
	return dialWith(address, address, secure, func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{Timeout: remoteDialTimeout}).DialContext(ctx, "tcp", address)
	}, options...)
}

// bearer adds a token to each call.
type bearer struct {
	token  string
	secure bool
}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + b.token}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (b bearer) RequireTransportSecurity() bool { return b.secure }

// DialSocket returns a connection to the supervisor whose admin socket is at path, as Supervisor.Dial does, but without
// a check of the serving process: it is for a socket that the user has named. Sockets of Find are checked first.
func DialSocket(path string) (*Client, error) { return dial(path, true) }

func dial(path string, named bool) (*Client, error) {
	return dialLocal(path, func(ctx context.Context) (net.Conn, error) { return connectPreferred(ctx, path, named) })
}

// connectPreferred connects to the control socket of the supervisor whose admin socket is at path, or else to that
// admin socket.
func connectPreferred(ctx context.Context, path string, named bool) (net.Conn, error) {
	conn, err := dialControl(ctx, path, named)
	// A slow supervisor has a control socket too. Its admin socket would reject the calls that need the control socket.
	if failed, ok := errors.AsType[*Error](err); err == nil || os.IsTimeout(err) || ok && failed.Code == codes.DeadlineExceeded {
		return conn, err
	}
	return connect(ctx, path, named)
}

// connect connects to a socket, unless an agent may serve it.
func connect(ctx context.Context, socket string, named bool) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "unix", socket)
	if err != nil || named {
		return conn, err
	}
	if err := checkServer(conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// checkSocket returns the reason not to connect to a socket.
func checkSocket(ctx context.Context, socket string) error {
	conn, err := connect(ctx, socket, false)
	if err == nil {
		_ = conn.Close()
	}
	return err
}

// dialAdmin returns a connection to the admin socket at path.
func dialAdmin(path string, named bool) (*Client, error) {
	return dialLocal(path, func(ctx context.Context) (net.Conn, error) { return connect(ctx, path, named) })
}

func dialLocal(path string, dial func(context.Context) (net.Conn, error)) (*Client, error) {
	return dialWith("acphost", "admin socket "+path, insecure.NewCredentials(), dial)
}

// dialWith returns a connection that dial makes. It uses a dialler instead of an address such as "unix:PATH", so that
// no character of a path has a special meaning, and no proxy of the environment is used.
func dialWith(target, where string, secure credentials.TransportCredentials, dial func(context.Context) (net.Conn, error), more ...grpc.DialOption) (*Client, error) {
	conn, err := grpc.NewClient("passthrough:///"+target, append(more,
		grpc.WithTransportCredentials(secure),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswerBytes)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }))...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", where, err)
	}
	return New(conn), nil
}

// dialControl connects to the control socket of the supervisor whose admin socket is at path. The folder of the admin
// socket is closed to other users, so the name in it can be trusted. After the end of the supervisor, any process could
// use that name; therefore the serving process must belong to the same user, and must not be an agent's.
func dialControl(ctx context.Context, path string, named bool) (net.Conn, error) {
	asked := ask(ctx, path, named, callTimeout)
	if asked.Err != nil {
		return nil, asked.Err
	}
	name := asked.Status.GetControlSocket()
	if !strings.HasPrefix(name, "@") {
		return nil, errors.New("there is no control socket")
	}
	conn, err := connect(ctx, name, named)
	if err != nil {
		return nil, err
	}
	server, err := peer.Of(conn)
	server.Close()
	if err == nil && server.UID != os.Geteuid() && server.UID != 0 {
		err = fmt.Errorf("the socket %s is served by process %d of user %d, not by yours", name, server.PID, server.UID)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}
