package conformance

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
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

// Program is how a handler is started as a child.
type Program struct {
	// Command is the program, by absolute path, and its arguments.
	Command []string
	// Env is added to its environment, each "NAME=VALUE".
	Env []string
	// NoTLS says that it cannot do mutual TLS.
	NoTLS bool
}

const (
	// handshakeTime is how long a child may take to its handshake.
	handshakeTime = 10 * time.Second
	// endTime is how long it may live on after the end of its stdin; then a supervisor sends TERM.
	endTime = 5 * time.Second
	// drainTime is how long it may finish its calls after TERM, and a little more.
	drainTime = 12 * time.Second
)

// ChildCases are about the life of a child, for every kind of handler. Each starts the suite's Program anew.
func ChildCases() []Case {
	return kind("child", []demand{
		{Name: "the handshake is all that it prints on stdout", Run: printsOnlyItsHandshake},
		{Name: "it ends when its stdin ends", Run: endsWithItsInput},
		{Name: "it ends on SIGTERM", Run: endsOnTerm},
		{Name: "it serves nobody without the cookie", Run: needsTheCookie},
		{Name: "it serves nobody but who holds the supervisor's key", Run: needsTheKey},
	})
}

// child is a handler that was started, and its two ends.
type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	out    *os.File      // the reading end of its stdout
	exited chan struct{} // closed when it has ended
	read   sync.WaitGroup
	tail   string // what came on stdout after the handshake; to be read after close

	network, address string
}

// startChild starts the program as a supervisor would and reads its handshake.
func (e *Env) startChild(ctx context.Context) (*child, error) {
	if e.Program == nil {
		return nil, skip("it was not started by the suite")
	}
	env := []string{
		wire.CookieKey + "=" + wire.CookieValue,
		"PLUGIN_PROTOCOL_VERSIONS=1", "PLUGIN_MIN_PORT=10000", "PLUGIN_MAX_PORT=25000",
		"PLUGIN_UNIX_SOCKET_DIR=" + e.Dir,
	}
	if !e.Program.NoTLS {
		certificate, err := supervisorCertificate()
		if err != nil {
			return nil, err
		}
		env = append(env, "PLUGIN_CLIENT_CERT="+certificate)
	}
	c, err := e.run(ctx, env)
	if err != nil {
		return nil, err
	}
	first := make(chan error, 1)
	c.read.Go(func() {
		stdout := bufio.NewReader(c.out)
		line, err := stdout.ReadString('\n')
		if err == nil {
			err = c.takeApart(strings.TrimSpace(line), e.Program.NoTLS)
		} else {
			err = fmt.Errorf("it ends before its handshake: %w", err)
		}
		first <- err
		rest, _ := io.ReadAll(io.LimitReader(stdout, 1<<20))
		c.tail = string(rest)
		_, _ = io.Copy(io.Discard, stdout)
	})
	late := time.NewTimer(handshakeTime)
	defer late.Stop()
	select {
	case err = <-first:
	case <-late.C:
		err = fmt.Errorf("no handshake within %v", handshakeTime)
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// run starts the program with little in its environment but env. The caller closes it.
func (e *Env) run(ctx context.Context, env []string) (*child, error) {
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	c := &child{exited: make(chan struct{})}
	c.cmd = exec.CommandContext(ctx, e.Program.Command[0], e.Program.Command[1:]...)
	c.cmd.Env = append(env, e.Program.Env...)
	var err error
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	// Not StdoutPipe: Wait would close it under the reader's feet.
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c.cmd.Stdout = write
	c.out = read
	err = c.cmd.Start()
	_ = write.Close()
	if err != nil {
		_ = read.Close()
		return nil, fmt.Errorf("start it: %w", err)
	}
	c.read.Go(func() {
		_ = c.cmd.Wait()
		// What it started may hold the pipe; what it said itself is in it by now.
		_ = read.SetReadDeadline(time.Now().Add(time.Second))
		close(c.exited)
	})
	return c, nil
}

// takeApart reads a handshake line.
func (c *child) takeApart(line string, noTLS bool) error {
	parts := strings.Split(line, "|")
	if len(parts) < 5 || parts[0] != "1" || parts[1] != "1" || parts[4] != "grpc" {
		return differs("the first line on stdout", line, "1|1|unix|SOCKET|grpc|CERTIFICATE")
	}
	c.network, c.address = parts[2], parts[3]
	if c.network != "unix" && c.network != "tcp" {
		return differs("the handshake's network", c.network, "unix or tcp")
	}
	if noTLS {
		return nil
	}
	if len(parts) < 6 || parts[5] == "" {
		return errors.New("the handshake has no certificate, so there is no mutual TLS")
	}
	der, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(parts[5], "="))
	if err == nil {
		_, err = x509.ParseCertificate(der)
	}
	if err != nil {
		return fmt.Errorf("the handshake's certificate cannot be read: %w", err)
	}
	return nil
}

// end waits until the child has ended by itself.
func (c *child) end(ctx context.Context, within time.Duration) error {
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-c.exited:
		return nil
	case <-late.C:
	case <-ctx.Done():
	}
	return fmt.Errorf("it still runs after %v, and is killed", within)
}

// close ends the child, however it is, and gives everything back.
func (c *child) close() {
	_ = c.cmd.Process.Kill()
	_ = c.stdin.Close()
	c.read.Wait()
	_ = c.out.Close()
}

func printsOnlyItsHandshake(ctx context.Context, e *Env) {
	c := must(e.startChild(ctx))
	_ = c.stdin.Close()
	err := c.end(ctx, endTime)
	c.close()
	if err == nil && c.tail != "" {
		err = differs("stdout after the handshake", c.tail, "nothing")
	}
	check(err)
}

func endsWithItsInput(ctx context.Context, e *Env) {
	c := must(e.startChild(ctx))
	defer c.close()
	// What stands there means nothing; its end does.
	_, _ = io.WriteString(c.stdin, "a line that nobody asked for\n")
	_ = c.stdin.Close()
	check(c.end(ctx, endTime))
}

func endsOnTerm(ctx context.Context, e *Env) {
	c := must(e.startChild(ctx))
	defer c.close()
	check(c.cmd.Process.Signal(syscall.SIGTERM))
	check(c.end(ctx, drainTime))
}

func needsTheCookie(ctx context.Context, e *Env) {
	if e.Program == nil {
		fail(skip("it was not started by the suite"))
	}
	c := must(e.run(ctx, []string{"PLUGIN_UNIX_SOCKET_DIR=" + e.Dir}))
	defer c.close()
	check(named("started by hand", c.end(ctx, handshakeTime)))
	if c.cmd.ProcessState.Success() {
		fail(errors.New("started by hand, it ends as though all were well: its exit status is 0"))
	}
	printed, _ := io.ReadAll(io.LimitReader(c.out, 1<<20))
	if strings.HasPrefix(string(printed), "1|") {
		fail(differs("stdout without the cookie", string(printed), "no handshake"))
	}
}

func needsTheKey(ctx context.Context, e *Env) {
	if e.Program != nil && e.Program.NoTLS {
		fail(skip("it cannot do mutual TLS"))
	}
	c := must(e.startChild(ctx))
	defer c.close()
	stranger := must(selfSigned())
	for who, trust := range map[string]credentials.TransportCredentials{
		"somebody without TLS":        insecure.NewCredentials(),
		"somebody without a key":      credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}),                                            // a stranger trusts anybody
		"somebody with another's key": credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{stranger}}), // likewise
	} {
		conn := must(grpc.NewClient("passthrough:///child", grpc.WithTransportCredentials(trust), grpc.WithAuthority("localhost"),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, c.network, c.address)
			})))
		_, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: wire.HealthService})
		_ = conn.Close()
		if err == nil {
			fail(fmt.Errorf("%s was answered", who))
		}
	}
}

// supervisorCertificate is one in PEM whose key nobody has any more.
func supervisorCertificate() (string, error) {
	made, err := selfSigned()
	if err != nil {
		return "", err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made.Certificate[0]})), nil
}

func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
