package programs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/fault"
)

const (
	methodAuthenticate = "authenticate"
	methodLogout       = "logout"
)

// Authenticate logs an agent in, and tells the pages that it wants opened until it is done.
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
	var failure error // once the call is over
	call.Go(func() {
		defer sub.Close()
		_, failure = run.call(ctx, methodAuthenticate, []byte(`{`+member("methodId", method)[1:]+`}`), 0)
	})
	for {
		e, err := sub.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			if call.Wait(); failure != nil {
				return a.withoutPages(failure)
			}
			return send(&supervisorv1.AuthenticateResponse{Step: &supervisorv1.AuthenticateResponse_Done{Done: &supervisorv1.Authenticated{MethodId: method}}})
		case err != nil:
			return err
		}
		if q := e.GetQuestionAsked(); q.GetElicitation().GetMode() == "url" {
			if err := send(&supervisorv1.AuthenticateResponse{Step: &supervisorv1.AuthenticateResponse_Question{Question: q}}); err != nil {
				return err
			}
		}
	}
}

// withoutPages adds to why a login failed that the agent had no way to have a page opened, where that is so.
func (a *instance) withoutPages(failure error) error {
	of, ok := errors.AsType[*fault.Error](failure)
	if a.conf.Attended || !ok || of.Agent.GetKind() != supervisorv1.ErrorKind_ERROR_KIND_AGENT_ERROR {
		return failure
	}
	e := proto.CloneOf(of.Agent)
	e.Message += " (it cannot have a page opened, since nobody answers what it asks: start it attended where it needs that)"
	return fault.Agent(e)
}

// authMethod finds the way to log in that is meant.
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
		return "", fault.New(fault.Invalid, "agent %q has several ways to log in; say which one: %s", r.agent.identity.ID, listed(ids))
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

// unsupported says what the agent does not offer.
func (r *run) unsupported(what string) error {
	e := fault.New(fault.Unsupported, "agent %q does not offer %s", r.agent.identity.Name, what)
	e.Agent = &supervisorv1.AgentError{Kind: supervisorv1.ErrorKind_ERROR_KIND_NOT_SUPPORTED, Message: e.Message}
	return e
}

// misbehaved says that an answer of the agent's makes no sense.
func (r *run) misbehaved(format string, args ...any) error {
	return fault.Agent(agentError(supervisorv1.ErrorKind_ERROR_KIND_AGENT_ERROR, "agent %q: %s", r.agent.identity.Name, fmt.Sprintf(format, args...)))
}

// excerpt is the begin of what somebody chose.
func excerpt(s string) string {
	const most = 100
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
