package client

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Turn is an active prompt. One goroutine reads its events; Cancel and Lags may be called by any goroutine.
type Turn struct {
	c   *Client
	ctx context.Context
	req *supervisorv1.PromptRequest

	next       func() (*supervisorv1.Event, error) // reads the open stream
	cursor     string                              // of the last event with a cursor
	ended      *supervisorv1.TurnEnded
	err        error // no event follows it
	cancelled  atomic.Bool
	lags       atomic.Int32
	progressed bool        // an event arrived since the last call of catchUp
	lostTimer  *time.Timer // ends the reading if the turn's end was lost; nil: it may still arrive
}

// errBroken is the end of a turn's events without the turn's end.
var errBroken = &Error{Code: codes.Aborted, Message: "the turn broke off without an end"}

// Prompt begins a turn in an open session. When Prompt returns, the request was sent; Events returns an error if the
// agent rejects it. The end of ctx ends the reading of events. It also ends the turn if the request has
// CancelOnDisconnect; otherwise the turn continues at the supervisor, and WatchSession can follow it.
func (c *Client) Prompt(ctx context.Context, req *supervisorv1.PromptRequest) (*Turn, error) {
	stream, err := c.Sessions.Prompt(ctx, req)
	if err != nil {
		return nil, err
	}
	t := &Turn{c: c, ctx: ctx, req: req}
	t.next = func() (*supervisorv1.Event, error) {
		r, err := stream.Recv()
		return r.GetEvent(), err
	}
	return t, nil
}

// Events returns the turn's events, in order. The last one is TurnEnded. If the turn breaks off, the last element is an
// error without an event. After a loop that stopped early, another loop continues.
//
// The supervisor disconnects a caller that reads too slowly. Events then continues from the record, so that no event is
// missing; Lags counts these cases. With CancelOnDisconnect the turn is cancelled instead, and the error has the code
// ResourceExhausted.
func (t *Turn) Events() iter.Seq2[*supervisorv1.Event, error] {
	return func(yield func(*supervisorv1.Event, error) bool) {
		for t.err == nil {
			e, err := t.read()
			if err != nil {
				if t.err = err; !errors.Is(err, io.EOF) {
					yield(nil, err)
				}
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// read reads one event. io.EOF follows the turn's end.
func (t *Turn) read() (*supervisorv1.Event, error) {
	for {
		if t.ended != nil && t.lags.Load() > 0 {
			return nil, io.EOF // the session may have more events
		}
		e, err := t.next()
		switch {
		case err == nil && t.lostTimer != nil && e.GetTurnStarted() != nil: // it belongs to the next turn
			return nil, errBroken
		case err == nil:
			t.recordEvent(e)
			return e, nil
		case t.ended != nil:
			return nil, io.EOF
		case errors.Is(err, io.EOF) && t.ctx.Err() != nil: // the supervisor noticed it first, and ended the stream
			return nil, ErrorOf(status.FromContextError(t.ctx.Err()).Err())
		case errors.Is(err, io.EOF):
			return nil, errBroken
		case t.lostTimer != nil && t.ctx.Err() == nil && status.Code(err) == codes.Canceled:
			return nil, errBroken
		case status.Code(err) != codes.ResourceExhausted || t.cursor == "" || t.req.GetCancelOnDisconnect():
			return nil, err
		case t.lags.Load() > 0 && !t.progressed: // another attempt would end at the same event
			return nil, err
		}
		if err := t.catchUp(); err != nil {
			return nil, err
		}
	}
}

// catchUp continues after the last event, from the record.
func (t *Turn) catchUp() error {
	ctx, leave := context.WithCancel(t.ctx)
	stream, err := t.c.Sessions.WatchSession(ctx, &supervisorv1.WatchSessionRequest{
		AgentId: t.req.GetAgentId(), SessionId: t.req.GetSessionId(), Cursor: t.cursor,
	})
	if err != nil {
		leave()
		return err
	}
	t.lags.Add(1)
	t.progressed = false
	t.next = func() (*supervisorv1.Event, error) {
		r, err := stream.Recv()
		if err != nil || r.GetEvent().GetTurnEnded() != nil {
			leave() // later events of the session are not part of the turn
		}
		if err == nil && r.GetEvent().GetGap() != nil {
			t.awaitLostEnd(ctx, leave)
		}
		return r.GetEvent(), err
	}
	return nil
}

// lostEndTimeout is the time in which the end of a turn must arrive that has ended at the agent, after a gap in the
// events.
const lostEndTimeout = 10 * time.Second

// awaitLostEnd limits the wait for the turn's end after a gap, which may contain it: if no turn is active any more,
// leave is called after lostEndGrace.
func (t *Turn) awaitLostEnd(ctx context.Context, leave func()) {
	r, err := t.c.State.GetSession(ctx, &supervisorv1.GetSessionRequest{AgentId: t.req.GetAgentId(), SessionId: t.req.GetSessionId()})
	if t.lostTimer == nil && (err != nil || !r.GetSession().GetTurnActive()) {
		t.lostTimer = time.AfterFunc(lostEndTimeout, leave)
	}
}

func (t *Turn) recordEvent(e *supervisorv1.Event) {
	if e.GetCursor() != "" {
		t.cursor, t.progressed = e.GetCursor(), true
	}
	if end := e.GetTurnEnded(); end != nil {
		t.ended = end
		if t.lostTimer != nil {
			t.lostTimer.Stop()
		}
	}
	if e.GetTurnStarted() != nil && t.cancelled.Load() {
		_ = t.cancel(t.ctx) // at the first attempt the turn did not exist yet
	}
}

// End reads the remaining events and returns how the turn ended. The error is an *Error: the reason why the turn broke
// off or, in addition to the end, the failure at the agent.
func (t *Turn) End() (*supervisorv1.TurnEnded, error) {
	for _, err := range t.Events() {
		if err != nil {
			return nil, err
		}
	}
	if t.ended == nil {
		return nil, t.err
	}
	if e := t.ended.GetError(); e != nil {
		return t.ended, &Error{Code: codes.Unknown, Message: e.GetMessage(), Agent: e}
	}
	return t.ended, nil
}

// Lags returns how often events were read from the record because the caller was slower than the agent.
func (t *Turn) Lags() int { return int(t.lags.Load()) }

// Cancel asks the agent to end the turn. It returns when the agent was notified; the turn's end then follows among its
// events. A turn that has not begun yet is cancelled when it begins.
func (t *Turn) Cancel(ctx context.Context) error {
	t.cancelled.Store(true)
	return t.cancel(ctx)
}

func (t *Turn) cancel(ctx context.Context) error {
	_, err := t.c.Sessions.CancelPrompt(ctx, &supervisorv1.CancelPromptRequest{AgentId: t.req.GetAgentId(), SessionId: t.req.GetSessionId()})
	return err
}

// OpenSession opens a session with an agent in the folder cwd, an absolute path: a new session, or the session with the
// id stored that the agent has stored, if stored is not empty. meta, a JSON object or empty, is sent to the agent as
// _meta.
//
// An agent that stores sessions can resume a session, load it, or both; it sends a loaded session again as history. If
// the agent can do both, history selects: true loads the session, false resumes it. how is the method that was used:
// "new", "load" or "resume".
func (c *Client) OpenSession(ctx context.Context, agent *supervisorv1.Agent, stored, cwd, meta string, history bool) (session *supervisorv1.Session, how string, err error) {
	can := agent.GetInfo().GetCapabilities()
	switch {
	case stored == "":
		r, err := c.Sessions.NewSession(ctx, &supervisorv1.NewSessionRequest{AgentId: agent.GetId(), Cwd: cwd, Meta: meta})
		return r.GetSession(), "new", err
	case can.GetLoadSession() && (history || !can.GetResumeSession()):
		r, err := c.Sessions.LoadSession(ctx, &supervisorv1.LoadSessionRequest{AgentId: agent.GetId(), SessionId: stored, Cwd: cwd, Meta: meta})
		return r.GetSession(), "load", err
	case can.GetResumeSession():
		r, err := c.Sessions.ResumeSession(ctx, &supervisorv1.ResumeSessionRequest{AgentId: agent.GetId(), SessionId: stored, Cwd: cwd, Meta: meta})
		return r.GetSession(), "resume", err
	}
	return nil, "", &Error{Code: codes.Unimplemented, Message: "agent \"" + agent.GetName() + "\" cannot go on with a session that it has stored"}
}

// WatchSession returns the events of a session: the recorded events, then new events, as the request selects. When
// WatchSession returns, the request was sent. A caller that was disconnected because it was too slow gets the rest from
// the record. The sequence can be iterated once. It ends with an error when ctx ends, or, with NoFollow, after the last
// event.
func (c *Client) WatchSession(ctx context.Context, req *supervisorv1.WatchSessionRequest) (iter.Seq2[*supervisorv1.Event, error], error) {
	req = proto.CloneOf(req)
	stream, err := c.Sessions.WatchSession(ctx, req)
	if err != nil {
		return nil, err
	}
	return func(yield func(*supervisorv1.Event, error) bool) {
		progressed := false
		for {
			r, err := stream.Recv()
			if progressed && status.Code(err) == codes.ResourceExhausted {
				progressed = false
				if stream, err = c.Sessions.WatchSession(ctx, req); err == nil {
					continue
				}
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					yield(nil, err)
				}
				return
			}
			if cursor := r.GetEvent().GetCursor(); cursor != "" {
				req.Cursor, progressed = cursor, true
			}
			if !yield(r.GetEvent(), nil) {
				return
			}
		}
	}, nil
}
