// Package agent runs one agent process. When the agent ends for any reason, all of its processes are ended.
//
// A guard starts the agent: the supervisor's own program, executed again (package guard). The guard adopts the
// processes that the agent detaches. It ends all of them when the agent ends, when the supervisor orders it, or when
// the supervisor has ended. The guard is outside of the agent's Landlock domain: it can signal the agent, and the agent
// cannot signal it. If the guard is killed first, the kernel kills the agent, and the supervisor ends the other
// processes.
//
// The package knows processes, pipes and exit statuses. It must not know ACP: it never reads or writes the content of
// the pipes.
package agent

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/acphost/acphost/internal/child"
	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/services/supervisor/guard"
)

const (
	// defaultGrace is how long an agent may take to end, first after its stdin was closed and again after SIGTERM.
	defaultGrace = 5 * time.Second
	// startTimeout limits how long the guard may take to execute the agent's program.
	startTimeout = 30 * time.Second
	// slack is added to a timeout for an order that the guard should have completed.
	slack = 3 * time.Second
	// stderrSettle limits how long the end waits for a slow reader of the agent's stderr.
	stderrSettle = time.Second
)

// Spec describes how to run an agent.
type Spec struct {
	// Name is the agent's configured name, for messages and logs.
	Name string
	// Command is the program and its arguments. A program without a slash is searched in the PATH of Env; a relative
	// path is relative to Dir. "demoagent" is first searched in the folder of acphost's own program.
	Command []string
	// Dir is the working directory. Empty: the supervisor's.
	Dir string
	// Env is the whole environment. Nil: the supervisor's, adapted to User. One variable is added, ACPHOST_AGENT_ and
	// 16 hexadecimal digits, which identifies processes of the agent.
	Env []string
	// User is the user of the agent. Nil: the supervisor's user.
	User *proc.User
	// Confinement selects the restrictions of the agent. Start sets ChangesUser from User.
	proc.Confinement
	// StopGrace is how long the agent may take to end after its stdin was closed, and again after SIGTERM. Default: 5
	// s.
	StopGrace time.Duration
	// Stderr receives the agent's stderr unchanged. Nil: it is discarded. A blocked Write eventually blocks the agent,
	// as on a terminal, but never Stop.
	Stderr io.Writer
	// Guard is the command that runs a guard; see OwnGuard.
	Guard []string
	// Group is the folder of the control group that the agent starts in. Empty: the supervisor's group.
	Group string
	// Sandbox, if set, runs the agent in a sandbox.
	Sandbox *Sandbox
	// Logger logs problems. Nil: nothing is logged.
	Logger *slog.Logger
}

// Process is a started agent. Its methods are safe for concurrent use.
type Process struct {
	name   string
	user   *proc.User
	grace  time.Duration
	logger *slog.Logger
	mark   string
	guard  *exec.Cmd
	stdin  *os.File
	stdout *os.File
	life   *os.File // closing it ends the guard
	stderr *relay

	started      chan struct{} // closed when the guard has reported the start, or ended
	tree         proc.Tree     // of the agent; set before started is closed, like the next two fields
	restrictions proc.Restrictions
	startFail    *Exit
	sandbox      *sandboxed // nil: there is none

	stopping atomic.Bool
	killOnce sync.Once
	done     chan struct{}
	exit     Exit // set before done is closed
}

// Start starts the agent and returns when its program runs. If the program cannot be started, errors.As finds an Exit
// with the reason in the error. The caller closes Stdout after reading it to its end; everything else is released when
// the agent has ended by itself or by Stop.
func Start(s Spec) (*Process, error) {
	if len(s.Command) == 0 || s.Command[0] == "" {
		return nil, Exit{Name: s.Name, Reason: StartFailed, Code: 126, Detail: "no command is given"}
	}
	if len(s.Guard) == 0 {
		return nil, fmt.Errorf("start agent %q: no guard command is given", s.Name)
	}
	job, err := newJob(s)
	if err != nil {
		return nil, Exit{Name: s.Name, Reason: StartFailed, Code: 126, Detail: err.Error()}
	}
	p := &Process{
		name: s.Name, user: s.User, grace: job.Grace, logger: s.Logger, mark: job.Mark,
		started: make(chan struct{}), done: make(chan struct{}),
	}
	p.logger = cmp.Or(p.logger, slog.New(slog.DiscardHandler))
	if err := p.startGuard(s, job); err != nil {
		return nil, fmt.Errorf("start the guard of agent %q: %w", s.Name, err)
	}
	select {
	case <-p.started:
	case <-time.After(startTimeout):
		p.killGuard("it did not start the agent in time")
		<-p.started
	}
	if p.startFail != nil {
		<-p.done
		_ = p.stdout.Close()
		return nil, *p.startFail
	}
	if err := p.awaitSandbox(); err != nil {
		_ = p.stdout.Close()
		return nil, err
	}
	return p, nil
}

// Stdin is the writing end of the agent's stdin. Closing it asks the agent to end. Close waits for an active write,
// which the agent can delay without limit.
func (p *Process) Stdin() *os.File { return p.stdin }

// closeStdin waits for an active write. An agent can block it forever: a splice of its own into the pipe holds the
// pipe's lock while it waits. So callers must not wait for closeStdin.
func (p *Process) closeStdin() { _ = p.stdin.Close() }

// Stdout is the reading end of the agent's stdout. It ends when no process of the agent has it open.
func (p *Process) Stdout() *os.File { return p.stdout }

// PID is the agent's process id, also after the agent has ended.
func (p *Process) PID() int { return p.tree.Root }

// Restrictions returns the restrictions that were applied to the agent. Its notes name missing restrictions and the
// reasons, one sentence each.
func (p *Process) Restrictions() proc.Restrictions { return p.restrictions }

// StderrTail returns the end of the agent's stderr: at most 20 lines of at most 500 characters, without escape
// sequences.
func (p *Process) StderrTail() []string { return p.stderr.tail() }

// Done returns a channel that is closed when all processes of the agent have ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit returns how the agent ended. It is valid once Done is closed; before, its Reason is Running.
func (p *Process) Exit() Exit {
	select {
	case <-p.done:
		return p.exit
	default:
		return Exit{Name: p.name, Reason: Running}
	}
}

// Stop ends the agent and all processes that it started: it closes the agent's stdin; after the grace period it sends
// SIGTERM to the process tree, and after another one SIGKILL. If ctx ends before, it sends SIGKILL at once. Stop always
// returns within seconds of the end of ctx, with an error if processes may be left. It may be called repeatedly, and
// after the agent's end.
func (p *Process) Stop(ctx context.Context) error {
	p.stopping.Store(true)
	go panics.Guard(p.logger, "closing the agent's input", p.closeStdin)()
	if p.await(ctx, p.grace) {
		return nil
	}
	if ctx.Err() == nil {
		p.order(guard.EndWell)
		if p.await(ctx, p.grace+slack) {
			return nil
		}
	}
	p.order(guard.KillNow)
	anyway := context.WithoutCancel(ctx)
	if p.await(anyway, slack) {
		return nil
	}
	p.killGuard("it did not end the agent in time") // watch then ends the processes
	if p.await(anyway, p.grace+2*slack) {
		return nil
	}
	return fmt.Errorf("stop agent %q: process %d did not end, not even after SIGKILL", p.name, p.PID())
}

// await waits for the agent's end. It returns false if ctx or the time ended first.
func (p *Process) await(ctx context.Context, d time.Duration) bool {
	select {
	case <-p.done:
		return true
	case <-ctx.Done():
	case <-time.After(d):
	}
	return false
}

// order sends an order to the guard, and resumes the guard if it is stopped. It does not wait for the result.
func (p *Process) order(order string) {
	_ = p.life.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = p.life.WriteString(order) // the caller handles a guard that has ended or does not react
	_ = p.guard.Process.Signal(syscall.SIGCONT)
}

func (p *Process) killGuard(why string) {
	p.killOnce.Do(func() {
		p.logger.Warn("killing the guard of an agent", "agent", p.name, "guard", p.guard.Process.Pid, "why", why)
		_ = p.guard.Process.Kill()
	})
}

// startGuard starts the guard with the agent's pipes, and the goroutine that watches it.
func (p *Process) startGuard(s Spec, job guard.Job) (err error) {
	var pipes pipes
	defer func() {
		pipes.closeTheirs()
		if err != nil {
			for _, p := range pipes.all() {
				_ = p.ours.Close()
			}
		}
	}()
	if err := pipes.open(job.Credential); err != nil {
		return err
	}
	p.guard = exec.Command(s.Guard[0], s.Guard[1:]...)
	self, _ := proc.OwnProgram() // empty if unknown
	if own, err := os.Executable(); err == nil && s.Guard[0] == self {
		p.guard.Args[0] = own // the name in lists of processes
	}
	p.guard.Env = runtimeEnv(os.Environ())
	p.guard.Stdin, p.guard.Stdout, p.guard.Stderr = pipes.stdin.theirs, pipes.stdout.theirs, pipes.stderr.theirs
	p.guard.ExtraFiles = []*os.File{pipes.life.theirs, pipes.status.theirs} // LifeFD, StatusFD
	var theirs *os.File
	if s.Sandbox != nil {
		if p.sandbox, theirs, err = newSandboxed(s.Sandbox); err != nil {
			return err
		}
		defer theirs.Close()
		defer func() {
			if err != nil {
				p.sandbox.abandon()
			}
		}()
		p.guard.ExtraFiles = append(p.guard.ExtraFiles, theirs) // DecisionsFD
	}
	// The guard has its own process group, because an editor may kill the supervisor's whole group. It has no session
	// of its own: in the same session, the kernel resumes a stopped guard when the supervisor ends.
	p.guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := child.Start(p.guard); err != nil {
		return err
	}
	pipes.closeTheirs()
	p.stdin, p.stdout, p.life = pipes.stdin.ours, pipes.stdout.ours, pipes.life.ours
	p.stderr = newRelay(pipes.stderr.ours, s.Stderr)
	if p.sandbox != nil {
		go panics.Guard(p.logger, "answering the agent's sandbox", func() { p.sandbox.serve(p.logger) }, func(error) { p.sandbox.end() })()
	}
	go panics.Guard(p.logger, "watching the guard of an agent", func() { p.watch(pipes.status.ours) }, func(err error) { p.killGuard(err.Error()) })()
	if err := send(job, p.life); err != nil {
		p.killGuard(err.Error())
	}
	return nil
}

// watch follows the guard to its end, ends remaining processes, and closes done.
func (p *Process) watch(status *os.File) {
	defer close(p.done)
	end, clean := p.follow(status)
	_ = status.Close()
	waitErr := child.Wait(p.guard)
	if !clean {
		p.logger.Warn("the guard of an agent ended before its work was done", "agent", p.name, "error", waitErr)
		ctx, cancel := context.WithTimeout(context.Background(), p.grace+slack)
		if err := endStrays(ctx, p.mark, p.tree, p.grace); err != nil {
			p.logger.Error("processes of an agent may be left", "agent", p.name, "error", err)
		}
		cancel()
	}
	if p.sandbox != nil {
		p.sandbox.end()
	}
	p.stderr.finish(stderrSettle)
	go panics.Guard(p.logger, "closing the agent's input", p.closeStdin)()
	_ = p.life.Close()
	p.exit = exitOf(p.name, end, p.stderr.tail(), p.stopping.Load())
	if p.sandbox != nil && p.exit.Signal == "SIGKILL" && !p.exit.Stopped {
		p.exit.Detail = withSandbox
	}
	if p.startFail != nil {
		p.exit = *p.startFail
	}
}

// follow reads the guard's reports. end is how the agent ended, nil if the guard did not report that; clean: no process
// is left.
func (p *Process) follow(status io.Reader) (end *proc.ExitStatus, clean bool) {
	open := true
	settle := func(fail *Exit) {
		if open {
			p.startFail, open = fail, false
			close(p.started)
		}
	}
	for r := range reports(status) {
		switch {
		case r.Started != nil:
			tree, err := proc.TreeOf(r.Started.PID)
			if err != nil {
				tree = proc.Tree{Root: r.Started.PID} // unsupported system, or the agent has ended already
			}
			p.tree, p.restrictions = tree, r.Started.Restrictions
			settle(nil)
		case r.Failed != nil:
			settle(p.failure(r.Failed))
		case r.Ended != nil:
			end = r.Ended
		case r.Clean:
			clean = true
		}
	}
	settle(&Exit{Name: p.name, Reason: StartFailed, Code: 126, Detail: "its guard ended before it could start it"})
	return end, clean
}

// failure converts the failed start of a program to an Exit.
func (p *Process) failure(f *guard.Failed) *Exit {
	e := &Exit{Name: p.name, Reason: StartFailed, Code: 126, Detail: f.Detail}
	if f.NotFound {
		e.Reason, e.Code = NotFound, 127
	}
	if p.user != nil && strings.HasSuffix(f.Detail, syscall.EACCES.Error()) {
		e.Detail += fmt.Sprintf(": user %s may not execute it, or not enter the working directory", p.user)
	}
	return e
}

// OwnGuard returns the command that runs a guard with this process's own program. It uses the very file that was
// started, because a program that replaced it would run without restrictions.
func OwnGuard() ([]string, error) {
	self, err := proc.OwnProgram()
	if err != nil {
		return nil, err
	}
	return []string{self, guard.Command}, nil
}

// newJob returns the job for the guard.
func newJob(s Spec) (guard.Job, error) {
	dir, err := filepath.Abs(s.Dir) // the current one if empty
	if err != nil {
		return guard.Job{}, fmt.Errorf("find the working directory: %w", err)
	}
	if info, err := os.Stat(dir); err != nil {
		return guard.Job{}, fmt.Errorf("working directory: %w", err)
	} else if !info.IsDir() {
		return guard.Job{}, fmt.Errorf("working directory %s: %w", dir, syscall.ENOTDIR)
	}
	env := s.Env
	if env == nil {
		env = s.User.Environ(os.Environ())
	}
	grace := s.StopGrace
	if grace <= 0 {
		grace = defaultGrace
	}
	mark, confinement := newMark(), s.Confinement
	confinement.ChangesUser = s.User != nil
	job := guard.Job{
		Command: findDemoAgent(s.Command), Dir: dir, Env: append(env[:len(env):len(env)], mark), Mark: mark,
		Credential: s.User.Credential(), Confinement: confinement, Grace: grace, Group: s.Group,
	}
	if s.Sandbox != nil {
		// The sandbox copies open files from the agent's processes, which the filter forbids. So the sandbox itself
		// installs the filter for the agent.
		job.NoSeccomp = true
		job.Sandbox = s.Sandbox.command(s.Guard[0])
	}
	return job, nil
}
