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

	"github.com/acphost/acphost/services/supervisor/internal/jobcontrol"
)

// job is the chat as a job of a shell's: it is stopped, and goes on.
type job struct {
	signals  chan os.Signal
	ctx      context.Context
	p        *running
	terminal *os.File
	stop     func() bool
	loan     *loan
}

// awayMsg takes what is shown below away, or shows it again.
type awayMsg bool

func newJob(ctx context.Context, o Options, p *running, l *loan) *job {
	j := &job{signals: make(chan os.Signal, 4), ctx: ctx, p: p, terminal: o.Input, stop: o.Stop, loan: l}
	if caught := jobcontrol.Signals(); len(caught) > 0 {
		signal.Notify(j.signals, caught...)
	}
	return j
}

func (j *job) close() { signal.Stop(j.signals) }

// calmTime is how long no signal comes until a stop is over, with all that it makes a shell send. Bubble Tea needs some of
// it, too: a terminal that it gives back and takes again at once, it no longer draws on.
const calmTime = 50 * time.Millisecond

// signalled takes a signal. An error is a terminal that cannot be had any more, or that is another job's still while the
// chat's context has ended.
func (j *job) signalled(s os.Signal) error {
	stopping := jobcontrol.Asks(s)
	if j.loan.lent.Load() {
		// The terminal is an editor's, which stops the chat by stopping.
		if stopping {
			j.loan.borrower.Suspend()
		}
		return nil
	}
	// Where it goes on without having stopped by itself, the terminal may be set otherwise by now, and be another job's.
	err := j.aside(func() error {
		for {
			if stopping {
				_ = j.stop()
			}
			if err := jobcontrol.Await(j.ctx, j.terminal); err != nil {
				return err
			}
			if stopping = j.asked(); !stopping {
				return nil
			}
		}
	})
	return err
}

// asked waits until no signal comes and reports whether one of them asks the process to stop.
func (j *job) asked() bool {
	asked := false
	for {
		select {
		case s := <-j.signals:
			asked = asked || jobcontrol.Asks(s)
		case <-time.After(calmTime):
			return asked
		}
	}
}

// aside gives the terminal back, does something and takes the terminal again.
func (j *job) aside(do func() error) error {
	e := &errand{do: do, begun: make(chan struct{}), over: make(chan error, 1)}
	go func() { // until the program takes it, or ends
		j.p.Send(awayMsg(true))
		j.p.Send(tea.Exec(e, func(error) tea.Msg { return awayMsg(false) })())
	}()
	select {
	case <-e.begun:
		return <-e.over
	case <-j.p.over: // the person left meanwhile
		return nil
	case <-time.After(closeGrace):
	}
	if !e.claim() {
		return <-e.over
	}
	if j.loan.lent.Load() { // since then
		j.loan.borrower.Suspend()
		return nil
	}
	// It takes no output, and is stopped all the same.
	now, err := term.GetState(j.terminal.Fd())
	if err != nil {
		return err
	}
	return cmp.Or(do(), term.Restore(j.terminal.Fd(), now))
}

// errand is what is done while the program has given the terminal back.
type errand struct {
	do    func() error
	once  sync.Once
	begun chan struct{} // closed
	over  chan error
}

// claim reports whether nobody has claimed it before.
func (e *errand) claim() (first bool) {
	e.once.Do(func() { first = true })
	return first
}

// Run implements tea.ExecCommand.
func (e *errand) Run() error {
	if !e.claim() {
		return nil
	}
	close(e.begun)
	err := e.do()
	e.over <- err
	if err != nil {
		select {} // or the program would take the terminal again, and it is another job's
	}
	return nil
}

// SetStdin implements tea.ExecCommand.
func (e *errand) SetStdin(io.Reader) {}

// SetStdout implements tea.ExecCommand.
func (e *errand) SetStdout(io.Writer) {}

// SetStderr implements tea.ExecCommand.
func (e *errand) SetStderr(io.Writer) {}
