package grants

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/fault"
	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/commandtest"
	"github.com/acphost/acphost/services/supervisor/internal/policy/grant"
)

// rememberer is a supervisor with its own grants.
type rememberer struct {
	commandtest.State
	commandtest.Control
	store *grant.Store
}

func (r *rememberer) ListGrants(context.Context, *supervisorv1.ListGrantsRequest) (*supervisorv1.ListGrantsResponse, error) {
	return &supervisorv1.ListGrantsResponse{Grants: r.store.List()}, nil
}

func (r *rememberer) RevokeGrants(_ context.Context, req *supervisorv1.RevokeGrantsRequest) (*supervisorv1.RevokeGrantsResponse, error) {
	revoked, err := r.store.Revoke(req.GetIds()...)
	if err != nil {
		return nil, fault.New(fault.NotFound, "not there: %w", err)
	}
	return &supervisorv1.RevokeGrantsResponse{Grants: revoked}, nil
}

// remembering is an environment with a running supervisor that has two grants: one in the file, whose id is first, and
// one for a session.
func remembering(t *testing.T) (env map[string]string, r *rememberer, first, second string) {
	t.Helper()
	dir := testkit.ShortDir(t)
	env = map[string]string{"XDG_RUNTIME_DIR": dir, "TMPDIR": dir, "XDG_STATE_HOME": dir, "XDG_CONFIG_HOME": dir}
	store, err := grant.Open(grant.Options{File: filepath.Join(dir, "acphost", "grants.jsonl")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	kept := &supervisorv1.Grant{Scope: supervisorv1.GrantScope_GRANT_SCOPE_WORKSPACE, Workspace: "/w\tx", Agent: "claude",
		Action: "run", Argv: []string{"git", "status"}, Prefix: true, GrantedBy: "front"}
	brief := &supervisorv1.Grant{Scope: supervisorv1.GrantScope_GRANT_SCOPE_SESSION, Action: "write", Path: "/w/a.go", GrantedBy: "front"}
	for _, g := range []*supervisorv1.Grant{kept, brief} {
		if err := store.Add(grant.Where{Scope: "s"}, g); err != nil {
			t.Fatal(err)
		}
	}
	r = &rememberer{store: store}
	server, err := admin.Start(admin.Options{State: r, Control: r, Env: func(name string) string { return env[name] }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return env, r, kept.GetId(), brief.GetId()
}

func TestGrantsList_ReadsFileAndSupervisors(t *testing.T) {
	env, _, first, second := remembering(t)
	status, stdout, stderr := (&commandtest.Call{Env: env}).Run(t, New, "grants", "list")
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if status != 0 || stderr != "" || len(lines) != 3 {
		t.Fatalf("status %d, %q, %q", status, stdout, stderr)
	}
	ends := time.Now().AddDate(0, 0, grant.DefaultDays).Format(time.DateOnly)
	for i, want := range [][]string{{"ID", "WHAT"}, {first, ends, "/w x", "claude", "any `git status …`"},
		{second, "with its session", "session", "any", "writing /w/a.go"}} {
		for _, w := range want {
			if !strings.Contains(lines[i], w) {
				t.Errorf("%q is not in %q", w, lines[i])
			}
		}
	}
	status, stdout, _ = (&commandtest.Call{Env: env}).Run(t, New, "grants", "list", "--json")
	list, err := testkit.JSONLines[map[string]any]([]byte(stdout))
	if err != nil || status != 0 || len(list) != 2 || list[0]["granted_by"] != "front" {
		t.Errorf("status %d, %v: %s", status, err, stdout)
	}
	status, stdout, _ = (&commandtest.Call{Env: env}).Run(t, New, "grants", "export")
	if lines := strings.Split(strings.TrimSpace(stdout), "\n"); status != 0 || len(lines) != 2 || !json.Valid([]byte(lines[0])) {
		t.Errorf("status %d: %s", status, stdout)
	}
}

func TestGrantsList_Empty(t *testing.T) {
	dir := t.TempDir()
	env := map[string]string{"XDG_RUNTIME_DIR": dir, "TMPDIR": dir, "XDG_STATE_HOME": dir}
	if status, stdout, stderr := (&commandtest.Call{Env: env}).Run(t, New, "grants", "list"); status != 0 || stdout != "" || stderr != "no answer is remembered\n" {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
	if status, stdout, _ := (&commandtest.Call{Env: env}).Run(t, New, "grants", "list", "--json"); status != 0 || stdout != "" {
		t.Errorf("status %d, %q", status, stdout)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("looking made %v (%v)", entries, err)
	}
}

func TestGrantsRevoke_InFileAndSupervisor(t *testing.T) {
	env, r, first, second := remembering(t)
	status, _, stderr := (&commandtest.Call{Env: env}).Run(t, New, "grants", "revoke", first, "nosuchgrant0")
	if status != command.StatusFailed || !strings.Contains(stderr, "nosuchgrant0") || len(r.store.List()) != 2 {
		t.Errorf("status %d, %q; %v are left", status, stderr, r.store.List())
	}
	status, stdout, stderr := (&commandtest.Call{Env: env}).Run(t, New, "grants", "revoke", first, second, first)
	if status != 0 || stderr != "" || strings.Count(stdout, "revoked ") != 2 || len(r.store.List()) != 0 {
		t.Errorf("status %d, %q, %q; %v are left", status, stdout, stderr, r.store.List())
	}
	if status, _, _ := (&commandtest.Call{Env: env}).Run(t, New, "grants", "revoke"); status != command.StatusUsage {
		t.Errorf("without an id: status %d", status)
	}
}

func TestGrantsRevoke_RefusesAgents(t *testing.T) {
	env, r, first, _ := remembering(t)
	cmd := exec.Command(testkit.Self(t), "grants", "revoke", first)
	// The mark that an agent's environment carries.
	cmd.Env = append(os.Environ(), asProgram+"=1", "ACPHOST_AGENT_X=1")
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "acphost grants revoke is for people") || len(r.store.List()) != 2 {
		t.Errorf("got %v: %s; %v are left", err, out, r.store.List())
	}
}
