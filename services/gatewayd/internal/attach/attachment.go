package attach

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/delegation"
	"github.com/acphost/acphost/internal/panics"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/gatewayd/internal/apierror"
	"github.com/acphost/acphost/services/gatewayd/internal/relay"
	"github.com/acphost/acphost/services/gatewayd/internal/services"
)

// The parts of a session's history that a client can request.
const (
	historyFull    = "full"         // all recorded events, and the waiting questions
	historyPending = "pending_only" // the waiting questions
	historyNone    = "none"         // nothing
)

// attachment is a session that a client follows.
type attachment struct {
	agent       *agent
	agentID     string
	session     string
	sessionJSON []byte // session, as JSON
	client      client // with its role
	history     string
	own         bool // the client opened the session itself: it gets only messages that its own agent does not send
	cursor      string
	ctx         context.Context // carries the caller
	end         context.CancelCauseFunc
	release     func()        // of Calls.Begin
	finished    chan struct{} // closed when no more frames follow
	others      chan []byte   // changes of other attached clients; dropped if the buffer is full

	sessions  supervisorv1.SessionServiceClient
	approvals supervisorv1.ApprovalServiceClient

	tools      map[string]string // the tool calls of questions, by handle; used by follow only
	ownTurn    *turn             // the client's prompt whose turn is active; used by follow only
	echo       string            // the text of the turn's prompt, which an agent may repeat; used by follow only
	promptSent bool              // a recorded prompt was sent, so its repetition is not; used by follow only

	asking sync.Mutex // held while a question is asked or withdrawn, to keep their order

	mu       sync.Mutex // guards the fields below
	turn     *turn      // the client's unanswered prompt
	detached bool       // the end of the attachment is not reported any more
}

var errDetached = errors.New("the client has detached")

// attach answers session/attach, and starts to follow the session.
func (a *agent) attach(m relay.Message, frame []byte) {
	asked, err := params[struct {
		Session string `json:"sessionId"`
		Role    string `json:"role"`
		History string `json:"historyPolicy"`
		Client  client `json:"clientInfo"`
		Meta    struct {
			Agent string `json:"agentId"`
		} `json:"_meta"`
	}](frame)
	history := cmp.Or(asked.History, historyFull)
	switch {
	case err != nil || asked.Session == "":
		a.fail(m, apierror.BadParams, "session/attach: the params have a sessionId, a text", fmt.Sprint(err))
		return
	case !slices.Contains([]string{historyFull, historyPending, historyNone}, history):
		a.fail(m, apierror.BadParams, fmt.Sprintf("session/attach: expected a historyPolicy %s, %s or %s", historyFull, historyPending, historyNone), "")
		return
	case !slices.Contains([]string{"", controller, observer}, asked.Role):
		a.fail(m, apierror.BadParams, fmt.Sprintf("session/attach: expected a role %s or %s", controller, observer), "")
		return
	case asked.Role == controller && !a.caller.HasRole(delegation.Approver):
		a.fail(m, apierror.NotAllowed, "Not authorised to attach to this session", "a controller's token has the role approver or operator, yours is "+a.caller.Role)
		return
	}
	role := controller
	if asked.Role == observer || !a.caller.HasRole(delegation.Approver) {
		role = observer
	}
	ctx, done, err := a.hub.calls.Begin(a.ctx, a.caller)
	if err != nil {
		a.failWithError(a.ctx, m, err)
		return
	}
	conn := a.hub.calls.Conn()
	at := &attachment{
		agent: a, session: asked.Session, sessionJSON: encode(asked.Session), history: history, release: done, finished: make(chan struct{}), others: make(chan []byte, 16),
		client: asked.Client.sanitized(a.caller), tools: map[string]string{}, sessions: supervisorv1.NewSessionServiceClient(conn),
		approvals: supervisorv1.NewApprovalServiceClient(conn),
	}
	at.client.Role = role
	at.ctx, at.end = context.WithCancelCause(ctx)
	waiting, err := at.find(asked.Meta.Agent)
	if err != nil {
		at.end(err)
		done()
		a.failWithError(at.ctx, m, err)
		return
	}
	a.mu.Lock()
	attached, full := a.attached[at.session] != nil, len(a.attached) >= maxAttached
	if !attached && !full {
		a.attached[at.session] = at
	}
	a.mu.Unlock()
	if attached || full {
		at.end(errDetached)
		done()
		if attached {
			a.fail(m, apierror.Conflict, "session/attach: the connection is attached to this session: detach first (session/detach)", asked.Session)
			return
		}
		a.fail(m, apierror.TooMany, fmt.Sprintf("session/attach: the connection is attached to %d sessions: detach from one first (session/detach)", maxAttached), asked.Session)
		return
	}
	result := map[string]any{"sessionId": at.session, "role": role, "connectedClients": a.hub.add(at)}
	if history != historyNone {
		result["history"] = waiting
	}
	a.answer(m, result)
	go panics.Guard(at.agent.hub.log, "following an attached session", at.run, at.end, a.end)()
}

// pending is an item of the history in the answer to session/attach.
type pending struct {
	Type     string `json:"type"`
	ToolCall string `json:"toolCallId,omitempty"`
	Status   string `json:"status"`
}

// find looks up the session, and its waiting questions.
func (at *attachment) find(agentID string) ([]pending, error) {
	state := supervisorv1.NewSupervisorStateServiceClient(at.agent.hub.calls.Conn())
	found, err := state.GetSession(at.ctx, &supervisorv1.GetSessionRequest{AgentId: agentID, SessionId: at.session})
	if err != nil {
		return nil, err
	}
	at.agentID = found.GetSession().GetAgentId()
	if own, ok := at.agent.own.(interface{ ID() string }); ok {
		at.own = own.ID() == at.agentID
	}
	if at.history != historyFull || at.own {
		at.cursor = cmp.Or(found.GetSession().GetCursor(), "now")
	}
	open, err := at.approvals.ListApprovals(at.ctx, &supervisorv1.ListApprovalsRequest{SessionId: at.session})
	if err != nil {
		return nil, err
	}
	waiting := []pending{}
	for _, q := range open.GetApprovals() {
		if q.GetAgentId() != at.agentID {
			continue
		}
		at.noteTool(q)
		kind := "elicitation"
		if q.GetPermission() != nil {
			kind = "permission_request"
		}
		waiting = append(waiting, pending{kind, toolCall(q), "pending"})
	}
	return waiting, nil
}

// run sends events to the client until the attachment ends, and then reports the end.
func (at *attachment) run() {
	defer close(at.finished)
	defer at.release()
	leave := sync.OnceFunc(func() { at.agent.hub.remove(at) })
	defer leave() // after a panic, too
	var asking sync.WaitGroup
	asking.Go(panics.Guard(at.agent.hub.log, "asking a client", at.ask, at.end))
	asking.Go(panics.Guard(at.agent.hub.log, "telling a client of other clients", at.notifyOthers, at.end))
	err := at.follow()
	at.end(err)
	asking.Wait()
	a := at.agent
	a.mu.Lock()
	delete(a.attached, at.session)
	a.mu.Unlock()
	at.asking.Lock()
	if open := at.removeQuestions(func(string) bool { return true }); len(open) > 0 {
		a.send(a.ctx, open...)
	}
	at.asking.Unlock()
	at.mu.Lock()
	t, quiet := at.turn, at.detached
	at.turn = nil
	at.mu.Unlock()
	why := errorText(at.ctx, err)
	if t != nil {
		a.fail(t.asked, apierror.Failed, "the turn is not followed any more: "+why, "it may go on: attach again")
	}
	leave()
	if !quiet {
		a.send(a.ctx, at.update(map[string]any{"type": "detached", "reason": why + ": if the session is open, attach again (session/attach)"}))
	}
}

// follow sends the session's events until there are no more.
func (at *attachment) follow() error {
	for {
		before := at.cursor
		err := at.followFrom(before)
		// A client that was too slow continues at its last event.
		if status.Code(err) != codes.ResourceExhausted || at.cursor == before || at.ctx.Err() != nil {
			return err
		}
	}
}

func (at *attachment) followFrom(cursor string) error {
	events, err := at.sessions.WatchSession(at.ctx, &supervisorv1.WatchSessionRequest{AgentId: at.agentID, SessionId: at.session, Cursor: cursor})
	if err != nil {
		return err
	}
	for {
		m, err := events.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return status.Error(codes.Unavailable, "the supervisor has ended the stream")
		case err != nil:
			return err
		}
		e := m.GetEvent()
		if frames := at.frames(e); len(frames) > 0 && !at.agent.send(at.ctx, frames...) {
			return at.ctx.Err()
		}
		at.cursor = cmp.Or(e.GetCursor(), at.cursor)
		if closed := e.GetSessionClosed(); closed != nil {
			return status.Error(codes.NotFound, "the session was closed: "+closed.GetReason())
		}
	}
}

// frames returns the messages for an event.
func (at *attachment) frames(e *supervisorv1.Event) [][]byte {
	switch of := e.GetEvent().(type) {
	case *supervisorv1.Event_QuestionAsked:
		at.noteTool(of.QuestionAsked)
		return nil
	case *supervisorv1.Event_QuestionAnswered:
		return at.resolved(of.QuestionAnswered)
	case *supervisorv1.Event_Gap:
		return [][]byte{at.update(map[string]any{"type": "gap", "frames": of.Gap.GetFrames(), "reason": of.Gap.GetReason()})}
	}
	if at.own {
		return nil
	}
	switch of := e.GetEvent().(type) {
	case *supervisorv1.Event_TurnStarted:
		return at.turnStarted(e)
	case *supervisorv1.Event_TurnEnded:
		return at.turnEnded(e, of.TurnEnded)
	case *supervisorv1.Event_UserMessage:
		if text := of.UserMessage.GetContent().GetText().GetText(); !e.GetHistory() && text != "" && strings.Contains(at.echo, text) {
			return nil // the agent repeats the prompt
		}
	case *supervisorv1.Event_AgentMessage, *supervisorv1.Event_AgentThought, *supervisorv1.Event_ToolCall, *supervisorv1.Event_ToolCallUpdate,
		*supervisorv1.Event_Plan, *supervisorv1.Event_AvailableCommands, *supervisorv1.Event_SessionInfo, *supervisorv1.Event_Usage,
		*supervisorv1.Event_Notice, *supervisorv1.Event_Compaction, *supervisorv1.Event_CompactionSummary, *supervisorv1.Event_OtherUpdate:
	case *supervisorv1.Event_CurrentMode:
		if !isUpdate(e.GetRaw()) { // it is the answer to a request
			return [][]byte{at.update(map[string]any{"sessionUpdate": "current_mode_update", "currentModeId": of.CurrentMode.GetModeId()})}
		}
	case *supervisorv1.Event_ConfigOptions:
		if !isUpdate(e.GetRaw()) {
			var parsed struct {
				Options json.RawMessage `json:"configOptions"`
			}
			if json.Unmarshal([]byte(e.GetRaw()), &parsed) != nil || parsed.Options == nil {
				return nil
			}
			return [][]byte{at.update(map[string]any{"sessionUpdate": "config_option_update", "configOptions": parsed.Options})}
		}
	default:
		return nil
	}
	if e.GetRaw() == "" || e.GetHistory() && at.promptSent || e.GetOtherUpdate() != nil && !isUpdate(e.GetRaw()) {
		return nil // sent already, or not an update
	}
	return [][]byte{at.rawUpdate(e.GetRaw())}
}

// isUpdate reports whether JSON is the update of a session/update.
func isUpdate(raw string) bool {
	var of struct {
		Kind *json.RawMessage `json:"sessionUpdate"`
		Type *json.RawMessage `json:"type"`
	}
	return json.Unmarshal([]byte(raw), &of) == nil && (of.Kind != nil || of.Type != nil)
}

// rawUpdate returns a session/update with the agent's update, unchanged.
func (at *attachment) rawUpdate(raw string) []byte {
	b := make([]byte, 0, len(raw)+len(at.sessionJSON)+96)
	b = append(b, `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":`...)
	b = append(append(b, at.sessionJSON...), `,"update":`...)
	return append(append(b, raw...), "}}"...)
}

// update returns a session/update of the gateway itself.
func (at *attachment) update(update map[string]any) []byte {
	return at.rawUpdate(string(encode(update)))
}

// detach answers session/detach. The answer is the last message about the session.
func (a *agent) detach(m relay.Message, at *attachment) {
	at.mu.Lock()
	at.detached = true
	at.mu.Unlock()
	at.end(errDetached)
	<-at.finished
	a.answer(m, map[string]string{"sessionId": at.session, "status": "detached"})
}

// errorText returns the error of a call to the supervisor as text for the client.
func errorText(ctx context.Context, err error) string { return services.Failure(ctx, err).Message() }

// key identifies the session of an attachment.
func (at *attachment) key() string { return at.agentID + "\x00" + at.session }

// add adds an attachment, and returns all clients that are attached to its session.
func (h *Hub) add(at *attachment) []client {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at[at.key()] = append(h.at[at.key()], at)
	var all []client
	for _, o := range h.at[at.key()] {
		all = append(all, o.client)
	}
	return all
}

// remove removes an attachment, and notifies the others of its session.
func (h *Hub) remove(at *attachment) {
	h.mu.Lock()
	others := slices.DeleteFunc(slices.Clone(h.at[at.key()]), func(o *attachment) bool { return o == at })
	if h.at[at.key()] = others; len(others) == 0 {
		delete(h.at, at.key())
	}
	h.mu.Unlock()
	for _, o := range others {
		select {
		case o.others <- o.update(map[string]any{"type": "client_disconnected", "client": at.client}):
		default: // the client does not read
		}
	}
}

// notifyOthers sends changes of other attached clients.
func (at *attachment) notifyOthers() {
	for {
		select {
		case frame := <-at.others:
			at.agent.send(at.ctx, frame)
		case <-at.ctx.Done():
			return
		}
	}
}
