package handler

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/acphost/acphost/sdk/internal/socket"
	"github.com/acphost/acphost/sdk/internal/wire"
)

// serveChild serves as a child of the supervisor that started this process, until its stdin ends or it is signalled.
func serveChild(h Handler, _ options) error {
	c, err := newCore(h, false)
	if err != nil {
		return err
	}
	// The supervisor removes the socket's folder, unless it was killed. Only an empty folder can be removed like this.
	if dir := os.Getenv(plugin.EnvUnixSocketDir); dir != "" {
		defer func() { _ = os.Remove(dir) }()
	}
	defer c.close()
	trust, certificate, err := childTLS(os.Getenv(hostCertificate))
	if err != nil {
		return err
	}
	child := &childServer{core: c, certificate: certificate}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: wire.Handshake(),
		Plugins:         plugin.PluginSet{h.Name: &registration{child: child}},
		TLSProvider:     func() (*tls.Config, error) { return trust, nil },
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			if trust != nil {
				opts = append(opts, grpc.Creds(quiet{credentials.NewTLS(trust)}))
			}
			child.server = grpc.NewServer(append(opts, c.options()...)...)
			return child.server
		},
		Logger: hclog.New(&hclog.LoggerOptions{
			Level: hclog.Warn, Output: logWriter{h}, DisableTime: true, Name: "go-plugin",
		}),
	})
	if !child.registered {
		return errors.New("the plugin server did not start")
	}
	child.release()
	return nil
}

// childServer is the go-plugin server and what ends it.
type childServer struct {
	core        *core
	certificate string // for the handshake line; empty: no TLS
	server      *grpc.Server
	registered  bool
	release     func()
}

// handshakeTimeout bounds the TLS handshake of a connection, as gRPC bounds it.
const handshakeTimeout = 2 * time.Minute

// quiet are credentials that make a quiet connection of each, before TLS.
type quiet struct {
	credentials.TransportCredentials
}

// ServerHandshake implements credentials.TransportCredentials. The deadline that gRPC sets for it is the deadline of conn,
// which is not used any more.
func (q quiet) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn = socket.Quiet(conn)
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return nil, nil, err
	}
	secure, info, err := q.TransportCredentials.ServerHandshake(conn)
	if err != nil {
		return nil, nil, err
	}
	return secure, info, conn.SetDeadline(time.Time{})
}

// Clone implements credentials.TransportCredentials.
func (q quiet) Clone() credentials.TransportCredentials { return quiet{q.TransportCredentials.Clone()} }

// registration makes go-plugin register our services, and none of its own kind.
type registration struct {
	plugin.NetRPCUnsupportedPlugin
	child *childServer
}

// GRPCServer is called once go-plugin has read its environment, and before it prints the handshake.
func (r *registration) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	forgetHandshake()
	// A stray print while services are registered would be taken for the handshake.
	stdout := os.Stdout
	os.Stdout = os.Stderr
	r.child.core.register(s)
	os.Stdout = stdout
	if r.child.certificate != "" {
		line, err := addCertificate(r.child.certificate, stdout)
		if err != nil {
			return err
		}
		os.Stdout = line
	}
	r.child.registered = true
	r.child.watch(os.Stdin)
	return nil
}

// GRPCClient is the host's side, which does not go through go-plugin.
func (r *registration) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("a handler is called over its gRPC services")
}

// watch ends the server: at once when stdin ends, since the supervisor is gone then or wants it so, and after the calls
// in flight on SIGTERM.
func (c *childServer) watch(stdin io.Reader) {
	over, ended := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		ended()
	}()
	term, again, release := endSignals(syscall.SIGHUP)
	var stopping sync.WaitGroup
	done, finish := context.WithCancel(context.Background())
	stopping.Go(func() {
		select {
		case <-over.Done():
			c.server.Stop()
		case <-done.Done():
		case <-term.Done():
			ctx, cancel := context.WithTimeout(again, drainTime)
			defer cancel()
			defer context.AfterFunc(over, cancel)()
			c.core.end(ctx, c.server)
		}
	})
	c.release = func() {
		finish()
		stopping.Wait()
		release()
	}
}

// forgetHandshake removes what go-plugin told us by environment, so that what this process starts does not believe that
// it is a handler, nor learn of the supervisor.
func forgetHandshake() {
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if name == wire.CookieKey || strings.HasPrefix(name, "PLUGIN_") {
			_ = os.Unsetenv(name)
		}
	}
}

// logWriter passes go-plugin's own complaints on.
type logWriter struct{ h Handler }

func (w logWriter) Write(line []byte) (int, error) {
	w.h.Logger.Warn(strings.TrimSpace(string(line)))
	return len(line), nil
}
