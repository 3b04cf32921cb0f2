// Package rest serves the calls that a simple front end needs, as REST with JSON, and a stream of server-sent events.
// openapi.json describes them.
//
// Each path calls a method of the supervisor's services. Requests and responses are the method's messages in JSON form,
// and the caller needs the method's role. The package knows the paths and the names of events. It must not know how
// callers authenticate.
package rest

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/panics"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/gatewayd/internal/auth"
	"github.com/acphost/acphost/services/gatewayd/internal/services"
)

// loginTimeout is how long a user may take to log in on the agent's page.
const loginTimeout = 15 * time.Minute

//go:embed openapi.json
var description []byte

// Handler serves the paths. Safe for concurrent use.
type Handler struct {
	calls *services.Handler
	log   *slog.Logger
	plans []*plan

	logins   sync.WaitGroup // logins that continue after their answer
	ending   context.Context
	end      context.CancelFunc
	mu       sync.Mutex
	watchers map[chan completed]struct{} // guarded by mu: channels that get the ends of logins
}

// New returns a Handler that makes its calls with calls. Close ends it.
func New(calls *services.Handler, log *slog.Logger) (*Handler, error) {
	h := &Handler{calls: calls, log: log, watchers: map[chan completed]struct{}{}}
	h.ending, h.end = context.WithCancel(context.Background())
	var err error
	h.plans, err = plans()
	return h, err
}

// Close ends the active logins. Requests end as those of services do.
func (h *Handler) Close() {
	h.end()
	h.logins.Wait()
}

// Register adds the paths to a mux. Their requests must carry a caller (auth.With). It also answers all paths of the
// mux that have no other handler.
func (h *Handler) Register(mux *http.ServeMux) {
	verbs := map[string][]string{"/events": {"GET"}, "/openapi.json": {"GET"}}
	for _, p := range h.plans {
		verbs[p.path] = append(verbs[p.path], p.verb)
		mux.HandleFunc(p.verb+" "+p.path, func(w http.ResponseWriter, r *http.Request) { h.call(w, r, p) })
	}
	mux.HandleFunc("GET /events", h.events)
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(description)
	})
	registerUnknown(mux, verbs)
}

// call serves a route.
func (h *Handler) call(w http.ResponseWriter, r *http.Request, p *plan) {
	caller := auth.From(r.Context())
	if !caller.HasRole(p.need.Role) {
		fail(w, connect.NewError(connect.CodePermissionDenied, errors.New("this takes the role "+p.need.Role+"; yours is "+caller.Role)))
		return
	}
	ctx, done, err := h.calls.Begin(r.Context(), caller)
	if err != nil {
		fail(w, services.Failure(r.Context(), err))
		return
	}
	defer done()
	w, r = services.Bound(w, r.WithContext(ctx))
	body, ok := h.body(w, r)
	if !ok {
		return
	}
	req, err := p.request(r, body)
	if err != nil {
		fail(w, connect.NewError(connect.CodeInvalidArgument, err))
		return
	}
	if p.serve != nil {
		p.serve(h, w, r, p, req)
		return
	}
	res := p.output.New().Interface()
	if err := h.calls.Conn().Invoke(ctx, p.full, req, res); err != nil {
		fail(w, services.Failure(ctx, err))
		return
	}
	answer(w, p.status, res)
}

// body reads a request's JSON; false: the request was answered with an error. For a page of another origin, the browser
// sends a preflight request before it sends this content type.
func (h *Handler) body(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	if r.Method == http.MethodPost {
		if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
			writeError(w, http.StatusUnsupportedMediaType, "invalid_argument", "a POST takes the Content-Type application/json")
			return nil, false
		}
	}
	body, err := io.ReadAll(r.Body)
	services.Arrived(r.Context())
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		writeError(w, http.StatusRequestEntityTooLarge, "resource_exhausted", "the body is too long")
	case err != nil:
		writeError(w, http.StatusBadRequest, "invalid_argument", "the body did not come whole")
	case r.Method != http.MethodPost && len(body) > 0:
		writeError(w, http.StatusBadRequest, "invalid_argument", "a "+r.Method+" takes no body")
	default:
		return body, true
	}
	return nil, false
}

// prompt begins a turn, and answers when it has begun. The turn continues after its stream is closed.
func (h *Handler) prompt(w http.ResponseWriter, r *http.Request, p *plan, req proto.Message) {
	if asked, ok := req.(*supervisorv1.PromptRequest); ok && asked.GetCancelOnDisconnect() {
		fail(w, connect.NewError(connect.CodeInvalidArgument, errors.New("cancelOnDisconnect: this answers when the turn has begun; cancel it by /sessions/ID/cancel")))
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	stream, err := begin(ctx, h.calls.Conn(), p, req)
	if err == nil {
		first := &supervisorv1.PromptResponse{}
		if err = stream.RecvMsg(first); err == nil {
			reply(w, p.status, map[string]string{"cursor": first.GetEvent().GetCursor()})
			return
		}
	}
	fail(w, services.Failure(ctx, err))
}

// completed is a login that has ended.
type completed struct {
	AgentID  string `json:"agentId"`
	MethodID string `json:"methodId,omitempty"`
	Error    string `json:"error,omitempty"`
}

// loginAnswer is the answer to a login.
type loginAnswer struct {
	URL     string `json:"url,omitempty"`
	Message string `json:"message,omitempty"`
	Done    bool   `json:"done"`
}

// login logs an agent in, and answers when the agent names a page, or has finished.
func (h *Handler) login(w http.ResponseWriter, r *http.Request, p *plan, req proto.Message) {
	caller := auth.From(r.Context())
	// It outlives the request, so it is a separate call.
	life, cancel := context.WithTimeout(h.ending, loginTimeout)
	ctx, done, err := h.calls.Begin(auth.With(life, caller), caller)
	if err != nil {
		cancel()
		fail(w, services.Failure(r.Context(), err))
		return
	}
	finish := sync.OnceFunc(func() { done(); cancel() })
	continues := false
	defer func() {
		if !continues { // after a panic, too
			finish()
		}
	}()
	gone := context.AfterFunc(r.Context(), cancel) // until the request is answered
	agent := req.(*supervisorv1.AuthenticateRequest).GetAgentId()
	stream, err := begin(ctx, h.calls.Conn(), p, req)
	step := &supervisorv1.AuthenticateResponse{}
	if err == nil {
		err = stream.RecvMsg(step)
	}
	switch {
	case err != nil:
		gone()
		fail(w, services.Failure(ctx, err))
		return
	case step.GetDone() != nil:
		gone()
		h.complete(completed{AgentID: agent, MethodID: step.GetDone().GetMethodId()})
		reply(w, p.status, loginAnswer{Done: true})
		return
	}
	// The agent continues when it knows that the user will see the page. The caller of the login shows it.
	answer := &supervisorv1.AnswerApprovalRequest{Id: step.GetQuestion().GetId(), Answer: &supervisorv1.AnswerApprovalRequest_Accept{Accept: "{}"}}
	pageErr := checkPage(page(step))
	if pageErr != nil {
		answer.Answer = &supervisorv1.AnswerApprovalRequest_Cancel{Cancel: true}
	}
	if answer.GetId() != "" { // otherwise the agent does not wait for an answer
		_, err = supervisorv1.NewApprovalServiceClient(h.calls.Conn()).AnswerApproval(ctx, answer)
	}
	if pageErr == nil && err != nil {
		pageErr = services.Failure(ctx, err)
	}
	if !gone() && pageErr == nil {
		pageErr = services.Failure(r.Context(), context.Canceled)
	}
	if pageErr != nil {
		fail(w, pageErr)
		return
	}
	continues = true
	h.logins.Go(func() {
		defer finish()
		defer panics.Recover(h.log, "waiting for the end of a login", func(err error) {
			h.complete(completed{AgentID: agent, Error: err.Error()})
		})
		h.await(ctx, stream, agent)
	})
	reply(w, p.status, loginAnswer{URL: page(step).GetUrl(), Message: page(step).GetMessage()})
}

// checkPage returns the reason not to show a page to a user. The agent chose the URL, which may run a script or open a
// file.
func checkPage(e *supervisorv1.Elicitation) *connect.Error {
	if e.GetMode() != "url" {
		return connect.NewError(connect.CodeFailedPrecondition, errors.New("the agent asks for more than opening a page: log it in by \"acphost agents login\""))
	}
	u, err := url.Parse(e.GetUrl())
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return connect.NewError(connect.CodeFailedPrecondition, errors.New("the agent names a page that is neither https nor http, so it is not opened"))
	}
	return nil
}

// await waits for the end of a login. Further pages are handled like other questions.
func (h *Handler) await(ctx context.Context, stream grpc.ClientStream, agent string) {
	for {
		step := &supervisorv1.AuthenticateResponse{}
		if err := stream.RecvMsg(step); err != nil {
			h.complete(completed{AgentID: agent, Error: services.Failure(ctx, err).Message()})
			return
		}
		if step.GetDone() != nil {
			h.complete(completed{AgentID: agent, MethodID: step.GetDone().GetMethodId()})
			return
		}
	}
}

// complete sends the end of a login to the watchers. It skips watchers whose queue is full.
func (h *Handler) complete(c completed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for queue := range h.watchers {
		select {
		case queue <- c:
		default:
		}
	}
}

// begin calls a method that answers with a stream.
func begin(ctx context.Context, conn grpc.ClientConnInterface, p *plan, req proto.Message) (grpc.ClientStream, error) {
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, p.full)
	if err != nil {
		return nil, err
	}
	if err := stream.SendMsg(req); err != nil && !errors.Is(err, io.EOF) { // RecvMsg returns the reason for EOF
		return nil, err
	}
	return stream, stream.CloseSend()
}

// statuses maps codes to HTTP statuses; others are 500.
var statuses = map[connect.Code]int{
	connect.CodeCanceled: 499, connect.CodeInvalidArgument: http.StatusBadRequest, connect.CodeDeadlineExceeded: http.StatusGatewayTimeout,
	connect.CodeNotFound: http.StatusNotFound, connect.CodeAlreadyExists: http.StatusConflict, connect.CodePermissionDenied: http.StatusForbidden,
	connect.CodeResourceExhausted: http.StatusTooManyRequests, connect.CodeFailedPrecondition: http.StatusConflict, connect.CodeAborted: http.StatusConflict,
	connect.CodeOutOfRange: http.StatusBadRequest, connect.CodeUnimplemented: http.StatusNotImplemented, connect.CodeUnavailable: http.StatusServiceUnavailable,
	connect.CodeUnauthenticated: http.StatusUnauthorized,
}

// failureBody is the body of a failed request's answer.
type failureBody struct {
	// Code is the gRPC code in lower case: "not_found".
	Code    string `json:"code"`
	Message string `json:"message"`
	// AgentError is a supervisorv1.AgentError, if the agent caused the error.
	AgentError json.RawMessage `json:"agentError,omitempty"`
}

func fail(w http.ResponseWriter, err *connect.Error) {
	status := statuses[err.Code()]
	if status == 0 {
		status = http.StatusInternalServerError
	}
	reply(w, status, bodyOf(err))
}

func bodyOf(err *connect.Error) failureBody {
	body := failureBody{Code: err.Code().String(), Message: err.Message()}
	for _, detail := range err.Details() {
		m, broken := detail.Value()
		if agent, ok := m.(*supervisorv1.AgentError); broken == nil && ok {
			body.AgentError, _ = protojson.Marshal(agent) // a received protobuf message can be encoded as JSON
		}
	}
	return body
}

func writeError(w http.ResponseWriter, status int, code, message string) {
	reply(w, status, failureBody{Code: code, Message: message})
}

func reply(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"code": "internal", "message": "the answer could not be written"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

func answer(w http.ResponseWriter, status int, m proto.Message) {
	text, err := protojson.Marshal(m)
	if err != nil {
		writeError(w, http.StatusInternalServerError, "internal", "the answer could not be written")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}
