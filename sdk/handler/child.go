package handler

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/acphost/acphost/sdk/internal/wire"
)

// serveChild serves as a child of the supervisor that started this process, until its stdin ends or it gets a signal.
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

// childServer is the go-plugin server and its end.
type childServer struct {
	core        *core
	certificate string // for the handshake line; empty: no TLS
	server      *grpc.Server
	registered  bool
	release     func()
}

// registration makes go-plugin register the handler's services, and no additional ones.
type registration struct {
	plugin.NetRPCUnsupportedPlugin
	child *childServer
}

// GRPCServer is called after go-plugin has read its environment, and before it prints the handshake.
func (r *registration) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	clearHandshakeEnv()
	// Output to stdout while services are registered would be parsed as the handshake.
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

// GRPCClient fails: the host's side does not use go-plugin.
func (r *registration) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("a handler is called over its gRPC services")
}

// watch ends the server: at once when stdin ends, because the supervisor has exited or requests the end, and after the
// active calls on SIGTERM.
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

// clearHandshakeEnv removes go-plugin's variables from the environment, so that processes that this process starts do
// not act as handlers, and get no data about the supervisor.
func clearHandshakeEnv() {
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if name == wire.CookieKey || strings.HasPrefix(name, "PLUGIN_") {
			_ = os.Unsetenv(name)
		}
	}
}

// logWriter logs go-plugin's own errors.
type logWriter struct{ h Handler }

func (w logWriter) Write(line []byte) (int, error) {
	w.h.Logger.Warn(strings.TrimSpace(string(line)))
	return len(line), nil
}
