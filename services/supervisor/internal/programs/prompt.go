package programs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acpclient"
	"github.com/acphost/acphost/services/supervisor/internal/event"
	"github.com/acphost/acphost/services/supervisor/internal/fault"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// cancelPatience is how long an agent may go on with a turn that was cancelled before that is told.
const cancelPatience = 30 * time.Second

// errClosedUnder ends a turn whose session was closed while the agent had not ended it.
var errClosedUnder = errors.New("the session was closed before the turn had ended")

// turn is a prompt under way.
type turn struct {
	run  *run
	over chan struct{} // closed when it is answered, or never will be
	// ctx ends when nobody waits for the answer any more: the session is gone. Leave ends it.
	ctx   context.Context
	leave context.CancelFunc

	// Set before over is closed.
	result []byte
	err    error

	// Guarded by the Registry's mu.
	sent      bool // the agent has been sent the prompt, or will be before all else
	cancelled bool
}

// Prompt begins a turn and tells its events up to its end. Its end is told even if no event says it.
func (reg *Registry) Prompt(ctx context.Context, r *supervisorv1.PromptRequest, send func(*supervisorv1.Event) error) error {
	s, err := reg.session(r.GetAgentId(), r.GetSessionId())
	if err != nil {
		return err
	}
	run, err := s.agent.runs()
	if err != nil {
		return err
	}
	params, err := run.prompt(s.id, r.GetPrompt(), r.GetMeta())
	if err != nil {
		return err
	}
	sub := reg.opts.Hub.Subscribe(s.agent.identity.ID, s.id)
	defer sub.Close()
	t, err := reg.beginTurn(ctx, s, run, params)
	if err != nil {
		return err
	}
	p := &prompting{reg: reg, session: s, turn: t, sub: sub, send: send}
	err = p.tell(ctx, event.Large(r.GetPrompt()))
	if err != nil && r.GetCancelOnDisconnect() {
		reg.cancelTurnOf(s, t)
	}
	return err
}

// prompt checks a prompt and makes the params of it.
func (r *run) prompt(sessionID string, blocks []*supervisorv1.ContentBlock, metaText string) ([]byte, error) {
	meta, err := newMeta("prompt", metaText)
	if err != nil {
		return nil, err
	}
	if err := event.Missing(r.info.GetCapabilities(), blocks); err != nil {
		return nil, err
	}
	params, err := event.AppendPrompt(append(jsonrpc.AppendString([]byte(`{"sessionId":`), sessionID), `,"prompt":`...), blocks)
	if err != nil {
		return nil, err
	}
	return append(appendMeta(params, meta), '}'), nil
}

// beginTurn sends a prompt, and has a goroutine wait for its answer.
func (reg *Registry) beginTurn(ctx context.Context, s *session, r *run, params []byte) (*turn, error) {
	t := &turn{run: r, over: make(chan struct{})}
	reg.mu.Lock()
	err := reg.open()
	switch {
	case err != nil:
	case s.agent.sessions[s.id] != s || s.closing:
		err = fault.New(fault.Precondition, "session %q is closed, or about to be", s.id)
	case s.turn != nil:
		err = fault.New(fault.Precondition, "session %q has a turn under way: wait for its end, or cancel it", s.id)
	case s.held != "":
		err = fault.New(fault.Precondition, "session %q takes no prompt: %s; set its mode to go on, or close it", s.id, s.held)
	case s.agent.run != r:
		err = fault.New(fault.Precondition, "agent %q ended a moment ago: try again", s.agent.identity.ID)
	default:
		t.ctx, t.leave = context.WithCancel(context.Background())
		s.turn = t
		reg.turns++
	}
	reg.mu.Unlock()
	if err != nil {
		return nil, err
	}
	call, err := r.prog.Send(ctx, acp.MethodSessionPrompt, params)
	if err != nil {
		err = r.explain(ctx, acp.MethodSessionPrompt, 0, err)
		reg.endTurn(s, t)
		return nil, err
	}
	reg.mu.Lock()
	t.sent = true
	cancelled := t.cancelled
	if !reg.spawn(func() { reg.awaitTurn(s, t, call) }) {
		reg.mu.Unlock()
		reg.endTurn(s, t)
		return nil, fault.New(fault.Precondition, "the supervisor is about to end")
	}
	reg.mu.Unlock()
	if cancelled {
		reg.sendCancel(s, t)
	}
	return t, nil
}

// awaitTurn waits for the answer to a prompt. The process's end ends it, and so does the session's.
func (reg *Registry) awaitTurn(s *session, t *turn, call *acpclient.Pending) {
	t.result, t.err = call.Wait(t.ctx)
	if t.ctx.Err() != nil && errors.Is(t.err, t.ctx.Err()) {
		call.Leave()
		t.err = errClosedUnder
	}
	reg.endTurn(s, t)
}

func (reg *Registry) endTurn(s *session, t *turn) {
	reg.mu.Lock()
	if s.turn == t {
		s.turn = nil
	}
	if reg.turns--; reg.turns == 0 && reg.idle != nil {
		close(reg.idle)
		reg.idle = nil
	}
	reg.mu.Unlock()
	t.leave()
	close(t.over)
}

// prompting tells the events of a turn.
type prompting struct {
	reg     *Registry
	session *session
	turn    *turn
	sub     Subscription
	send    func(*supervisorv1.Event) error
}

// tell tells the events of the turn up to its end.
func (p *prompting) tell(ctx context.Context, first []*supervisorv1.Event) error {
	for _, e := range first {
		p.own(e)
		if err := p.send(e); err != nil {
			return err
		}
	}
	closed := make(chan struct{})
	defer func() { <-closed }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // once the answer is there, nothing more is waited for than what passed before it
		defer close(closed)
		select {
		case <-p.turn.over:
			p.reg.syncHub(ctx)
			p.sub.Close()
		case <-ctx.Done():
		}
	}()
	for begun := false; ; {
		e, err := p.sub.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return p.end()
		case err != nil:
			return err
		}
		// What comes before is of the turn before.
		if begun = begun || e.GetTurnStarted() != nil; !begun {
			continue
		}
		if e.GetTurnEnded() != nil {
			p.awaitAnswer(ctx)
			return p.send(p.hinted(e))
		}
		if err := p.send(e); err != nil {
			return err
		}
	}
}

// awaitAnswer waits until the session can take another prompt: an answer is seen a moment before it arrives.
func (p *prompting) awaitAnswer(ctx context.Context) {
	timer := time.NewTimer(syncTimeout)
	defer timer.Stop()
	select {
	case <-p.turn.over:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// own says whom an event of ours is about.
func (p *prompting) own(e *supervisorv1.Event) {
	e.AgentId, e.SessionId = p.session.agent.identity.ID, p.session.id
	if e.GetTime() == nil {
		e.Time = timestamppb.Now()
	}
}

// end tells the end of a turn that no event told.
func (p *prompting) end() error {
	select {
	case <-p.turn.over:
	default: // the Hub has ended
		return fault.New(fault.Precondition, "the supervisor is about to end")
	}
	ended := &supervisorv1.TurnEnded{}
	var f *fault.Error
	switch err := p.turn.run.explain(context.Background(), acp.MethodSessionPrompt, 0, p.turn.err); {
	case err == nil:
		ended.StopReason, _ = acp.String(acp.Get(p.turn.result, "stopReason"))
	case errors.As(err, &f) && f.Agent != nil:
		ended.Error = f.Agent
	default:
		ended.Error = &supervisorv1.AgentError{Message: err.Error()}
	}
	e := &supervisorv1.Event{Event: &supervisorv1.Event_TurnEnded{TurnEnded: ended}}
	p.own(e)
	return p.send(e)
}

// CancelPrompt has the agent end a session's turn; active: there is one.
func (reg *Registry) CancelPrompt(_ context.Context, r *supervisorv1.CancelPromptRequest) (active bool, err error) {
	s, err := reg.session(r.GetAgentId(), r.GetSessionId())
	if err != nil {
		return false, err
	}
	return reg.cancelTurn(s), nil
}

// cancelTurn cancels the turn that is under way; false: there is none.
func (reg *Registry) cancelTurn(s *session) bool {
	reg.mu.Lock()
	t := s.turn
	reg.mu.Unlock()
	return t != nil && reg.cancelTurnOf(s, t)
}

// cancelTurnOf cancels a turn; false: it is over.
func (reg *Registry) cancelTurnOf(s *session, t *turn) bool {
	reg.mu.Lock()
	if s.turn != t {
		reg.mu.Unlock()
		return false
	}
	first, sent := !t.cancelled, t.sent
	t.cancelled = true
	if first {
		reg.spawn(func() { reg.watchCancelled(s, t) })
	}
	reg.mu.Unlock()
	if sent { // else whoever sends the prompt sends this after it
		reg.sendCancel(s, t)
	}
	return true
}

func (reg *Registry) sendCancel(s *session, t *turn) {
	if err := t.run.prog.Notify(acp.MethodSessionCancel, sessionParams(s.id)); err != nil {
		reg.log.Warn("a turn could not be cancelled", "agent", s.agent.identity.ID, "session", s.id, "error", err)
	}
}

// watchCancelled tells of a turn that does not end though it was cancelled.
func (reg *Registry) watchCancelled(s *session, t *turn) {
	timer := time.NewTimer(cancelPatience)
	defer timer.Stop()
	select {
	case <-t.over:
	case <-reg.ctx.Done():
	case <-timer.C:
		reg.log.Warn("an agent does not end a turn that was cancelled", "agent", s.agent.identity.ID, "session", s.id)
		reg.notice(s, "warning", "The agent goes on though its turn was cancelled",
			fmt.Sprintf("The turn has not ended within %s of that. Wait for it, or restart the agent %q, which ends the turns of all its sessions.",
				cancelPatience, s.agent.identity.ID))
	}
}
