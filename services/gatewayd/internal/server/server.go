// Package server serves a gateway's HTTP: the endpoint /acp according to ACP's remote transport, for POST with
// server-sent events. It passes WebSocket connections to package socket, and other paths to packages services and rest.
//
// It knows the rules and statuses of the transport, and which role a request needs. It must not know how an agent is
// reached, nor what a message means.
package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/acphost/acphost/internal/limits"
	"github.com/acphost/acphost/internal/panics/httppanics"
	"github.com/acphost/acphost/services/gatewayd/internal/apierror"
	"github.com/acphost/acphost/services/gatewayd/internal/auth"
	"github.com/acphost/acphost/services/gatewayd/internal/intake"
	"github.com/acphost/acphost/services/gatewayd/internal/relay"
	"github.com/acphost/acphost/services/gatewayd/internal/rest"
	"github.com/acphost/acphost/services/gatewayd/internal/services"
	"github.com/acphost/acphost/services/gatewayd/internal/socket"
)

// The headers of the transport.
const (
	HeaderConnection = "Acp-Connection-Id"
	HeaderSession    = "Acp-Session-Id"
)

const (
	// MaxMessage bounds a message of a client, in bytes.
	MaxMessage = limits.Whole
	// keepAlive is how often a quiet stream sends a comment.
	keepAlive = 15 * time.Second
	// writeTimeout is how long a client may take to read a piece of a stream.
	writeTimeout = time.Minute
	// clientGone is the status of a request whose client has disconnected, as nginx logs it.
	clientGone = 499
)

// Options configure a Handler.
type Options struct {
	Gate *auth.Gate
	// Relay has the connections.
	Relay *relay.Registry
	// Intake reads messages of at most MaxMessage bytes. Default: a new one.
	Intake *intake.Intake
	// Agent is the agent of clients that name none.
	Agent string
	// Attach means that the Relay's agents let clients attach to sessions: a caller that may not prompt agents then gets
	// no own agent.
	Attach bool
	// Services serves the supervisor's services to callers over HTTP; nil: not served.
	Services *services.Handler
	// Rest serves the paths for simple front ends; nil: not served.
	Rest *rest.Handler
	// Console serves the paths below /console/, and authenticates its callers itself. Nil: not served.
	Console http.Handler
	// Ready returns an error if the supervisor does not serve: /readyz then answers 503. Nil: the supervisor is not
	// checked.
	Ready  func(context.Context) error
	Logger *slog.Logger
}

// handler serves a gateway.
type handler struct {
	Options
}

// New returns a gateway's handler. It answers 500 after a panic (httppanics). Safe for concurrent use.
func New(o Options) http.Handler {
	if o.Intake == nil {
		o.Intake = intake.New(MaxMessage)
	}
	h := &handler{o}
	mux := http.NewServeMux()
	mux.HandleFunc("/acp", h.acp)
	if h.Services != nil {
		for _, path := range h.Services.Paths() {
			mux.Handle(path, h.Services)
		}
	}
	if h.Rest != nil {
		h.Rest.Register(mux)
	}
	others := h.cors(h.guarded(mux))
	probed := &probes{ready: h.Ready, log: h.Logger}
	return httppanics.Handler(h.Logger, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case probed.serve(w, r):
		case h.Console != nil && (r.URL.Path == "/console" || strings.HasPrefix(r.URL.Path, "/console/")):
			h.Console.ServeHTTP(w, r)
		default:
			others.ServeHTTP(w, r)
		}
	}))
}

// guarded rejects requests that Gate rejects, for any path.
func (h *handler) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		caller, rejection := h.Gate.Check(r)
		if rejection != nil {
			if rejection.Status == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", `Bearer realm="acphost"`)
			}
			h.Logger.Info("refused a request", "from", r.RemoteAddr, "status", rejection.Status, "why", rejection.Text)
			if r.ContentLength != 0 && r.ProtoMajor == 1 { // otherwise the server would wait for the rest of the body
				w.Header().Set("Connection", "close")
			}
			writeText(w, rejection.Status, rejection.Text)
			return
		}
		recordOwner(r.Context(), caller.ID)
		next.ServeHTTP(w, r.WithContext(auth.With(r.Context(), caller)))
	})
}

func (h *handler) acp(w http.ResponseWriter, r *http.Request) {
	caller := auth.From(r.Context())
	if !caller.HasRole("viewer") || !h.Attach && !caller.HasRole("operator") {
		writeText(w, apierror.NotAllowed.HTTP, "this takes the role operator, since a client gives an agent its prompts; yours is "+caller.Role)
		return
	}
	owner := relay.Owner{ID: caller.ID, Valid: caller.Valid}
	switch r.Method {
	case http.MethodPost:
		h.post(w, r, owner)
	case http.MethodGet:
		if socket.IsUpgrade(r) {
			id := relay.NewID()
			w.Header().Set(HeaderConnection, id)
			socket.Serve(w, r, socket.Options{Relay: h.Relay, ID: id, Owner: owner, Agent: h.agent(r), Intake: h.Intake, Logger: h.Logger})
			return
		}
		h.get(w, r, owner)
	case http.MethodDelete:
		if c := h.connection(w, r, owner); c != nil {
			c.Close(errDeleted)
			w.WriteHeader(http.StatusAccepted)
		}
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		writeText(w, http.StatusMethodNotAllowed, "Method Not Allowed")
	}
}

var errDeleted = errors.New("the client has ended it")

// agent returns the agent that a request is for.
func (h *handler) agent(r *http.Request) relay.Target {
	if h.Attach && (r.URL.Query().Has("attach") || !auth.From(r.Context()).HasRole("operator")) {
		return relay.Target{None: true}
	}
	if name := r.URL.Query().Get("agent"); name != "" {
		return relay.Target{Name: name}
	}
	return relay.Target{Name: h.Agent}
}

func (h *handler) post(w http.ResponseWriter, r *http.Request, owner relay.Owner) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		writeText(w, http.StatusUnsupportedMediaType, "Unsupported Media Type: it takes application/json")
		return
	}
	frame, ok := h.body(w, r, owner)
	if !ok {
		return
	}
	m, err := relay.Read(frame)
	if err != nil {
		kind, failure := apierror.Unread(err)
		answer(w, kind.HTTP, failure)
		return
	}
	frame = relay.Line(frame)
	switch authenticated := r.Header.Get(HeaderConnection) != ""; {
	case m.Method == "initialize" && m.Kind != relay.Invalid && authenticated:
		writeText(w, apierror.Invalid.HTTP, "Initialize not allowed on existing connection")
		return
	case m.Method == "initialize" && !authenticated:
		h.initialize(w, r, owner, m, frame)
		return
	}
	c := h.connection(w, r, owner)
	if c == nil {
		return
	}
	defer c.Use()()
	if problem := checkSessionHeader(m, r.Header.Get(HeaderSession)); problem != "" {
		writeText(w, apierror.Invalid.HTTP, problem)
		return
	}
	h.writeResult(w, r, c.Forward(r.Context(), m, frame, r.Header.Get(HeaderSession)))
}

// body reads a request's message; false: it answered with an error.
func (h *handler) body(w http.ResponseWriter, r *http.Request, owner relay.Owner) ([]byte, bool) {
	ctx, cancel := context.WithTimeout(r.Context(), intake.Timeout)
	defer cancel()
	if r.ContentLength > h.Intake.MaxSize() {
		writeText(w, apierror.TooLong.HTTP, tooLong)
		return nil, false
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(intake.Timeout))
	frame, err := h.Intake.Read(ctx, owner.ID, http.MaxBytesReader(w, r.Body, h.Intake.MaxSize())) // closes a longer body
	_ = control.SetReadDeadline(time.Time{})                                                       // else it would end the request
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long), errors.Is(err, intake.ErrTooLong):
		writeText(w, apierror.TooLong.HTTP, tooLong)
	case ctx.Err() != nil && r.Context().Err() == nil:
		writeText(w, http.StatusRequestTimeout, "the message did not come whole within "+intake.Timeout.String()+", or too many long ones came at once")
	case err != nil:
		writeText(w, apierror.Invalid.HTTP, "the message did not come whole")
	}
	return frame, err == nil
}

const tooLong = "Payload Too Large: a message has at most 16 MiB"

// sessionMethods are the methods that always belong to a session.
var sessionMethods = map[string]bool{
	"session/cancel": true, "session/close": true, "session/delete": true, "session/fork": true, "session/load": true, "session/prompt": true,
	"session/resume": true, "session/set_config_option": true, "session/set_mode": true, "session/set_model": true,
}

// checkSessionHeader returns an error text if the session header of a request does not fit its message.
func checkSessionHeader(m relay.Message, session string) string {
	switch {
	case m.Kind == relay.Response:
		return "" // the request that it answers determines the session
	case session == "" && (m.HasSession || sessionMethods[m.Method]):
		return "Missing Acp-Session-Id"
	case m.HasSession && session != "" && session != m.Session:
		return "Mismatched Acp-Session-Id"
	}
	return ""
}

// writeResult answers a request whose message was sent to the agent, or could not be sent.
func (h *handler) writeResult(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case err == nil:
		w.WriteHeader(http.StatusAccepted)
	case r.Context().Err() != nil:
		writeText(w, clientGone, "Request aborted")
	default:
		writeRejection(w, r, err)
	}
}

// writeRejection answers a request for a connection with an error. A connection that has ended is unknown.
func writeRejection(w http.ResponseWriter, r *http.Request, err error) {
	kind, text := apierror.Of(r.Context(), err)
	switch kind {
	case apierror.Invalid, apierror.TooMany, apierror.Conflict:
		writeText(w, kind.HTTP, text)
	default:
		writeText(w, apierror.NotFound.HTTP, "Unknown Acp-Connection-Id")
	}
}

// initialize creates a connection.
func (h *handler) initialize(w http.ResponseWriter, r *http.Request, owner relay.Owner, m relay.Message, frame []byte) {
	if m.Kind != relay.Request || m.ID == "" || string(m.RawID) == "null" {
		writeText(w, apierror.Invalid.HTTP, "Initialize request must include an ID")
		return
	}
	fail := func(err error) {
		h.Logger.Warn("initialize failed", "owner", owner.ID, "error", err)
		if r.Context().Err() != nil {
			writeText(w, clientGone, "Request aborted")
			return
		}
		kind, text := apierror.Of(r.Context(), err)
		if kind == apierror.TooMany {
			w.Header().Set("Retry-After", "10")
		}
		answer(w, kind.HTTP, kind.Initialize(m.RawID, text))
	}
	c, err := h.Relay.Connect(r.Context(), relay.NewID(), owner, h.agent(r))
	if err != nil {
		fail(err)
		return
	}
	initialized := false
	defer func() {
		if !initialized { // after a panic, too; otherwise it is closed already
			c.Close(errNotInitialized)
		}
	}()
	got, err := c.Initialize(r.Context(), m, frame)
	if err != nil {
		c.Close(err)
		fail(err)
		return
	}
	initialized = true
	w.Header().Set(HeaderConnection, c.ID)
	answer(w, http.StatusOK, got)
}

var errNotInitialized = errors.New("the agent could not be initialized")

// connection returns the connection that a request names; nil: it answered with an error.
func (h *handler) connection(w http.ResponseWriter, r *http.Request, owner relay.Owner) *relay.Conn {
	id := r.Header.Get(HeaderConnection)
	if id == "" {
		writeText(w, apierror.Invalid.HTTP, "Missing Acp-Connection-Id")
		return nil
	}
	c := h.Relay.Get(owner.ID, id)
	if c == nil {
		writeText(w, apierror.NotFound.HTTP, "Unknown Acp-Connection-Id")
	}
	return c
}

// get serves a stream.
func (h *handler) get(w http.ResponseWriter, r *http.Request, owner relay.Owner) {
	if !strings.Contains(strings.ToLower(r.Header.Get("Accept")), "text/event-stream") {
		writeText(w, http.StatusNotAcceptable, "Not Acceptable: it gives text/event-stream")
		return
	}
	c := h.connection(w, r, owner)
	if c == nil {
		return
	}
	var after *uint64
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		n, err := strconv.ParseUint(last, 10, 64)
		if err != nil {
			writeText(w, apierror.Invalid.HTTP, "Last-Event-ID is no id of this server")
			return
		}
		after = &n
	}
	defer c.Use()()
	reader, err := c.Stream(r.Header.Get(HeaderSession), after)
	if err != nil {
		writeRejection(w, r, err)
		return
	}
	defer reader.Close()
	if err := stream(w, r, reader); err != nil {
		h.Logger.Debug("a stream could not be written", "connection", c.ID, "error", err)
	}
}

func answer(w http.ResponseWriter, status int, frame []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(frame)
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}
