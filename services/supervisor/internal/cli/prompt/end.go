package prompt

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/hosting"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
	"github.com/acphost/acphost/services/supervisor/internal/tui/render"
)

// finished prints the end of the turn and returns its exit status.
func (p *promptRun) finished() int {
	p.asker.close(p)
	p.clearProgress()
	end := p.ended.GetTurnEnded()
	if end.GetError() != nil {
		if p.prints != printJSON {
			p.screen.print(p.r.Flush())
		}
		status := p.agentFailed(end.GetError(), "")
		p.sayDenied()
		p.sayWhichSession()
		return status
	}
	if p.prints == printFinal {
		p.screen.print(p.r.Flush() + p.answer.text(p.look))
		if p.answer.cut {
			p.printf("the answer has more than %d MiB: the rest is not printed; \"acphost sessions show\" has it", maxAnswer>>20)
		}
		if p.gap != "" {
			p.printf("the answer may not be complete: %s", safetext.Line(p.gap))
		}
		if end.GetStopReason() != command.StopEnd {
			p.printf("%s", render.StopReason(end.GetStopReason()))
		}
	}
	if p.prints != printJSON {
		if text := p.r.Event(p.ended); p.prints == printText {
			p.screen.print(text)
		}
		if usage := render.Usage(end.GetUsage(), p.r.Context()); usage != "" && p.look.NoUsage {
			fmt.Fprintln(p.stderr, usage)
		}
		p.sayDenied()
		p.sayWhichSession()
	} else {
		p.sayDenied()
	}
	if s := p.firstSignal; (p.tookLong || s != nil && s != syscall.SIGINT) && end.GetStopReason() == command.StopCancelled {
		return p.statusOfCaught()
	}
	status := command.TurnStatus(end.GetStopReason())
	switch {
	case status == 0 && p.gap != "" && p.prints == printFinal:
		return command.StatusFailed
	case status == 0 && p.failOnDenied && p.denials.any():
		return statusDenied
	}
	return status
}

// statusOfCaught returns the exit status of a turn that was ended by a signal or the timeout.
func (p *promptRun) statusOfCaught() int {
	if p.tookLong {
		return statusTimeout
	}
	return 128 + int(signalNumber(p.firstSignal))
}

// timeUp cancels the turn after its timeout, and reports whether to quit at once.
func (p *promptRun) timeUp(ctx context.Context) (quit bool) {
	if p.ended != nil || p.firstSignal != nil {
		return false
	}
	p.tookLong = true
	p.printf("the turn has not ended after %s (--timeout): it is being cancelled", p.timeout)
	if p.turn == nil {
		return true
	}
	p.deadline = time.After(p.turnTimeout)
	p.asker.close(p)
	p.cancelTurn(ctx)
	return false
}

// sayWhichSession prints the session if it can be continued, even if its turn failed.
func (p *promptRun) sayWhichSession() {
	if can := p.info.GetCapabilities(); p.prints != printJSON && (can.GetLoadSession() || can.GetResumeSession()) {
		fmt.Fprintf(p.stderr, "session %s\n", safetext.Line(p.sessID))
	}
}

// failed prints the reason why the turn did not start or end.
func (p *promptRun) failed(err error) int {
	p.asker.close(p)
	p.clearProgress()
	if p.prints != printJSON {
		p.screen.print(p.r.Flush())
	}
	if e := client.ErrorOf(err); e != nil && e.Agent != nil {
		return p.agentFailed(e.Agent, err.Error())
	}
	p.printf("%v", err)
	return command.StatusFailed
}

// agentFailed prints the agent's error and advice.
func (p *promptRun) agentFailed(e *supervisorv1.AgentError, message string) int {
	if message == "" {
		message = e.GetMessage()
	}
	p.printf("%s", render.WithoutStderrLine(message, e.GetStderrTail()))
	for _, l := range e.GetStderrTail() {
		fmt.Fprintf(p.stderr, "    %s\n", safetext.Line(l))
	}
	switch e.GetKind() {
	case supervisorv1.ErrorKind_ERROR_KIND_AUTH_REQUIRED:
		switch {
		case strings.Contains(message, "(log in "):
		case p.agent.GetPreset() == "":
			p.printf("log in with the agent's own command, or with \"acphost agents login\" where the agent has a name, and try again")
		case !strings.Contains(message, "agents login"):
			p.printf("run \"acphost agents login %s\" and try again", p.agent.GetPreset())
		}
	case supervisorv1.ErrorKind_ERROR_KIND_SESSION_NOT_FOUND:
		if p.session != "" {
			p.printf("see \"acphost sessions list\" for its id, or leave --session and --continue out to begin a new one")
		}
	}
	return hosting.Status(e.GetKind())
}
