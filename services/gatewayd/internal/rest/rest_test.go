package rest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/acphost/acphost/internal/delegation"
	_ "github.com/acphost/acphost/internal/testkit" // -update
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/gatewayd/internal/auth"
	"github.com/acphost/acphost/services/gatewayd/internal/services"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// supervisor is one that a test plays. It notes what it is asked for, and for whom.
type supervisor struct {
	supervisorv1.UnimplementedAgentServiceServer
	supervisorv1.UnimplementedSessionServiceServer
	supervisorv1.UnimplementedSupervisorStateServiceServer
	supervisorv1.UnimplementedApprovalServiceServer

	mu      sync.Mutex
	asked   []proto.Message
	callers []delegation.Caller
	url     string                   // of a login
	finish  chan struct{}            // a login is done
	events  chan *supervisorv1.Event // of WatchSession and WatchEvents
	lag     atomic.Bool              // the next watcher falls behind after one event
	from    chan string              // cursors from which is watched
}

func (s *supervisor) note(ctx context.Context, req proto.Message) {
	md, _ := metadata.FromIncomingContext(ctx)
	c, _, _ := delegation.Read(md)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked, s.callers = append(s.asked, req), append(s.callers, c)
}

// last is the last request but for those that only look, and its caller.
func (s *supervisor) last() (proto.Message, delegation.Caller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[len(s.asked)-1], s.callers[len(s.callers)-1]
}

func demo() *supervisorv1.Agent {
	code := int32(1)
	return &supervisorv1.Agent{Id: "a1", Name: "demo", Preset: "claude", Command: []string{"x"}, Pid: 1 << 40, State: supervisorv1.AgentState_AGENT_STATE_RUNNING,
		StartTime: timestamppb.New(time.Unix(1, 5)), Restarts: 2, Error: &supervisorv1.AgentError{Kind: supervisorv1.ErrorKind_ERROR_KIND_CRASHED, ExitCode: &code},
		Info: &supervisorv1.AgentInfo{ProtocolVersion: 1, Capabilities: &supervisorv1.AgentCapabilities{LoadSession: true}}}
}

func (s *supervisor) ListAgents(ctx context.Context, req *supervisorv1.ListAgentsRequest) (*supervisorv1.ListAgentsResponse, error) {
	s.note(ctx, req)
	return &supervisorv1.ListAgentsResponse{Agents: []*supervisorv1.Agent{demo()}}, nil
}

func (s *supervisor) GetAgent(ctx context.Context, req *supervisorv1.GetAgentRequest) (*supervisorv1.GetAgentResponse, error) {
	s.note(ctx, req)
	if req.GetAgentId() != "a1" {
		return nil, status.Error(codes.NotFound, "agent not found")
	}
	return &supervisorv1.GetAgentResponse{Agent: demo()}, nil
}

func (s *supervisor) StartAgent(ctx context.Context, req *supervisorv1.StartAgentRequest) (*supervisorv1.StartAgentResponse, error) {
	s.note(ctx, req)
	return &supervisorv1.StartAgentResponse{Agent: demo(), Reused: true}, nil
}

func (s *supervisor) StopAgent(ctx context.Context, req *supervisorv1.StopAgentRequest) (*supervisorv1.StopAgentResponse, error) {
	s.note(ctx, req)
	return &supervisorv1.StopAgentResponse{Agent: demo()}, nil
}

func (s *supervisor) Authenticate(req *supervisorv1.AuthenticateRequest, stream grpc.ServerStreamingServer[supervisorv1.AuthenticateResponse]) error {
	s.note(stream.Context(), req)
	if req.GetMethodId() == "key" {
		return stream.Send(&supervisorv1.AuthenticateResponse{Step: &supervisorv1.AuthenticateResponse_Done{Done: &supervisorv1.Authenticated{MethodId: "key"}}})
	}
	id := "q1"
	if req.GetMethodId() == "older" { // its page is in the answer to authenticate, which nobody has to answer
		id = ""
	}
	err := stream.Send(&supervisorv1.AuthenticateResponse{Step: &supervisorv1.AuthenticateResponse_Question{Question: &supervisorv1.Approval{
		Id: id, Elicitation: &supervisorv1.Elicitation{Mode: "url", Url: s.url, Message: "Please log in."},
	}}})
	if err != nil {
		return err
	}
	select {
	case <-s.finish:
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
	return stream.Send(&supervisorv1.AuthenticateResponse{Step: &supervisorv1.AuthenticateResponse_Done{Done: &supervisorv1.Authenticated{MethodId: "browser"}}})
}

func session() *supervisorv1.Session {
	return &supervisorv1.Session{SessionId: "s 1/x", AgentId: "a1"}
}

func (s *supervisor) ListSessions(ctx context.Context, req *supervisorv1.ListSessionsRequest) (*supervisorv1.ListSessionsResponse, error) {
	s.note(ctx, req)
	return &supervisorv1.ListSessionsResponse{Sessions: []*supervisorv1.Session{session()}}, nil
}

func (s *supervisor) GetSession(ctx context.Context, req *supervisorv1.GetSessionRequest) (*supervisorv1.GetSessionResponse, error) {
	s.note(ctx, req)
	return &supervisorv1.GetSessionResponse{Session: session()}, nil
}

func (s *supervisor) NewSession(ctx context.Context, req *supervisorv1.NewSessionRequest) (*supervisorv1.NewSessionResponse, error) {
	s.note(ctx, req)
	if req.GetAgentId() == "locked" {
		st, err := status.New(codes.FailedPrecondition, "log in first").WithDetails(&supervisorv1.AgentError{Kind: supervisorv1.ErrorKind_ERROR_KIND_AUTH_REQUIRED, Code: -32000})
		if err != nil {
			return nil, err
		}
		return nil, st.Err()
	}
	return &supervisorv1.NewSessionResponse{Session: session()}, nil
}

func (s *supervisor) Prompt(req *supervisorv1.PromptRequest, stream grpc.ServerStreamingServer[supervisorv1.PromptResponse]) error {
	s.note(stream.Context(), req)
	if req.GetSessionId() == "busy" {
		return status.Error(codes.FailedPrecondition, "a turn is in progress")
	}
	if err := stream.Send(&supervisorv1.PromptResponse{Event: &supervisorv1.Event{Cursor: "c1", Event: &supervisorv1.Event_TurnStarted{TurnStarted: &supervisorv1.TurnStarted{}}}}); err != nil {
		return err
	}
	<-stream.Context().Done() // the gateway does not wait for the turn
	return nil
}

func (s *supervisor) CancelPrompt(ctx context.Context, req *supervisorv1.CancelPromptRequest) (*supervisorv1.CancelPromptResponse, error) {
	s.note(ctx, req)
	return &supervisorv1.CancelPromptResponse{TurnActive: true}, nil
}

func (s *supervisor) SetMode(ctx context.Context, req *supervisorv1.SetModeRequest) (*supervisorv1.SetModeResponse, error) {
	s.note(ctx, req)
	return &supervisorv1.SetModeResponse{Session: session()}, nil
}

func question() *supervisorv1.Approval {
	return &supervisorv1.Approval{Id: "q1", Permission: &supervisorv1.PermissionQuestion{Title: "Edit\u2028a", Options: []*supervisorv1.PermissionOption{{OptionId: "yes"}},
		Content: []*supervisorv1.ToolCallContent{{Item: &supervisorv1.ToolCallContent_Diff{Diff: &supervisorv1.Diff{Path: "/a", NewText: "b\nc"}}}}}}
}

func (s *supervisor) ListApprovals(ctx context.Context, req *supervisorv1.ListApprovalsRequest) (*supervisorv1.ListApprovalsResponse, error) {
	s.note(ctx, req)
	return &supervisorv1.ListApprovalsResponse{Approvals: []*supervisorv1.Approval{question()}}, nil
}

func (s *supervisor) AnswerApproval(ctx context.Context, req *supervisorv1.AnswerApprovalRequest) (*supervisorv1.AnswerApprovalResponse, error) {
	s.note(ctx, req)
	return &supervisorv1.AnswerApprovalResponse{Answer: &supervisorv1.ApprovalAnswer{Id: req.GetId(), Outcome: "allowed"}}, nil
}

func (s *supervisor) WatchSession(req *supervisorv1.WatchSessionRequest, stream grpc.ServerStreamingServer[supervisorv1.WatchSessionResponse]) error {
	if req.GetSessionId() == "none" {
		return status.Error(codes.NotFound, "session not found")
	}
	return s.tell(stream.Context(), req.GetCursor(), func(e *supervisorv1.Event) error { return stream.Send(&supervisorv1.WatchSessionResponse{Event: e}) })
}

func (s *supervisor) WatchEvents(req *supervisorv1.WatchEventsRequest, stream grpc.ServerStreamingServer[supervisorv1.WatchEventsResponse]) error {
	return s.tell(stream.Context(), req.GetCursor(), func(e *supervisorv1.Event) error { return stream.Send(&supervisorv1.WatchEventsResponse{Event: e}) })
}

func (s *supervisor) tell(ctx context.Context, cursor string, send func(*supervisorv1.Event) error) error {
	s.from <- cursor
	for {
		select {
		case e := <-s.events:
			if err := send(e); err != nil {
				return err
			}
			if s.lag.CompareAndSwap(true, false) {
				return status.Error(codes.ResourceExhausted, "too slow")
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// rig is the paths over HTTP.
type rig struct {
	*supervisor
	t       *testing.T
	calls   *services.Handler
	url     string
	role    atomic.Value
	revoked atomic.Bool
	doc     object
	schemas *jsonschema.Compiler
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, supervisor: &supervisor{url: "https://example.com/login", finish: make(chan struct{}), events: make(chan *supervisorv1.Event), from: make(chan string, 100)}}
	r.role.Store("operator")
	server := grpc.NewServer(grpc.WaitForHandlers(true))
	supervisorv1.RegisterAgentServiceServer(server, r.supervisor)
	supervisorv1.RegisterSessionServiceServer(server, r.supervisor)
	supervisorv1.RegisterSupervisorStateServiceServer(server, r.supervisor)
	supervisorv1.RegisterApprovalServiceServer(server, r.supervisor)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///"+listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	if r.calls, err = services.New(conn, log); err != nil {
		t.Fatal(err)
	}
	handler, err := New(r.calls, log)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	handler.Register(mux)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		role, _ := r.role.Load().(string)
		who := auth.Who{ID: "token 1", Name: "alice", Role: role, Stands: func() bool { return !r.revoked.Load() }}
		mux.ServeHTTP(w, req.WithContext(auth.With(req.Context(), who)))
	}))
	r.url = h.URL
	t.Cleanup(func() {
		r.calls.Close()
		handler.Close()
		h.CloseClientConnections()
		h.Close()
		http.DefaultClient.CloseIdleConnections()
		_ = conn.Close()
		server.Stop()
		<-served
	})
	if err := json.Unmarshal(description, &r.doc); err != nil {
		t.Fatal(err)
	}
	r.schemas = jsonschema.NewCompiler()
	r.schemas.DefaultDraft(jsonschema.Draft2020)
	r.schemas.AssertFormat()
	whole, err := jsonschema.UnmarshalJSON(strings.NewReader(string(description)))
	if err == nil {
		err = r.schemas.AddResource("openapi.json", whole)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// conforms checks JSON against a part of the description.
func (r *rig) conforms(what, pointer string, text []byte) {
	r.t.Helper()
	schema, err := r.schemas.Compile("openapi.json#" + pointer)
	if err != nil {
		r.t.Fatalf("%s: %v", what, err)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err == nil {
		err = schema.Validate(v)
	}
	if err != nil {
		r.t.Errorf("%s: %s is not as described: %v", what, text, err)
	}
}

func escaped(path string) string {
	return strings.ReplaceAll(strings.ReplaceAll(path, "~", "~0"), "/", "~1")
}

// do makes a request, and checks it and its answer against the description, by the path that stands there.
func (r *rig) do(verb, described, path, body string) (int, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), verb, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if verb == "POST" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	at := "/paths/" + escaped(described) + "/" + strings.ToLower(verb)
	good := res.StatusCode < 300
	if good && body != "" {
		r.conforms("the request "+verb+" "+path, at+"/requestBody/content/application~1json/schema", []byte(body))
	}
	answer := "/components/responses/Failure/content/application~1json/schema"
	if good {
		answer = fmt.Sprintf("%s/responses/%d/content/application~1json/schema", at, res.StatusCode)
	}
	r.conforms("the answer to "+verb+" "+path, answer, text)
	if kind := res.Header.Get("Content-Type"); kind != "application/json" {
		r.t.Errorf("%s %s: the type is %q", verb, path, kind)
	}
	return res.StatusCode, string(text)
}

func TestEachPathCallsItsMethodAndAnswersAsDescribed(t *testing.T) {
	r := newRig(t)
	served := map[string]bool{}
	for _, c := range []struct {
		verb, described, path, body string
		want                        proto.Message
	}{
		{"GET", "/agents", "/agents", "", &supervisorv1.ListAgentsRequest{}},
		{"POST", "/agents", "/agents", `{"preset": "claude", "cwd": "/work", "env": {"A": {"value": "b"}}}`,
			&supervisorv1.StartAgentRequest{Preset: "claude", Cwd: "/work", Env: map[string]*supervisorv1.EnvValue{"A": {Source: &supervisorv1.EnvValue_Value{Value: "b"}}}}},
		{"GET", "/agents/{agent_id}", "/agents/a1", "", &supervisorv1.GetAgentRequest{AgentId: "a1"}},
		{"DELETE", "/agents/{agent_id}", "/agents/a1", "", &supervisorv1.StopAgentRequest{AgentId: "a1"}},
		{"POST", "/agents/{agent_id}/login", "/agents/a1/login", `{"methodId": "key"}`, &supervisorv1.AuthenticateRequest{AgentId: "a1", MethodId: "key"}},
		{"GET", "/sessions", "/sessions", "", &supervisorv1.ListSessionsRequest{}},
		{"POST", "/sessions", "/sessions", `{"agentId": "a1", "cwd": "/work"}`, &supervisorv1.NewSessionRequest{AgentId: "a1", Cwd: "/work"}},
		{"GET", "/sessions/{session_id}", "/sessions/s%201%2Fx", "", &supervisorv1.GetSessionRequest{SessionId: "s 1/x"}},
		{"POST", "/sessions/{session_id}/prompt", "/sessions/s%201%2Fx/prompt", `{"text": "hello \"you\""}`,
			&supervisorv1.PromptRequest{SessionId: "s 1/x", Prompt: []*supervisorv1.ContentBlock{{Content: &supervisorv1.ContentBlock_Text{Text: &supervisorv1.TextContent{Text: `hello "you"`}}}}}},
		{"POST", "/sessions/{session_id}/prompt", "/sessions/s/prompt", `{"prompt": [{"image": {"data": "AAE=", "mimeType": "image/png"}}]}`,
			&supervisorv1.PromptRequest{SessionId: "s", Prompt: []*supervisorv1.ContentBlock{{Content: &supervisorv1.ContentBlock_Image{Image: &supervisorv1.ImageContent{Data: []byte{0, 1}, MimeType: "image/png"}}}}}},
		{"POST", "/sessions/{session_id}/cancel", "/sessions/s/cancel", "", &supervisorv1.CancelPromptRequest{SessionId: "s"}},
		{"POST", "/sessions/{session_id}/mode", "/sessions/s/mode", `{"modeId": "plan"}`, &supervisorv1.SetModeRequest{SessionId: "s", ModeId: "plan"}},
		{"GET", "/permissions", "/permissions?session=s", "", &supervisorv1.ListApprovalsRequest{SessionId: "s"}},
		{"POST", "/permissions/{id}", "/permissions/q1", `{"optionId": "yes"}`,
			&supervisorv1.AnswerApprovalRequest{Id: "q1", Answer: &supervisorv1.AnswerApprovalRequest_OptionId{OptionId: "yes"}}},
		{"POST", "/permissions/{id}", "/permissions/q1", `{"accept": {"name": "x"}}`,
			&supervisorv1.AnswerApprovalRequest{Id: "q1", Answer: &supervisorv1.AnswerApprovalRequest_Accept{Accept: `{"name": "x"}`}}},
		{"POST", "/permissions/{id}", "/permissions/q1", `{"decline": true}`,
			&supervisorv1.AnswerApprovalRequest{Id: "q1", Answer: &supervisorv1.AnswerApprovalRequest_Decline{Decline: true}}},
		{"GET", "/openapi.json", "/openapi.json", "", nil},
	} {
		served[c.verb+" "+c.described] = true
		status, text := r.do(c.verb, c.described, c.path, c.body)
		if status >= 300 {
			t.Errorf("%s %s: %d %s", c.verb, c.path, status, text)
			continue
		}
		if c.want == nil {
			continue
		}
		got, caller := r.last()
		if !proto.Equal(got, c.want) || got.ProtoReflect().Descriptor() != c.want.ProtoReflect().Descriptor() {
			t.Errorf("%s %s: asked for %v, want %v", c.verb, c.path, got, c.want)
		}
		if want := (delegation.Caller{Name: "alice", Role: "operator"}); caller != want {
			t.Errorf("%s %s: for %+v, want %+v", c.verb, c.path, caller, want)
		}
	}
	for path, verbs := range r.doc["paths"].(object) {
		for verb := range verbs.(object) {
			if at := strings.ToUpper(verb) + " " + path; !served[at] && path != "/events" {
				t.Errorf("%s is described and was not tried", at)
			}
		}
	}
}

func TestWhatIsWrongIsRefusedWithWords(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		verb, path, body string
		status           int
		want             string
	}{
		{"GET", "/agents/%ff", "", 400, "not UTF-8"},
		{"GET", "/agents/a%00b", "", 400, "NUL"},
		{"POST", "/sessions/s%00/prompt", "{}", 400, "NUL"},
		{"GET", "/events?session=%ff", "", 400, "not UTF-8"},
		{"GET", "/events?agent=%00", "", 400, "NUL"},
		{"GET", "/agents/x", "", 404, "agent not found"},
		{"POST", "/sessions", `{"agentId": "locked"}`, 409, `"kind":"ERROR_KIND_AUTH_REQUIRED"`},
		{"POST", "/sessions/busy/prompt", `{"text": "x"}`, 409, "a turn is in progress"},
		{"POST", "/sessions/s/prompt", `{"text": "x", "cancelOnDisconnect": true}`, 400, "/sessions/ID/cancel"},
		{"POST", "/sessions/s/prompt", `{"text": 1}`, 400, "body"},
		{"POST", "/sessions/s/prompt", `{"sessionId": "other"}`, 400, "the path says it already"},
		{"POST", "/sessions/s/prompt", `{"promt": []}`, 400, "promt"},
		{"POST", "/sessions/s/prompt", `[]`, 400, "no JSON object"},
		{"POST", "/sessions/s/prompt", `null`, 400, "no JSON object"},
		{"POST", "/sessions/s/prompt", `{`, 400, "no JSON object"},
		{"POST", "/sessions/s/prompt", `{"prompt": {}, "text": "x"}`, 400, "a list of blocks"},
		{"POST", "/permissions/q", `{"accept": {}, "decline": true}`, 400, "body"},
		{"GET", "/permissions?session=a&session=b", "", 400, "more than once"},
		{"POST", "/sessions/s/prompt", `{"text": "` + strings.Repeat("x", 17<<20) + `"}`, 413, "too long"},
	} {
		if status, text := r.do(c.verb, "", c.path, c.body); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s %s %.60s: %d %.200s, want %d %q", c.verb, c.path, c.body, status, text, c.status, c.want)
		}
	}
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"} {
		req, _ := http.NewRequestWithContext(t.Context(), "POST", r.url+"/agents", strings.NewReader(`{"preset": "claude"}`))
		req.Header["Content-Type"] = []string{kind}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusUnsupportedMediaType {
			t.Errorf("of the type %q: %d, want 415", kind, res.StatusCode)
		}
	}
}

func TestUnknownPathsAndMethodsAreAnsweredInJSON(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		verb, path string
		status     int
		want       string
	}{
		{"POST", "/permissions/python3-1/132.XXXX", 404, "a slash in an id must be written %2F, as in /permissions/python3-1%2F132.XXXX"},
		{"POST", "/permissions/a%20b/c", 404, "as in /permissions/a%20b%2Fc"},
		{"GET", "/sessions/s/x", 404, "/sessions/s/x is not found: GET /openapi.json shows the paths; a slash in an id must be written %2F"},
		{"GET", "/nothing%3Cb%3E", 404, "the path /nothing%3Cb%3E is not found: GET /openapi.json shows the paths"},
		{"GET", "/", 404, "the path / is not found"},
		{"GET", "/" + strings.Repeat("x", 5000), 404, "xxx is not found"},
		{"PUT", "/agents", 405, "/agents takes GET, POST, got PUT"},
		{"GET", "/permissions/q", 405, "/permissions/{id} takes POST, got GET"},
		{"DELETE", "/events", 405, "/events takes GET, got DELETE"},
		{"POST", "/openapi.json", 405, "/openapi.json takes GET, got POST"},
	} {
		status, text := r.do(c.verb, "", c.path, "")
		if status != c.status || !strings.Contains(text, c.want) || len(text) > 1000 {
			t.Errorf("%s %.60s: %d %.300s, want %d %q", c.verb, c.path, status, text, c.status, c.want)
		}
	}
	// The id that such an error shows is the one that was meant.
	if status, text := r.do("POST", "/permissions/{id}", "/permissions/python3-1%2F132.XXXX", `{"cancel": true}`); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	asked, _ := r.last()
	if got := asked.(*supervisorv1.AnswerApprovalRequest).GetId(); got != "python3-1/132.XXXX" {
		t.Errorf("answered the question %q", got)
	}
}

func TestRolesMayWhatTheirMethodsTake(t *testing.T) {
	r := newRig(t)
	for _, role := range []string{"", "viewer", "approver", "operator", "gateway"} {
		r.role.Store(role)
		for _, route := range routes {
			path := inPath.ReplaceAllString(route.path, "a1")
			body := ""
			if route.method == "AgentService.Authenticate" {
				body = `{"methodId": "key"}`
			}
			code, text := r.do(route.verb, route.path, path, body)
			may := role == "operator" || slices.Contains([]string{"viewer", "approver"}, role) && route.verb == "GET" || role == "approver" && route.method == "ApprovalService.AnswerApproval"
			if got := code != http.StatusForbidden; got != may {
				t.Errorf("%q and %s %s: %d %s, want %v", role, route.verb, path, code, text, may)
			}
		}
		if role == "" || role == "gateway" {
			if code, _ := r.do("GET", "/events", "/events", ""); code != http.StatusForbidden {
				t.Errorf("%q follows events: %d", role, code)
			}
		}
	}
}

// told is an event of the stream.
type told struct{ id, name, data string }

// follow reads a stream of events.
func (r *rig) follow(query, last string) (next func() told, cancel func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", r.url+"/events"+query, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	if kind := res.Header.Get("Content-Type"); res.StatusCode != 200 || kind != "text/event-stream" {
		r.t.Fatalf("%d, %s", res.StatusCode, kind)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	r.t.Cleanup(func() { cancel(); _ = res.Body.Close() })
	return func() (e told) {
		for lines.Scan() {
			key, value, _ := strings.Cut(lines.Text(), ": ")
			switch key {
			case "id":
				e.id = value
			case "event":
				e.name = value
			case "data":
				e.data += value
			case "":
				if e.name != "" {
					return e
				}
			}
		}
		return told{}
	}, cancel
}

func TestEventsHaveTheirNames(t *testing.T) {
	r := newRig(t)
	next, cancel := r.follow("?session=s", "c0")
	if from := <-r.from; from != "c0" {
		t.Errorf("followed from %q", from)
	}
	done, failed, running := "completed", "failed", "in_progress"
	say := &supervisorv1.MessageChunk{Content: &supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Text{Text: &supervisorv1.TextContent{Text: "a\r\nid: forged\n\nevent: auth.complete\u2028"}}}}
	for i, c := range []struct {
		event *supervisorv1.Event
		want  string
	}{
		{&supervisorv1.Event{Event: &supervisorv1.Event_AgentMessage{AgentMessage: say}}, "message.part.updated"},
		{&supervisorv1.Event{Event: &supervisorv1.Event_AgentThought{AgentThought: say}}, "message.part.updated"},
		{&supervisorv1.Event{Event: &supervisorv1.Event_UserMessage{UserMessage: say}}, "message.part.updated"},
		{&supervisorv1.Event{Event: &supervisorv1.Event_ToolCall{ToolCall: &supervisorv1.ToolCallReport{ToolCallId: "t"}}}, "tool.execute"},
		{&supervisorv1.Event{Event: &supervisorv1.Event_ToolCallUpdate{ToolCallUpdate: &supervisorv1.ToolCallReport{ToolCallId: "t", Status: &running}}}, "tool.execute"},
		{&supervisorv1.Event{Event: &supervisorv1.Event_ToolCallUpdate{ToolCallUpdate: &supervisorv1.ToolCallReport{ToolCallId: "t", Status: &done}}}, "tool.result"},
		{&supervisorv1.Event{Event: &supervisorv1.Event_ToolCall{ToolCall: &supervisorv1.ToolCallReport{ToolCallId: "t", Status: &failed}}}, "tool.result"},
		{&supervisorv1.Event{Event: &supervisorv1.Event_QuestionAsked{QuestionAsked: question()}}, "permission.request"},
		{&supervisorv1.Event{Event: &supervisorv1.Event_QuestionAnswered{QuestionAnswered: &supervisorv1.ApprovalAnswer{Id: "q1"}}}, "session.updated"},
		{&supervisorv1.Event{Event: &supervisorv1.Event_TurnEnded{TurnEnded: &supervisorv1.TurnEnded{StopReason: "end_turn"}}}, "session.updated"},
		{&supervisorv1.Event{}, "session.updated"},
	} {
		c.event.Cursor, c.event.Raw, c.event.SessionId = fmt.Sprintf("c%d", i+1), `{"secret":true}`, "s"
		r.events <- c.event
		got := next()
		if got.id != c.event.GetCursor() || got.name != c.want || strings.Contains(got.data, "secret") {
			t.Errorf("%v came as %+v, want %s", c.event, got, c.want)
		}
		r.conforms(c.want, "/components/schemas/Event", []byte(got.data))
		if !slices.Contains(eventNames(), got.name) {
			t.Errorf("%s is not described", got.name)
		}
	}
	cancel()
}

func TestAStreamGoesOnWhereItFellBehind(t *testing.T) {
	r := newRig(t)
	next, _ := r.follow("?session=s", "")
	<-r.from
	r.lag.Store(true)
	r.events <- &supervisorv1.Event{Cursor: "c1"}
	if from := <-r.from; from != "c1" {
		t.Errorf("it goes on after %q", from)
	}
	r.events <- &supervisorv1.Event{Cursor: "c2"}
	if a, b := next(), next(); a.id != "c1" || b.id != "c2" {
		t.Errorf("got %+v, %+v", a, b)
	}
}

func TestAStreamSaysWhyItEnds(t *testing.T) {
	r := newRig(t)
	next, _ := r.follow("?session=none", "")
	if got := next(); got.name != "stream.failed" || !strings.Contains(got.data, `"not_found"`) {
		t.Errorf("an unknown session: %+v", got)
	} else {
		r.conforms("stream.failed", "/components/schemas/Failure", []byte(got.data))
	}
	next, _ = r.follow("?agent=a1", "")
	<-r.from
	r.events <- &supervisorv1.Event{Cursor: "c1", AgentId: "other"}
	r.events <- &supervisorv1.Event{Cursor: "c2", AgentId: "a1"}
	if got := next(); got.id != "c2" {
		t.Errorf("of one agent: %+v", got)
	}
	r.revoked.Store(true)
	r.calls.Sweep()
	if got := next(); got.name != "stream.failed" || !strings.Contains(got.data, `"unauthenticated"`) {
		t.Errorf("revoked: %+v", got)
	}
}

func TestALoginAnswersWithItsPageAndIsCompleteLater(t *testing.T) {
	r := newRig(t)
	next, _ := r.follow("?session=s", "")
	<-r.from
	status, text := r.do("POST", "/agents/{agent_id}/login", "/agents/a1/login", `{"methodId": "browser"}`)
	if status != 200 || !strings.Contains(text, `"url":"https://example.com/login"`) || !strings.Contains(text, `"done":false`) {
		t.Fatalf("%d %s", status, text)
	}
	want := &supervisorv1.AnswerApprovalRequest{Id: "q1", Answer: &supervisorv1.AnswerApprovalRequest_Accept{Accept: "{}"}}
	if got, _ := r.last(); !proto.Equal(got, want) {
		t.Errorf("the page was answered with %v, want %v", got, want)
	}
	close(r.finish)
	got := next()
	if got.name != "auth.complete" || got.data != `{"agentId":"a1","methodId":"browser"}` || got.id != "" {
		t.Errorf("got %+v", got)
	}
	r.conforms("auth.complete", "/components/schemas/LoginCompleted", []byte(got.data))
}

func TestLogin_DoesNotAnswerAPageThatIsNoQuestion(t *testing.T) {
	r := newRig(t)
	next, _ := r.follow("?session=s", "")
	<-r.from
	status, text := r.do("POST", "/agents/{agent_id}/login", "/agents/a1/login", `{"methodId": "older"}`)
	if status != 200 || !strings.Contains(text, `"url":"https://example.com/login"`) || !strings.Contains(text, `"done":false`) {
		t.Fatalf("%d %s", status, text)
	}
	if got, _ := r.last(); got.ProtoReflect().Descriptor().Name() != "AuthenticateRequest" {
		t.Errorf("the supervisor was called with %v after the login began", got)
	}
	close(r.finish)
	if got := next(); got.name != "auth.complete" {
		t.Errorf("got %+v", got)
	}
}

func TestAPageThatIsNoPageIsNotShown(t *testing.T) {
	r := newRig(t)
	for _, page := range []string{"javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "https://", "/relative", "", "HTTPS://\x00"} {
		r.supervisor.url = page
		status, text := r.do("POST", "/agents/{agent_id}/login", "/agents/a1/login", "")
		if status != http.StatusConflict || strings.Contains(text, `"url"`) {
			t.Errorf("%q: %d %s", page, status, text)
		}
		want := &supervisorv1.AnswerApprovalRequest{Id: "q1", Answer: &supervisorv1.AnswerApprovalRequest_Cancel{Cancel: true}}
		if got, _ := r.last(); !proto.Equal(got, want) {
			t.Errorf("%q was answered with %v, want %v", page, got, want)
		}
	}
}

func TestALoginEndsWithItsToken(t *testing.T) {
	r := newRig(t)
	next, _ := r.follow("", "")
	<-r.from
	if status, text := r.do("POST", "/agents/{agent_id}/login", "/agents/a1/login", ""); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	r.revoked.Store(true)
	r.calls.Sweep()
	for got := next(); got.name != ""; got = next() {
		if got.name == "auth.complete" && !strings.Contains(got.data, "error") {
			t.Errorf("got %+v", got)
		}
	}
}
