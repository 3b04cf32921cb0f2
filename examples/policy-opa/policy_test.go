package main

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// opa is a server that answers the data API with what decide returns for an input. "" leaves the decision undefined.
func opa(t *testing.T, decide func(input map[string]any) string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Input map[string]any `json:"input"`
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Input == nil || r.Method != http.MethodPost ||
			r.URL.Path != "/v1/data/acphost/decision" || r.Header.Get("Content-Type") != "application/json" {
			http.Error(w, `{"code": "invalid_parameter"}`, http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if result := decide(body.Input); result != "" {
			_, _ = w.Write([]byte(`{"decision_id": "1", "result": ` + result + `}`))
			return
		}
		_, _ = w.Write([]byte(`{}`))
	}))
	t.Cleanup(server.Close)
	return server
}

// asking is a policy that asks server.
func asking(t *testing.T, server *httptest.Server, more map[string]any) *policy {
	t.Helper()
	p := newPolicy()
	t.Cleanup(p.client.close)
	given := map[string]any{"url": server.URL + "/v1/data/acphost/decision"}
	maps.Copy(given, more)
	if err := configure(t, p, given); err != nil {
		t.Fatal(err)
	}
	return p
}

func configure(t *testing.T, p *policy, given map[string]any) error {
	t.Helper()
	s, err := structpb.NewStruct(given)
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.configure(t.Context(), &pluginv1.ConfigureRequest{Settings: s})
	return err
}

var action = &permissionv1.Action{Kind: "terminal.create", Agent: "agent", Roots: []string{"/w"}, Command: &permissionv1.Command{
	Text: "git status", SubCommands: []*permissionv1.SubCommand{{Argv: []string{"git", "status"}}}}}

func TestDecision_FromAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		result string
		want   *permissionv1.DecideResponse
	}{
		"allow": {`{"verdict": "allow"}`, &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_ALLOW}},
		"deny, explained": {`{"verdict": "deny", "rule": "r", "reason": "why"}`,
			&permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_DENY, Rule: "r", Reason: "why"}},
		"ask": {`{"verdict": "ask", "grantable": true, "unattended": "allow"}`, &permissionv1.DecideResponse{
			Verdict: permissionv1.Verdict_VERDICT_ASK, Grantable: true, Unattended: permissionv1.Verdict_VERDICT_ALLOW}},
		"what is denied cannot be granted": {`{"verdict": "deny", "grantable": true}`,
			&permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_DENY}},
	} {
		t.Run(name, func(t *testing.T) {
			p := asking(t, opa(t, func(map[string]any) string { return c.result }), nil)
			got, err := p.Decide(t.Context(), &permissionv1.DecideRequest{Action: action})
			if err != nil || !proto.Equal(got, c.want) {
				t.Errorf("Decide = %v, %v; want %v", got, err, c.want)
			}
		})
	}
}

func TestDecision_RejectsOtherAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		result string
		code   codes.Code
	}{
		"undefined":                     {"", codes.Internal},
		"null":                          {"null", codes.Internal},
		"no verdict":                    {`{}`, codes.Internal},
		"an invalid verdict":            {`{"verdict": "maybe"}`, codes.Internal},
		"a verdict in capitals":         {`{"verdict": "ALLOW"}`, codes.Internal},
		"a boolean":                     {`true`, codes.Internal},
		"a name that is misspelt":       {`{"verdict": "ask", "unatended": "deny"}`, codes.Internal},
		"unattended that asks":          {`{"verdict": "ask", "unattended": "ask"}`, codes.Internal},
		"a verdict of the wrong type":   {`{"verdict": true}`, codes.Internal},
		"JSON that is broken":           {`{"verdict": `, codes.Internal},
		"an answer without end, almost": {`"` + strings.Repeat("x", maxAnswer) + `"`, codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			p := asking(t, opa(t, func(map[string]any) string { return c.result }), nil)
			got, err := p.Decide(t.Context(), &permissionv1.DecideRequest{Action: action})
			if status.Code(err) != c.code || got != nil {
				t.Errorf("Decide = %v, %v; want %v", got, err, c.code)
			}
		})
	}
}

func TestRequest_ServerFailureIsError(t *testing.T) {
	var elsewhere *httptest.Server
	elsewhere = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server notice that the caller has left
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, elsewhere.URL+"/allows", http.StatusTemporaryRedirect)
		case "/allows":
			_, _ = w.Write([]byte(`{"result": {"verdict": "allow"}}`))
		case "/hangs":
			<-r.Context().Done()
		default:
			http.Error(w, `{"code": "internal_error"}`, http.StatusInternalServerError)
		}
	}))
	defer elsewhere.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	for address, code := range map[string]codes.Code{
		elsewhere.URL + "/allows": codes.OK,
		elsewhere.URL + "/moved":  codes.Unavailable,
		elsewhere.URL + "/fails":  codes.Unavailable,
		elsewhere.URL + "/hangs":  codes.DeadlineExceeded,
		gone.URL:                  codes.Unavailable,
	} {
		p := newPolicy()
		if err := configure(t, p, map[string]any{"url": address, "timeout_ms": 200}); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Decide(t.Context(), &permissionv1.DecideRequest{Action: action}); status.Code(err) != code {
			t.Errorf("%s: Decide = %v, want %v", address, err, code)
		}
		p.client.close()
	}
}

func TestRequest_CancelledByCaller(t *testing.T) {
	asked, givenUp := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body json.RawMessage
		_ = json.NewDecoder(r.Body).Decode(&body)
		close(asked)
		<-r.Context().Done()
		close(givenUp)
	}))
	defer server.Close()
	p := asking(t, server, nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	if _, err := p.Decide(ctx, &permissionv1.DecideRequest{Action: action}); status.Code(err) != codes.Canceled {
		t.Errorf("Decide = %v, want CANCELLED", err)
	}
	<-givenUp
}

func TestRequest_HasWholeAction(t *testing.T) {
	got := make(chan map[string]any, 1)
	p := asking(t, opa(t, func(input map[string]any) string {
		got <- input
		return `{"verdict": "ask"}`
	}), nil)
	if _, err := p.Decide(t.Context(), &permissionv1.DecideRequest{Action: action}); err != nil {
		t.Fatal(err)
	}
	input := <-got
	command, _ := input["command"].(map[string]any)
	subs, _ := command["sub_commands"].([]any)
	if input["kind"] != "terminal.create" || input["raw_input"] != "" || len(subs) != 1 {
		t.Errorf("the input is %v", input)
	}
	if first, _ := subs[0].(map[string]any); first["dynamic"] != false {
		t.Errorf("a false member is missing: %v", first)
	}
	if paths, ok := input["paths"].([]any); !ok || len(paths) != 0 {
		t.Errorf("an empty member is missing: %v", input["paths"])
	}
}

func TestToken_IsSentAndNotLogged(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("secret-token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret-token" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`{"result": {"verdict": "allow"}}`))
	}))
	defer server.Close()
	if _, err := asking(t, server, map[string]any{"token_file": file}).Decide(t.Context(), &permissionv1.DecideRequest{}); err != nil {
		t.Errorf("with the token: %v", err)
	}
	_, err := asking(t, server, nil).Decide(t.Context(), &permissionv1.DecideRequest{})
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "401") {
		t.Errorf("without it: %v", err)
	}
}

func TestConfigure_RejectsInvalidAndKeepsOld(t *testing.T) {
	p := asking(t, opa(t, func(map[string]any) string { return `{"verdict": "allow"}` }), nil)
	for want, bad := range map[string]map[string]any{
		"url":        {"url": "localhost:8181"},
		"password":   {"url": "http://me:secret@localhost/"},
		"timeout_ms": {"timeout_ms": 5001},
		"token_file": {"token_file": filepath.Join(t.TempDir(), "nothing")},
		"uri":        {"uri": "http://localhost/"},
	} {
		err := configure(t, p, bad)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("Configure(%v) = %v, want INVALID_ARGUMENT that names %s", bad, err, want)
		}
	}
	if got, err := p.Decide(t.Context(), &permissionv1.DecideRequest{Action: action}); err != nil ||
		got.GetVerdict() != permissionv1.Verdict_VERDICT_ALLOW {
		t.Errorf("Decide = %v, %v; want allow from the old server", got, err)
	}
}
