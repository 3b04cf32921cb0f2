package rest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/acphost/acphost/internal/delegation"
	"github.com/acphost/acphost/internal/panics"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/gatewayd/internal/auth"
	"github.com/acphost/acphost/services/gatewayd/internal/services"
)

// The names of events.
const (
	partUpdated       = "message.part.updated" // a chunk of a message
	toolExecute       = "tool.execute"         // a tool call begins, or changes
	toolResult        = "tool.result"          // a tool call has ended
	permissionRequest = "permission.request"   // a question waits for an answer
	sessionUpdated    = "session.updated"      // any other event
	authComplete      = "auth.complete"        // a login has ended
	streamFailed      = "stream.failed"        // the stream ends
)

// eventNames returns all names.
func eventNames() []string {
	return []string{partUpdated, toolExecute, toolResult, permissionRequest, sessionUpdated, authComplete, streamFailed}
}

// keepAlive is how often a quiet stream sends a comment.
const keepAlive = 15 * time.Second

// maxWaiting is how many events, and logins, are queued for a reader.
const maxWaiting = 16

// nameOf returns the name of an event.
func nameOf(e *supervisorv1.Event) string {
	switch of := e.GetEvent().(type) {
	case *supervisorv1.Event_UserMessage, *supervisorv1.Event_AgentMessage, *supervisorv1.Event_AgentThought:
		return partUpdated
	case *supervisorv1.Event_ToolCall:
		return nameOfTool(of.ToolCall)
	case *supervisorv1.Event_ToolCallUpdate:
		return nameOfTool(of.ToolCallUpdate)
	case *supervisorv1.Event_QuestionAsked:
		return permissionRequest
	}
	return sessionUpdated
}

func nameOfTool(t *supervisorv1.ToolCallReport) string {
	if slices.Contains([]string{"completed", "failed"}, t.GetStatus()) {
		return toolResult
	}
	return toolExecute
}

// events streams events: of a session, or of all.
func (h *Handler) events(w http.ResponseWriter, r *http.Request) {
	caller := auth.From(r.Context())
	if !caller.HasRole(delegation.Viewer) {
		fail(w, connect.NewError(connect.CodePermissionDenied, errors.New("this takes the role "+delegation.Viewer)))
		return
	}
	if r.ContentLength != 0 {
		writeError(w, http.StatusBadRequest, "invalid_argument", "a GET takes no body")
		return
	}
	query := r.URL.Query()
	err := errors.Join(checkText("session", query.Get("session")), checkText("agent", query.Get("agent")),
		checkText("Last-Event-ID", r.Header.Get("Last-Event-ID")))
	if err != nil {
		writeError(w, http.StatusBadRequest, "invalid_argument", err.Error())
		return
	}
	ctx, done, err := h.calls.Begin(r.Context(), caller)
	if err != nil {
		fail(w, services.Failure(r.Context(), err))
		return
	}
	defer done()
	w, r = services.Bound(w, r.WithContext(ctx))
	services.Arrived(ctx)
	h.follow(w, r)
}

// follow writes the stream.
func (h *Handler) follow(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	queue, logins, ended := make(chan *supervisorv1.Event, maxWaiting), make(chan completed, maxWaiting), make(chan error, 1)
	h.mu.Lock()
	h.watchers[logins] = struct{}{}
	h.mu.Unlock()
	query := r.URL.Query()
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		ended <- panics.Catch(h.log, "watching events", func() error {
			return h.watch(ctx, query.Get("session"), query.Get("agent"), r.Header.Get("Last-Event-ID"), queue)
		})
	}()
	defer func() {
		cancel()
		<-watching
		h.mu.Lock()
		delete(h.watchers, logins)
		h.mu.Unlock()
	}()
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no") // prevents proxies from buffering the stream
	w.WriteHeader(http.StatusOK)
	out := writer{w: w, control: http.NewResponseController(w)}
	out.flush()
	quiet := time.NewTicker(keepAlive)
	defer quiet.Stop()
	for out.err == nil {
		select {
		case e := <-queue:
			out.event(e)
		case c := <-logins:
			out.json(authComplete, c)
		case <-quiet.C:
			out.comment()
		case err := <-ended:
			for len(queue) > 0 {
				out.event(<-queue)
			}
			if r.Context().Err() == nil || context.Cause(r.Context()) != context.Canceled { //nolint:errorlint // the very one: the caller has gone
				out.json(streamFailed, bodyOf(services.Failure(r.Context(), err)))
			}
			return
		}
	}
	h.log.Debug("a stream of events could not be written", "error", out.err)
}

// watch passes events to queue until ctx ends, or there can be no more. If it was too slow, it starts again after the
// last event.
func (h *Handler) watch(ctx context.Context, session, agent, cursor string, queue chan<- *supervisorv1.Event) error {
	for {
		last, err := h.watchFrom(ctx, session, agent, cursor, queue)
		if status.Code(err) != codes.ResourceExhausted || last == cursor {
			return err
		}
		cursor = last
	}
}

// watchFrom returns the cursor of the last event that it passed on.
func (h *Handler) watchFrom(ctx context.Context, session, agent, cursor string, queue chan<- *supervisorv1.Event) (last string, err error) {
	last = cursor
	var next func() (*supervisorv1.Event, error)
	if session != "" {
		stream, err := supervisorv1.NewSessionServiceClient(h.calls.Conn()).WatchSession(ctx, &supervisorv1.WatchSessionRequest{AgentId: agent, SessionId: session, Cursor: cursor})
		if err != nil {
			return last, err
		}
		next = func() (*supervisorv1.Event, error) { m, err := stream.Recv(); return m.GetEvent(), err }
	} else {
		stream, err := supervisorv1.NewSupervisorStateServiceClient(h.calls.Conn()).WatchEvents(ctx, &supervisorv1.WatchEventsRequest{Cursor: cursor})
		if err != nil {
			return last, err
		}
		next = func() (*supervisorv1.Event, error) { m, err := stream.Recv(); return m.GetEvent(), err }
	}
	for {
		e, err := next()
		switch {
		case errors.Is(err, io.EOF):
			return last, status.Error(codes.Unavailable, "the supervisor has ended the stream")
		case err != nil:
			return last, err
		case session == "" && agent != "" && e.GetAgentId() != agent:
			continue
		}
		select {
		case queue <- e:
		case <-ctx.Done():
			return last, ctx.Err()
		}
		if e.GetCursor() != "" {
			last = e.GetCursor()
		}
	}
}

// writer writes server-sent events. After an error it writes nothing.
type writer struct {
	w       io.Writer
	control *http.ResponseController
	err     error
}

// event writes an event of the supervisor, without its raw JSON, which repeats all of it.
func (o *writer) event(e *supervisorv1.Event) {
	shown := &supervisorv1.Event{Cursor: e.GetCursor(), Time: e.GetTime(), AgentId: e.GetAgentId(), SessionId: e.GetSessionId(), History: e.GetHistory(), Touches: e.GetTouches(), Event: e.GetEvent()}
	data, err := protojson.Marshal(shown)
	if err != nil {
		o.err = err
		return
	}
	o.write(e.GetCursor(), nameOf(e), data)
}

func (o *writer) json(name string, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		o.err = err
		return
	}
	o.write("", name, data)
}

func (o *writer) write(id, name string, data []byte) {
	var b strings.Builder
	if id != "" && !strings.ContainsAny(id, "\r\n\x00") {
		b.WriteString("id: " + id + "\n")
	}
	b.WriteString("event: " + name + "\ndata: ")
	b.Write(data) // JSON of Go's encoders has no line breaks
	b.WriteString("\n\n")
	o.put(b.String())
}

func (o *writer) comment() { o.put(":\n\n") }

func (o *writer) put(text string) {
	if o.err == nil {
		_, o.err = io.WriteString(o.w, text)
	}
	o.flush()
}

func (o *writer) flush() {
	if o.err == nil {
		o.err = o.control.Flush()
	}
}
