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

// stuckTime limits the time until run's goroutine processes a signal. After that, standard output counts as blocked.
const stuckTime = 300 * time.Millisecond

// run runs the prompt and returns the exit status. When it returns, all processes have ended, unless a second signal
// arrived: then handlers and agent end by themselves when they notice that their supervisor has ended.
//
// It processes signals even if standard output is blocked.
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

// abandon ends all goroutines except the one that is blocked in a write to standard output.
func (p *promptRun) abandon() {
	p.giveBack()
	hosting.End(p.supervisor, func() {}, p.patience, p.kill, p.signals, hurries)
}

// supervisor returns the supervisor, or nil if it was not started.
func (p *promptRun) supervisor() hosting.Supervisor {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sup
}

// giveBack closes the open keyboard, also if run's goroutine is blocked.
func (p *promptRun) giveBack() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.board != nil {
		p.board.Close()
	}
	p.board = nil
}

// goes starts a goroutine of the prompt.
func (p *promptRun) goes(f func()) {
	p.wg.Go(func() {
		defer p.terminalFirst()
		f()
	})
}

// terminalFirst restores the terminal before a panic ends the process.
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

// hurries reports whether a signal during the shutdown shortens it.
func hurries(s os.Signal) bool { return !jobcontrol.Asks(s) && !jobcontrol.Continues(s) }
