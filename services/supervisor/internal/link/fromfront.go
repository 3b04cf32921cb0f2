package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
)

// errHandled ends the pump after the reason was recorded.
var errHandled = errors.New("the link has ended")

// pumpFront reads the front until its end.
func (l *Link) pumpFront(ctx context.Context) error {
	p := &frontPump{Link: l, out: run{to: l.toAgent}}
	p.out.seen = l.seen(frame.FrontToAgent, &p.msg)
	r := jsonrpc.NewReader(l.opts.Front.In(), l.opts.Limits.MaxMessage)
	for {
		line, err := r.Next()
		if err != nil {
			if ferr := p.out.flush(); ferr != nil {
				return l.agentFailed(ferr)
			}
			var long *jsonrpc.TooLong
			if !errors.As(err, &long) {
				return err
			}
			p.tooLong(long)
			continue
		}
		l.counters.frontMessages.Add(1)
		l.counters.frontBytes.Add(uint64(len(line)))
		if err := p.line(ctx, line); err != nil {
			return l.agentFailed(err)
		}
		if !r.Buffered() {
			if err := p.out.flush(); err != nil {
				return l.agentFailed(err)
			}
		}
	}
}

// agentFailed: the agent cannot be written to. It may have closed its input on purpose and still be talking, and why it
// is gone is better told by its end: so this ends nothing by itself, unless the agent's output ends too, which it does
// when the agent is gone.
func (l *Link) agentFailed(err error) error {
	if errors.Is(err, errHandled) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	select {
	case <-l.ended:
	case <-ctx.Done():
		l.end(AgentGone, fmt.Errorf("the agent takes no input any more: %w", err))
	}
	return err
}

// frontPump is the state of pumpFront; one goroutine's.
type frontPump struct {
	*Link
	out  run
	scan jsonrpc.Scanner
	msg  jsonrpc.Message
}

// line takes one line of the front's. An error means that the agent is gone.
func (p *frontPump) line(ctx context.Context, line []byte) error {
	m := &p.msg
	jerr := p.scan.Scan(line, m)
	if jerr != nil {
		if p.opts.Observe {
			*m = jsonrpc.Message{} // whoever watches shall not go by what another reader may find otherwise
			return p.out.add(line)
		}
		return p.malformed(line, m, jerr)
	}
	switch m.Kind {
	case jsonrpc.KindRequest:
		return p.request(ctx, m)
	case jsonrpc.KindNotification:
		if string(m.Method) == acp.MethodSessionCancel {
			p.sessionCancelled(string(m.SessionID))
		}
	case jsonrpc.KindResponse:
		return p.response(m)
	}
	return p.out.add(m.Raw)
}

func (p *frontPump) malformed(line []byte, m *jsonrpc.Message, jerr *jsonrpc.Error) error {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil
	}
	p.counters.refused.Add(1)
	p.see(frame.FrontToAgent, RefusedName, line)
	if jerr.Code == jsonrpc.CodeInvalidRequest {
		switch m.Kind {
		case jsonrpc.KindResponse: // never answer an answer; but the agent must not wait for it for ever
			p.log.Warn("the front sent an answer that is no valid message; it was dropped", "error", jerr.Message)
			if m.ID != nil {
				p.badAnswer(m.ID, "the client's answer is no valid message: "+jerr.Message)
			}
			return nil
		case jsonrpc.KindNotification:
			p.log.Warn("the front sent a notification that is no valid message; it was dropped", "error", jerr.Message)
			return nil
		}
		p.refuseFront(m.ID, jerr.Code, jerr.Message)
		return nil
	}
	p.refuseFront(nil, jerr.Code, jerr.Message)
	return nil
}

func (p *frontPump) tooLong(long *jsonrpc.TooLong) {
	p.counters.refused.Add(1)
	p.log.Warn("the front sent a message over the limit; it was dropped", "bytes", long.Size, "limit", long.Max)
	switch {
	case long.Method == nil && long.ID != nil:
		p.badAnswer(long.ID, "the client's answer was dropped: "+tooLongMessage(long))
	case long.Method != nil && long.ID == nil: // a notification is not answered
	default:
		p.refuseFront(long.ID, jsonrpc.CodeInvalidRequest, tooLongMessage(long))
	}
}

// request folds a request of the front's and forwards it.
func (p *frontPump) request(ctx context.Context, m *jsonrpc.Message) error {
	c := &frontCall{id: slices.Clone(m.ID), method: string(m.Method), sessionID: string(m.SessionID)}
	var opening acp.Opening
	switch c.method {
	case acp.MethodSessionNew, acp.MethodSessionLoad, acp.MethodSessionResume, acp.MethodSessionFork:
		var err error
		if opening, err = acp.ParseOpening(m.Params); err != nil && !p.opts.Observe {
			p.refuseFront(c.id, jsonrpc.CodeInvalidParams, fmt.Sprintf("%s: %v", c.method, err))
			return nil
		}
	}
	if !p.frontCalls.Add(c.id, c) {
		if p.opts.Observe {
			return p.out.add(m.Raw)
		}
		p.counters.refused.Add(1)
		p.refuseFront(c.id, jsonrpc.CodeInvalidRequest, fmt.Sprintf("%s: a request with id %s is in flight already", c.method, c.id))
		return nil
	}
	switch c.method {
	case acp.MethodInitialize:
		return p.initialize(ctx, c, m)
	case acp.MethodSessionNew, acp.MethodSessionLoad, acp.MethodSessionResume, acp.MethodSessionFork:
		p.opts.Book.Opening(jsonrpc.CanonicalID(c.id), c.method, opening)
	case acp.MethodSessionPrompt:
		p.opts.Book.Prompted(jsonrpc.CanonicalID(c.id), c.sessionID)
	case acp.MethodSessionSetMode:
		if mode, ok := acp.String(acp.Get(m.Params, "modeId")); ok { // the agent may work in it before it answers
			p.opts.Book.SettingMode(jsonrpc.CanonicalID(c.id), c.sessionID, mode)
		}
	}
	return p.out.add(m.Raw)
}

// response forwards the answer to a request that was forwarded. An id that was not is a forgery or a mistake: an agent
// could else be answered what nobody asked. Errors without an id belong to no request and pass.
func (p *frontPump) response(m *jsonrpc.Message) error {
	if p.opts.Observe || m.ID == nil || string(m.ID) == "null" && m.Error != nil {
		return p.out.add(m.Raw)
	}
	if p.ownAnswered(m) {
		return nil
	}
	c, ok := p.takeForwarded(m.ID)
	if !ok {
		p.spent.answered(m.ID)
		p.log.Debug("the front answered a request that is not open at the front; the answer was dropped", "id", string(m.ID))
		return nil
	}
	p.shownEnds(c, m.Error != nil)
	switch {
	case c.question != nil:
		id := chosen(m.Result)
		if !p.chose(c, id, gate.ByFront) {
			p.rejectUnrecorded(c)
			return nil
		}
		p.ends(c.waiting, choice(id, c.question.kindOf(id), gate.ByFront))
	case c.waiting != nil:
		p.ends(c.waiting, elicitationEnd(m.Result, m.Error != nil))
	}
	return p.out.add(m.Raw)
}

// takeForwarded takes a request of the agent's that is open at the front.
func (l *Link) takeForwarded(id []byte) (*agentCall, bool) {
	c, ok := l.agentCalls.Get(id)
	if !ok || c.current() != atFront {
		return nil, false
	}
	return c, l.take(c)
}

// badAnswer answers for a front whose answer to a request of the agent's cannot be passed on.
func (l *Link) badAnswer(id []byte, why string) {
	c, ok := l.takeForwarded(id)
	if !ok {
		l.spent.answered(id)
		return
	}
	l.shownEnds(c, true)
	if c.question != nil {
		_ = l.settleQuestion(c.question, gate.Outcome{Cancelled: true, By: gate.ByAcphost, Asked: time.Since(c.question.asked)})
	}
	l.ends(c.waiting, End{Outcome: Cancelled, By: gate.ByNobody})
	l.refuseAgent(c.id, jsonrpc.CodeInternal, c.method+": "+why)
}
