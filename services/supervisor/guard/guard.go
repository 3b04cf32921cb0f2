// Package guard implements the guard process between a supervisor and its agent, which ends all processes that the
// agent leaves behind. It is the supervisor's own program, started again as "acphost guard".
//
// There is a guard for each agent, and it only waits. To use little memory and time, it runs before the rest of the
// program is initialised. Go initialises a package when all its imports are initialised, and among several such
// packages first the one whose path sorts first. Therefore this package has few imports, and is not in internal, whose
// packages would be initialised first. A test checks this.
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

	"github.com/acphost/acphost/internal/nulmsg"
	"github.com/acphost/acphost/internal/proc"
)

// Command is the argument that makes this program a guard. The command is hidden, because only supervisors use it.
const Command = "guard"

// slack is added to timeouts for operations that should have completed.
const slack = 3 * time.Second

func init() {
	if len(os.Args) > 1 && os.Args[1] == Command {
		os.Exit(run())
	}
}

// run runs a guard. It reads the job from a pipe that the supervisor opened, and returns the exit status of the
// process, which is not used.
func run() int {
	g, err := newGuard()
	if err != nil {
		fmt.Fprintf(os.Stderr, "guard: %v: this command is for the supervisor's own use\n", err)
		return 64
	}
	job, err := g.readJob()
	if err != nil {
		return 1 // the supervisor ended before it sent a job
	}
	return g.run(job)
}

// guard is the state of the guard's process.
type guard struct {
	life    *bufio.Reader
	signals chan os.Signal // signals that request the end
	sigchld chan os.Signal
	notes   []string

	agent atomic.Int64  // the agent's pid, from its start until it was reaped
	group atomic.Int64  // the agent's process group, set at its start
	gone  chan struct{} // closed when the agent was reaped

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
	_ = unix.SetNonblock(LifeFD, true) // otherwise reading orders would need a thread
	keepFiles()
	proc.SetName()
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
	err := nulmsg.Read(g.life, &j)
	return j, err
}

// run starts the agent and returns when all of its processes have ended.
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

// start starts the agent on a thread that lives as long as the agent: the kernel kills the agent when the thread, and
// so the guard, is killed.
func (g *guard) start(j Job) error {
	result := make(chan error, 1)
	go func() {
		_ = proc.Confine(j.Confinement, func(w proc.Restrictions) error { g.live(j, w, result); return nil })
	}()
	return <-result
}

// live starts the agent on the calling thread, reports the result, and returns when the agent has ended.
func (g *guard) live(j Job, restrictions proc.Restrictions, result chan<- error) {
	var p *os.Process
	err := restrictions.CheckUnreadable(j.Confinement)
	if err == nil {
		p, err = execute(j)
	}
	if err != nil {
		result <- err
		return
	}
	g.closeAgentPipes() // before the report, so that the supervisor never finds the guard at the other end of a pipe
	g.agent.Store(int64(p.Pid))
	g.group.Store(int64(p.Pid))
	for _, note := range restrictions.Notes {
		if len(j.Sandbox) > 0 && strings.HasPrefix(note, "no seccomp filter") {
			continue // the sandbox installs it for the agent
		}
		g.notes = append(g.notes, "the agent has "+note)
	}
	restrictions.Notes = g.notes
	g.report(Report{Started: &Started{PID: p.Pid, Restrictions: restrictions}})
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
	entered, err := proc.EnterGroup(attr.Sys, j.Group)
	if err != nil {
		return nil, err
	}
	defer entered()
	if len(j.Sandbox) > 0 {
		decisions := os.NewFile(DecisionsFD, "decisions")
		defer decisions.Close() // so that the supervisor observes the end of the sandbox
		attr.Files = append(attr.Files, decisions)
		return startLimited(j.Sandbox[0], slices.Concat([]string{os.Args[0]}, j.Sandbox[1:], []string{"--"}, j.Command), attr)
	}
	p, err := startLimited(program, j.Command, attr)
	if errors.Is(err, syscall.ENOEXEC) { // a script without an interpreter line: run it with the shell, as execvp does
		p, err = startLimited("/bin/sh", append([]string{"sh", program}, j.Command[1:]...), attr)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is there, but not the interpreter or loader that it needs: %w", program, err)
	}
	return p, err
}

func startLimited(program string, argv []string, attr *os.ProcAttr) (p *os.Process, err error) {
	_, err = proc.StartLimited(attr.Sys, func() (int, error) {
		if p, err = os.StartProcess(program, argv, attr); err != nil { // #nosec G702 -- the user's agent, with its restrictions
			return 0, err
		}
		return p.Pid, nil
	})
	return p, err
}

// closeAgentPipes closes the guard's own files of the agent's pipes, so that the other ends observe their end.
func (g *guard) closeAgentPipes() {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	for fd := range 3 {
		if err != nil || dupOnto(int(null.Fd()), fd) != nil {
			_ = unix.Close(fd)
		}
	}
	_ = os.Chdir("/") // so that the guard does not keep a file system from being unmounted
}

// readOrders passes on the supervisor's orders until the pipe or the process ends.
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

// end ends the agent and all remaining processes, at once if ctx has ended. It returns an error if a process is left.
func (g *guard) end(ctx context.Context, grace time.Duration) error {
	last, cancel := context.WithTimeout(context.Background(), grace+slack)
	defer cancel()
	if err := g.endTree(ctx, grace); err != nil {
		if err := g.endTree(last, 0); err != nil {
			if group := int(g.group.Load()); group > 1 { // at least its process group can be ended
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
	message, _ := nulmsg.Marshal(&r)
	_, _ = g.status.Write(message) // fails if the supervisor has ended
}

// failureOf returns the reason why a program could not be started.
func failureOf(program string, err error) *Failed {
	return &Failed{NotFound: errors.Is(err, fs.ErrNotExist), Detail: fmt.Sprintf("%s: %v", program, err)}
}

var errNotGuarded = errors.New("not started by a supervisor")
