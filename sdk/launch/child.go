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

// lingerTime is how long a child may live on after its connection is lost, so that its own exit status is what is
// reported.
const lingerTime = time.Second

// startChild starts a handler's program and shakes hands with it.
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
			p.abandon()
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
			// Nothing is trusted until go-plugin has read the child's certificate from the handshake, and then that alone.
			RootCAs:    x509.NewCertPool(),
			ServerName: "localhost",
			MinVersion: tls.VersionTLS12,
		}
	}
	config := &plugin.ClientConfig{
		HandshakeConfig: wire.Handshake(),
		// go-plugin compares versions through this set; nothing in it is ever dispensed.
		Plugins:          plugin.PluginSet{s.Name: none{}},
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		TLSConfig:        trust,
		SkipHostEnv:      true,
		StartTimeout:     s.HandshakeTimeout,
		Logger:           hclog.NewNullLogger(),
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: dir},
		RunnerFunc: func(_ hclog.Logger, spec *exec.Cmd, below string) (runner.Runner, error) {
			_ = os.Remove(below) // so that a child whose host was killed can remove our folder: it is empty then
			// What comes last counts: the child's socket is made in our folder, not in one below it.
			p.cmd.Env = append(append(p.cmd.Env, spec.Env...), plugin.EnvUnixSocketDir+"="+dir)
			return p, nil
		},
	}
	began := time.Now()
	address, err := handshake(ctx, config, p)
	if err != nil {
		return nil, startError(ctx, p, err)
	}
	if err := program.same(); err != nil {
		return nil, err
	}

	ctx, cancel := context.WithTimeoutCause(ctx, s.HandshakeTimeout,
		fmt.Errorf("no answer within %s", s.HandshakeTimeout))
	defer cancel()
	var dialer net.Dialer
	socket, err := dialer.DialContext(ctx, address.Network(), address.String())
	if err != nil {
		return nil, p.explain(fmt.Errorf("dial it after its handshake: %w", err))
	}
	stopWaiting := context.AfterFunc(ctx, func() { _ = socket.Close() })
	conn, err := connect(ctx, socket, config.TLSConfig, nil)
	stopWaiting()
	if err != nil {
		return nil, p.explain(err)
	}

	i, watching := newInstance(s, socket, conn, address.Network()+"://"+address.String())
	i.proc, i.dir, i.program, i.mtls = p, dir, program, !s.NoTLS
	lost := make(chan struct{})
	kill := func(error) { p.signal(syscall.SIGKILL) }
	i.work.Go(panics.Guard(s.Logger, "watching the connection to a handler", func() { watchLoss(watching, conn, func() { close(lost) }) }, kill))
	i.work.Go(panics.Guard(s.Logger, "reading the output of a handler", func() { relayStdio(watching, conn, p.stderr) }))
	i.work.Go(panics.Guard(s.Logger, "waiting for the end of a handler", func() { i.waitForEnd(lost) }, kill))
	i.work.Go(panics.Guard(s.Logger, "measuring the program of a handler", func() { i.measure(watching) }))
	s.Logger.Debug("handler started", "pid", p.pid, "mutual_tls", i.mtls, "took", time.Since(began))
	return i, nil
}

// measure hashes the program, after the start: other handlers start on the same processors now, and the digest matters only
// when this one is started again. What is hashed is the file that was opened before the start, and if that has changed by
// now, there is no digest that could be relied on. Nothing is hashed any more once the instance is stopped (ctx).
func (i *Instance) measure(ctx context.Context) {
	defer close(i.measured)
	defer i.program.close()
	late := time.NewTimer(measureTime)
	defer late.Stop()
	select {
	case <-i.asked:
	case <-late.C:
	case <-ctx.Done():
		return
	}
	digest, err := i.program.digest()
	if i.digest = digest; err != nil && !i.stopping.Load() {
		i.unmeasured.Store(&err)
		i.proc.signal(syscall.SIGKILL)
	}
}

// waitForEnd closes done when the process has ended. One that gives up its connection has to end: nothing could reach
// it any more.
func (i *Instance) waitForEnd(lost <-chan struct{}) {
	var cause error
	select {
	case <-i.proc.exited:
	case <-lost:
		if !within(lingerTime, i.proc.exited) && !i.stopping.Load() { // else the steps of shutdown are under way
			i.proc.signal(syscall.SIGKILL)
			cause = errors.New("gave up its connection and lived on, and was killed")
		}
		<-i.proc.exited
	}
	if err := i.unmeasured.Load(); err != nil {
		cause = *err
	}
	if cause == nil {
		cause = i.proc.exitError()
	}
	// Closing the socket, not the connection, lets calls in flight fail as UNAVAILABLE.
	_ = i.socket.Close()
	_ = os.RemoveAll(i.dir)
	if !i.stopping.Load() {
		i.err = i.proc.withLastLine(cause)
	}
	close(i.done)
}

// handshake starts the process through go-plugin, which knows no context.
func handshake(ctx context.Context, config *plugin.ClientConfig, p *process) (net.Addr, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	giveUp := context.AfterFunc(ctx, p.doom)
	address, err := plugin.NewClient(config).Start()
	if !giveUp() && err == nil {
		err = ctx.Err()
	}
	return address, err
}

// startError says why there was no handshake, better than go-plugin can.
func startError(ctx context.Context, p *process, err error) error {
	p.abandon()
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

// environment is what a child gets before go-plugin adds its own: little, so that the host's secrets stay the host's.
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

// lowestLevel is the level from which on log lets records through: a handler need not make others.
func lowestLevel(log *slog.Logger) slog.Level {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn} {
		if log.Enabled(context.Background(), level) {
			return level
		}
	}
	return slog.LevelError
}

// none stands for the handler in go-plugin's set.
type none struct{ plugin.NetRPCUnsupportedPlugin }
