package prompt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/hosting"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
	"github.com/acphost/acphost/services/supervisor/internal/tui/jobcontrol"
	"github.com/acphost/acphost/services/supervisor/internal/tui/render"
)

// pauseTime is the time without events after which the last word of a message is shown.
const pauseTime = 200 * time.Millisecond

// The time without output after which the current activity is shown: to a user, and in a file, where it is written
// rarely.
const (
	slowTime     = 300 * time.Millisecond
	slowFileTime = 2 * time.Second
)

// outputGrace limits the time after the turn for the remaining output of terminals.
const outputGrace = 500 * time.Millisecond

// promptRun is one prompt from the start of the agent to its end. The goroutine of run owns output and questions. Other
// goroutines send it functions to call.
type promptRun struct {
	text                 string
	attachments          []*attachment
	session, mode, model string
	meta                 string                             // _meta of the session
	newest               func(agent string) (string, error) // returns the session to continue; nil: use session
	prints               printing
	attended             bool
	failOnDenied         bool
	timeout              time.Duration    // 0: none
	timedOut             <-chan time.Time // fires after the timeout; nil: no timeout
	agent                *supervisorv1.StartAgentRequest
	where                string // the agent's sandbox in a few words; empty: none
	start                func(context.Context) (hosting.Supervisor, error)
	notices              <-chan string            // lines for the user
	keyboard             func() (keyboard, error) // nil: questions are not asked
	signals              <-chan os.Signal
	stderr               io.Writer
	screen               *screen
	status               *screen // screen of the status line; nil: none
	look                 render.Options
	turnTimeout          time.Duration // how long to wait for the turn's end after a signal
	grace                time.Duration // time between a signal and the kill of remaining processes
	kill                 func()        // kills them
	answerPause          time.Duration // see answerPause
	stuckTimeout         time.Duration // see stuckTime
	stop                 func() bool   // stops the process until it is continued; false: it cannot be stopped
	foreground           func() bool   // this job is in the foreground

	inbox      chan func()
	runSignals chan os.Signal // signals for run's goroutine
	wg         sync.WaitGroup
	mu         sync.Mutex
	board      keyboard           // the open keyboard, guarded by mu; nil: none
	sup        hosting.Supervisor // set under mu, with client, before its first use, by the goroutine of drive

	client  *client.Client // of sup
	denials denials
	gap     string // why events of the turn are missing; empty: none are

	// Used by run's goroutine.
	r             *render.Renderer
	turn          *client.Turn // the active turn
	ended         *supervisorv1.Event
	open          int                      // terminals that are still watched
	ends          map[string]chan struct{} // for each watched terminal: closed when its output was shown
	firstSignal   os.Signal                // the first signal
	firstSignalAt time.Time                // its time
	tookLong      bool                     // the turn exceeded its timeout
	answer        answer
	progress      progress
	expected      bool // the process stopped itself and was continued, and that signal has not arrived yet
	info          *supervisorv1.AgentInfo
	sessID        string // id of the session, set just before the turn begins
	asker         asker
	deadline      <-chan time.Time
	pause         <-chan time.Time
	overdue       <-chan time.Time // not nil: held back output becomes due
}

// runTurn runs the prompt in run's goroutine.
func (p *promptRun) runTurn(ctx context.Context) int {
	ctx, cancel := context.WithCancel(ctx)
	p.inbox = make(chan func())
	p.r = render.New(p.look)
	p.ends, p.asker.seen, p.asker.pending = map[string]chan struct{}{}, map[string]bool{}, map[string]*supervisorv1.Approval{}
	over := make(chan error, 1)
	p.spawn(func() { over <- p.drive(ctx) })
	code := p.loop(ctx, over)
	p.asker.close(p)
	p.screen.print(p.r.Flush())
	cancel()
	p.shutDown()
	p.printLateEvents()
	return code
}

// loop shows events and asks questions until the turn has ended or the user quits.
func (p *promptRun) loop(ctx context.Context, over <-chan error) int {
	var drained <-chan time.Time
	ticks, stopTicks := p.progress.ticks(p.status)
	defer stopTicks()
	for {
		select {
		case <-ticks:
			p.showProgress()
		case <-p.timedOut:
			if p.timeUp(ctx) {
				return statusTimeout
			}
		case f := <-p.inbox:
			f()
		case k, ok := <-p.asker.keys:
			p.key(ctx, k, ok)
		case s := <-p.runSignals:
			if p.signalled(ctx, s) {
				return p.statusOfCaught()
			}
		case <-p.asker.away:
			p.lookForTerminal()
		case line := <-p.notices:
			p.printf("%s", line)
		case <-p.pause:
			p.pause, p.overdue = nil, time.After(p.slow())
			p.screen.print(p.r.Pause())
		case <-p.overdue:
			p.overdue = nil
			p.screen.print(p.r.FlushHeld())
		case <-p.deadline:
			if p.ended != nil {
				return p.finished()
			}
			p.printf("the turn did not end within %v: what still runs is ended", p.turnTimeout)
			if p.firstSignal == syscall.SIGINT && !p.tookLong {
				return command.TurnStatus(command.StopCancelled)
			}
			return p.statusOfCaught()
		case err := <-over:
			over = nil
			if err != nil {
				return p.failed(err)
			}
			drained = time.After(outputGrace)
		case <-drained:
			return p.finished()
		}
		if p.screen.err != nil { // the output is not read any more
			if errors.Is(p.screen.err, syscall.EPIPE) {
				return command.StatusUnread
			}
			p.printf("print: %v", p.screen.err)
			return command.StatusFailed
		}
		if over == nil && p.open == 0 {
			return p.finished()
		}
	}
}

// drive performs the steps of a prompt in order. It returns an error if the turn could not be run.
func (p *promptRun) drive(ctx context.Context) error {
	p.step(ctx, strings.TrimSpace("starting "+agentName(p.agent)+" "+p.where))
	sup, err := p.start(ctx)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.sup, p.client = sup, client.New(sup.Conn())
	p.mu.Unlock()
	if p.attended {
		if err := p.watchQuestions(ctx); err != nil {
			return fmt.Errorf("watch the agent's questions: %w", err)
		}
	}
	started, err := p.client.Agents.StartAgent(ctx, p.agent)
	if err != nil {
		return err
	}
	agent := started.GetAgent()
	blocks, notes, err := promptBlocks(p.text, p.attachments, agent.GetInfo().GetCapabilities())
	if err != nil {
		return err
	}
	if p.newest != nil {
		if p.session, err = p.newest(agent.GetName()); err != nil {
			return err
		}
	}
	p.step(ctx, "opening a session")
	session, how, err := p.client.OpenSession(ctx, agent, p.session, p.agent.GetCwd(), p.meta, false)
	switch {
	case err != nil && how == "":
		return fmt.Errorf("%w: leave --session out", err)
	case err != nil:
		return err
	}
	if p.mode != "" {
		if _, err := p.client.Sessions.SetMode(ctx, &supervisorv1.SetModeRequest{AgentId: agent.GetId(), SessionId: session.GetSessionId(), ModeId: p.mode}); err != nil {
			return fmt.Errorf("--mode: %w", err)
		}
	}
	if p.model != "" {
		if _, err := p.client.Sessions.SetModel(ctx, &supervisorv1.SetModelRequest{AgentId: agent.GetId(), SessionId: session.GetSessionId(), ModelId: p.model}); err != nil {
			return fmt.Errorf("--model: %w", err)
		}
	}
	if !p.post(ctx, func() { // before the turn: its questions may arrive before Prompt returns
		p.info, p.sessID = agent.GetInfo(), session.GetSessionId()
		for _, n := range notes {
			p.printf("%s", n)
		}
	}) {
		return ctx.Err()
	}
	p.step(ctx, waitingForModel)
	turn, err := p.client.Prompt(ctx, &supervisorv1.PromptRequest{
		AgentId: agent.GetId(), SessionId: session.GetSessionId(), Prompt: blocks, CancelOnDisconnect: true,
	})
	if err != nil {
		return err
	}
	if !p.post(ctx, func() { p.turn = turn }) {
		return ctx.Err()
	}
	var shows shownIn
	for ev, err := range turn.Events() {
		if err != nil {
			return err
		}
		p.await(ctx, shows.over(ev))
		if !p.post(ctx, func() { p.event(ctx, ev) }) {
			return ctx.Err()
		}
	}
	return nil
}

// post makes run's goroutine call f. It returns false if that goroutine has ended.
func (p *promptRun) post(ctx context.Context, f func()) bool {
	select {
	case p.inbox <- f:
		return true
	case <-ctx.Done():
		return false
	}
}

// event processes an event.
func (p *promptRun) event(ctx context.Context, ev *supervisorv1.Event) {
	if end := ev.GetTurnEnded(); end != nil {
		p.turn, p.ended = nil, ev
	}
	p.progress.event(ev)
	p.denials.event(ev, p.attended)
	if gap := ev.GetGap(); gap != nil {
		p.gap = gap.GetReason()
	}
	if p.prints == printJSON {
		p.screen.print(output.EventLine(ev))
		return
	}
	if p.ended != nil {
		return // it is shown when the terminals have ended
	}
	p.removeQuestion(ev.GetQuestionAnswered())
	p.show(ev)
	p.pause, p.overdue = time.After(pauseTime), nil
	p.enqueue(ev.GetQuestionAsked())
	if p.prints == printFinal {
		return
	}
	for _, item := range reportIn(ev).GetContent() {
		if id := item.GetTerminalId(); id != "" {
			p.watchOutput(ctx, id)
		}
	}
}

// slow returns the time without output after which the activity is shown.
func (p *promptRun) slow() time.Duration {
	if p.attended {
		return slowTime
	}
	return slowFileTime
}

// await waits, for a limited time, until the output of terminals is shown, so that it is at the right place.
func (p *promptRun) await(ctx context.Context, terminals []string) {
	if len(terminals) == 0 || p.prints != printText {
		return
	}
	ends := make(chan []chan struct{}, 1)
	if !p.post(ctx, func() {
		var all []chan struct{}
		for _, id := range terminals {
			if end := p.ends[id]; end != nil {
				all = append(all, end)
			}
		}
		ends <- all
	}) {
		return
	}
	late := time.After(outputGrace)
	for _, end := range <-ends {
		select {
		case <-end:
		case <-late:
			return
		case <-ctx.Done():
			return
		}
	}
}

// shownIn maps the tool calls of a turn to their terminals. The zero value is ready.
type shownIn struct{ terminals map[string][]string }

// over processes an event and returns the terminals of a tool call that it ends.
func (s *shownIn) over(ev *supervisorv1.Event) []string {
	report := reportIn(ev)
	id := report.GetToolCallId()
	for _, item := range report.GetContent() {
		if t := item.GetTerminalId(); t != "" && !slices.Contains(s.terminals[id], t) && len(s.terminals) < maxWatched && len(s.terminals[id]) < maxWatched {
			if s.terminals == nil {
				s.terminals = map[string][]string{}
			}
			s.terminals[id] = append(s.terminals[id], t)
		}
	}
	if !client.ToolCallEnded(report.GetStatus()) {
		return nil
	}
	done := s.terminals[id]
	delete(s.terminals, id)
	return done
}

// reportIn returns the report about a tool call in an event that is not history, or nil.
func reportIn(ev *supervisorv1.Event) *supervisorv1.ToolCallReport {
	if ev.GetHistory() {
		return nil
	}
	return cmp.Or(ev.GetToolCall(), ev.GetToolCallUpdate())
}

// maxWatched limits the terminals of a turn that are shown.
const maxWatched = 256

// watchOutput shows the output of a terminal from its beginning.
func (p *promptRun) watchOutput(ctx context.Context, id string) {
	if p.ends[id] != nil || len(p.ends) >= maxWatched {
		return
	}
	p.open++
	end := make(chan struct{})
	p.ends[id] = end
	p.spawn(func() {
		defer p.post(ctx, func() {
			p.open--
			close(end)
		})
		pieces, err := p.client.WatchOutput(ctx, id, 0)
		if err != nil {
			return // the terminal belongs to the agent
		}
		for piece, err := range pieces {
			if err != nil || !p.post(ctx, func() { p.screen.print(p.r.Output(id, piece)) }) {
				return
			}
		}
	})
}

// printLateEvents prints events after the turn: the end of a short turn is recorded after it is over.
func (p *promptRun) printLateEvents() {
	for {
		select {
		case line := <-p.notices:
			p.printf("%s", line)
		default:
			return
		}
	}
}

// signalled processes a signal and reports whether to quit at once.
func (p *promptRun) signalled(ctx context.Context, s os.Signal) (quit bool) {
	switch {
	case jobcontrol.IsStop(s):
		p.suspended()
		return false
	case jobcontrol.IsContinue(s):
		p.continued()
		return false
	}
	return p.interrupted(ctx, s)
}

// interrupted processes a signal that asks for the end and reports whether to quit at once.
func (p *promptRun) interrupted(ctx context.Context, s os.Signal) (quit bool) {
	if s == syscall.SIGQUIT || p.firstSignal != nil {
		p.firstSignal = s
		p.kill()
		return true
	}
	first := p.firstSignal == nil
	p.firstSignal = s
	if first {
		p.firstSignalAt, p.deadline = time.Now(), time.After(p.turnTimeout)
	}
	if p.ended != nil {
		return false
	}
	if p.turn == nil {
		return true
	}
	if first {
		p.asker.close(p)
		if s == syscall.SIGINT {
			p.printf("the turn is being cancelled; Ctrl-C again quits at once")
		}
		p.cancelTurn(ctx)
	}
	return false
}

func (p *promptRun) cancelTurn(ctx context.Context) {
	turn := p.turn
	p.spawn(func() {
		if err := turn.Cancel(ctx); err != nil && ctx.Err() == nil {
			p.post(ctx, func() { p.printf("cancel the turn: %v", err) })
		}
	})
}

// signalNumber returns a signal's number, or SIGINT's if it has none.
func signalNumber(s os.Signal) syscall.Signal {
	if n, ok := s.(syscall.Signal); ok {
		return n
	}
	return syscall.SIGINT
}

// printf prints a line of acphost on standard error.
func (p *promptRun) printf(format string, args ...any) {
	p.printLine("acphost: " + safetext.Text(fmt.Sprintf(format, args...)))
}

// printLine prints a line on standard error, above the question. The line must be escaped.
func (p *promptRun) printLine(text string) {
	p.clearProgress()
	line := p.screen.line
	p.screen.ask("")
	if p.prints != printJSON {
		p.screen.print(p.r.Flush())
	}
	fmt.Fprintln(p.stderr, command.WrapLines(p.stderr, text))
	p.screen.ask(line)
}

// shutDown stops the supervisor and waits for all goroutines. A signal shortens the wait.
func (p *promptRun) shutDown() {
	grace := hosting.CloseGrace
	if p.firstSignal != nil {
		grace = p.grace - time.Since(p.firstSignalAt)
	}
	// the goroutines of calls end with their context
	hosting.Shutdown(p.supervisor, p.wg.Wait, grace, p.kill, p.runSignals, func(s os.Signal) bool {
		if jobcontrol.IsStop(s) {
			p.expected = p.stop()
		}
		return shortensShutdown(s)
	})
}
