package chat

import (
	"cmp"
	"context"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/term"

	"github.com/acphost/acphost/services/supervisor/internal/tui/jobcontrol"
)

// job stops and continues the chat as a job of a shell.
type job struct {
	signals  chan os.Signal
	ctx      context.Context
	p        *running
	terminal *os.File
	stop     func() bool
	loan     *loan
}

// awayMsg hides or shows the lower part of the screen.
type awayMsg bool

func newJob(ctx context.Context, o Options, p *running, l *loan) *job {
	j := &job{signals: make(chan os.Signal, 4), ctx: ctx, p: p, terminal: o.Input, stop: o.Stop, loan: l}
	if caught := jobcontrol.Signals(); len(caught) > 0 {
		signal.Notify(j.signals, caught...)
	}
	return j
}

func (j *job) close() { signal.Stop(j.signals) }

// calmTime is the time without signals after which a stop is complete, including all signals of the shell. Bubble Tea
// also needs a part of it: it does not draw on a terminal that it releases and acquires at once.
const calmTime = 50 * time.Millisecond

// signalled processes a signal. It returns an error if the terminal is lost, or if another job has it when the chat's
// context ends.
func (j *job) signalled(s os.Signal) error {
	stopping := jobcontrol.IsStop(s)
	if j.loan.lent.Load() {
		// An editor has the terminal. The chat stops it by stopping itself.
		if stopping {
			j.loan.borrower.Suspend()
		}
		return nil
	}
	// If the process was continued without having stopped itself, the terminal's settings may have changed, and another
	// job may be in the foreground.
	err := j.aside(func() error {
		for {
			if stopping {
				_ = j.stop()
			}
			if err := jobcontrol.AwaitForeground(j.ctx, j.terminal); err != nil {
				return err
			}
			if stopping = j.stopRequested(); !stopping {
				return nil
			}
		}
	})
	return err
}

// stopRequested waits until no more signals arrive, and reports whether one of them asks the process to stop.
func (j *job) stopRequested() bool {
	asked := false
	for {
		select {
		case s := <-j.signals:
			asked = asked || jobcontrol.IsStop(s)
		case <-time.After(calmTime):
			return asked
		}
	}
}

// aside releases the terminal, calls do and acquires the terminal again.
func (j *job) aside(do func() error) error {
	e := &borrowedTask{do: do, started: make(chan struct{}), done: make(chan error, 1)}
	go func() { // until the program acquires it, or ends
		j.p.Send(awayMsg(true))
		j.p.Send(tea.Exec(e, func(error) tea.Msg { return awayMsg(false) })())
	}()
	select {
	case <-e.started:
		return <-e.done
	case <-j.p.done: // the user left meanwhile
		return nil
	case <-time.After(closeGrace):
	}
	if !e.claim() {
		return <-e.done
	}
	if j.loan.lent.Load() { // since then
		j.loan.borrower.Suspend()
		return nil
	}
	// The terminal accepts no output. Stop the process nevertheless.
	now, err := term.GetState(j.terminal.Fd())
	if err != nil {
		return err
	}
	return cmp.Or(do(), term.Restore(j.terminal.Fd(), now))
}

// borrowedTask is a function that runs while the program has released the terminal.
type borrowedTask struct {
	do      func() error
	once    sync.Once
	started chan struct{} // closed when it runs
	done    chan error
}

// claim returns true to its first caller only.
func (e *borrowedTask) claim() (first bool) {
	e.once.Do(func() { first = true })
	return first
}

// Run implements tea.ExecCommand.
func (e *borrowedTask) Run() error {
	if !e.claim() {
		return nil
	}
	close(e.started)
	err := e.do()
	e.done <- err
	if err != nil {
		select {} // otherwise the program would acquire the terminal, which belongs to another job
	}
	return nil
}

// SetStdin implements tea.ExecCommand.
func (e *borrowedTask) SetStdin(io.Reader) {}

// SetStdout implements tea.ExecCommand.
func (e *borrowedTask) SetStdout(io.Writer) {}

// SetStderr implements tea.ExecCommand.
func (e *borrowedTask) SetStderr(io.Writer) {}
