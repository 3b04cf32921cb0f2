package launch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/sdk/internal/wire"
)

// exitTimeout is the time in which a child may exit after its connection was lost, so that its exit status is reported
// as the reason.
const exitTimeout = time.Second

// startChild starts a handler's program and completes the handshake.
func startChild(ctx context.Context, s Spec) (_ *Instance, err error) {
	program, err := openProgram(s.Command[0])
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			program.close()
		}
	}()
	if s.SHA256 != "" {
		if err := program.require(s.SHA256); err != nil {
			return nil, err
		}
	}
	dir, err := socketDir(s.User)
	if err != nil {
		return nil, err
	}
	p := newProcess(s, program)
	defer func() {
		if err != nil {
			p.killAndWait()
			_ = os.RemoveAll(dir)
		}
	}()

	var trust *tls.Config
	if !s.NoTLS {
		identity, certificate, err := wire.NewIdentity()
		if err != nil {
			return nil, err
		}
		p.cmd.Env = append(p.cmd.Env, "PLUGIN_CLIENT_CERT="+certificate)
		trust = &tls.Config{
			Certificates: []tls.Certificate{identity},
			// The pool is empty until go-plugin has read the child's certificate from the handshake; then it contains
			// only that certificate.
			RootCAs:    x509.NewCertPool(),
			ServerName: "localhost",
			MinVersion: tls.VersionTLS12,
		}
	}
	config := &plugin.ClientConfig{
		HandshakeConfig: wire.Handshake(),
		// go-plugin compares versions by means of this set; it never creates a plugin from it.
		Plugins:          plugin.PluginSet{s.Name: placeholderPlugin{}},
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		TLSConfig:        trust,
		SkipHostEnv:      true,
		StartTimeout:     s.HandshakeTimeout,
		Logger:           hclog.NewNullLogger(),
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: dir},
		RunnerFunc: func(_ hclog.Logger, spec *exec.Cmd, below string) (runner.Runner, error) {
			_ = os.Remove(below) // so that a child whose host was killed can remove the folder: it is empty then
			// The last entry has precedence: the child's socket must be made in this folder, not in one below it.
			p.cmd.Env = append(append(p.cmd.Env, spec.Env...), plugin.EnvUnixSocketDir+"="+dir)
			return p, nil
		},
	}
	began := time.Now()
	address, err := handshake(ctx, config, p)
	if err != nil {
		return nil, startError(ctx, p, err)
	}
	if err := program.checkUnchanged(); err != nil {
		return nil, err
	}

	ctx, cancel := context.WithTimeoutCause(ctx, s.HandshakeTimeout,
		fmt.Errorf("no answer within %s", s.HandshakeTimeout))
	defer cancel()
	var dialer net.Dialer
	socket, err := dialer.DialContext(ctx, address.Network(), address.String())
	if err != nil {
		return nil, p.addExitReason(fmt.Errorf("dial it after its handshake: %w", err))
	}
	stopWaiting := context.AfterFunc(ctx, func() { _ = socket.Close() })
	conn, err := connect(ctx, socket, config.TLSConfig, nil)
	stopWaiting()
	if err != nil {
		return nil, p.addExitReason(err)
	}

	i, watching := newInstance(s, socket, conn, address.Network()+"://"+address.String())
	i.proc, i.dir, i.program, i.mtls = p, dir, program, !s.NoTLS
	lost := make(chan struct{})
	kill := func(error) { p.signal(syscall.SIGKILL) }
	i.work.Go(panics.Guard(s.Logger, "watching the connection to a handler", func() { watchLoss(watching, conn, func() { close(lost) }) }, kill))
	i.work.Go(panics.Guard(s.Logger, "reading the output of a handler", func() { relayStdio(watching, conn, p.stderr) }))
	i.work.Go(panics.Guard(s.Logger, "waiting for the end of a handler", func() { i.waitForEnd(lost) }, kill))
	i.work.Go(panics.Guard(s.Logger, "measuring the program of a handler", func() { i.computeDigest(watching) }))
	s.Logger.Debug("handler started", "pid", p.pid, "mutual_tls", i.mtls, "took", time.Since(began))
	return i, nil
}

// computeDigest computes the digest of the program, some time after the start: other handlers start on the same
// processors at first, and the digest is only needed when this program is started again. It hashes the file that was
// opened before the start. If that file has changed since, there is no reliable digest. measure stops when the instance
// is stopped (ctx).
func (i *Instance) computeDigest(ctx context.Context) {
	defer close(i.digestDone)
	defer i.program.close()
	late := time.NewTimer(digestDelay)
	defer late.Stop()
	select {
	case <-i.digestRequested:
	case <-late.C:
	case <-ctx.Done():
		return
	}
	digest, err := i.program.digest()
	if i.digest = digest; err != nil && !i.stopping.Load() {
		i.digestErr.Store(&err)
		i.proc.signal(syscall.SIGKILL)
	}
}

// waitForEnd closes done when the process has ended. A process that has closed its connection must end, because no call
// can reach it any more.
func (i *Instance) waitForEnd(lost <-chan struct{}) {
	var cause error
	select {
	case <-i.proc.exited:
	case <-lost:
		if !closedWithin(exitTimeout, i.proc.exited) && !i.stopping.Load() { // otherwise shutdown is in progress
			i.proc.signal(syscall.SIGKILL)
			cause = errors.New("gave up its connection and lived on, and was killed")
		}
		<-i.proc.exited
	}
	if err := i.digestErr.Load(); err != nil {
		cause = *err
	}
	if cause == nil {
		cause = i.proc.exitError()
	}
	// Closing the socket instead of the connection makes active calls fail as UNAVAILABLE.
	_ = i.socket.Close()
	_ = os.RemoveAll(i.dir)
	if !i.stopping.Load() {
		i.err = i.proc.withLastLine(cause)
	}
	close(i.done)
}

// handshake starts the process through go-plugin, which does not support contexts.
func handshake(ctx context.Context, config *plugin.ClientConfig, p *process) (net.Addr, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	giveUp := context.AfterFunc(ctx, p.killNow)
	address, err := plugin.NewClient(config).Start()
	if !giveUp() && err == nil {
		err = ctx.Err()
	}
	return address, err
}

// startError returns why the handshake failed, with more detail than go-plugin's error.
func startError(ctx context.Context, p *process, err error) error {
	p.killAndWait()
	switch reason := p.handshakeError(); {
	case ctx.Err() != nil:
		return fmt.Errorf("the start was given up: %w", context.Cause(ctx))
	case p.pid == 0:
		return fmt.Errorf("start it: %w", err)
	case reason != nil:
		return p.withLastLine(reason)
	default:
		return p.withLastLine(fmt.Errorf("shake hands: %w", err))
	}
}

// environment returns the environment of a child without go-plugin's variables. It is small, so that the child does not
// get the host's secrets.
func environment(s Spec) []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	env = s.User.Environ(env)
	env = append(env, wire.LogEnv+"="+strings.ToLower(lowestLevel(s.Logger).String()))
	return append(env, s.Env...)
}

// lowestLevel returns the lowest level that log accepts: a handler need not write records below it.
func lowestLevel(log *slog.Logger) slog.Level {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn} {
		if log.Enabled(context.Background(), level) {
			return level
		}
	}
	return slog.LevelError
}

// placeholderPlugin is the placeholder for the handler in go-plugin's set.
type placeholderPlugin struct{ plugin.NetRPCUnsupportedPlugin }
