package prompt

import (
	"context"
	"os"
	"syscall"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/hosting"
	"github.com/acphost/acphost/services/supervisor/internal/jobcontrol"
)

// stuckTime is how long run's goroutine may take to see a signal. If it does not, standard output takes nothing.
const stuckTime = 300 * time.Millisecond

// run does it all and returns the exit status. When it returns, nothing of it is left, unless a second signal made it
// hurry: then handlers and agent end by themselves, since they see that their supervisor is gone.
//
// It sees signals though nobody reads what is printed.
func (p *promptRun) run(ctx context.Context) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.heard = make(chan os.Signal)
	status := make(chan int, 1)
	go func() {
		defer p.terminalFirst()
		status <- p.hold(ctx)
	}()
	var dump []byte
	for {
		select {
		case code := <-status:
			p.print(dump)
			return code
		case s := <-p.signals:
			if s == syscall.SIGQUIT {
				dump = command.Goroutines(os.Getenv)
			}
			select {
			case p.heard <- s:
			case code := <-status:
				p.print(dump)
				return code
			case <-time.After(p.stuck):
				switch {
				case jobcontrol.Asks(s):
					_ = p.stop()
				case jobcontrol.Continues(s):
				default:
					cancel()
					p.abandon()
					p.print(dump)
					return 128 + int(signalNumber(s))
				}
			}
		}
	}
}

// abandon ends all but the goroutine that writes to standard output, which takes nothing.
func (p *promptRun) abandon() {
	p.giveBack()
	hosting.End(p.supervisor, func() {}, p.patience, p.kill, p.signals, hurries)
}

// supervisor is the one that was started; nil: none.
func (p *promptRun) supervisor() hosting.Supervisor {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sup
}

// giveBack closes the keyboard that is open, if one is: also where run's goroutine cannot.
func (p *promptRun) giveBack() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.board != nil {
		p.board.Close()
	}
	p.board = nil
}

// goes runs a goroutine of the prompt's.
func (p *promptRun) goes(f func()) {
	p.wg.Go(func() {
		defer p.terminalFirst()
		f()
	})
}

// terminalFirst gives the terminal back before a panic ends the process.
func (p *promptRun) terminalFirst() {
	if r := recover(); r != nil {
		p.giveBack()
		panic(r)
	}
}

// print prints a dump.
func (p *promptRun) print(dump []byte) {
	if len(dump) > 0 {
		_, _ = p.stderr.Write(dump)
	}
}

// hurries reports whether a signal that comes while all is being ended cuts that short.
func hurries(s os.Signal) bool { return !jobcontrol.Asks(s) && !jobcontrol.Continues(s) }
