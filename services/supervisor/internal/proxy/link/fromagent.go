package link

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/display"
)

// pumpAgent reads the agent's messages until their end. It records all state for decisions here, in wire order.
func (l *Link) pumpAgent() error {
	p := &agentPump{Link: l, out: run{to: l.toClient}}
	p.out.seen = l.seen(frame.AgentToClient, &p.msg)
	failed, err := pump(jsonrpc.NewReader(l.opts.Agent.Stdout(), l.opts.Limits.MaxMessage), p)
	if failed {
		l.end(ClientGone, err)
	}
	return err
}

// puller processes the lines that a pump reads. An error of its methods means that the other side is gone.
type puller interface {
	line(line []byte) error
	tooLong(long *jsonrpc.TooLong)
	// rest is called after all lines of a read were processed.
	rest() error
}

// pump reads lines until their end. failed: the error is the puller's.
func pump(r *jsonrpc.Reader, p puller) (failed bool, err error) {
	for {
		line, err := r.Next()
		if err != nil {
			if gone := p.rest(); gone != nil {
				return true, gone
			}
			long, ok := errors.AsType[*jsonrpc.TooLong](err)
			if !ok {
				return false, err
			}
			p.tooLong(long)
			continue
		}
		if err := p.line(line); err != nil {
			return true, err
		}
		if !r.Buffered() {
			if err := p.rest(); err != nil {
				return true, err
			}
		}
	}
}

func (p *agentPump) rest() error {
	err := p.out.flush()
	p.tally()
	return err
}

// agentPump is the state of pumpAgent. Only one goroutine uses it.
type agentPump struct {
	*Link
	out  run
	scan acp.Scanner
	msg  jsonrpc.Message
	// child: the message belongs to a child session, whose turn and mode differ from those of msg.SessionID.
	child bool

	// Read and not yet counted.
	messages, size, updates uint64
	session                 []byte // the session of updates

	scratch []byte // buffer of Names.in

	// Updates of sessions that are being opened (see openings).
	early      []earlyUpdate
	earlyBytes int
	earlyFull  bool

	asking []*agentQuestion // the permission requests; some may have ended
}

// line processes one line of the agent. An error means that the client is gone.
func (p *agentPump) line(line []byte) error {
	p.messages++
	p.size += uint64(len(line))
	m := &p.msg
	jerr := p.scan.Scan(line, m)
	if p.opts.Observe {
		p.observe(m, jerr)
		if jerr != nil {
			*m = jsonrpc.Message{} // as in clientPump.line
		}
		return p.out.add(line)
	}
	if jerr != nil {
		return p.malformed(line, m, jerr)
	}
	if m.SessionID == nil {
		p.assignOnlySession(m)
	}
	p.assignChild(m)
	switch m.Kind {
	case jsonrpc.KindNotification:
		return p.notification(m)
	case jsonrpc.KindResponse:
		return p.response(m)
	case jsonrpc.KindRequest:
		return p.request(m)
	case jsonrpc.KindBatch:
		p.counters.refused.Add(1)
		p.see(frame.AgentToClient, RefusedName, line)
		p.refuseAgent(nil, jsonrpc.CodeInvalidRequest, noBatches)
		return nil
	}
	return nil
}

// malformed handles a line that is not a message, or is ambiguous.
func (p *agentPump) malformed(line []byte, m *jsonrpc.Message, jerr *jsonrpc.Error) error {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil // blank lines are common, and ignored
	}
	p.counters.refused.Add(1)
	p.see(frame.AgentToClient, RefusedName, line)
	begins := excerpt(line)
	p.dropped.CompareAndSwap(nil, &begins)
	p.log.Warn("the agent sent a line that is no message; it was dropped",
		"error", jerr.Message, "bytes", len(line), "begins", begins)
	if jerr.Code == jsonrpc.CodeInvalidRequest && m.Kind == jsonrpc.KindRequest {
		p.refuseAgent(m.ID, jerr.Code, jerr.Message)
	}
	// An ambiguous answer must not leave the client waiting for its request.
	if jerr.Code == jsonrpc.CodeInvalidRequest && m.Kind == jsonrpc.KindResponse && m.ID != nil {
		p.badAgentAnswer(m.ID, "the agent's answer is no valid message: "+jerr.Message)
	}
	return nil
}

// tooLong handles a line over the limit: it notifies the side that waits for the message.
func (p *agentPump) tooLong(long *jsonrpc.TooLong) {
	p.counters.refused.Add(1)
	p.log.Warn("the agent sent a message over the limit; it was dropped", "bytes", long.Size, "limit", long.Max)
	switch {
	case p.opts.Observe:
	case long.Method != nil && long.ID != nil:
		p.refuseAgent(long.ID, jsonrpc.CodeInvalidRequest, tooLongMessage(long))
	case long.ID != nil:
		p.badAgentAnswer(long.ID, "the agent's answer was dropped: "+tooLongMessage(long))
	case long.Method != nil: // its session is unknown: usually one with a turn in progress
		for _, id := range p.opts.Sessions.Prompting() {
			p.tell(id, "A message of the agent was dropped", tooLongMessage(long))
		}
	}
}

// badAgentAnswer answers a request of the client if the agent's answer cannot be forwarded.
func (p *agentPump) badAgentAnswer(id []byte, why string) {
	if c, ok := p.removeClientCall(id); ok {
		if c.change != nil {
			_ = p.modeAnswered(c, errors.New(why)) // a client that is gone is noticed by its reader
			return
		}
		p.answered(c, nil, true)
		p.refuseClient(c.id, jsonrpc.CodeInternal, c.method+": "+why)
		if c.opens {
			_ = p.forwardOpening(nil) // a client that is gone is noticed by the next write
		}
	}
}

func tooLongMessage(long *jsonrpc.TooLong) string {
	return fmt.Sprintf("the message has %d bytes, more than the %d that are taken (limits.max_message_bytes)", long.Size, long.Max)
}

func (p *agentPump) notification(m *jsonrpc.Message) error {
	if p.imitates(m) != "" {
		return nil
	}
	switch string(m.Method) {
	case acp.MethodSessionUpdate:
		return p.update(m)
	case acp.MethodCancelRequest:
		return p.cancelRequest(m)
	case acp.MethodRequestPermission:
		return p.unanswerable(m)
	case acp.MethodSessionEndTurn:
		if p.child {
			break
		}
		stop := acp.EndTurnReason(m.Params)
		p.opts.Sessions.TurnEnded(string(m.SessionID), stop)
		p.turnsEnded(string(m.SessionID), stop, false)
		p.reviewTurn(string(m.SessionID))
	}
	cc, _ := p.opts.Sessions.Context(string(m.SessionID))
	if isCore(m.Method) || p.decides(p.lookup(string(m.SessionID), m.Method), m.Method, cc) {
		return p.unanswerable(m)
	}
	return p.forward(m.SessionID, m)
}

// imitates returns the name of acphost that the agent's message uses, and records the refusal; "": none. Readers could mistake such a
// message for acphost's.
func (p *agentPump) imitates(m *jsonrpc.Message) (what string) {
	switch {
	case bytes.HasPrefix(m.Method, []byte(ownMethods)):
		what = imitatesMethod
	case p.opts.Names.in(m.Raw, &p.scratch):
		what = imitatesCall
	case p.display == nil || string(m.Method) != acp.MethodSessionUpdate || m.Update != nil && !acp.OfToolCall(acp.UpdateKind(m.Update)) ||
		!display.MayImitate(m.Raw):
		return ""
	default:
		if kind, update := p.read(m); !acp.OfToolCall(kind) || !p.display.Imitates(update) {
			return ""
		}
		what = imitatesTerminal
	}
	p.see(frame.AgentToClient, RefusedName, m.Raw)
	p.imitated("agent", what, m.Raw)
	return what
}

// decides reports whether the gate decides about calls of a method, or of a method that it could be mistaken for, because a client may
// support more names than acphost.
func (p *agentPump) decides(r *route.Route, method []byte, cc *acpv1.CallContext) bool {
	roots := rootPaths(cc)
	if p.opts.Gate.Decides(string(method), roots) {
		return true
	}
	if r != nil && r.Method != nil {
		return false
	}
	of := acp.Resembles(method)
	return of != "" && p.opts.Gate.Decides(of, roots)
}

// decidedSomewhere reports whether the gate decides about calls of a method in any open session, because a client may take an unknown
// session for one of those.
func (p *agentPump) decidedSomewhere(r *route.Route, method []byte) bool {
	return slices.ContainsFunc(p.opts.Sessions.Open(), func(id string) bool {
		cc, err := p.opts.Sessions.Context(id)
		return err == nil && p.decides(r, method, cc)
	})
}

// unanswerable drops a request that was sent as a notification. It could not be answered, and a client that acted on it would act without a
// decision.
func (p *agentPump) unanswerable(m *jsonrpc.Message) error {
	p.counters.refused.Add(1)
	p.log.Warn("the agent sent a request without an id; it was dropped", "method", excerpt(m.Method))
	return nil
}

// assignOnlySession assigns a message without a session to the only session.
func (l *Link) assignOnlySession(m *jsonrpc.Message) {
	if m.Method == nil || !acp.OfSession(m.Method) {
		return
	}
	if named := acp.Get(m.Params, "sessionId"); named != nil && string(named) != "null" {
		return // its session cannot be parsed
	}
	if id, _ := l.opts.Sessions.Only(); id != "" {
		m.SessionID = []byte(id)
	}
}

// response records and forwards the answer to a client's request. An answer whose id no open request has is dropped, because the client has
// asked nothing, or has its answer. An error without an id belongs to no request, and is forwarded.
func (p *agentPump) response(m *jsonrpc.Message) error {
	if m.ID == nil {
		return p.out.add(m.Raw)
	}
	c, ok := p.removeClientCall(m.ID)
	if !ok {
		if p.opts.Observe || belongsToNone(m) {
			return p.out.add(m.Raw)
		}
		p.counters.refused.Add(1)
		p.see(frame.AgentToClient, RefusedName, m.Raw)
		p.log.Warn("the agent answered a request that is not open; the answer was dropped", "id", excerpt(m.ID))
		return nil
	}
	if c.change != nil {
		p.seeMessage(frame.AgentToClient, "", m)
		if err := p.out.flush(); err != nil {
			return err
		}
		return p.modeAnswered(c, errorOf(m))
	}
	if corrects, err := p.correctMode(c, m); corrects {
		return err
	}
	p.answered(c, m.Result, m.Error != nil)
	if c.method == acp.MethodSessionPrompt {
		p.reviewTurn(c.sessionID)
	}
	if !opensSession(c.method) || m.Error != nil || p.untested.Load() == nil {
		return p.forwardAnswer(c, m)
	}
	if err := errors.Join(p.forwardAnswer(c, m), p.out.flush()); err != nil {
		return err
	}
	p.tellUntested(cmp.Or(acp.ParseOpened(m.Result).SessionID, c.sessionID))
	return nil
}

// forwardAnswer sends the client the answer to its request, in order after earlier messages. Updates that the agent sent too early follow
// it.
func (p *agentPump) forwardAnswer(c *clientCall, m *jsonrpc.Message) error {
	switch {
	case c.opens:
		return p.forwardOpening(m.Raw)
	case p.order.deep.Load() > 0:
		return p.forward([]byte(c.sessionID), m)
	}
	return p.out.add(m.Raw)
}

// removeClientCall removes a client's request from the table, and stops its timer.
func (l *Link) removeClientCall(id []byte) (*clientCall, bool) {
	c, ok := l.clientCalls.Remove(id)
	if ok {
		c.stopTimer()
		l.openings.remove(c)
	}
	return c, ok
}

// answered records the changes of an answer in the session.
func (l *Link) answered(c *clientCall, result []byte, failed bool) {
	id := jsonrpc.CanonicalID(c.id)
	switch c.method {
	case acp.MethodInitialize:
		if failed {
			return
		}
		init := acp.ParseInitialized(result)
		l.reported.Store(&init)
		l.opts.Sessions.SetProtocolVersion(init.ProtocolVersion)
		l.checkVersion(init.Version)
		l.routesOn.Store(init.ProtocolVersion <= 1)
	case acp.MethodSessionNew, acp.MethodSessionLoad, acp.MethodSessionResume, acp.MethodSessionFork:
		l.opts.Sessions.Opened(id, acp.ParseOpened(result), failed)
	case acp.MethodSessionPrompt:
		if !failed && acp.PromptAccepted(result, l.Reported().ProtocolVersion) {
			l.opts.Sessions.PromptAccepted(id)
			l.turnContinues(id)
			return
		}
		stop, _ := acp.String(acp.Get(result, "stopReason"))
		l.opts.Sessions.PromptEnded(id, stop)
		l.turnAnswered(id, stop, failed)
	case acp.MethodSessionSetMode:
		l.opts.Sessions.ModeSet(id, failed)
	case acp.MethodSessionSetOption:
		if !failed {
			l.opts.Sessions.Mode(c.sessionID, acp.OptionMode(result))
		}
	case acp.MethodSessionClose, acp.MethodSessionDelete:
		if !failed {
			l.opts.Sessions.Closed(c.sessionID)
			l.sessionCancelled(c.sessionID) // nobody needs the results of its open requests
			l.endSession(c.sessionID)
		}
	}
}

// request determines the destination of an agent's request, and sends it there.
func (p *agentPump) request(m *jsonrpc.Message) error {
	c := &agentCall{id: slices.Clone(m.ID), method: string(m.Method), sessionID: string(m.SessionID)}
	if c.method == acp.MethodElicitationCreate && c.sessionID == "" {
		c.sessionID = p.sessionOfRequest(m.Params)
	}
	p.beginCall(c, m.Params)
	var asked *agentQuestion
	if c.method == acp.MethodRequestPermission { // a goroutine that finds the call finds its question
		asked = p.ask(c)
		c.question = asked.Question
	}
	_, ours := p.own.Get(c.id)
	free := !ours && p.agentCalls.Add(c.id, c)
	why := "a request with id %s is in flight already"
	if free && p.spentFor(c.method, c.id) { // an answer to an earlier request with the id may still arrive
		p.claim(c)
		if free = false; p.opts.Program {
			why = "the id %s was another question's, whose answer must not count for this one: take a new one"
		}
	}
	if !free {
		p.counters.refused.Add(1)
		c.ends(&jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest})
		p.refuseAgent(c.id, jsonrpc.CodeInvalidRequest, fmt.Sprintf("%s: "+why, c.method, c.id))
		return nil
	}
	r := p.lookup(c.sessionID, m.Method)
	if r == nil || r.Target != route.Handler { // a handler's request reaches nobody else
		if what := p.imitates(m); what != "" {
			code := jsonrpc.CodeInvalidParams
			if what == imitatesMethod {
				code = jsonrpc.CodeMethodNotFound
			}
			p.answerError(c, &jsonrpc.Error{Code: code, Message: c.method + ": it names " + what + ", which is nobody else's to use"})
			return nil
		}
	}
	if c.method == acp.MethodRequestPermission {
		return p.permissionRequest(asked, m)
	}
	if r != nil && r.Target == route.Deny {
		p.answerError(c, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: c.method + ": denied by configuration (routes): it is not offered here"})
		return nil
	}
	if r == nil || r.Target == route.Client {
		if r == nil && isCore(m.Method) && p.table.Load() == nil {
			p.answerError(c, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: c.method + ": it came before initialize, and cannot be judged"})
			return nil
		}
		cc, unknown := p.opts.Sessions.Context(c.sessionID)
		if p.decides(r, m.Method, cc) {
			return p.gateClient(c, r, cc, m)
		}
		if unknown != nil && p.decidedSomewhere(r, m.Method) {
			p.answerError(c, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf(
				"%s: session %q is unknown here, and the rules of the sessions that are open may say something about it", c.method, c.sessionID)})
			return nil
		}
		if r != nil {
			if jerr := p.passGate(r, c, cc, m.Params, false); jerr != nil {
				p.answerError(c, jerr)
				return nil
			}
		}
		if c.method == acp.MethodElicitationCreate {
			return p.elicitAtClient(c, m)
		}
		return p.requestClient(c, m)
	}
	return p.route(r, c, m)
}

// requestClient forwards a request to the client.
func (p *agentPump) requestClient(c *agentCall, m *jsonrpc.Message) error {
	if p.order.holds(m.SessionID) {
		line := slices.Clone(m.Raw)
		c.state.Store(atGate)
		return p.inOrder(m.SessionID, len(line), func() error {
			_, err := c.send(func() error { return p.sendClient(line) }, p.toClient.Send)
			return err
		})
	}
	c.state.Store(atClient)
	return p.out.add(m.Raw)
}

// lookup returns a method's route in a session; nil: the request goes to the client. A session keeps the routes of the folder that it was
// opened in. If the agent answered initialize with another version than 1, the methods of version 1 go to the client.
func (l *Link) lookup(sessionID string, method []byte) *route.Route {
	t := l.table.Load()
	if t == nil {
		return nil
	}
	if t.Divided() {
		t = t.At(l.opts.Sessions.Home(sessionID))
	}
	r := t.Lookup(method)
	if r != nil && !l.routesOn.Load() && isCore(method) {
		// A client may still answer them, so they are judged by their meaning.
		return &route.Route{Target: route.Client, Method: r.Method, Name: r.Name, Below: r.Below, Action: r.Action}
	}
	return r
}

func isCore(method []byte) bool {
	return bytes.HasPrefix(method, []byte("fs/")) || bytes.HasPrefix(method, []byte("terminal/"))
}

// observe records messages that are forwarded unchanged.
func (p *agentPump) observe(m *jsonrpc.Message, jerr *jsonrpc.Error) {
	if jerr != nil {
		return
	}
	if m.SessionID == nil {
		p.assignOnlySession(m)
	}
	p.assignChild(m)
	switch m.Kind {
	case jsonrpc.KindResponse:
		if m.ID == nil {
			return
		}
		if c, ok := p.removeClientCall(m.ID); ok {
			p.answered(c, m.Result, m.Error != nil)
		}
	case jsonrpc.KindNotification:
		if string(m.Method) != acp.MethodSessionUpdate {
			return
		}
		switch kind, update := p.read(m); {
		case acp.OfToolCall(kind):
			p.opts.Sessions.ToolCall(string(m.SessionID), update)
		default:
			p.state(m, kind, update)
		}
		p.count(m.SessionID)
	case jsonrpc.KindRequest:
		p.opts.Gate.Seen(string(m.Method))
	}
}

// excerpt returns the start of a line for a log, without most of its content.
func excerpt(line []byte) string {
	const most = 60
	line = bytes.TrimSpace(line)
	if len(line) > most {
		line = line[:most]
	}
	return string(bytes.ToValidUTF8(line, []byte("?")))
}
