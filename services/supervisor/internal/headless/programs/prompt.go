package programs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/acphost/acphost/internal/fault"
	"github.com/acphost/acphost/internal/panics"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/events/activity"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
	"github.com/acphost/acphost/services/supervisor/internal/headless/acpclient"
)

// cancelTimeout is the time after which a cancelled turn that continues is reported.
const cancelTimeout = 30 * time.Second

// errClosedUnder ends a turn whose session was closed before the agent had ended it.
var errClosedUnder = errors.New("the session was closed before the turn had ended")

// turn is an active prompt.
type turn struct {
	session *session
	run     *run
	done    chan struct{} // closed when it is answered, or cannot be answered any more
	// ctx ends when the answer is not awaited any more, because the session has ended. leave ends it.
	ctx   context.Context
	leave context.CancelFunc
	idle  chan struct{} // closed when the turn ends, for an agent that reports that separately; else nil

	// Set before over is closed.
	result []byte
	err    error

	// Guarded by the Registry's mu.
	sent      bool // the prompt is queued for the agent before all else
	cancelled bool
}

// Prompt begins a turn and sends its events until its end. It sends the end even if the agent reports none.
func (reg *Registry) Prompt(ctx context.Context, r *supervisorv1.PromptRequest, send func(*supervisorv1.Event) error) error {
	if a := reg.remoteSession(r.GetAgentId(), r.GetSessionId()); a != nil {
		return a.prompt(ctx, r, send)
	}
	s, err := reg.session(r.GetAgentId(), r.GetSessionId())
	if err != nil {
		return err
	}
	run, err := s.agent.runs()
	if err != nil {
		return err
	}
	params, err := promptParams(run.info, r)
	if err != nil {
		return err
	}
	sub := reg.opts.Hub.Subscribe(s.agent.identity.ID, s.id)
	defer sub.Close()
	t, err := reg.beginTurn(ctx, s, run, params)
	if err != nil {
		return err
	}
	reg.mu.Lock()
	first := append(s.early, event.Large(r.GetPrompt())...)
	s.early = nil
	reg.mu.Unlock()
	err = t.sendEvents(ctx, sub, first, send)
	if err != nil && r.GetCancelOnDisconnect() {
		reg.cancelTurnOf(t)
	}
	return err
}

// promptParams validates a prompt for an agent and returns its params.
func promptParams(agent *supervisorv1.AgentInfo, r *supervisorv1.PromptRequest) ([]byte, error) {
	meta, err := newMeta("prompt", r.GetMeta())
	if err != nil {
		return nil, err
	}
	if err := event.Missing(agent.GetCapabilities(), r.GetPrompt()); err != nil {
		return nil, err
	}
	params, err := event.AppendPrompt(append(jsonrpc.AppendString([]byte(`{"sessionId":`), r.GetSessionId()), `,"prompt":`...), r.GetPrompt())
	if err != nil {
		return nil, err
	}
	return append(appendMeta(params, meta), '}'), nil
}

// beginTurn sends a prompt, and starts a goroutine that waits for the answer.
func (reg *Registry) beginTurn(ctx context.Context, s *session, r *run, params []byte) (*turn, error) {
	t := &turn{session: s, run: r, done: make(chan struct{})}
	reg.mu.Lock()
	err := reg.open()
	switch {
	case err != nil:
	case s.agent.sessions[s.id] != s || s.closing:
		err = fault.New(fault.Precondition, "session %q is closed, or about to be", s.id)
	case s.turn != nil:
		err = fault.New(fault.Precondition, "session %q has a turn under way: wait for its end, or cancel it", s.id)
	case s.rejectReason != "":
		err = fault.New(fault.Precondition, "session %q takes no prompt: %s; set its mode to go on, or close it", s.id, s.rejectReason)
	case s.agent.run != r:
		err = fault.New(fault.Precondition, "agent %q ended a moment ago: try again", s.agent.identity.ID)
	default:
		t.ctx, t.leave = context.WithCancel(context.Background())
		s.turn = t
		reg.turns[t] = true
	}
	reg.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if r.info.GetProtocolVersion() >= 2 { // before the prompt, so that no event is missed
		reg.watchIdle(t)
	}
	call, err := r.prog.Send(ctx, acp.MethodSessionPrompt, params)
	if err != nil {
		err = r.explain(ctx, acp.MethodSessionPrompt, 0, err)
		reg.endTurn(t)
		return nil, err
	}
	reg.mu.Lock()
	t.sent = true
	cancelled := t.cancelled
	if !reg.spawn(func() { reg.awaitTurn(t, call) }) {
		reg.mu.Unlock()
		reg.endTurn(t)
		return nil, fault.New(fault.Precondition, "the supervisor is about to end")
	}
	reg.mu.Unlock()
	if cancelled {
		reg.sendCancel(t)
	}
	return t, nil
}

// awaitTurn waits for the answer to a prompt, or the end of the process or the session.
func (reg *Registry) awaitTurn(t *turn, call *acpclient.Pending) {
	defer reg.endTurn(t)
	defer panics.Recover(reg.log, "waiting for the answer to a prompt", func(err error) { t.err = err })
	t.result, t.err = call.Wait(t.ctx)
	if t.err == nil && t.idle != nil && acp.PromptAccepted(t.result, int(t.run.info.GetProtocolVersion())) {
		t.err = t.awaitIdle()
	}
	if t.ctx.Err() != nil && errors.Is(t.err, t.ctx.Err()) {
		call.Abandon()
		t.err = errClosedUnder
	}
}

func (reg *Registry) endTurn(t *turn) {
	reg.mu.Lock()
	if t.session.turn == t {
		t.session.turn = nil
	}
	delete(reg.turns, t)
	reg.mu.Unlock()
	t.leave()
	close(t.done)
}

// sendEvents sends the events in first, then those of the turn from sub until its end, and closes sub.
func (t *turn) sendEvents(ctx context.Context, sub *activity.Subscription, first []*supervisorv1.Event, send func(*supervisorv1.Event) error) error {
	for _, e := range first {
		if err := send(t.own(e)); err != nil {
			return err
		}
	}
	var closing sync.WaitGroup
	defer closing.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	closing.Go(func() { // after the answer, only earlier events and late updates are awaited
		defer panics.Recover(t.run.agent.reg.log, "waiting for the end of a turn", func(error) { sub.Close() })
		select {
		case <-t.done:
			t.run.agent.reg.awaitTurnEnd(ctx, t.session.agent.identity.ID, t.session.id)
			sub.Close()
		case <-ctx.Done():
		}
	})
	for begun := false; ; {
		e, err := sub.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			select {
			case <-t.done:
				return send(t.missingEnd())
			default: // the Hub has ended
				return fault.New(fault.Precondition, "the supervisor is about to end")
			}
		case err != nil:
			return err
		}
		// Events before the start belong to the previous turn.
		if begun = begun || e.GetTurnStarted() != nil; !begun {
			continue
		}
		if e.GetTurnEnded() != nil {
			t.awaitAnswer(ctx)
			return send(t.run.hinted(e))
		}
		if err := send(e); err != nil {
			return err
		}
	}
}

// awaitAnswer waits until the session accepts another prompt: the answer is an event a moment before it arrives here.
func (t *turn) awaitAnswer(ctx context.Context) {
	select {
	case <-t.done:
	case <-time.After(syncTimeout):
	case <-ctx.Done():
	}
}

// own sets the agent and the session of an event of this package.
func (t *turn) own(e *supervisorv1.Event) *supervisorv1.Event {
	if e.GetCursor() != "" { // it was published already, and is shared
		return e
	}
	e.AgentId, e.SessionId = t.session.agent.identity.ID, t.session.id
	if e.GetTime() == nil {
		e.Time = timestamppb.Now()
	}
	return e
}

// missingEnd returns the end of a turn that no event reported.
func (t *turn) missingEnd() *supervisorv1.Event {
	ended := &supervisorv1.TurnEnded{}
	var f *fault.Error
	switch err := t.run.explain(context.Background(), acp.MethodSessionPrompt, 0, t.err); {
	case err == nil:
		ended.StopReason, _ = acp.String(acp.Get(t.result, "stopReason"))
	case errors.As(err, &f) && f.Agent != nil:
		ended.Error = f.Agent
	default:
		ended.Error = &supervisorv1.AgentError{Message: err.Error()}
	}
	return t.own(&supervisorv1.Event{Event: &supervisorv1.Event_TurnEnded{TurnEnded: ended}})
}

// CancelPrompt asks the agent to end a session's turn.
func (reg *Registry) CancelPrompt(ctx context.Context, r *supervisorv1.CancelPromptRequest) (*supervisorv1.CancelPromptResponse, error) {
	if a := reg.remoteSession(r.GetAgentId(), r.GetSessionId()); a != nil {
		return a.cancelTurn(ctx, r.GetSessionId())
	}
	s, err := reg.session(r.GetAgentId(), r.GetSessionId())
	if err != nil {
		return nil, err
	}
	return &supervisorv1.CancelPromptResponse{TurnActive: reg.cancelTurn(s)}, nil
}

// cancelTurn cancels the active turn. It returns false if none exists.
func (reg *Registry) cancelTurn(s *session) bool {
	reg.mu.Lock()
	t := s.turn
	reg.mu.Unlock()
	return t != nil && reg.cancelTurnOf(t)
}

// cancelTurnOf cancels a turn. It returns false if it has ended.
func (reg *Registry) cancelTurnOf(t *turn) bool {
	reg.mu.Lock()
	if t.session.turn != t {
		reg.mu.Unlock()
		return false
	}
	first, sent := !t.cancelled, t.sent
	t.cancelled = true
	if first {
		reg.spawn(func() { reg.watchCancelled(t) })
	}
	reg.mu.Unlock()
	if sent { // otherwise beginTurn sends this after the prompt
		reg.sendCancel(t)
	}
	return true
}

func (reg *Registry) sendCancel(t *turn) {
	if err := t.run.prog.Notify(acp.MethodSessionCancel, sessionParams(t.session.id)); err != nil {
		reg.log.Warn("a turn could not be cancelled", "agent", t.session.agent.identity.ID, "session", t.session.id, "error", err)
	}
}

// watchCancelled reports a cancelled turn that does not end.
func (reg *Registry) watchCancelled(t *turn) {
	select {
	case <-t.done:
	case <-reg.ctx.Done():
	case <-time.After(cancelTimeout):
		reg.log.Warn("an agent does not end a turn that was cancelled", "agent", t.session.agent.identity.ID, "session", t.session.id)
		reg.notice(t.session, "warning", "The agent goes on though its turn was cancelled",
			fmt.Sprintf("The turn has not ended within %s of that. Wait for it, or restart the agent %q, which ends the turns of all its sessions.",
				cancelTimeout, t.session.agent.identity.ID))
	}
}
