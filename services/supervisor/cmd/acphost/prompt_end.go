package main

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/render"
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
	switch end.GetStopReason() {
	case "end_turn":
		return 0
	case "refusal":
		return statusRefusal
	case "max_tokens":
		return statusMaxTokens
	case "max_turn_requests":
		return statusMaxRequests
	case "cancelled":
		return statusCancelled
	}
	return statusFailed
}

// sayWhichSession names the session where one can go on with it, whether its turn went well or not.
func (p *promptRun) sayWhichSession() {
	if can := p.info.GetCapabilities(); !p.json && (can.GetLoadSession() || can.GetResumeSession()) {
		fmt.Fprintf(p.stderr, "session %s\n", render.CleanLine(p.sessID))
	}
}

// failed says why there was no turn, or no end of it.
func (p *promptRun) failed(err error) int {
	p.asker.close(p)
	if !p.json {
		p.screen.print(p.r.Flush())
	}
	if e := agentErrorOf(err); e != nil {
		return p.agentFailed(e, reasonOf(err))
	}
	p.say("%s", reasonOf(err))
	return statusFailed
}

// agentFailed says what is wrong with the agent and what to do.
func (p *promptRun) agentFailed(e *supervisorv1.AgentError, message string) int {
	if message == "" {
		message = e.GetMessage()
	}
	p.say("%s", render.WithoutLastWords(message, e.GetStderrTail()))
	for _, l := range e.GetStderrTail() {
		fmt.Fprintf(p.stderr, "    %s\n", render.CleanLine(l))
	}
	switch e.GetKind() {
	case supervisorv1.ErrorKind_ERROR_KIND_AUTH_REQUIRED:
		switch {
		case strings.Contains(message, "(log in "):
		case p.login == "":
			p.say("log in with the agent's own command, or with \"acphost agents login\" where the agent has a name, and try again")
		case !strings.Contains(message, "agents login"):
			p.say("run \"acphost agents login %s\" and try again", p.login)
		}
		return statusLogin
	case supervisorv1.ErrorKind_ERROR_KIND_SESSION_NOT_FOUND:
		if p.session != "" {
			p.say("see \"acphost sessions list\" for its id, or leave --session out to begin a new one")
		}
	case supervisorv1.ErrorKind_ERROR_KIND_COMMAND_NOT_FOUND:
		return statusNotFound
	case supervisorv1.ErrorKind_ERROR_KIND_SPAWN_FAILED:
		return statusNotExecutable
	}
	return statusFailed
}

// agentErrorOf is what an error of a call says of the agent; nil: nothing.
func agentErrorOf(err error) *supervisorv1.AgentError {
	for _, d := range status.Convert(err).Details() {
		if e, ok := d.(*supervisorv1.AgentError); ok {
			return e
		}
	}
	return nil
}

// reasonOf is an error without gRPC's own words.
func reasonOf(err error) string {
	s, ok := status.FromError(err)
	if !ok {
		return err.Error()
	}
	if bare, _ := err.(interface{ GRPCStatus() *status.Status }); bare != nil {
		return s.Message()
	}
	// An error around a status: what stands before it is ours.
	before, _, _ := strings.Cut(err.Error(), "rpc error: code = ")
	var inner interface{ GRPCStatus() *status.Status }
	if errors.As(err, &inner) {
		return before + inner.GRPCStatus().Message()
	}
	return err.Error()
}
