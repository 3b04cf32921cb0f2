package prompt

import (
	"context"
	"os"
	"syscall"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/hosting"
	"github.com/acphost/acphost/services/supervisor/internal/tui/jobcontrol"
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
	p.runSignals = make(chan os.Signal)
	status := make(chan int, 1)
	go func() {
		defer p.restoreOnPanic()
		status <- p.runTurn(ctx)
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
			case p.runSignals <- s:
			case code := <-status:
				p.print(dump)
				return code
			case <-time.After(p.stuckTimeout):
				switch {
				case jobcontrol.IsStop(s):
					_ = p.stop()
				case jobcontrol.IsContinue(s):
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
	p.closeKeyboard()
	hosting.Shutdown(p.supervisor, func() {}, p.turnTimeout, p.kill, p.signals, shortensShutdown)
}

// supervisor returns the supervisor, or nil if it was not started.
func (p *promptRun) supervisor() hosting.Supervisor {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sup
}

// closeKeyboard closes the open keyboard, also if run's goroutine is blocked.
func (p *promptRun) closeKeyboard() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.board != nil {
		p.board.Close()
	}
	p.board = nil
}

// spawn starts a goroutine of the prompt.
func (p *promptRun) spawn(f func()) {
	p.wg.Go(func() {
		defer p.restoreOnPanic()
		f()
	})
}

// restoreOnPanic restores the terminal before a panic ends the process.
func (p *promptRun) restoreOnPanic() {
	if r := recover(); r != nil {
		p.closeKeyboard()
		panic(r)
	}
}

// print prints a dump.
func (p *promptRun) print(dump []byte) {
	if len(dump) > 0 {
		_, _ = p.stderr.Write(dump)
	}
}

// shortensShutdown reports whether a signal during the shutdown shortens it.
func shortensShutdown(s os.Signal) bool { return !jobcontrol.IsStop(s) && !jobcontrol.IsContinue(s) }
