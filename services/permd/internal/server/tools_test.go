package server

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	"github.com/acphost/acphost/sdk/handler"
	"github.com/acphost/acphost/sdk/handlertest"

	"github.com/acphost/acphost/services/permd/internal/policy"
)

// serveTools serves both services; the tools go by the rule files that are in force for decisions.
func serveTools(t *testing.T) *grpc.ClientConn {
	t.Helper()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	s := New(log)
	return handlertest.Serve(t, handler.Handler{Name: "permd", Version: "test", Logger: log,
		Configure: s.Configure, Register: s.Register})
}

func readOf(name string) *permissionv1.Action {
	return &permissionv1.Action{Kind: "fs.read", Roots: []string{"/ws"}, Door: permissionv1.Door_DOOR_CALL,
		Paths: []*permissionv1.PathAccess{{Path: name, ResolvedPath: name, InsideRoots: true}}}
}

func TestExplain_UsesFilesOfRequest(t *testing.T) {
	tools := permissionv1.NewPolicyServiceClient(serveTools(t))
	req := &permissionv1.ExplainRequest{Action: readOf("/ws/.env"), Files: []*permissionv1.PolicyFile{
		{Name: "admin.yaml", Layer: permissionv1.Layer_LAYER_ADMIN, Content: []byte("version: 1\nrules:\n- {id: secrets, effect: deny, path: ['**/.env']}\n")},
		{Name: "guest.yaml", Layer: permissionv1.Layer_LAYER_WORKSPACE, Content: []byte("version: 1\nrules:\n\n- {id: all, effect: allow, on: ['fs.*']}\n")},
	}}
	for range 2 { // the second one by what is kept of the first
		got, err := tools.Explain(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if d := got.GetDecision(); d.GetVerdict() != permissionv1.Verdict_VERDICT_DENY || d.GetRule() != "secrets" {
			t.Errorf("got the decision %v", d)
		}
		want := []*permissionv1.Considered{
			{Rule: "secrets", Effect: "deny", File: "admin.yaml", Line: 3, Matched: "yes", Why: "path /ws/.env matches **/.env"},
			{Rule: "all", Effect: "allow", File: "guest.yaml", Line: 4, Matched: "yes", Why: "on is fs.read; does not count: the workspace is not trusted"},
		}
		for i, c := range got.GetConsidered() {
			if i >= len(want) || !proto.Equal(c, want[i]) {
				t.Errorf("got %v, want %v", c, want)
			}
		}
	}
}

func TestExplain_RejectsInvalidFile(t *testing.T) {
	tools := permissionv1.NewPolicyServiceClient(serveTools(t))
	_, err := tools.Explain(t.Context(), &permissionv1.ExplainRequest{Action: readOf("/ws/a"), Files: []*permissionv1.PolicyFile{
		{Name: "r.yaml", Content: []byte("version: 1\nrules: [{id: a, pth: [/x], effect: deny}]")}}})
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), `r.yaml:2:17: rules[0].pth: expected a known field`) {
		t.Errorf("got %v", err)
	}
}

func TestExplain_UsesFilesInEffect(t *testing.T) {
	conn := serveTools(t)
	tools := permissionv1.NewPolicyServiceClient(conn)
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte("version: 1\nrules: [{id: no, effect: deny, on: [fs.read]}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	settings, err := structpb.NewStruct(map[string]any{"policy": file})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pluginv1.NewPluginServiceClient(conn).Configure(t.Context(), &pluginv1.ConfigureRequest{Settings: settings}); err != nil {
		t.Fatal(err)
	}
	action := readOf("/ws/a")
	got, err := tools.Explain(t.Context(), &permissionv1.ExplainRequest{Action: action})
	if err != nil {
		t.Fatal(err)
	}
	decided, err := permissionv1.NewPermissionServiceClient(conn).Decide(t.Context(), &permissionv1.DecideRequest{Action: action})
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(got.GetDecision(), decided) || decided.GetRule() != "no" {
		t.Errorf("explained as %v, decided as %v", got.GetDecision(), decided)
	}
	if c := got.GetConsidered(); len(c) != 1 || c[0].GetFile() != file || c[0].GetLine() != 2 {
		t.Errorf("got %v", c)
	}
}

func TestCheck_ReportsMistakes(t *testing.T) {
	tools := permissionv1.NewPolicyServiceClient(serveTools(t))
	check := func(rules string) *permissionv1.CheckResponse {
		t.Helper()
		got, err := tools.Check(t.Context(), &permissionv1.CheckRequest{File: &permissionv1.PolicyFile{Name: "r.yaml", Content: []byte(rules)}})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	got := check("version: 1\nrules:\n- {id: a, effect: deny, path: [x]}")
	want := &permissionv1.Finding{Severity: permissionv1.Severity_SEVERITY_ERROR, Line: 3, Column: 32, Rule: "a",
		Message: `rules[0].path[0]: expected an absolute glob, or one with ${root} or ~ in front, got "x"`}
	if len(got.GetFindings()) != 1 || !proto.Equal(got.GetFindings()[0], want) || got.GetPolicyDigest() != "" {
		t.Errorf("got %v, want %v", got, want)
	}
	got = check("version: 1\nrules:\n- {id: a, effect: deny, path: [/x], tests: {match: [{path: /x}]}}")
	if len(got.GetFindings()) != 0 || got.GetRules() != 1 || got.GetTests() != 1 || !strings.HasPrefix(got.GetPolicyDigest(), "sha256:") {
		t.Errorf("got %v", got)
	}
}

func TestParsedFiles_AreLimited(t *testing.T) {
	kept := newParsed()
	file := func(i int) *permissionv1.PolicyFile {
		return &permissionv1.PolicyFile{Name: "r.yaml", Content: fmt.Appendf(nil, "version: 1\ndescription: file %d\n", i)}
	}
	load := func(i int) *policy.Policy {
		t.Helper()
		p, err := kept.policy(file(i))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first, second := load(0), load(1)
	for i := range maxParsed {
		load(i + 2)
		if got := load(0); got != first {
			t.Fatalf("the file that is used all the time was parsed again after %d others", i+1)
		}
	}
	if got := load(1); got == second {
		t.Error("the file that was not used for long is still kept")
	}
	if len(kept.files) != maxParsed || len(kept.order) != maxParsed {
		t.Errorf("got %d files, %d in order, want %d", len(kept.files), len(kept.order), maxParsed)
	}
	if _, err := kept.policy(&permissionv1.PolicyFile{Content: []byte("x")}); err == nil || len(kept.files) != maxParsed {
		t.Errorf("a file that does not load: got %v, %d files", err, len(kept.files))
	}
}
