package wire

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/testkit"
)

// Process is a child process with a Peer on its standard input and output.
type Process struct {
	*Peer
	Cmd *exec.Cmd

	t      testing.TB
	stderr *buffer
	done   chan struct{} // closed when it has ended and was reaped
	spoken chan struct{} // closed at the end of its standard error: no other process holds it open
}

// Options describe the command and how it is started.
type Options struct {
	Name    string   // what the conversation calls our end
	Command []string // program and arguments
	Dir     string
	Env     []string // the whole environment; nil: the test's own
}

// Start starts a process that speaks on its standard input and output. When the test ends it is killed if it still runs.
func Start(t testing.TB, o Options) *Process {
	t.Helper()
	cmd := exec.Command(o.Command[0], o.Command[1:]...)
	cmd.Dir, cmd.Env = o.Dir, o.Env
	p := &Process{Cmd: cmd, t: t, stderr: &buffer{}, done: make(chan struct{}), spoken: make(chan struct{})}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	// Pipes of this package: Wait must not close the output before it was read, nor wait for a grandchild that holds it
	// open.
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = outW, errW
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %q: %v", o.Command, err)
	}
	_, _ = outW.Close(), errW.Close()
	go func() {
		_, _ = io.Copy(p.stderr, errR)
		close(p.spoken)
	}()
	go func() {
		_ = cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("standard error of %s:\n%s", o.Command[0], p.stderr)
		}
		_ = in.Close()
		_ = cmd.Process.Kill()
		<-p.done
		_, _ = outR.Close(), errR.Close()
		<-p.spoken
		p.working.Wait()
	})
	p.Peer = NewPeer(t, o.Name, in, outR)
	return p
}

// Context returns a context that ends after twice testkit.Timeout, for waits of a test without a timeout.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*testkit.Timeout())
	t.Cleanup(cancel)
	return ctx
}

// Command returns a command that is bounded in time: when Context ends, it gets SIGQUIT, on which a Go program that
// does not catch it prints the stacks of its goroutines. A little later it is killed, and other processes that hold its
// output are not waited for.
func Command(t testing.TB, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(Context(t), name, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) }
	cmd.WaitDelay = testkit.Scale(10 * time.Second)
	return cmd
}

// PID is the process's id.
func (p *Process) PID() int { return p.Cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExpectExit waits for the process's end and returns its exit status, 128 and the signal's number if one ended it.
func (p *Process) ExpectExit() int {
	p.t.Helper()
	select {
	case <-p.done:
		return status(p.Cmd.ProcessState)
	case <-testkit.After():
		p.t.Fatalf("%s did not end within %s", p.Cmd.Path, testkit.Timeout())
		return -1
	}
}

// Stderr is the output to standard error so far; once the process has ended, all of it, unless a process that it left
// behind still holds the pipe.
func (p *Process) Stderr() string {
	select {
	case <-p.done:
		select {
		case <-p.spoken:
		case <-time.After(testkit.Scale(3 * time.Second)):
		}
	default:
	}
	return p.stderr.String()
}

// buffer is a bytes.Buffer for a writer and readers at once.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
