// Package guard ends the processes that this process started, if this process dies without ending them itself, for
// example by SIGKILL.
//
// A guard is the same binary, started again (package orphans). It holds the reading end of a pipe; only this process
// has the writing end. When the pipe ends, this process is dead. The guard then ends every process with the mark, and
// every session that it knows. It does not find a process that has left its session and cleaned its environment.
//
// The package knows processes and pipes, and must not know terminals.
package guard

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/acphost/acphost/internal/proc"

	"github.com/acphost/acphost/services/termd/internal/guard/orphans"
)

// Guard is this process's side of a guard. Make it with Start and end it with Close. All methods are safe for
// concurrent use.
type Guard struct {
	mark string
	log  *slog.Logger
	done chan struct{}

	mu       sync.Mutex
	sessions map[int]bool
	pipe     *os.File // the guard waits for its end; nil: there is no guard
	pid      int
	closed   bool
}

// Start starts a guard for the processes with the mark. A guard that dies is replaced.
func Start(mark string, log *slog.Logger) (*Guard, error) {
	g := &Guard{mark: mark, log: log, done: make(chan struct{}), sessions: map[int]bool{}}
	alive, err := g.launch()
	if err != nil {
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	go g.superviseGuard(alive)
	return g, nil
}

// PID returns the guard's process id; 0: there is no guard now.
func (g *Guard) PID() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pid
}

// Add registers a session with the guard.
func (g *Guard) Add(session int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sessions[session] = true
	g.send("+", session)
}

// Remove removes a session that has ended, and whose number may be reused.
func (g *Guard) Remove(session int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.sessions, session)
	g.send("-", session)
}

// Close makes the guard end the processes and returns when the guard has ended. It waits at most 300 ms: a guard that
// finds processes ends them without this process.
func (g *Guard) Close() {
	g.mu.Lock()
	g.closed = true
	g.closePipe()
	g.mu.Unlock()
	select {
	case <-g.done:
	case <-time.After(300 * time.Millisecond):
	}
}

// send writes to the guard. A guard that does not read, because it is stopped, would not know which sessions to end and
// which to ignore: send kills it, and its successor gets the full list. The caller holds mu.
func (g *Guard) send(verb string, session int) {
	if g.pipe == nil {
		return
	}
	line := verb + strconv.Itoa(session) + "\n"
	if n := writeAvailable(g.pipe, line); n < len(line) {
		_ = syscall.Kill(g.pid, syscall.SIGKILL) // the pid is not reused: it is not reaped before closePipe
	}
}

// writeAvailable writes as much as the pipe accepts within 50 ms, and returns how much that was, so that a reader that
// does not read cannot block this process.
func writeAvailable(pipe *os.File, text string) int {
	_ = pipe.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	n, _ := io.WriteString(pipe, text)
	return n
}

func (g *Guard) closePipe() {
	if g.pipe != nil {
		_ = g.pipe.Close()
		g.pipe = nil
	}
}

// launch starts a guard process. The returned file ends when the guard is dead.
func (g *Guard) launch() (alive *os.File, err error) {
	program, err := proc.OwnProgram()
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	readEnd, pipe, rest, err := g.newPipe()
	if err != nil {
		return nil, err
	}
	defer readEnd.Close()
	alive, proof, err := os.Pipe()
	if err != nil {
		_ = pipe.Close()
		return nil, err
	}
	defer proof.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		_, _ = pipe.Close(), alive.Close()
		return nil, err
	}
	defer null.Close()

	// The guard has its own session: a signal to this process's group must not end it. It holds none of this process's
	// files: a reader of this process's stderr must see its end.
	pid, err := syscall.ForkExec(program, []string{program, orphans.Command, g.mark}, &syscall.ProcAttr{
		Env:   proc.SmallRuntime(),
		Dir:   "/",
		Files: []uintptr{readEnd.Fd(), proof.Fd(), null.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		_, _ = pipe.Close(), alive.Close()
		return nil, err
	}
	g.pipe, g.pid = pipe, pid
	_ = writeAvailable(pipe, rest)
	if g.closed {
		g.closePipe()
	}
	return alive, nil
}

// newPipe makes the pipe of a new guard. The pipe contains the sessions already, so that the guard finds them all even
// if this process is killed while the guard starts. rest is the text that did not fit. The caller holds mu.
func (g *Guard) newPipe() (readEnd, pipe *os.File, rest string, err error) {
	readEnd, pipe, err = os.Pipe()
	if err != nil {
		return nil, nil, "", err
	}
	var known strings.Builder
	for session := range g.sessions {
		known.WriteString("+" + strconv.Itoa(session) + "\n")
	}
	return readEnd, pipe, known.String()[writeAvailable(pipe, known.String()):], nil
}

// superviseGuard replaces the guard whenever it dies, until Close.
func (g *Guard) superviseGuard(alive *os.File) {
	defer close(g.done)
	for {
		_, _ = io.Copy(io.Discard, alive) // ends with the guard
		_ = alive.Close()
		g.mu.Lock()
		pid, closed := g.pid, g.closed
		g.closePipe()
		g.mu.Unlock()
		reap(pid) // before its pid is given up
		g.mu.Lock()
		g.pid = 0
		g.mu.Unlock()
		if closed {
			return
		}
		g.log.Warn("the guard of the terminals' processes died and is started again", "pid", pid)
		var err error
		if alive, err = g.launch(); err != nil {
			g.log.Error("there is no guard: the terminals' processes will live on if this process is killed", "error", err)
			return
		}
	}
}

// reap waits for a guard that has closed its files, and so is dead or about to be. The reaper of orphans may have
// reaped it already.
func reap(pid int) {
	for {
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(pid, &status, 0, nil); err != syscall.EINTR {
			return
		}
	}
}
