package conformance

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/acphost/acphost/sdk/internal/wire"
)

// Program describes how to start a handler as a child.
type Program struct {
	// Command is the program, by absolute path, and its arguments.
	Command []string
	// Env is added to its environment, each "NAME=VALUE".
	Env []string
	// NoTLS means that the program does not support mutual TLS.
	NoTLS bool
}

const (
	// handshakeTime is the time in which a child must send its handshake.
	handshakeTime = 10 * time.Second
	// endTime is the time in which a child must exit after the end of its stdin; then a supervisor sends TERM.
	endTime = 5 * time.Second
	// drainTime is the time in which a child must finish its calls after TERM, with a margin.
	drainTime = 12 * time.Second
)

var childCases = []Case{
	{"the handshake is all that it prints on stdout", func(ctx context.Context, e *env) {
		c := e.startChild(ctx)
		_ = c.stdin.Close()
		check(c.end(ctx, endTime))
		c.close()
		expect(c.tail == "", "stdout after the handshake", c.tail, "nothing")
	}},
	{"it ends when its stdin ends", func(ctx context.Context, e *env) {
		c := e.startChild(ctx)
		// The content of stdin has no meaning; only its end has.
		_, _ = io.WriteString(c.stdin, "a line that nobody asked for\n")
		_ = c.stdin.Close()
		check(c.end(ctx, endTime))
	}},
	{"it ends on SIGTERM", func(ctx context.Context, e *env) {
		c := e.startChild(ctx)
		check(c.cmd.Process.Signal(syscall.SIGTERM))
		check(c.end(ctx, drainTime))
	}},
	{"it serves only with the cookie", func(ctx context.Context, e *env) {
		c := e.run(ctx, nil)
		check(wrap("started by hand", c.end(ctx, handshakeTime)))
		require(!c.cmd.ProcessState.Success(), "started by hand, it ends as though all were well: its exit status is 0")
		printed, _ := io.ReadAll(io.LimitReader(c.out, 1<<20))
		expect(!strings.HasPrefix(string(printed), "1|"), "stdout without the cookie", string(printed), "no handshake")
	}},
	{"it serves only clients with the supervisor's key", func(ctx context.Context, e *env) {
		skipIf(e.Program != nil && e.Program.NoTLS, "it cannot do mutual TLS")
		c := e.startChild(ctx)
		stranger, _, err := wire.NewIdentity()
		check(err)
		trusting := &tls.Config{InsecureSkipVerify: true} // an unauthenticated client accepts any certificate
		showing := trusting.Clone()
		showing.Certificates = []tls.Certificate{stranger}
		for who, trust := range map[string]credentials.TransportCredentials{
			"somebody without TLS":        insecure.NewCredentials(),
			"somebody without a key":      credentials.NewTLS(trusting),
			"somebody with another's key": credentials.NewTLS(showing),
		} {
			conn := must(grpc.NewClient("passthrough:///child", grpc.WithTransportCredentials(trust), grpc.WithAuthority("localhost"),
				grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
					return (&net.Dialer{}).DialContext(ctx, c.network, c.address)
				})))
			_, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: wire.HealthService})
			_ = conn.Close()
			require(err != nil, "%s was answered", who)
		}
	}},
}

// child is a handler that was started, with its stdin and stdout.
type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	out    *os.File      // the reading end of its stdout
	exited chan struct{} // closed when it has ended
	read   sync.WaitGroup
	tail   string // output on stdout after the handshake; valid after close

	network, address string
}

// startChild starts the program as a supervisor would, and reads its handshake.
func (e *env) startChild(ctx context.Context) *child {
	env := []string{
		wire.CookieKey + "=" + wire.CookieValue,
		"PLUGIN_PROTOCOL_VERSIONS=1", "PLUGIN_MIN_PORT=10000", "PLUGIN_MAX_PORT=25000",
	}
	_, certificate, err := wire.NewIdentity()
	check(err)
	mutualTLS := e.Program == nil || !e.Program.NoTLS
	if mutualTLS {
		env = append(env, "PLUGIN_CLIENT_CERT="+certificate)
	}
	c := e.run(ctx, env)
	first := make(chan error, 1)
	c.read.Go(func() {
		stdout := bufio.NewReader(c.out)
		line, err := stdout.ReadString('\n')
		if err != nil {
			err = fmt.Errorf("it ends before its handshake: %w", err)
		} else if line, err = wire.CheckHandshake(strings.TrimSpace(line), mutualTLS); err == nil {
			parts := strings.Split(line, "|")
			c.network, c.address = parts[2], parts[3]
		}
		first <- err
		rest, _ := io.ReadAll(io.LimitReader(stdout, 1<<20))
		c.tail = string(rest)
		_, _ = io.Copy(io.Discard, stdout)
	})
	late := time.NewTimer(handshakeTime)
	defer late.Stop()
	select {
	case err := <-first:
		check(err)
	case <-late.C:
		require(false, "no handshake within %v", handshakeTime)
	case <-ctx.Done():
		check(ctx.Err())
	}
	return c
}

// run starts the program with little in its environment except env. It is closed when the case has ended.
func (e *env) run(ctx context.Context, env []string) *child {
	skipIf(e.Program == nil, "it was not started by the suite")
	env = append(env, "PLUGIN_UNIX_SOCKET_DIR="+e.dir)
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	c := &child{exited: make(chan struct{})}
	c.cmd = exec.CommandContext(ctx, e.Program.Command[0], e.Program.Command[1:]...)
	c.cmd.Env = append(env, e.Program.Env...)
	c.stdin = must(c.cmd.StdinPipe())
	// StdoutPipe is not used: Wait would close it while it is read.
	read, write, err := os.Pipe()
	check(err)
	c.cmd.Stdout = write
	c.out = read
	err = c.cmd.Start()
	_ = write.Close()
	if err != nil {
		_ = read.Close()
		check(fmt.Errorf("start it: %w", err))
	}
	c.read.Go(func() {
		_ = c.cmd.Wait()
		// Processes that the child started may hold the pipe open; its own output is in the pipe by now.
		_ = read.SetReadDeadline(time.Now().Add(time.Second))
		close(c.exited)
	})
	e.onCleanup(c.close)
	return c
}

// end waits until the child has exited by itself.
func (c *child) end(ctx context.Context, within time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	select {
	case <-c.exited:
	case <-waiting.Done():
	}
	// The end of the case's context kills the child, which may have exited before the derived context ends.
	if ctx.Err() != nil || waiting.Err() != nil {
		return fmt.Errorf("it still runs after %v, and is killed", within)
	}
	return nil
}

// close ends the child in any state, and releases all resources. It may be called again.
func (c *child) close() {
	_ = c.cmd.Process.Kill()
	_ = c.stdin.Close()
	c.read.Wait()
	_ = c.out.Close()
}
