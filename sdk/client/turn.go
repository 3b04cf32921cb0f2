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

// Turn is a prompt that is being worked on. Its events are read by one goroutine; Cancel and Lags may be called by any.
type Turn struct {
	c   *Client
	ctx context.Context
	req *supervisorv1.PromptRequest

	next      func() (*supervisorv1.Event, error) // reads the stream that is open
	cursor    string                              // of the last event that has one
	ended     *supervisorv1.TurnEnded
	err       error // after which nothing comes
	cancelled atomic.Bool
	lags      atomic.Int32
	moved     bool        // an event came since the last call of catchUp
	lost      *time.Timer // ends the reading if the turn's end is not among the events that are left; nil: it may come
}

// errBroken is the end of a turn's events without the turn's end.
var errBroken = &Error{Code: codes.Aborted, Message: "the turn broke off without an end"}

// Prompt begins a turn in a session that is open. The prompt is on its way when Prompt returns; that the agent does not
// take it, Events tells. ctx ends the reading of events. It ends the turn too if the request says CancelOnDisconnect; else
// the turn goes on at the supervisor, and WatchSession can follow it.
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

// Events are the turn's events, in order. The last one is TurnEnded. If the turn breaks off, an error comes last, with no
// event. A loop that stops early can be continued by another one.
//
// A caller that reads more slowly than the agent talks is cut off by the supervisor. Events then reads on from the
// record, so that nothing is missing; Lags counts that. With CancelOnDisconnect the turn is cancelled instead, and the
// error has the code ResourceExhausted.
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
			return nil, io.EOF // of the session there may be more
		}
		e, err := t.next()
		switch {
		case err == nil && t.lost != nil && e.GetTurnStarted() != nil: // of the next turn
			return nil, errBroken
		case err == nil:
			t.took(e)
			return e, nil
		case t.ended != nil:
			return nil, io.EOF
		case errors.Is(err, io.EOF) && t.ctx.Err() != nil: // the supervisor saw it first, and ended the stream
			return nil, ErrorOf(status.FromContextError(t.ctx.Err()).Err())
		case errors.Is(err, io.EOF):
			return nil, errBroken
		case t.lost != nil && t.ctx.Err() == nil && status.Code(err) == codes.Canceled:
			return nil, errBroken
		case status.Code(err) != codes.ResourceExhausted || t.cursor == "" || t.req.GetCancelOnDisconnect():
			return nil, err
		case t.lags.Load() > 0 && !t.moved: // another attempt would end at the same event
			return nil, err
		}
		if err := t.catchUp(); err != nil {
			return nil, err
		}
	}
}

// catchUp goes on behind the last event, from the record.
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
	t.moved = false
	t.next = func() (*supervisorv1.Event, error) {
		r, err := stream.Recv()
		if err != nil || r.GetEvent().GetTurnEnded() != nil {
			leave() // what the session does next is no part of the turn
		}
		if err == nil && r.GetEvent().GetGap() != nil {
			t.endMayBeLost(ctx, leave)
		}
		return r.GetEvent(), err
	}
	return nil
}

// lostEndGrace is how long the end of a turn that is over at the agent may take to be told, behind a gap.
const lostEndGrace = 10 * time.Second

// endMayBeLost bounds the wait for the turn's end behind a gap, which may have it: if no turn is under way any more, leave is
// called after lostEndGrace.
func (t *Turn) endMayBeLost(ctx context.Context, leave func()) {
	r, err := t.c.State.GetSession(ctx, &supervisorv1.GetSessionRequest{AgentId: t.req.GetAgentId(), SessionId: t.req.GetSessionId()})
	if t.lost == nil && (err != nil || !r.GetSession().GetTurnActive()) {
		t.lost = time.AfterFunc(lostEndGrace, leave)
	}
}

func (t *Turn) took(e *supervisorv1.Event) {
	if e.GetCursor() != "" {
		t.cursor, t.moved = e.GetCursor(), true
	}
	if end := e.GetTurnEnded(); end != nil {
		t.ended = end
		if t.lost != nil {
			t.lost.Stop()
		}
	}
	if e.GetTurnStarted() != nil && t.cancelled.Load() {
		_ = t.cancel(t.ctx) // the first time it was not there yet
	}
}

// End reads the events that are left and returns how the turn ended. The error is an *Error: why the turn broke off, or,
// beside the end, what went wrong at the agent.
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

// Lags is how often events were read from the record, since the caller was slower than the agent.
func (t *Turn) Lags() int { return int(t.lags.Load()) }

// Cancel asks the agent to end the turn. It returns when the agent was told; the turn's own end comes among its events.
// A turn that has not begun is cancelled when it does.
func (t *Turn) Cancel(ctx context.Context) error {
	t.cancelled.Store(true)
	return t.cancel(ctx)
}

func (t *Turn) cancel(ctx context.Context) error {
	_, err := t.c.Sessions.CancelPrompt(ctx, &supervisorv1.CancelPromptRequest{AgentId: t.req.GetAgentId(), SessionId: t.req.GetSessionId()})
	return err
}

// OpenSession opens a session with an agent in the folder cwd, an absolute path: a new one, or the one that the agent has
// stored by the id stored, if that is not empty. meta, a JSON object or nothing, goes to the agent as _meta.
//
// An agent that stores sessions can resume one, load one, or both; one that is loaded is told again as history. The
// session is loaded where there is a choice and history is true, else resumed. how is what was done: "new", "load",
// "resume".
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

// WatchSession tells the events of a session: those that are recorded, then what comes, as the request says. The call is on
// its way when WatchSession returns. A caller that is cut off for being slow is told the rest from the record. The
// sequence can be ranged over once; it ends when ctx does, with an error, or, with NoFollow, behind the last event.
func (c *Client) WatchSession(ctx context.Context, req *supervisorv1.WatchSessionRequest) (iter.Seq2[*supervisorv1.Event, error], error) {
	req = proto.CloneOf(req)
	stream, err := c.Sessions.WatchSession(ctx, req)
	if err != nil {
		return nil, err
	}
	return func(yield func(*supervisorv1.Event, error) bool) {
		moved := false
		for {
			r, err := stream.Recv()
			if moved && status.Code(err) == codes.ResourceExhausted {
				moved = false
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
				req.Cursor, moved = cursor, true
			}
			if !yield(r.GetEvent(), nil) {
				return
			}
		}
	}, nil
}
