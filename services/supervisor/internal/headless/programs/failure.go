package programs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
	"github.com/acphost/acphost/services/supervisor/internal/headless/acpclient"
	"github.com/acphost/acphost/services/supervisor/internal/policy/secret"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/agent"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/link"
)

// started returns the text of an error of the agent's start.
func (a *instance) started(format string, args ...any) string {
	return fmt.Sprintf("start agent %q: ", a.identity.Name) + fmt.Sprintf(format, args...)
}

// agentError returns an AgentError of a kind.
func agentError(kind supervisorv1.ErrorKind, format string, args ...any) *supervisorv1.AgentError {
	return &supervisorv1.AgentError{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// spawnError returns the error for a process that could not be started.
func (a *instance) spawnError(err error) *supervisorv1.AgentError {
	return spawnError(a.identity.Name, a.conf.GetCommand(), err)
}

// spawnError returns the error for the process of a named agent that could not be started.
func spawnError(name string, command []string, err error) *supervisorv1.AgentError {
	if exit, ok := errors.AsType[agent.Exit](err); ok {
		return exitError(command, exit, fmt.Sprintf("start agent %q: ", name))
	}
	return agentError(supervisorv1.ErrorKind_ERROR_KIND_SPAWN_FAILED, "start agent %q: %v", name, err)
}

// exitError describes how the agent's process ended; about begins the text.
func (a *instance) exitError(exit agent.Exit, about string) *supervisorv1.AgentError {
	return exitError(a.conf.GetCommand(), exit, about)
}

// exitError describes how a process ended; about begins the text.
func exitError(command []string, exit agent.Exit, about string) *supervisorv1.AgentError {
	e := &supervisorv1.AgentError{Signal: exit.Signal, StderrTail: secret.Lines(exit.Tail)}
	if exit.Reason == agent.Exited || exit.Reason == agent.NotFound {
		code := int32(exit.Code)
		e.ExitCode = &code
	}
	detail := ""
	if exit.Detail != "" {
		detail = ": " + secret.Text(exit.Detail)
	}
	switch exit.Reason {
	case agent.NotFound:
		e.Kind = supervisorv1.ErrorKind_ERROR_KIND_COMMAND_NOT_FOUND
		todo := `install it or give its absolute path ("acphost agents list" tells how to get the agents that are known)`
		if command[0] == agent.DemoAgent {
			todo = "it is in acphost's release archive and packages: put it beside the program acphost, or give its absolute path"
		}
		e.Message = fmt.Sprintf("%sthe command %q was not found; %s%s", about, command[0], todo, detail)
	case agent.StartFailed:
		e.Kind = supervisorv1.ErrorKind_ERROR_KIND_SPAWN_FAILED
		e.Message = fmt.Sprintf("%sthe command %q could not be started%s", about, command[0], detail)
	default:
		e.Kind = supervisorv1.ErrorKind_ERROR_KIND_CRASHED
		e.Message = about + "it " + secret.Text(exit.String()) + event.NextStep(strings.Join(exit.Tail, "\n"))
	}
	return e
}

// handshakeTimeout returns the error of an agent that did not answer initialize.
func (a *instance) handshakeTimeout(r *run) *supervisorv1.AgentError {
	why := secret.Text(r.process.Dropped() + r.process.RefusedAtStart())
	return &supervisorv1.AgentError{
		Kind: supervisorv1.ErrorKind_ERROR_KIND_HANDSHAKE_TIMEOUT,
		Message: a.started("it did not answer initialize within %s: %s%s",
			a.reg.opts.InitializeTimeout, a.commandHint(), why),
		StderrTail: secret.Lines(r.process.StderrTail()),
	}
}

// commandHint returns a hint for a program that does not understand initialize.
func (a *instance) commandHint() string {
	return fmt.Sprintf("is it an ACP agent, and was it started with the flag that makes it speak ACP? (%q)", strings.Join(secret.RedactedArgv(a.conf.GetCommand()), " "))
}

// notInitialized explains an error in answer to initialize: the agent's own, or the link's if there will be no answer.
func (r *run) notInitialized(jerr *jsonrpc.Error) *supervisorv1.AgentError {
	a := r.agent
	r.stop() // it is unusable, whether the error is its own or the link's
	switch reason, cause := r.process.Reason(); {
	case reason == link.NoInitialize:
		return a.handshakeTimeout(r)
	case reason == link.Broken:
		return &supervisorv1.AgentError{Message: a.started("%v", cause)}
	case reason == link.NotReady:
		return &supervisorv1.AgentError{Message: a.started("a handler is not ready: %v", cause)}
	case reason == link.Stopped || !marksEnded(jerr):
		e := event.ErrorOf(acp.MethodInitialize, errorObject(jerr), false)
		e.Message = a.started("%s", e.GetMessage())
		if jerr.Code == jsonrpc.CodeMethodNotFound { // a program that echoes its input also returns this
			e.Message = a.started("it does not know initialize: %s", a.commandHint())
		}
		e.StderrTail = secret.Lines(r.process.StderrTail())
		return e
	}
	e := a.exitError(r.process.Exit(), a.started("before it answered initialize, "))
	e.Message += secret.Text(r.process.Dropped() + r.process.RefusedAtStart())
	return e
}

// ending returns why a process ended. Its link has ended: it stops the process if that still runs.
func (r *run) ending() *supervisorv1.AgentError {
	if !r.ended() {
		r.stop()
	}
	a := r.agent
	if r.onPurpose.Load() {
		return a.stoppedError(r)
	}
	exit := r.process.Exit()
	e := a.exitError(exit, fmt.Sprintf("agent %q: ", a.identity.Name))
	if exit.Stopped {
		e.Message = fmt.Sprintf("agent %q: it was stopped, since the link to it ended", a.identity.Name)
		e.Kind = supervisorv1.ErrorKind_ERROR_KIND_CRASHED
	}
	if _, cause := r.process.Reason(); cause != nil {
		e.Message += fmt.Sprintf(" (%v)", cause)
	}
	e.Message += secret.Text(r.process.Dropped())
	return e
}

// tooOften adds to the error of an agent's end that it is not started again.
func tooOften(last *supervisorv1.AgentError, n int) *supervisorv1.AgentError {
	if n > 1 {
		last.Message += fmt.Sprintf("; it ended %d times within %s", n, endWindow)
	}
	last.Message += "; it is not started again by itself: restart it when the cause is gone"
	return last
}

// stoppedError returns the error of a stopped agent; r is its process, nil if it had none.
func (a *instance) stoppedError(r *run) *supervisorv1.AgentError {
	e := &supervisorv1.AgentError{}
	if r != nil {
		e = a.exitError(r.process.Exit(), "")
	}
	e.Kind, e.Message = supervisorv1.ErrorKind_ERROR_KIND_STOPPED, fmt.Sprintf("agent %q was stopped", a.identity.Name)
	return e
}

// notRunning returns the error of an agent that does not accept requests.
func (a *instance) notRunning(state supervisorv1.AgentState, failure *supervisorv1.AgentError) error {
	failure = proto.CloneOf(failure) // a caller gets it
	word := strings.ToLower(strings.TrimPrefix(state.String(), "AGENT_STATE_"))
	switch {
	case state == failed && failure != nil:
		return fault.Agent(failure)
	case failure != nil:
		return &fault.Error{Class: fault.Precondition, Agent: failure,
			Message: fmt.Sprintf("agent %q is not running (%s): %s", a.identity.ID, word, failure.GetMessage())}
	}
	return fault.New(fault.Precondition, "agent %q is not running (%s)", a.identity.ID, word)
}

// callTimeout limits a call of the agent that does not wait for a user.
const callTimeout = time.Minute

// call makes a call with a timeout; 0 means none. The error is a fault, or that of ctx.
func (r *run) call(ctx context.Context, method string, params []byte, limit time.Duration) ([]byte, error) {
	limited, cancel := within(ctx, limit)
	defer cancel()
	spoken, params := r.spoken(method, params)
	result, err := r.prog.Call(limited, spoken, params)
	return result, r.explain(ctx, method, limit, err)
}

// within returns a context that ends with ctx, and after a limit if that is not 0.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}

// explain converts the error of a call to a fault.
func (r *run) explain(ctx context.Context, method string, limit time.Duration, err error) error {
	var jerr *jsonrpc.Error
	var rejected *acpclient.Rejected
	name := r.agent.identity.Name
	switch {
	case err == nil:
		return nil
	case errors.As(err, &rejected):
		return fault.New(fault.Precondition, "%w", rejected)
	case errors.As(err, &jerr) && !r.agentEnded(jerr):
		return fault.Agent(r.refusedAtStart(method, r.answerError(method, jerr)))
	case jerr != nil, errors.Is(err, acpclient.ErrClosed):
		e := r.ending()
		e.Message = method + ": " + e.GetMessage()
		return fault.Agent(r.refusedAtStart(method, e))
	case errors.Is(err, acpclient.ErrUnanswered):
		return fault.New(fault.Exhausted, "%s: agent %q: %w; restart it", method, name, err)
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return fault.Agent(&supervisorv1.AgentError{
			Message: fmt.Sprintf("%s: agent %q did not answer within %s: try again, or restart it", method, name, limit),
		})
	}
	return fault.Agent(&supervisorv1.AgentError{Message: fmt.Sprintf("%s: agent %q: %v", method, name, err)})
}

// agentEnded reports whether an error means that the agent will not answer any more. The link reports that, but an
// agent could send such an error, too.
func (r *run) agentEnded(jerr *jsonrpc.Error) bool {
	if !marksEnded(jerr) {
		return false
	}
	select {
	case <-r.process.Ended():
		return true
	case <-time.After(stopTimeout):
		return false
	}
}

// refusedAtStart adds what the sandbox refused to an error of an agent's first session.
func (r *run) refusedAtStart(method string, e *supervisorv1.AgentError) *supervisorv1.AgentError {
	if method == acp.MethodSessionNew {
		e.Message += secret.Text(r.process.RefusedAtStart())
	}
	return e
}

// marksEnded reports whether an error has the link's mark of an agent that has ended.
func marksEnded(jerr *jsonrpc.Error) bool { return acp.Get(jerr.Data, "acphost", "kind") != nil }

// answerError converts an agent's error.
func (r *run) answerError(method string, jerr *jsonrpc.Error) *supervisorv1.AgentError {
	e := event.ErrorOf(method, errorObject(jerr), false)
	e.Message = fmt.Sprintf("agent %q: %s", r.agent.identity.Name, e.GetMessage())
	r.hint(e)
	return e
}

// hint adds the way to log in to an error about a required login.
func (r *run) hint(e *supervisorv1.AgentError) {
	if e.GetKind() != supervisorv1.ErrorKind_ERROR_KIND_AUTH_REQUIRED {
		return
	}
	how := r.loginBy("")
	if slices.ContainsFunc(r.info.GetAuthMethods(), func(m *supervisorv1.AuthMethod) bool { return m.GetType() != "terminal" }) {
		how += ", or by Authenticate"
	}
	e.Message += " (log in " + how + ")"
}

// hinted adds the way to log in to the end of a turn that failed because a login is required.
func (r *run) hinted(e *supervisorv1.Event) *supervisorv1.Event {
	if e.GetTurnEnded().GetError().GetKind() != supervisorv1.ErrorKind_ERROR_KIND_AUTH_REQUIRED {
		return e
	}
	e = proto.CloneOf(e) // the event is shared
	r.hint(e.GetTurnEnded().GetError())
	return e
}

// loginBy describes how a user logs the agent in by a method of type "terminal". An empty id means the first one.
func (r *run) loginBy(id string) string {
	if preset := r.agent.conf.GetPreset(); preset != "" {
		return fmt.Sprintf("with \"acphost agents login %s\"", preset)
	}
	command := slices.Clone(r.agent.conf.GetCommand())
	_ = acp.Elements(acp.Get([]byte(r.info.GetRaw()), "authMethods"), func(m []byte) bool {
		name, ok := acp.String(acp.Get(m, "id"))
		if !ok {
			name, _ = acp.String(acp.Get(m, "methodId"))
		}
		if kind, _ := acp.String(acp.Get(m, "type")); kind != "terminal" || id != "" && name != id {
			return true
		}
		args, _ := acp.Strings(acp.Get(m, "args"))
		command = append(command, args...)
		return false
	})
	if len(command) == len(r.agent.conf.GetCommand()) {
		return "as its documentation says"
	}
	return fmt.Sprintf("by running %q on a terminal", strings.Join(secret.RedactedArgv(command), " "))
}

// errorObject returns an error as a JSON-RPC error object.
func errorObject(e *jsonrpc.Error) []byte { return acp.Get(jsonrpc.AppendError(nil, nil, e), "error") }
