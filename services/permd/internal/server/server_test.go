package server_test

import (
	"io"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	"github.com/acphost/acphost/sdk/conformance"
	"github.com/acphost/acphost/sdk/handler"
	"github.com/acphost/acphost/sdk/handlertest"
	"github.com/acphost/acphost/services/permd/internal/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func permd() handler.Handler {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	s := server.New(log)
	return handler.Handler{Name: "permd", Version: "test", Register: s.Register,
		Configure: s.Configure, Logger: log}
}

func TestPermd_Conforms(t *testing.T) { handlertest.Run(t, conformance.KindPermission, permd()) }

func ruleFile(t *testing.T, rules string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func configure(t *testing.T, policy string) *pluginv1.ConfigureRequest {
	t.Helper()
	settings, err := structpb.NewStruct(map[string]any{"policy": policy})
	if err != nil {
		t.Fatal(err)
	}
	return &pluginv1.ConfigureRequest{Settings: settings}
}

func TestConfigure_LoadsRuleFile(t *testing.T) {
	conn := handlertest.Serve(t, permd())
	plugin, permissions := pluginv1.NewPluginServiceClient(conn), permissionv1.NewPermissionServiceClient(conn)
	decide := func() *permissionv1.DecideResponse {
		t.Helper()
		got, err := permissions.Decide(t.Context(), &permissionv1.DecideRequest{Action: &permissionv1.Action{Kind: "fs.read",
			Roots: []string{"/ws"}, Paths: []*permissionv1.PathAccess{{Path: "/ws/a", ResolvedPath: "/ws/a", InsideRoots: true}}}})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := decide(); got.GetVerdict() != permissionv1.Verdict_VERDICT_ASK || got.GetReason() != "no policy is set" || !got.GetGrantable() {
		t.Errorf("before a policy is set: %v", got)
	}

	answer, err := plugin.Configure(t.Context(), configure(t, ruleFile(t, "version: 1\nrules: [{id: no, on: [fs.read], effect: deny}]")))
	if err != nil {
		t.Fatal(err)
	}
	if notes := strings.Join(answer.GetNotes(), "\n"); !strings.Contains(notes, "rules in force: 1") {
		t.Errorf("got the notes %q", notes)
	}
	if got := decide(); got.GetVerdict() != permissionv1.Verdict_VERDICT_DENY || got.GetRule() != "no" {
		t.Errorf("under the policy: %v", got)
	}

	broken := configure(t, ruleFile(t, "version: 1\nrules: [{id: yes, pth: [/x], effect: allow},\n{id: 1, effect: ask}]"))
	_, err = plugin.Configure(t.Context(), broken)
	if status.Code(err) != codes.InvalidArgument ||
		!strings.Contains(err.Error(), `rules.yaml:2:19: rules[0].pth: expected a known field`) ||
		!strings.Contains(err.Error(), `rules.yaml:3:6: rules[1].id: expected a string`) {
		t.Errorf("a broken file: got %v", err)
	}
	if got := decide(); got.GetRule() != "no" {
		t.Errorf("after a broken file: %v", got)
	}

	check := configure(t, ruleFile(t, "version: 1\nrules: [{id: yes, on: [fs.read], effect: allow}]"))
	check.ValidateOnly = true
	if _, err := plugin.Configure(t.Context(), check); err != nil {
		t.Error(err)
	}
	if got := decide(); got.GetRule() != "no" {
		t.Errorf("after a check: %v", got)
	}

	answer, err = plugin.Configure(t.Context(), &pluginv1.ConfigureRequest{Host: &pluginv1.Host{ProtectedPaths: []string{"/ws/a"}}})
	if err != nil || !strings.Contains(strings.Join(answer.GetNotes(), "\n"), "no policy is set") {
		t.Errorf("no settings: got %v, %v", answer, err)
	}
	if got := decide(); got.GetVerdict() != permissionv1.Verdict_VERDICT_DENY || got.GetRule() != "acphost/protected" {
		t.Errorf("a protected path: %v", got)
	}
}

func TestConfigure_RejectsMissingFile(t *testing.T) {
	plugin := pluginv1.NewPluginServiceClient(handlertest.Serve(t, permd()))
	for name, policy := range map[string]string{"missing": "/nowhere/rules.yaml", "relative": "rules.yaml"} {
		if _, err := plugin.Configure(t.Context(), configure(t, policy)); status.Code(err) != codes.InvalidArgument ||
			!strings.Contains(err.Error(), "policy") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestReadyPolicies_LoadWithoutHOME(t *testing.T) {
	if u, err := user.LookupId(strconv.Itoa(os.Getuid())); err != nil || !filepath.IsAbs(u.HomeDir) {
		t.Skipf("the system does not know this user's home directory: %v", err)
	}
	t.Setenv("HOME", "")
	plugin := pluginv1.NewPluginServiceClient(handlertest.Serve(t, permd()))
	for _, name := range []string{"ask", "headless", "readonly", "workspace"} {
		if _, err := plugin.Configure(t.Context(), configure(t, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnswered_IsAccepted(t *testing.T) {
	permissions := permissionv1.NewPermissionServiceClient(handlertest.Serve(t, permd()))
	if _, err := permissions.Answered(t.Context(), &permissionv1.AnsweredRequest{Outcome: "allow_once"}); err != nil {
		t.Error(err)
	}
}
