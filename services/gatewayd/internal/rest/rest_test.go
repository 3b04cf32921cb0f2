package rest

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/delegation"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func TestRoutes_CallMethodAsDescribed(t *testing.T) {
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

func TestRoutes_RejectInvalidRequests(t *testing.T) {
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

func TestRoutes_UnknownPathsAnswerJSON(t *testing.T) {
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

func TestRoutes_RequireRoleOfMethod(t *testing.T) {
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
