package rest

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	_ "github.com/acphost/acphost/internal/testkit" // -update
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/gatewayd/internal/auth"
	"github.com/acphost/acphost/services/gatewayd/internal/services"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
		caller := auth.Caller{ID: "token 1", Name: "alice", Role: role, Valid: func() bool { return !r.revoked.Load() }}
		mux.ServeHTTP(w, req.WithContext(auth.With(req.Context(), caller)))
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

// do sends a request, and checks the request and the response against the description of the path described.
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
