package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/agent"
)

// This test binary is the supervisor's stand-in as well, by its first argument; and the guard, as every program with this
// package.
func TestMain(m *testing.M) {
	// Else the race detector makes each of these processes wait for a second before it ends.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	if len(os.Args) > 1 && os.Args[1] == "supervisor" {
		os.Exit(standIn(os.Args[2]))
	}
	goleak.VerifyTestMain(m)
}

var guardCommand = ownGuard()

func ownGuard() []string {
	guard, err := agent.OwnGuard()
	if err != nil {
		panic(err)
	}
	return guard
}

// standIn runs a script as an agent, says the agent's pid, and waits to be killed.
func standIn(script string) int {
	p, err := agent.Start(agent.Spec{
		Name: "test", Command: []string{"sh", "-c", script}, Guard: guardCommand, StopGrace: time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	var ready [6]byte
	if _, err := io.ReadFull(p.Stdout(), ready[:]); err != nil {
		return 1
	}
	fmt.Println(p.PID())
	select {}
}

// start starts a shell script as an agent and stops it at the test's end.
func start(t *testing.T, script string, change ...func(*agent.Spec)) *agent.Process {
	t.Helper()
	s := agent.Spec{Name: "test", Command: []string{"sh", "-c", script}, Guard: guardCommand, StopGrace: time.Second}
	for _, c := range change {
		c(&s)
	}
	p, err := agent.Start(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout())
		defer cancel()
		if err := p.Stop(ctx); err != nil {
			t.Error(err)
		}
		_ = p.Stdout().Close()
	})
	return p
}

// fails starts an agent that cannot be started and returns why.
func fails(t *testing.T, s agent.Spec) agent.Exit {
	t.Helper()
	s.Name, s.Guard = "test", guardCommand
	p, err := agent.Start(s)
	if err == nil {
		_ = p.Stop(t.Context())
		t.Fatal("it started")
	}
	var exit agent.Exit
	if !errors.As(err, &exit) {
		t.Fatalf("error = %v, want an Exit in it", err)
	}
	return exit
}

// say reads a line that the agent writes to its stdout.
func say(t *testing.T, p *agent.Process) string {
	t.Helper()
	if err := p.Stdout().SetReadDeadline(time.Now().Add(testkit.Timeout())); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	var one [1]byte
	for {
		if _, err := p.Stdout().Read(one[:]); err != nil {
			t.Fatalf("after %q: %v; stderr %q", b.String(), err, p.StderrTail())
		}
		if one[0] == '\n' {
			return b.String()
		}
		b.WriteByte(one[0])
	}
}

func sayPID(t *testing.T, p *agent.Process) int {
	t.Helper()
	pid, err := strconv.Atoi(say(t, p))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func wait(t *testing.T, p *agent.Process) agent.Exit {
	t.Helper()
	select {
	case <-p.Done():
		return p.Exit()
	case <-testkit.After():
		t.Fatal("the agent did not end within 20 s")
		return agent.Exit{}
	}
}

func stop(t *testing.T, p *agent.Process) agent.Exit {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Timeout())
	defer cancel()
	if err := p.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	return wait(t, p)
}

// gone waits until a process is no more, not even as a zombie: processes of others give no signal.
func gone(t *testing.T, pid int) {
	t.Helper()
	testkit.Eventually(t, "process "+strconv.Itoa(pid)+" is gone", func() bool {
		_, err := os.Stat("/proc/" + strconv.Itoa(pid))
		return os.IsNotExist(err)
	})
}

// buffer is a bytes.Buffer for concurrent use.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) Bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.b.Bytes())
}
