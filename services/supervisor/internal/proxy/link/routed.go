package link

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/paths"
	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/acp/session"
	"github.com/acphost/acphost/services/supervisor/internal/acp/transcode"
	"github.com/acphost/acphost/services/supervisor/internal/events/span"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
	"github.com/acphost/acphost/services/supervisor/internal/question"
)

// route queues a request for its handler. It determines the handler's parameters here, in wire order.
func (p *agentPump) route(r *route.Route, c *agentCall, m *jsonrpc.Message) error {
	cc, err := p.callContext(r, c, m)
	if err != nil {
		p.answerError(c, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()})
		return nil //nolint:nilerr // the agent got an error; only a client that is gone ends the pump
	}
	if said := span.Parse(acp.TraceContext(m.Params)); said.Valid() {
		cc.Traceparent, cc.Tracestate = said.Traceparent(), said.State
	}
	cc.NoDigest = !p.opts.RefuseStale
	c.safe = r.Method.NoSideEffects
	params, err := currentParams(c.method, slices.Clone(m.Params))
	if err != nil {
		p.answerError(c, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()})
		return nil //nolint:nilerr // as above
	}
	p.counters.routed.Add(1)
	p.seeMessage(frame.AgentToHandler, r.Handler, m)
	if p.opts.Gate.Decides(c.method, rootPaths(cc)) {
		before, err := p.behind(m.SessionID)
		if err != nil { // acphost's own question must not overtake earlier messages
			return err
		}
		if !p.gateRouted(r, c, cc, params, before) {
			p.answerError(c, overloaded(c))
		}
		return nil
	}
	ok := p.queue.add(job{call: c, weight: int64(len(params)), waits: r.Method.Waits, run: func(ctx context.Context) {
		p.call(ctx, r, c, cc, params, nil)
	}})
	if !ok {
		p.answerError(c, overloaded(c))
	}
	return nil
}

// currentParams returns the params of a handler's request in ACP's current form, for agents that use older members. A write without content
// is an error, because protobuf could not distinguish it from a write that empties the file. A terminal runs one command in ACP: a request
// to run another one in it is an error, because the agent would look for the output in the wrong terminal.
func currentParams(method string, params []byte) ([]byte, error) {
	if content := acp.Get(params, "content"); method == acp.MethodWriteTextFile && (content == nil || string(content) == "null") {
		return nil, fmt.Errorf("%s: content: a string is required; \"\" makes the file empty", method)
	}
	if method != acp.MethodTerminalCreate && method != acp.MethodTerminalRun {
		return params, nil
	}
	if id := acp.Get(params, "terminalId"); id != nil && string(id) != "null" && method == acp.MethodTerminalRun {
		return nil, fmt.Errorf("%s: terminalId: a command cannot be run in a terminal that exists: leave terminalId out, or start a terminal for the command with %s",
			method, acp.MethodTerminalCreate)
	}
	if env := acp.Get(params, "env"); len(env) > 0 && env[0] == '{' {
		list, err := envList(env)
		if err == nil {
			params, err = acp.Set(params, list, "env")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: env: %w", method, err)
		}
	}
	limit := acp.Get(params, "maxOutputBytes")
	if limit == nil || acp.Get(params, "outputByteLimit") != nil {
		return params, nil
	}
	return acp.Set(params, limit, "outputByteLimit")
}

// envList returns the members of an object as ACP's list of environment variables.
func envList(object []byte) ([]byte, error) {
	list := []byte{'['}
	err := acp.Members(object, func(name string, value []byte) bool {
		if len(list) > 1 {
			list = append(list, ',')
		}
		list = jsonrpc.AppendString(append(list, `{"name":`...), name)
		list = append(append(append(list, `,"value":`...), value...), '}')
		return true
	})
	return append(list, ']'), err
}

func overloaded(c *agentCall) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: c.method +
		": too many requests, or too many bytes of them, are waiting (limits.max_queued_requests, limits.max_queued_bytes): wait for answers before you send more"}
}

// callContext returns the context of a call. A method of the protocol belongs to a session; a method of an extension may not.
func (p *agentPump) callContext(r *route.Route, c *agentCall, m *jsonrpc.Message) (*acpv1.CallContext, error) {
	cc, err := p.opts.Sessions.Context(c.sessionID)
	switch {
	case err == nil && len(cc.GetRoots()) == 0 && isCore(m.Method):
		return nil, fmt.Errorf("%s: session %q has no working directory: it was opened without cwd", c.method, c.sessionID)
	case err == nil:
		return cc, nil
	case m.SessionID == nil && !isCore(m.Method):
		return &acpv1.CallContext{Agent: p.opts.AgentName, ProtocolVersion: 1}, nil
	case m.SessionID == nil:
		why := ""
		if _, open := p.opts.Sessions.Only(); open > 1 {
			why = fmt.Sprintf(": %d sessions are open on this connection", open)
		}
		return nil, fmt.Errorf("%s: sessionId: a string is required%s", c.method, why)
	case errors.Is(err, session.ErrUnknown):
		return nil, fmt.Errorf("%s: session %q is unknown here: it was neither made nor loaded on this connection, and which session it belongs to is not known (parentSessionId)", c.method, c.sessionID)
	}
	return nil, fmt.Errorf("%s: %w", c.method, err)
}

// call calls the handler and writes its answer to the agent. judged is the call that the gate decided about; nil: no policy has decided.
func (l *Link) call(ctx context.Context, r *route.Route, c *agentCall, cc *acpv1.CallContext, params []byte, judged *heldCall) {
	started := time.Now()
	ctx, cancel, ok := c.begin(ctx)
	defer cancel()
	if !ok {
		l.shownEnds(c, true)
		return
	}
	var reply transcode.Frame
	defer reply.Free()
	var answer [][]byte
	var jerr *jsonrpc.Error
	if judged == nil {
		jerr = l.passGate(r, c, cc, params, true)
	}
	if jerr == nil {
		l.expectDigest(r, cc, params)
		var reserved int64
		answer, reserved, jerr = l.invoke(ctx, r, c, cc, params, judged, &reply)
		defer func() { l.queue.budget.give(reserved) }()
	}
	if judged != nil && judged.recorded != nil {
		if err := <-judged.recorded; err != nil {
			jerr = deniedError(c, judged.decision, question.Unrecorded)
		}
	}
	if jerr != nil {
		answer = [][]byte{jsonrpc.AppendError(nil, c.id, jerr)}
	}
	l.shownEnds(c, jerr != nil)
	// The record precedes the answer, so that records of consecutive calls are in order.
	l.record(ctx, r, c, time.Since(started), jerr)
	if !l.claim(c) {
		return // answered already: it was cancelled
	}
	l.see(frame.HandlerToAgent, r.Handler, answer[0], answer[1:]...)
	c.ends(jerr)
	_ = l.toAgent.Send(answer...) // an agent that is gone is noticed by its reader
}

// record counts and logs a call.
func (l *Link) record(ctx context.Context, r *route.Route, c *agentCall, took time.Duration, jerr *jsonrpc.Error) {
	r.Observe(took, jerr != nil)
	if l.opts.Called != nil {
		l.opts.Called(r.Handler, r.Name, took, jerr != nil)
	}
	if !l.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	attrs := []any{"method", c.method, "handler", r.Handler, "session", c.sessionID, "duration_us", took.Microseconds()}
	if jerr != nil {
		attrs = append(attrs, "error", jerr.Message)
	}
	l.log.Debug("routed", attrs...)
}

// invoke makes the call. It returns the pieces of the answer, which are valid as long as reply, and the bytes of budget that the answer
// holds until it is sent.
func (l *Link) invoke(ctx context.Context, r *route.Route, c *agentCall, cc *acpv1.CallContext, params []byte, judged *heldCall, reply *transcode.Frame) (answer [][]byte, reserved int64, jerr *jsonrpc.Error) {
	conn, err := l.opts.Conn(r.Handler)
	if err != nil {
		return nil, 0, transcode.ErrorFrom(err, r.Handler)
	}
	settle, jerr := l.confine(r, c, cc, conn, judged)
	if jerr != nil {
		return nil, 0, jerr
	}
	done := false
	defer func() { settle(done) }()
	frame, jerr := encoded(r, cc, params, judged)
	if jerr != nil {
		jerr.Message = c.method + ": " + jerr.Message
		return nil, 0, jerr
	}
	defer frame.Free()
	if !r.Method.Waits {
		// The call waits here while the agent does not read earlier answers. That time is not the handler's.
		if reserved, err = l.queue.budget.reserve(ctx, l.sizes.expect(c.method)); err != nil {
			return nil, 0, l.handlerError(ctx, err, r, c)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callTimeout)
		defer cancel()
	}
	s := c.beginHandlerCall(r)
	err = conn.Invoke(s.Continue(ctx), r.Method.RPC, frame, reply, transcode.CallOptions()...)
	endHandlerCall(s, err)
	done = err == nil
	if err != nil {
		if l.emptyForMissing(r, c, err) {
			return [][]byte{jsonrpc.AppendResult(nil, c.id, []byte(`{"content":""}`))}, reserved, nil
		}
		return nil, reserved, l.handlerError(ctx, err, r, c)
	}
	if !r.Method.Waits {
		size := int64(reply.Len())
		l.sizes.answered(c.method, size)
		l.queue.budget.give(reserved - size)
		reserved = size
	}
	pieces, result, err := r.Method.DecodeReply(c.id, reply)
	if err != nil {
		return nil, reserved, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: fmt.Sprintf("%s: handler %s answered what is no valid response: %v", c.method, r.Handler, err)}
	}
	l.noteResult(c, cc, params, pieces, result)
	l.awaitShown(ctx, c, params, pieces)
	return pieces, reserved, nil
}

// encoded returns a call encoded for its handler: the encoding that the gate used, or a new one.
func encoded(r *route.Route, cc *acpv1.CallContext, params []byte, judged *heldCall) (*transcode.Frame, *jsonrpc.Error) {
	if judged == nil || judged.frame == nil {
		return r.Method.EncodeRequest(params, cc)
	}
	if jerr := judged.frame.AddContext(cc); jerr != nil {
		return nil, jerr
	}
	return judged.frame, nil
}

// emptyForMissing reports whether a missing file is answered with empty text (QuirkCreateByReading).
func (l *Link) emptyForMissing(r *route.Route, c *agentCall, err error) bool {
	return c.method == "fs/read_text_file" && l.opts.Quirk != nil && l.opts.Quirk(QuirkCreateByReading, l.Reported().Name) &&
		transcode.ErrorFrom(err, r.Handler).Code == jsonrpc.CodeResourceNotFound
}

// handlerError converts a handler's error to an error for the agent.
func (l *Link) handlerError(ctx context.Context, err error, r *route.Route, c *agentCall) *jsonrpc.Error {
	if c.givenUp() {
		return cancelled(c) // the same text, whichever goroutine answers first
	}
	jerr := transcode.ErrorFrom(err, r.Handler)
	if status.Code(err) == codes.Unavailable {
		// gRPC's texts about a broken connection describe sockets, which agents must not see.
		jerr.Message = fmt.Sprintf("%s: handler %s went away during the call, which may have been done or not: look before you try again", c.method, r.Handler)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		jerr.Message = fmt.Sprintf("%s: handler %s did not answer within %v", c.method, r.Handler, callTimeout)
	}
	return jerr
}

// QuirkCreateByReading answers the read of a missing file with empty text. Gemini CLI reads a file before it creates it, and treats any
// error of that read as a failure, because it loses the error object on the way.
const QuirkCreateByReading = "create_by_reading"

// noteResult logs the notes in a handler's result, and stores the parts of the answer that later calls need.
func (l *Link) noteResult(c *agentCall, cc *acpv1.CallContext, params []byte, pieces [][]byte, result *acpv1.CallResult) {
	for _, n := range result.GetNotes() {
		l.log.Info("a handler notes", "method", c.method, "note", n)
	}
	switch c.method {
	case "fs/read_text_file", "fs/write_text_file":
		if l.opts.RefuseStale && result.GetDigest() != "" {
			path, _ := acp.Exact(acp.Get(params, "path"))
			l.opts.Sessions.Read(cc.GetScope(), path, result.GetDigest())
		}
	case "terminal/create":
		id, ok := acp.Exact(acp.Get(slices.Concat(pieces...), "result", "terminalId"))
		if !ok {
			return
		}
		_, turn := l.opts.Sessions.Turn(c.sessionID)
		l.opts.Gate.Created(cc.GetScope(), turn, id)
		if l.display == nil {
			return
		}
		cwd, ok := acp.Exact(acp.Get(params, "cwd"))
		if !ok && len(cc.GetRoots()) > 0 {
			cwd = cc.GetRoots()[0].GetPath()
		}
		l.display.Created(c.sessionID, cc.GetScope(), id, cwd)
	}
}

// awaitShown holds an answer that reports a terminal's exit until the client has seen the last output.
func (l *Link) awaitShown(ctx context.Context, c *agentCall, params []byte, pieces [][]byte) {
	if l.display == nil {
		return
	}
	switch c.method {
	case "terminal/wait_for_exit", "terminal/kill", "terminal/release":
	case "terminal/output":
		status := acp.Get(slices.Concat(pieces...), "result", "exitStatus")
		if len(status) == 0 || status[0] != '{' {
			return
		}
	default:
		return
	}
	id, ok := acp.Exact(acp.Get(params, "terminalId"))
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, shownTimeout)
	defer cancel()
	l.display.AwaitShown(ctx, id)
}

// passGate checks calls if no policy decides: a call is counted, and refused only if it accesses acphost's own files. For a call at a
// handler, a path is checked here by its name, and by the handler with its links resolved. For a call at the client, no handler resolves
// the path, so the gate does.
func (l *Link) passGate(r *route.Route, c *agentCall, cc *acpv1.CallContext, params []byte, atHandler bool) *jsonrpc.Error {
	switch r.Action {
	case "":
		return nil
	case "fs.read", "fs.write", "fs.list", "terminal.create":
	default:
		l.opts.Gate.Seen(r.Action)
		return nil
	}
	if !atHandler && r.Method != nil { // a call to a handler is checked while it is encoded
		if err := jsonrpc.DuplicateNames(params, r.Method.Names()...); err != nil {
			return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: c.method + ": " + message(err)}
		}
	}
	sess := intent.Session{Agent: l.opts.AgentName, SessionID: c.sessionID, Mode: cc.GetMode(), Roots: rootPaths(cc)}
	if l.opts.RealRoots != nil && !(atHandler && r.Action != "terminal.create") {
		sess.ResolvedRoots = l.opts.RealRoots(sess.Roots)
	}
	known := slices.Concat(sess.Roots, sess.ResolvedRoots)
	holds := l.opts.Gate.Protected
	if atHandler && r.Action != "terminal.create" {
		holds = l.opts.Gate.ProtectedName
	}
	sess.Place = func(path string) intent.Place {
		at := intent.Place{Protected: holds(path) || gate.ProtectedBelow(known, path)}
		if atHandler && (r.Action == "fs.read" || r.Action == "fs.list") {
			return at // only the handler needs the target of a read
		}
		real := paths.Real(filepath.Clean(path))
		at.Protected = at.Protected || !atHandler && gate.ProtectedBelow(known, real)
		at.GitInternal = gate.GitInternal(path, real)
		return at
	}
	a := intent.Names(sess, c.method, r.Action, params) // no decision depends on it: a handler rejects params that can be read in two ways
	l.opts.Gate.Mark(a)
	if err := l.opts.Gate.Observe(a); err != nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: c.method + ": " + err.Error()}
	}
	return nil
}

// expectDigest sets the digest of the file that the agent read, if configured. The handler rejects a write if the file has changed since.
func (l *Link) expectDigest(r *route.Route, cc *acpv1.CallContext, params []byte) {
	if l.opts.RefuseStale && cc != nil && r.Action == "fs.write" {
		path, _ := acp.Exact(acp.Get(params, "path"))
		cc.ExpectedDigest = cmp.Or(l.opts.Sessions.Digest(cc.GetScope(), path), cc.GetExpectedDigest())
	}
}

// message returns an error's text without its code.
func message(err error) string {
	if jerr, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return jerr.Message
	}
	return err.Error()
}
