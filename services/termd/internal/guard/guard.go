// Package guard ends the processes that this process started, if this process dies without ending them itself, for
// example by SIGKILL.
//
// A guard is the same binary, started again (package orphans). It only holds the reading end of a pipe; this process alone has the writing
// end. At the end of the pipe, this process is dead. The guard then ends every process that carries the mark, and every
// session that it was told of. It does not find a process that has left its session and cleaned its environment.
//
// The package knows processes and pipes, and does not know terminals.
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

// Guard is the process's side of a guard. Make it with Start and end it with Close. All methods are safe for concurrent
// use.
type Guard struct {
	mark string
	log  *slog.Logger
	done chan struct{}

	mu       sync.Mutex
	sessions map[int]bool
	life     *os.File // the guard watches its end; nil: there is none
	pid      int
	closed   bool
}

// Start starts a guard for the processes that carry the mark. A guard that dies is replaced.
func Start(mark string, log *slog.Logger) (*Guard, error) {
	g := &Guard{mark: mark, log: log, done: make(chan struct{}), sessions: map[int]bool{}}
	alive, err := g.launch()
	if err != nil {
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	go g.keep(alive)
	return g, nil
}

// PID is the guard's process id; 0: there is none now.
func (g *Guard) PID() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pid
}

// Add tells the guard of a session.
func (g *Guard) Add(session int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sessions[session] = true
	g.tell("+", session)
}

// Remove tells it that the session is over and its number may come to mean somebody else.
func (g *Guard) Remove(session int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.sessions, session)
	g.tell("-", session)
}

// Close has the guard do its work and returns when it has ended. A guard that finds something left is not waited for: it
// ends that without us.
func (g *Guard) Close() {
	g.mu.Lock()
	g.closed = true
	g.hangUp()
	g.mu.Unlock()
	select {
	case <-g.done:
	case <-time.After(300 * time.Millisecond):
	}
}

// tell writes to the guard. One that takes nothing in, since it is stopped, would not know what to end, and whom to leave
// alone: it is killed, and its successor is told everything. Call it with mu held.
func (g *Guard) tell(verb string, session int) {
	if g.life == nil {
		return
	}
	line := verb + strconv.Itoa(session) + "\n"
	if n := put(g.life, line); n < len(line) {
		_ = syscall.Kill(g.pid, syscall.SIGKILL) // until it is hung up on, nobody has waited for it: the pid is its own
	}
}

// put writes what a pipe takes soon, and returns how much that was: whoever does not read must not stop us.
func put(pipe *os.File, text string) int {
	_ = pipe.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	n, _ := io.WriteString(pipe, text)
	return n
}

func (g *Guard) hangUp() {
	if g.life != nil {
		_ = g.life.Close()
		g.life = nil
	}
}

// launch starts a guard process. What it returns can be read from until the guard is dead.
func (g *Guard) launch() (alive *os.File, err error) {
	program, err := proc.OwnProgram()
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	theirs, life, rest, err := g.lifeline()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	alive, proof, err := os.Pipe()
	if err != nil {
		_ = life.Close()
		return nil, err
	}
	defer proof.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		_, _ = life.Close(), alive.Close()
		return nil, err
	}
	defer null.Close()

	// It has a session of its own: a signal to our process group is for us, and the guard is what comes after us. It holds
	// none of our files: whoever reads our stderr must see it end.
	pid, err := syscall.ForkExec(program, []string{program, orphans.Command, g.mark}, &syscall.ProcAttr{
		Env:   proc.SmallRuntime(),
		Dir:   "/",
		Files: []uintptr{theirs.Fd(), proof.Fd(), null.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		_, _ = life.Close(), alive.Close()
		return nil, err
	}
	g.life, g.pid = life, pid
	_ = put(life, rest)
	if g.closed {
		g.hangUp()
	}
	return alive, nil
}

// lifeline makes the pipe of a guard that is about to be started. What the guard has to know lies in it already: should we
// be killed while the guard starts, it still finds all sessions. rest is what found no room. Call it with mu held.
func (g *Guard) lifeline() (theirs, life *os.File, rest string, err error) {
	theirs, life, err = os.Pipe()
	if err != nil {
		return nil, nil, "", err
	}
	var known strings.Builder
	for session := range g.sessions {
		known.WriteString("+" + strconv.Itoa(session) + "\n")
	}
	return theirs, life, known.String()[put(life, known.String()):], nil
}

// keep replaces the guard whenever it dies, until Close.
func (g *Guard) keep(alive *os.File) {
	defer close(g.done)
	for {
		_, _ = io.Copy(io.Discard, alive) // ends with the guard
		_ = alive.Close()
		g.mu.Lock()
		pid, closed := g.pid, g.closed
		g.hangUp()
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

// reap waits for a guard that has closed its files, and so is dead or about to be. It is our child, unless whoever reaps
// orphans took it for one.
func reap(pid int) {
	for {
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(pid, &status, 0, nil); err != syscall.EINTR {
			return
		}
	}
}
