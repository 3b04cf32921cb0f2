//go:build linux || darwin

package chat

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/creack/pty"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func TestTerminal_StuckDoesNotBlockExit(t *testing.T) {
	ours, theirs, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	before, err := term.GetState(theirs.Fd())
	if err != nil {
		t.Fatal(err)
	}
	fill(t, theirs)
	ctx, stop := context.WithCancel(context.Background())
	result := make(chan error, 1)
	conn := newFake().serve(t)
	go func() {
		_, err := Run(ctx, Options{
			Conn: conn, Agent: &supervisorv1.StartAgentRequest{Preset: "claude"}, Cwd: t.TempDir(),
			Input: theirs, Output: theirs, Env: []string{"TERM=xterm", "TERM_PROGRAM=Apple_Terminal"},
		})
		result <- err
	}()
	stop()
	select {
	case err := <-result:
		if err == nil || !strings.Contains(err.Error(), "takes no output") {
			t.Errorf("it ended with %v", err)
		}
	case <-testkit.After():
		t.Fatal("it does not end")
	}
	after, err := term.GetState(theirs.Fd())
	if err != nil || *after != *before {
		t.Errorf("the terminal is not as it was: %v", err)
	}
	// A pending write fails and ends; the other end has its own descriptor, which stays open.
	_ = ours.Close()
}

// fill writes to a terminal that has no reader until a write would block.
func fill(t *testing.T, f *os.File) {
	t.Helper()
	fd := int(f.Fd())
	state, err := term.MakeRaw(f.Fd()) // as in the chat: a terminal in line mode reports earlier that it is full
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	// The kernel moves written bytes to the other end asynchronously, without a notification.
	text := []byte(strings.Repeat("x", 512))
	for last := time.Now(); time.Since(last) < 300*time.Millisecond; {
		n, err := syscall.Write(fd, text)
		switch {
		case n > 0:
			last = time.Now()
		case err == syscall.EAGAIN:
			text = text[:1]
			runtime.Gosched()
		default:
			t.Fatal(err)
		}
	}
	if err := errors.Join(syscall.SetNonblock(fd, false), term.Restore(f.Fd(), state)); err != nil {
		t.Fatal(err)
	}
}
