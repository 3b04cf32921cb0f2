package programs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/acphost/acphost/internal/fault"
	"github.com/acphost/acphost/internal/panics"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

const (
	methodAuthenticate = "authenticate"
	methodLogout       = "logout"
)

// Authenticate logs an agent in, and sends each page that the user must open. The login ends when the agent answers
// authenticate. An older kind of agent answers with a page, {"url": ...}: then the login ends when the agent sends
// auth_complete, which ends every login.
func (reg *Registry) Authenticate(ctx context.Context, r *supervisorv1.AuthenticateRequest, send func(*supervisorv1.AuthenticateResponse) error) error {
	run, err := reg.running(r.GetAgentId())
	if err != nil {
		return err
	}
	a := run.agent
	method, err := run.authMethod(r.GetMethodId())
	if err != nil {
		return err
	}
	if !a.login.TryLock() {
		return fault.New(fault.Precondition, "agent %q is being logged in already", a.identity.ID)
	}
	defer a.login.Unlock()
	sub := reg.opts.Hub.Subscribe(a.identity.ID, "")
	defer sub.Close()
	var call sync.WaitGroup
	defer call.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var sending sync.Mutex // two goroutines call send
	page := func(q *supervisorv1.Approval) error {
		sending.Lock()
		defer sending.Unlock()
		return send(&supervisorv1.AuthenticateResponse{Step: &supervisorv1.AuthenticateResponse_Question{Question: q}})
	}
	var failure error // set if the call has ended and no auth_complete is expected
	call.Go(func() {
		defer panics.Recover(reg.log, "logging in agent "+a.identity.ID, func(err error) {
			failure = err
			sub.Close()
		})
		result, err := run.call(ctx, methodAuthenticate, []byte(`{`+member("methodId", method)[1:]+`}`), 0)
		if q := pageIn(result); err == nil && q != nil {
			q.AgentId, q.Time = a.identity.ID, timestamppb.Now()
			if err = page(q); err == nil {
				return // auth_complete ends the login
			}
		}
		failure = err
		sub.Close()
	})
	done := &supervisorv1.AuthenticateResponse{Step: &supervisorv1.AuthenticateResponse_Done{Done: &supervisorv1.Authenticated{MethodId: method}}}
	for {
		e, err := sub.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			if call.Wait(); failure != nil {
				return a.withoutPages(failure)
			}
			return send(done)
		case err != nil:
			return err
		}
		switch of := e.GetEvent().(type) {
		case *supervisorv1.Event_QuestionAsked:
			if of.QuestionAsked.GetElicitation().GetMode() == "url" {
				if err := page(of.QuestionAsked); err != nil {
					return err
				}
			}
		case *supervisorv1.Event_OtherUpdate:
			if of.OtherUpdate.GetKind() != acp.MethodAuthComplete {
				continue
			}
			cancel()
			call.Wait() // nothing is sent after the last step
			if why := authFailure([]byte(e.GetRaw())); why != "" {
				return run.invalidAnswer("it reports that the login failed: %s", why)
			}
			return send(done)
		case *supervisorv1.Event_Agent:
			if state := of.Agent.GetState(); state != supervisorv1.AgentState_AGENT_STATE_RUNNING {
				return fault.New(fault.Precondition, "agent %q ended before the login was complete: start it, and log in again", a.identity.ID)
			}
		}
	}
}

// pageIn returns the page in an answer to authenticate, as a question that needs no answer; nil: none.
func pageIn(result []byte) *supervisorv1.Approval {
	page, ok := acp.String(acp.Get(result, "url"))
	if !ok || page == "" {
		return nil
	}
	message, _ := acp.String(acp.Get(result, "message"))
	return &supervisorv1.Approval{Raw: string(result), Elicitation: &supervisorv1.Elicitation{Mode: "url", Url: page, Message: message}}
}

// authFailure returns why a login failed, from the params of auth_complete. It is "" if the login succeeded.
func authFailure(params []byte) string {
	failed := false
	for _, name := range []string{"success", "ok"} {
		failed = failed || string(acp.Get(params, name)) == "false"
	}
	why := acp.Get(params, "error")
	if text, ok := acp.String(acp.Get(why, "message")); ok {
		return cmp.Or(text, "no reason is given")
	}
	if text, ok := acp.String(why); ok && text != "" {
		return text
	}
	if failed {
		return "no reason is given"
	}
	return ""
}

// withoutPages adds to the error of a failed login that the agent could not open a page, if that is so.
func (a *instance) withoutPages(failure error) error {
	of, ok := errors.AsType[*fault.Error](failure)
	if a.conf.Attended || !ok || of.Agent.GetKind() != supervisorv1.ErrorKind_ERROR_KIND_AGENT_ERROR {
		return failure
	}
	e := proto.CloneOf(of.Agent)
	e.Message += " (it cannot have a page opened, since nobody answers what it asks: start it attended where it needs that)"
	return fault.Agent(e)
}

// authMethod returns the login method for an id.
func (r *run) authMethod(id string) (string, error) {
	all := r.info.GetAuthMethods()
	if len(all) == 0 {
		return "", r.unsupported("a way to log in")
	}
	if id == "" && len(all) == 1 {
		id = all[0].GetId()
	}
	var ids []string
	for _, m := range all {
		if ids = append(ids, m.GetId()); m.GetId() != id {
			continue
		}
		if m.GetType() == "terminal" {
			return "", fault.New(fault.Precondition, "agent %q logs in by %q on a terminal: log in %s", r.agent.identity.ID, id, r.loginBy(id))
		}
		return id, nil
	}
	if id == "" {
		return "", fault.New(fault.Invalid, "agent %q has several ways to log in; select one: %s", r.agent.identity.ID, listed(ids))
	}
	return "", oneOf("way to log in", id, ids)
}

// Logout logs an agent out.
func (reg *Registry) Logout(ctx context.Context, r *supervisorv1.LogoutRequest) (*supervisorv1.LogoutResponse, error) {
	run, err := reg.running(r.GetAgentId())
	switch {
	case err != nil:
		return nil, err
	case !run.info.GetCapabilities().GetLogout():
		return nil, run.unsupported("to log out (auth.logout)")
	}
	_, err = run.call(ctx, methodLogout, []byte(`{}`), callTimeout)
	return &supervisorv1.LogoutResponse{}, err
}

// unsupported returns the error for a feature that the agent does not offer.
func (r *run) unsupported(what string) error {
	e := fault.New(fault.Unsupported, "agent %q does not offer %s", r.agent.identity.Name, what)
	e.Agent = &supervisorv1.AgentError{Kind: supervisorv1.ErrorKind_ERROR_KIND_NOT_SUPPORTED, Message: e.Message}
	return e
}

// invalidAnswer returns the error for an invalid answer of the agent.
func (r *run) invalidAnswer(format string, args ...any) error {
	return fault.Agent(agentError(supervisorv1.ErrorKind_ERROR_KIND_AGENT_ERROR, "agent %q: %s", r.agent.identity.Name, fmt.Sprintf(format, args...)))
}

// excerpt returns the start of a foreign text.
func excerpt(s string) string {
	const limit = 100
	if len(s) > limit {
		return s[:limit] + "..."
	}
	return s
}
