package programs

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"slices"
	"sync"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/acphost/acphost/internal/fault"
	"github.com/acphost/acphost/internal/panics"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
)

// remoteSession returns the agent with a remote client that has a session open; nil: none, or several.
func (reg *Registry) remoteSession(agentID, session string) *remote {
	reg.mu.Lock()
	remotes := slices.Clone(reg.remotes)
	reg.mu.Unlock()
	var found *remote
	for _, a := range remotes {
		if agentID != "" && a.identity.ID != agentID || a.session(session) == nil {
			continue
		}
		if found != nil {
			return nil
		}
		found = a
	}
	return found
}

// session returns an open session; nil: it is not open.
func (a *remote) session(id string) *supervisorv1.Session {
	p := a.process.Load()
	if p == nil {
		return nil
	}
	for _, s := range (*p).Sessions() {
		if s.GetSessionId() == id {
			return s
		}
	}
	return nil
}

// prompt implements Prompt for a session of a remote client: its turn runs in addition to the client's.
func (a *remote) prompt(ctx context.Context, r *supervisorv1.PromptRequest, send func(*supervisorv1.Event) error) error {
	reg := a.reg
	s, p := a.session(r.GetSessionId()), a.process.Load()
	if s == nil || p == nil {
		return fault.New(fault.NotFound, "no session %q is open here", excerpt(r.GetSessionId()))
	}
	params, err := promptParams(event.ParseInfo((*p).Reported().Raw), r)
	if err != nil {
		return err
	}
	sub := reg.opts.Hub.Subscribe(a.identity.ID, r.GetSessionId())
	defer sub.Close()
	reg.mu.Lock()
	err = reg.open()
	reg.mu.Unlock()
	if err != nil {
		return err
	}
	given, err := a.promptMux.prompt(ctx, "acphost-"+rand.Text(), r.GetSessionId(), params)
	if err != nil {
		return err
	}
	err = a.sendEvents(ctx, given, sub, string(params), send)
	if err != nil && r.GetCancelOnDisconnect() {
		_ = a.promptMux.cancel(reg.ctx, r.GetSessionId()) // if the agent has ended, so has the turn
	}
	return err
}

// events is a subscription.
type events interface {
	Next(ctx context.Context) (*supervisorv1.Event, error)
	Close()
}

// sendEvents sends the events of a turn until its end.
func (a *remote) sendEvents(ctx context.Context, given *injected, sub events, params string, send func(*supervisorv1.Event) error) error {
	var closing sync.WaitGroup
	defer closing.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	closing.Go(func() { // after the answer, only earlier events and late updates are awaited
		defer panics.Recover(a.reg.log, "waiting for the end of a turn", func(error) { sub.Close() })
		select {
		case <-given.done:
		case <-a.done:
		case <-ctx.Done():
			return
		}
		a.reg.awaitTurnEnd(ctx, a.identity.ID, given.session)
		sub.Close()
	})
	for begun := false; ; {
		e, err := sub.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return send(a.missingEnd(given))
		case err != nil:
			return err
		}
		if begun = begun || e.GetTurnStarted() != nil && e.GetRaw() == params; !begun {
			continue
		}
		if err := send(e); err != nil || e.GetTurnEnded() != nil {
			return err
		}
	}
}

// missingEnd returns the end of a turn that no event reported.
func (a *remote) missingEnd(given *injected) *supervisorv1.Event {
	ended := &supervisorv1.TurnEnded{}
	select {
	case <-given.done:
		result, err := given.answer()
		if err != nil {
			ended.Error = &supervisorv1.AgentError{Message: err.Error()}
			break
		}
		ended.StopReason, _ = acp.String(acp.Get(result, "stopReason"))
	default:
		ended.Error = agentError(supervisorv1.ErrorKind_ERROR_KIND_CRASHED, "agent %q has ended, and the turn with it", a.identity.ID)
	}
	return &supervisorv1.Event{AgentId: a.identity.ID, SessionId: given.session, Time: timestamppb.Now(), Event: &supervisorv1.Event_TurnEnded{TurnEnded: ended}}
}

// cancelTurn implements CancelPrompt.
func (a *remote) cancelTurn(ctx context.Context, session string) (*supervisorv1.CancelPromptResponse, error) {
	s := a.session(session)
	if !s.GetTurnActive() {
		return &supervisorv1.CancelPromptResponse{}, nil
	}
	return &supervisorv1.CancelPromptResponse{TurnActive: true}, a.promptMux.cancel(ctx, session)
}
