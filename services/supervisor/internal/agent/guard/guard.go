// Package guard implements the guard process between a supervisor and its agent, which ends all processes that the
// agent leaves behind. It is the supervisor's own program, started again as "acphost guard".
//
// There is a guard for each agent, and it only waits. To use little memory and time, it runs before the rest of the
// program is initialised. Go initialises a package when all its imports are initialised, and among several such packages
// first the one whose path sorts first. Therefore this package has few imports. A test checks this.
//
// The package knows processes, and the messages between supervisor and guard (Job, Report). It must not know ACP.
package guard

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/entries"
	"github.com/acphost/acphost/internal/proc"
)

// Command is the argument that makes this program a guard. The command is hidden: it is for supervisors alone.
const Command = "guard"

// slack is added where something should long have ended.
const slack = 3 * time.Second

func init() {
	if len(os.Args) > 1 && os.Args[1] == Command {
		os.Exit(run())
	}
}

// run is the whole life of a guard. It reads what to run from a pipe that the supervisor left open for it, and returns the
// exit status of the guard's process, which nobody looks at.
func run() int {
	g, err := newGuard()
	if err != nil {
		fmt.Fprintf(os.Stderr, "guard: %v: this command is for the supervisor's own use\n", err)
		return 64
	}
	job, err := g.readJob()
	if err != nil {
		return 1 // the supervisor ended before it said what to run
	}
	return g.run(job)
}

// guard is the state of the guard's process.
type guard struct {
	life    *bufio.Reader
	signals chan os.Signal // asking for the end
	sigchld chan os.Signal
	notes   []string

	agent atomic.Int64  // the agent's pid, from its start until it was waited for
	group atomic.Int64  // the agent's process group, from its start on
	gone  chan struct{} // closed when the agent was waited for

	mu     sync.Mutex
	status *os.File // guarded by mu
}

func newGuard() (*guard, error) {
	for _, fd := range []int{LifeFD, StatusFD} {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
			return nil, errNotGuarded
		}
		unix.CloseOnExec(fd)
	}
	_ = unix.SetNonblock(LifeFD, true) // or waiting for orders would take a thread
	keepFiles()
	proc.TakeName()
	g := &guard{
		life:    bufio.NewReader(os.NewFile(LifeFD, "life")),
		status:  os.NewFile(StatusFD, "status"),
		signals: make(chan os.Signal, 1), sigchld: make(chan os.Signal, 1),
		gone: make(chan struct{}),
	}
	if err := proc.Undumpable(); err != nil {
		g.notes = append(g.notes, "the agent's guard can be traced by processes of the same user: "+err.Error())
	}
	if err := proc.Subreaper(); err != nil {
		g.notes = append(g.notes, "processes that the agent detaches are not ended with it: "+err.Error())
	}
	// SIGHUP comes when the supervisor ends while the guard is stopped.
	signal.Notify(g.signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	signal.Notify(g.sigchld, syscall.SIGCHLD)
	return g, nil
}

func (g *guard) readJob() (Job, error) {
	var j Job
	err := entries.Read(g.life, &j)
	return j, err
}

// run starts the agent and stays until nothing of it is left.
func (g *guard) run(j Job) int {
	if err := g.start(j); err != nil {
		g.report(Report{Failed: failureOf(j.Command[0], err)})
		g.report(Report{Clean: true})
		return 126
	}
	orders := make(chan string)
	go g.readOrders(orders)

	ctx, hurry := context.WithCancel(context.Background())
	defer hurry()
	var ended chan error
	end := func() {
		if ended == nil {
			ended = make(chan error, 1)
			go func() { ended <- g.end(ctx, j.Grace) }()
		}
	}
	gone := g.gone
	for {
		select {
		case <-g.sigchld:
			g.reap()
		case order := <-orders:
			if order == KillNow {
				hurry()
			}
			end()
		case <-g.signals:
			end()
		case <-gone:
			gone = nil
			end()
		case err := <-ended:
			g.report(Report{Clean: err == nil})
			return 0
		}
	}
}

// start starts the agent on a thread that lives as long as the agent: the kernel kills the agent when the thread, and so
// the guard, is killed.
func (g *guard) start(j Job) error {
	result := make(chan error, 1)
	go func() {
		_ = proc.Confine(j.Confinement, func(w proc.Walls) error { g.live(j, w, result); return nil })
	}()
	return <-result
}

// live starts the agent on the calling thread, says how that went, and stays until the agent has ended.
func (g *guard) live(j Job, walls proc.Walls, result chan<- error) {
	var p *os.Process
	err := walls.Closed(j.Confinement)
	if err == nil {
		p, err = execute(j)
	}
	if err != nil {
		result <- err
		return
	}
	g.letGo() // before the supervisor hears of the start, so that it never meets the guard at the other end of a pipe
	g.agent.Store(int64(p.Pid))
	g.group.Store(int64(p.Pid))
	for _, note := range walls.Notes {
		if len(j.Sandbox) > 0 && strings.HasPrefix(note, "no seccomp filter") {
			continue // the sandbox has put it around the agent
		}
		g.notes = append(g.notes, "the agent has "+note)
	}
	walls.Notes = g.notes
	g.report(Report{Started: &Started{PID: p.Pid, Walls: walls}})
	result <- nil
	state, err := p.Wait()
	g.agent.Store(0)
	if err == nil {
		status := proc.StatusOf(state)
		g.report(Report{Ended: &status})
	}
	close(g.gone)
}

// execute starts the agent's program with the guard's first three files.
func execute(j Job) (*os.Process, error) {
	program, err := lookPath(j.Command[0], j.Dir, j.Env)
	if err != nil {
		return nil, err
	}
	attr := &os.ProcAttr{Dir: j.Dir, Env: j.Env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: agentAttr(j.Credential)}
	if len(j.Sandbox) > 0 {
		decisions := os.NewFile(DecisionsFD, "decisions")
		defer decisions.Close() // the supervisor is to see the sandbox's end
		attr.Files = append(attr.Files, decisions)
		return startLimited(j.Sandbox[0], slices.Concat([]string{os.Args[0]}, j.Sandbox[1:], []string{"--"}, j.Command), attr)
	}
	p, err := startLimited(program, j.Command, attr)
	if errors.Is(err, syscall.ENOEXEC) { // a script that names no interpreter: do as execvp and shells do
		p, err = startLimited("/bin/sh", append([]string{"sh", program}, j.Command[1:]...), attr)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is there, but not the interpreter or loader that it needs: %w", program, err)
	}
	return p, err
}

func startLimited(program string, argv []string, attr *os.ProcAttr) (p *os.Process, err error) {
	_, err = proc.StartLimited(attr.Sys, func() (int, error) {
		if p, err = os.StartProcess(program, argv, attr); err != nil { // #nosec G702 -- the user's agent, behind its walls
			return 0, err
		}
		return p.Pid, nil
	})
	return p, err
}

// letGo closes the guard's own hold of the agent's pipes: it must not keep the other ends from seeing their end.
func (g *guard) letGo() {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	for fd := range 3 {
		if err != nil || dupOnto(int(null.Fd()), fd) != nil {
			_ = unix.Close(fd)
		}
	}
	_ = os.Chdir("/") // nor a file system from being unmounted
}

// readOrders hands on what the supervisor orders, to the end of the pipe and of the process.
func (g *guard) readOrders(orders chan<- string) {
	for {
		order, err := g.life.ReadString('\n')
		if order != "" || errors.Is(err, io.EOF) {
			orders <- order
		}
		if err != nil {
			return
		}
	}
}

// end ends the agent and all that it left; when ctx ends, at once. An error says that something is left.
func (g *guard) end(ctx context.Context, grace time.Duration) error {
	last, cancel := context.WithTimeout(context.Background(), grace+slack)
	defer cancel()
	if err := g.endTree(ctx, grace); err != nil {
		if err := g.endTree(last, 0); err != nil {
			if group := int(g.group.Load()); group > 1 { // what it leads can be ended at least
				_ = syscall.Kill(-group, syscall.SIGKILL)
			}
			return err
		}
	}
	select {
	case <-g.gone:
		return nil
	case <-last.Done():
		return last.Err()
	}
}

func (g *guard) report(r Report) {
	g.mu.Lock()
	defer g.mu.Unlock()
	message, _ := entries.Marshal(&r)
	_, _ = g.status.Write(message) // a supervisor that is gone need not know
}

// failureOf says why a program could not be started.
func failureOf(program string, err error) *Failed {
	return &Failed{NotFound: errors.Is(err, fs.ErrNotExist), Detail: fmt.Sprintf("%s: %v", program, err)}
}

var errNotGuarded = errors.New("not started by a supervisor")
