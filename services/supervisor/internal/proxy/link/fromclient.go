package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/question"
)

// errHandled ends the pump after the reason was recorded.
var errHandled = errors.New("the link has ended")

// pumpClient reads the client's messages until their end.
func (l *Link) pumpClient(ctx context.Context) error {
	p := &clientPump{Link: l, ctx: ctx, out: run{to: l.toAgent}}
	p.out.seen = l.seen(frame.ClientToAgent, &p.msg)
	failed, err := pump(jsonrpc.NewReader(l.opts.Client.In, l.opts.Limits.MaxMessage), p)
	if failed {
		l.agentFailed(err)
	}
	return err
}

func (p *clientPump) rest() error { return p.out.flush() }

// agentFailed handles an error of a write to the agent. The agent may have closed its input on purpose and still send messages, and its end
// gives a better reason. So the link ends only if the agent's output does not end within a second.
func (l *Link) agentFailed(err error) {
	if errors.Is(err, errHandled) {
		return
	}
	select {
	case <-l.ended:
	case <-time.After(time.Second):
		l.end(AgentGone, fmt.Errorf("the agent takes no input any more: %w", err))
	}
}

// clientPump is the state of pumpClient. Only one goroutine uses it.
type clientPump struct {
	*Link
	ctx  context.Context // of the link
	out  run
	scan acp.Scanner
	msg  jsonrpc.Message
}

// line processes one line of the client. An error means that the agent is gone.
func (p *clientPump) line(line []byte) error {
	p.counters.clientMessages.Add(1)
	p.counters.clientBytes.Add(uint64(len(line)))
	m := &p.msg
	jerr := p.scan.Scan(line, m)
	if jerr != nil {
		if p.opts.Observe {
			*m = jsonrpc.Message{} // observers must not use fields that another reader may parse differently
			return p.out.add(line)
		}
		return p.malformed(line, m, jerr)
	}
	if !p.opts.Observe && bytes.HasPrefix(m.Method, []byte(ownMethods)) {
		p.see(frame.ClientToAgent, RefusedName, m.Raw)
		p.imitated("front", imitatesMethod, m.Raw)
		if m.Kind == jsonrpc.KindRequest {
			p.refuseClient(m.ID, jsonrpc.CodeMethodNotFound, string(m.Method)+": it names "+imitatesMethod+", which is nobody else's to use")
		}
		return nil
	}
	if m.SessionID == nil {
		p.assignOnlySession(m)
	}
	switch m.Kind {
	case jsonrpc.KindRequest:
		return p.request(m)
	case jsonrpc.KindNotification:
		if string(m.Method) == acp.MethodSessionCancel {
			return p.cancelTurn(m)
		}
	case jsonrpc.KindResponse:
		return p.response(m)
	case jsonrpc.KindBatch:
		if p.opts.Observe {
			break
		}
		p.counters.refused.Add(1)
		p.see(frame.ClientToAgent, RefusedName, line)
		p.refuseClient(nil, jsonrpc.CodeInvalidRequest, noBatches)
		return nil
	}
	return p.out.add(m.Raw)
}

// noBatches is the error for a batch, which no version of ACP has. Its messages would reach the other side unread.
const noBatches = "batches are not part of ACP: send each message on a line of its own"

// cancelTurn forwards session/cancel, and then ends the waiting questions and calls. If the agent got these answers first, it could
// continue its turn. cancelTurn does not wait for an agent that does not read.
func (p *clientPump) cancelTurn(m *jsonrpc.Message) error {
	if err := p.out.flush(); err != nil {
		return err
	}
	p.seeMessage(frame.ClientToAgent, "", m)
	p.writeAgent(slices.Clone(m.Raw))
	p.opts.Sessions.Cancelled(string(m.SessionID)) // before its questions end, so that later ones find it
	p.sessionCancelled(string(m.SessionID))
	return nil
}

func (p *clientPump) malformed(line []byte, m *jsonrpc.Message, jerr *jsonrpc.Error) error {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil
	}
	p.counters.refused.Add(1)
	p.see(frame.ClientToAgent, RefusedName, line)
	if jerr.Code == jsonrpc.CodeInvalidRequest {
		switch m.Kind {
		case jsonrpc.KindResponse: // answers are not answered, but the agent must not wait forever
			p.log.Warn("the client sent an answer that is no valid message; it was dropped", "error", jerr.Message)
			if m.ID != nil {
				p.badAnswer(m.ID, "the client's answer is no valid message: "+jerr.Message)
			}
			return nil
		case jsonrpc.KindNotification:
			p.log.Warn("the client sent a notification that is no valid message; it was dropped", "error", jerr.Message)
			return nil
		}
		p.refuseClient(m.ID, jerr.Code, jerr.Message)
		return nil
	}
	p.refuseClient(nil, jerr.Code, jerr.Message)
	return nil
}

func (p *clientPump) tooLong(long *jsonrpc.TooLong) {
	p.counters.refused.Add(1)
	p.log.Warn("the client sent a message over the limit; it was dropped", "bytes", long.Size, "limit", long.Max)
	switch {
	case long.Method == nil && long.ID != nil:
		p.badAnswer(long.ID, "the client's answer was dropped: "+tooLongMessage(long))
	case long.Method != nil && long.ID == nil: // notifications are not answered
	default:
		p.refuseClient(long.ID, jsonrpc.CodeInvalidRequest, tooLongMessage(long))
	}
}

// request records and forwards a client's request.
func (p *clientPump) request(m *jsonrpc.Message) error {
	c := &clientCall{id: slices.Clone(m.ID), method: string(m.Method), sessionID: string(m.SessionID)}
	var opening acp.Opening
	switch c.method {
	case acp.MethodSessionNew, acp.MethodSessionLoad, acp.MethodSessionResume, acp.MethodSessionFork:
		var err error
		if opening, err = acp.ParseOpening(m.Params); err == nil {
			err = p.checkOpening(c.method, opening)
		}
		if err == nil && !p.opts.Observe {
			err = p.mcpServers(c.method, opening, m.Params)
		}
		if err != nil && !p.opts.Observe {
			p.reject(c.id, jsonrpc.CodeInvalidParams, fmt.Sprintf("%s: %v", c.method, err))
			return nil
		}
	}
	if !p.clientCalls.Add(c.id, c) {
		if p.opts.Observe {
			return p.out.add(m.Raw)
		}
		p.counters.refused.Add(1)
		p.refuseClient(c.id, jsonrpc.CodeInvalidRequest, fmt.Sprintf("%s: a request with id %s is in flight already", c.method, c.id))
		return nil
	}
	if p.unanswered.Load() != nil { // the goroutine that removes it from the table answers it
		if c, ok := p.removeClientCall(c.id); ok {
			p.answerEnded(c)
		}
		return nil
	}
	switch c.method {
	case acp.MethodInitialize:
		return p.initialize(c, m)
	case acp.MethodSessionNew, acp.MethodSessionLoad, acp.MethodSessionResume, acp.MethodSessionFork:
		p.speaks.Store(nil)
		if name, _ := acp.String(acp.Get(m.Raw, "method")); name != c.method {
			p.speaks.Store(&name)
		}
		p.opts.Sessions.Opening(jsonrpc.CanonicalID(c.id), c.method, opening)
		if p.opts.Containment != nil { // before the agent knows of the session
			p.opts.Containment.SnapshotRepositories(append(opening.AdditionalDirectories, opening.Cwd)...)
		}
		if !p.opts.Observe && holdsUpdates(c.method, m.Params) {
			p.openings.add(c)
		}
	case acp.MethodSessionPrompt:
		if !p.mayPrompt(c, m) {
			return nil
		}
		p.beginTurn(c, m.Params)
		if p.opts.Containment != nil {
			p.opts.Containment.BeginTurn(c.sessionID)
		}
	case acp.MethodSessionCancel: // a notification in ACP
		return p.cancelTurn(m)
	case acp.MethodSessionSetMode:
		if mode, ok := acp.Exact(acp.Get(m.Params, "modeId")); ok { // the agent may work in the mode before it answers
			p.opts.Sessions.SettingMode(jsonrpc.CanonicalID(c.id), c.sessionID, mode)
		}
	}
	return p.out.add(m.Raw)
}

// mayPrompt records a prompt, and refuses it during another caller's turn.
func (p *clientPump) mayPrompt(c *clientCall, m *jsonrpc.Message) bool {
	var told func(begins bool)
	if p.opts.Client.Foreign != nil {
		told = p.opts.Client.Foreign(c.id)
	}
	begins := p.opts.Sessions.Prompted(jsonrpc.CanonicalID(c.id), c.sessionID, told != nil)
	if told != nil {
		told(begins)
	}
	if begins {
		return true
	}
	if _, ok := p.removeClientCall(c.id); ok { // otherwise it was removed and answered meanwhile
		p.counters.refused.Add(1)
		p.see(frame.ClientToAgent, RefusedName, m.Raw)
		if told == nil {
			p.refuseClient(c.id, jsonrpc.CodeInvalidRequest, c.method+": another client's turn is under way: wait for its end, or cancel it")
		}
	}
	return false
}

// reject answers a request that is not forwarded to the agent.
func (p *clientPump) reject(id []byte, code int, message string) {
	if p.opts.Client.Rejected != nil {
		p.opts.Client.Rejected(id)
	}
	p.refuseClient(id, code, message)
}

// checkOpening returns an error if a session cannot be opened with the roots that the client names.
func (p *clientPump) checkOpening(method string, o acp.Opening) error {
	if p.opts.Observe || p.opts.CheckOpening == nil || p.table.Load() == nil {
		return nil
	}
	roots := o.AdditionalDirectories
	if o.Cwd != "" {
		roots = append([]string{o.Cwd}, roots...)
	}
	if len(roots) == 0 {
		return nil
	}
	again := ""
	if method == acp.MethodSessionLoad || method == acp.MethodSessionResume {
		again = o.SessionID
	}
	return p.opts.CheckOpening(p.ctx, again, roots)
}

// response forwards the answer to a forwarded request. An answer with any other id is forged or mistaken, and is dropped; otherwise the
// agent could get an answer to a question that nobody was asked.
func (p *clientPump) response(m *jsonrpc.Message) error {
	if p.opts.Observe || m.ID == nil {
		return p.out.add(m.Raw)
	}
	if q := p.questionAt(m.ID); q != nil {
		if !q.ClientAnswered(m) {
			p.questions.ClientAnswered(m.ID)
			return nil
		}
		if q.Own {
			return nil
		}
		return p.out.add(m.Raw)
	}
	c, ok := p.claimForwarded(m.ID)
	if !ok {
		if p.questions.ClientAnswered(m.ID); belongsToNone(m) {
			return p.out.add(m.Raw)
		}
		if m.Result == nil && m.Error == nil { // it may be a request without its method; its sender may wait for an answer
			p.counters.refused.Add(1)
			p.refuseClient(nil, jsonrpc.CodeInvalidRequest, fmt.Sprintf("a message with the id %.64s alone is no request, and answers none that is open: a request needs a method, an answer a result or an error", m.ID))
			return nil
		}
		p.log.Debug("the client answered a request that is not open at the client; the answer was dropped", "id", string(m.ID))
		return nil
	}
	p.shownEnds(c, m.Error != nil)
	c.endsBy(m)
	return p.out.add(m.Raw)
}

// belongsToNone reports whether an answer without an open request is an error about an unreadable message. Such an answer is forwarded.
func belongsToNone(m *jsonrpc.Message) bool { return string(m.ID) == "null" && m.Error != nil }

// claimForwarded claims an agent's request that is open at the client and is not a question.
func (l *Link) claimForwarded(id []byte) (*agentCall, bool) {
	c, ok := l.agentCalls.Get(id)
	if !ok || c.state.Load() != atClient {
		return nil, false
	}
	return c, l.claim(c)
}

// badAnswer answers an agent's request if the client's answer cannot be forwarded.
func (l *Link) badAnswer(id []byte, why string) {
	if q := l.questionAt(id); q != nil {
		q.Finish(question.Ending{Cause: question.Unusable, Why: why})
		l.questions.ClientAnswered(id)
		return
	}
	c, ok := l.claimForwarded(id)
	if !ok {
		l.questions.ClientAnswered(id)
		return
	}
	l.shownEnds(c, true)
	c.ends(&jsonrpc.Error{Code: jsonrpc.CodeInternal})
	l.refuseAgent(c.id, jsonrpc.CodeInternal, c.method+": "+why)
}

// postClient sends frames of acphost to the client, without blocking. A client that uses older method names gets these.
func (l *Link) postClient(lines []byte) {
	if name := l.speaks.Load(); name != nil {
		lines = inDialect(lines, *name)
	}
	for line := range bytes.Lines(lines) {
		l.see(frame.OursToClient, "", line)
	}
	l.writeClient(lines)
}

// inDialect returns lines with their method names in the dialect of a peer that uses name.
func inDialect(lines []byte, name string) []byte {
	var out []byte
	for line := range bytes.Lines(lines) {
		method, _ := acp.String(acp.Get(line, "method"))
		if is := acp.NameLike(method, name); is != method && method != acp.MethodCancelRequest {
			if named, err := acp.Set(line, jsonrpc.AppendString(nil, is), "method"); err == nil {
				line = named
			}
		}
		out = append(out, line...)
	}
	return out
}

// writeClient is postClient for lines that observers have already seen.
func (l *Link) writeClient(lines []byte) {
	if err := l.toClient.Post(lines); errors.Is(err, jsonrpc.ErrOverflow) {
		l.end(ClientGone, fmt.Errorf("the client reads nothing: %d MiB of messages wait for it", maxRefusals>>20))
	}
}
