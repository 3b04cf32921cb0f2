package prompt

import (
	"fmt"
	"strings"
	"syscall"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/hosting"
	"github.com/acphost/acphost/services/supervisor/internal/render"
	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

// finished shows the end of the turn and returns its exit status.
func (p *promptRun) finished() int {
	p.asker.close(p)
	end := p.ended.GetTurnEnded()
	if end.GetError() != nil {
		if !p.json {
			p.screen.print(p.r.Flush())
		}
		status := p.agentFailed(end.GetError(), "")
		p.sayWhichSession()
		return status
	}
	if !p.json {
		p.screen.print(p.r.Event(p.ended))
		if usage := render.Usage(end.GetUsage(), p.r.Context()); usage != "" && p.look.NoUsage {
			fmt.Fprintln(p.stderr, usage)
		}
		p.sayWhichSession()
	}
	if s := p.caught; s != nil && s != syscall.SIGINT && end.GetStopReason() == stopCancelled {
		return 128 + int(signalNumber(s))
	}
	if status, known := turnStatus[end.GetStopReason()]; known {
		return status
	}
	return command.StatusFailed
}

// sayWhichSession names the session where one can go on with it, whether its turn went well or not.
func (p *promptRun) sayWhichSession() {
	if can := p.info.GetCapabilities(); !p.json && (can.GetLoadSession() || can.GetResumeSession()) {
		fmt.Fprintf(p.stderr, "session %s\n", safetext.Line(p.sessID))
	}
}

// failed says why there was no turn, or no end of it.
func (p *promptRun) failed(err error) int {
	p.asker.close(p)
	if !p.json {
		p.screen.print(p.r.Flush())
	}
	if e := client.ErrorOf(err); e != nil && e.Agent != nil {
		return p.agentFailed(e.Agent, err.Error())
	}
	p.say("%v", err)
	return command.StatusFailed
}

// agentFailed says what is wrong with the agent and what to do.
func (p *promptRun) agentFailed(e *supervisorv1.AgentError, message string) int {
	if message == "" {
		message = e.GetMessage()
	}
	p.say("%s", render.WithoutLastWords(message, e.GetStderrTail()))
	for _, l := range e.GetStderrTail() {
		fmt.Fprintf(p.stderr, "    %s\n", safetext.Line(l))
	}
	switch e.GetKind() {
	case supervisorv1.ErrorKind_ERROR_KIND_AUTH_REQUIRED:
		switch {
		case strings.Contains(message, "(log in "):
		case p.agent.GetPreset() == "":
			p.say("log in with the agent's own command, or with \"acphost agents login\" where the agent has a name, and try again")
		case !strings.Contains(message, "agents login"):
			p.say("run \"acphost agents login %s\" and try again", p.agent.GetPreset())
		}
	case supervisorv1.ErrorKind_ERROR_KIND_SESSION_NOT_FOUND:
		if p.session != "" {
			p.say("see \"acphost sessions list\" for its id, or leave --session out to begin a new one")
		}
	}
	return hosting.Status(e.GetKind())
}
