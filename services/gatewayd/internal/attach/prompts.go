package attach

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/panics"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/gatewayd/internal/apierror"
	"github.com/acphost/acphost/services/gatewayd/internal/relay"
)

// callTimeout is the timeout of a call that does not wait for an agent.
const callTimeout = 30 * time.Second

// turn is an unanswered prompt of the client.
type turn struct {
	asked  relay.Message
	begun  chan struct{} // closed when it is known whether the turn began
	cursor string        // cursor of its start, once begun is closed; "": it did not begin
}

func withTimeout(ctx context.Context, t time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, t)
}

// prompt begins a turn. follow answers it, since the answer comes after the turn's events.
func (at *attachment) prompt(m relay.Message, frame []byte) {
	t := &turn{asked: m, begun: make(chan struct{})}
	at.mu.Lock()
	busy := at.turn != nil
	if !busy {
		at.turn = t
	}
	at.mu.Unlock()
	at.agent.do(func() {
		if busy {
			at.agent.fail(m, apierror.Conflict, "session/prompt: your prompt before this one has no answer yet", "wait for it, or cancel it (session/cancel)")
			return
		}
		at.beginOrFail(t, frame)
	})
}

func (at *attachment) beginOrFail(t *turn, frame []byte) {
	err := at.begin(t, frame)
	close(t.begun)
	if err == nil {
		return
	}
	at.mu.Lock()
	mine := at.turn == t
	if mine {
		at.turn = nil
	}
	at.mu.Unlock()
	if mine {
		at.agent.failWithError(at.ctx, t.asked, err)
	}
}

// begin asks the supervisor to begin the turn, and waits until it has begun.
func (at *attachment) begin(t *turn, frame []byte) error {
	asked, err := params[struct {
		Prompt []block         `json:"prompt"`
		Meta   json.RawMessage `json:"_meta"`
	}](frame)
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "the params: %v", err)
	}
	req := &supervisorv1.PromptRequest{AgentId: at.agentID, SessionId: at.session}
	if string(asked.Meta) != "null" {
		req.Meta = string(asked.Meta)
	}
	for i, b := range asked.Prompt {
		content := b.content()
		if content == nil {
			return status.Errorf(codes.InvalidArgument, "block %d is not a block of ACP v1, or is incomplete", i+1)
		}
		req.Prompt = append(req.Prompt, content)
	}
	ctx, leave := context.WithCancel(at.ctx)
	defer leave() // the turn continues, and follow sends its events
	events, err := at.sessions.Prompt(ctx, req)
	if err != nil {
		return err
	}
	for {
		m, err := events.Recv()
		if err != nil {
			return err
		}
		e := m.GetEvent()
		if e.GetTurnStarted() == nil && e.GetTurnEnded() == nil {
			continue
		}
		if t.cursor = e.GetCursor(); t.cursor == "" {
			return errors.New("the turn began and cannot be followed: attach again")
		}
		return nil
	}
}

// awaitOwnTurn returns the client's own prompt, if it began the turn with that cursor; it waits until that is known.
func (at *attachment) awaitOwnTurn(cursor string) *turn {
	at.mu.Lock()
	t := at.turn
	at.mu.Unlock()
	if t == nil {
		return nil
	}
	select {
	case <-t.begun:
	case <-at.ctx.Done():
	}
	if cursor == "" || t.cursor != cursor {
		return nil
	}
	return t
}

// turnStarted returns the messages for a turn that another client began.
func (at *attachment) turnStarted(e *supervisorv1.Event) (frames [][]byte) {
	var asked struct {
		Prompt []json.RawMessage `json:"prompt"`
	}
	_ = json.Unmarshal([]byte(e.GetRaw()), &asked) // fields that cannot be parsed stay empty
	var text strings.Builder
	for _, b := range e.GetTurnStarted().GetPrompt() {
		text.WriteString(b.GetText().GetText() + "\n")
	}
	at.promptSent, at.echo = true, text.String()
	if at.ownTurn = at.awaitOwnTurn(e.GetCursor()); at.ownTurn != nil {
		return nil
	}
	for _, b := range asked.Prompt {
		frames = append(frames, at.update(map[string]any{"sessionUpdate": "user_message_chunk", "content": b}))
	}
	return frames
}

// turnEnded answers the client's prompt if the turn is its own, and otherwise reports the turn's end.
func (at *attachment) turnEnded(e *supervisorv1.Event, ended *supervisorv1.TurnEnded) [][]byte {
	at.echo = ""
	if t := at.ownTurn; t != nil {
		at.ownTurn = nil
		at.mu.Lock()
		at.turn = nil
		at.mu.Unlock()
		raw := json.RawMessage(e.GetRaw())
		if f := ended.GetError(); f != nil {
			var parsed struct {
				Code    *int   `json:"code"`
				Message string `json:"message"`
			}
			if json.Unmarshal(raw, &parsed) == nil && parsed.Code != nil {
				return [][]byte{encode(map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(t.asked.RawID), "error": raw})}
			}
			return [][]byte{relay.Failure(t.asked.RawID, apierror.Failed.RPC, f.GetMessage(), "")}
		}
		if !json.Valid(raw) {
			raw = encode(map[string]string{"stopReason": ended.GetStopReason()})
		}
		return [][]byte{response(t.asked.RawID, raw)}
	}
	done := map[string]any{"type": "turn_complete", "stopReason": ended.GetStopReason()}
	if f := ended.GetError(); f != nil {
		done["error"] = f.GetMessage()
	}
	return [][]byte{at.update(done)}
}

// cancelTurn cancels the active turn, also if another client began it.
func (at *attachment) cancelTurn() {
	at.mu.Lock()
	t := at.turn
	at.mu.Unlock()
	if t != nil {
		select {
		case <-t.begun: // otherwise there is no turn to cancel yet
		case <-at.ctx.Done():
		}
	}
	ctx, cancel := withTimeout(at.ctx, callTimeout)
	defer cancel()
	_, err := at.sessions.CancelPrompt(ctx, &supervisorv1.CancelPromptRequest{AgentId: at.agentID, SessionId: at.session})
	if err != nil { // a notification has no answer
		at.agent.hub.log.Info("an attached client could not cancel a turn", "session", at.session, "caller", at.agent.caller.ID, "error", err)
		at.agent.send(at.ctx, at.update(map[string]any{"type": "cancel_refused", "reason": errorText(ctx, err)}))
	}
}

// cancels handles a $/cancel_request; false: it is for the own agent.
func (a *agent) cancels(frame []byte) bool {
	asked, err := params[struct {
		ID json.RawMessage `json:"requestId"`
	}](frame)
	if err != nil {
		return a.own == nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, at := range a.attached {
		at.mu.Lock()
		mine := at.turn != nil && string(at.turn.asked.RawID) == string(asked.ID)
		at.mu.Unlock()
		if mine {
			go panics.Guard(at.agent.hub.log, "cancelling a turn", at.cancelTurn, at.end)() // at most once for each prompt
			return true
		}
	}
	return a.own == nil
}

// setMode answers session/set_mode.
func (at *attachment) setMode(m relay.Message, frame []byte) {
	asked, err := params[struct {
		Mode string `json:"modeId"`
	}](frame)
	if err != nil {
		err = status.Errorf(codes.InvalidArgument, "the params: %v", err)
	}
	ctx, cancel := withTimeout(at.ctx, callTimeout)
	defer cancel()
	if err == nil {
		_, err = at.sessions.SetMode(ctx, &supervisorv1.SetModeRequest{AgentId: at.agentID, SessionId: at.session, ModeId: asked.Mode})
	}
	if err != nil {
		at.agent.failWithError(ctx, m, err)
		return
	}
	at.agent.answer(m, map[string]any{})
}

// block is a content block of ACP v1.
type block struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	Data        []byte `json:"data"`
	MimeType    string `json:"mimeType"`
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Size        *int64 `json:"size"`
	Resource    struct {
		URI      string  `json:"uri"`
		MimeType string  `json:"mimeType"`
		Text     *string `json:"text"`
		Blob     []byte  `json:"blob"`
	} `json:"resource"`
}

// content converts the block for the services; nil: it is invalid. The supervisor rejects blocks that the agent does
// not support.
func (b *block) content() *supervisorv1.ContentBlock {
	c := &supervisorv1.ContentBlock{}
	switch b.Type {
	case "text":
		c.Content = &supervisorv1.ContentBlock_Text{Text: &supervisorv1.TextContent{Text: b.Text}}
	case "image":
		c.Content = &supervisorv1.ContentBlock_Image{Image: &supervisorv1.ImageContent{Data: b.Data, MimeType: b.MimeType, Uri: b.URI}}
	case "audio":
		c.Content = &supervisorv1.ContentBlock_Audio{Audio: &supervisorv1.AudioContent{Data: b.Data, MimeType: b.MimeType}}
	case "resource_link":
		c.Content = &supervisorv1.ContentBlock_ResourceLink{ResourceLink: &supervisorv1.ResourceLink{
			Uri: b.URI, Name: b.Name, Title: b.Title, Description: b.Description, MimeType: b.MimeType, Size: b.Size,
		}}
	case "resource":
		r := &supervisorv1.EmbeddedResource{Uri: b.Resource.URI, MimeType: b.Resource.MimeType}
		if b.Resource.Text != nil {
			r.Contents = &supervisorv1.EmbeddedResource_Text{Text: *b.Resource.Text}
		} else {
			r.Contents = &supervisorv1.EmbeddedResource_Blob{Blob: b.Resource.Blob}
		}
		c.Content = &supervisorv1.ContentBlock_Resource{Resource: r}
	default:
		return nil
	}
	return c
}
