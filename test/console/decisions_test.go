package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/acphost/acphost/internal/testkit"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
)

// looser permits agents to read files that the policy workspace denies, and asks about all other actions.
const looser = `version: 1
rules:
  - id: read-all
    effect: allow
    on: [fs.read]
    reason: A try.
`

func TestReplay_MatchesPolicyCommand(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	secret, plain := p.File(t, ".env", "TOKEN=1\n"), p.File(t, "plain.txt", "plain\n")
	s := p.Serve(t, []string{"--policy", "workspace"})
	session := s.Open(s.Start(p.Demo()).GetId())
	for _, file := range []string{secret, plain, secret} {
		s.Prompt(session.GetSessionId(), "/read "+file).Stopped("end_turn")
	}
	replay := func(policy string) *supervisorv1.ReplayPolicyResponse {
		t.Helper()
		res, err := s.Decided.ReplayPolicy(s.Ctx, &supervisorv1.ReplayPolicyRequest{Policy: []byte(policy)})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	got := replay(looser)
	file := p.File(t, "policy.yaml", looser)
	var want struct {
		Decisions, Own, Unread uint32
		Differ                 []struct {
			Record  struct{ ID string }
			WouldBe string `json:"would_be"`
		}
	}
	if err := json.Unmarshal([]byte(p.Acphost(t, 0, "policy", "replay", "--policy", file, "--json")), &want); err != nil {
		t.Fatal(err)
	}
	if got.GetDecisions() != want.Decisions || got.GetOwn() != want.Own || got.GetUnread() != want.Unread || int(got.GetDiffer()) != len(want.Differ) || len(got.GetDifferences()) != 2 {
		t.Fatalf("got %v, want %+v", got, want)
	}
	for i, d := range got.GetDifferences() {
		if d.GetDecision().GetRecord().GetId() != want.Differ[i].Record.ID || want.Differ[i].WouldBe != "allow" || d.GetWouldBe().GetVerdict() != permissionv1.Verdict_VERDICT_ALLOW {
			t.Errorf("%d: %v, want %+v", i, d, want.Differ[i])
		}
		if d.GetDecision().GetWhat() != "read "+secret || d.GetDecision().GetRecord().GetPlace() == "" || d.GetWouldBe().GetPlace() != "policy.yaml:3" {
			t.Errorf("%d: it is %q, decided at %q, and would be at %q", i, d.GetDecision().GetWhat(), d.GetDecision().GetRecord().GetPlace(), d.GetWouldBe().GetPlace())
		}
	}
	if out := p.Acphost(t, 0, "policy", "replay", "--policy", file); !strings.Contains(out, got.GetSummary()) {
		t.Errorf("the command prints %s, the call %q", out, got.GetSummary())
	}
	if same := replay("workspace"); same.GetDiffer() != 0 || same.GetDecisions() != got.GetDecisions() {
		t.Errorf("by the policy that decided: %v", same)
	}
	if res, err := s.Decided.ReplayPolicy(s.Ctx, &supervisorv1.ReplayPolicyRequest{Policy: []byte(looser), Limit: 1}); err != nil || res.GetDecisions() != 1 || res.GetDiffer() != 1 {
		t.Errorf("of the newest alone: %v, %v", res, err)
	}
	newest := got.GetDifferences()[1].GetDecision().GetRecord().GetTime()
	if res, err := s.Decided.ReplayPolicy(s.Ctx, &supervisorv1.ReplayPolicyRequest{Policy: []byte(looser), Since: newest}); err != nil || res.GetDecisions() != 1 || res.GetOldest().AsTime() != newest.AsTime() {
		t.Errorf("since the newest: %v, %v", res, err)
	}
	if res, err := s.Decided.ReplayPolicy(s.Ctx, &supervisorv1.ReplayPolicyRequest{Policy: []byte(looser), Since: timestamppb.Now()}); err != nil || res.GetDecisions() != 0 || res.GetSummary() == "" {
		t.Errorf("since now: %v, %v", res, err)
	}

	// Mistakes are reported with their positions. Reports contain no content of files that the rule file refers to.
	hush := p.File(t, "hush.yaml", "hush: hush\n")
	for name, c := range map[string]struct{ policy, want string }{
		"a typing error":        {"version: 1\nrules:\n  - id: x\n    effect: allwo\n    on: [fs.read]\n", "4: "},
		"a file to include":     {"version: 1\ninclude: " + hush + "\nrules: []\n", "2: "},
		"a file to extend":      {"version: 1\nextends: [" + hush + "]\nrules: []\n", "2: "},
		"a file by a tag":       {"version: 1\nrules: !include " + hush + "\n", ""},
		"the name of a file":    {hush, ""},
		"an expanding document": {bomb(), ""},
		"invalid YAML":          {"\x00\xff\x1b[2J", ""},
		"a great many nested":   {strings.Repeat("[", 500_000), ""},
	} {
		res := replay(c.policy)
		findings := ""
		for _, f := range res.GetFindings() {
			findings += fmt.Sprintf("%d: %s\n", f.GetLine(), f.GetMessage())
		}
		if res.GetSummary() != "" || res.GetDecisions() != 0 || !strings.Contains(findings, c.want) || findings == "" {
			t.Errorf("%s: %q, and decided was %v", name, findings, res.GetSummary())
		}
		if strings.Contains(strings.ReplaceAll(findings, "hush.yaml", ""), "hush") {
			t.Errorf("%s: a file was read: %s", name, findings)
		}
	}
	s.Finish()
}

// bomb is YAML of a few lines that expands to a very large document.
func bomb() string {
	var b strings.Builder
	b.WriteString("version: 1\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range 12 {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	b.WriteString("rules: *a12\n")
	return b.String()
}

// bearing is a context of calls with a token.
func bearing(ctx context.Context, token string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

func TestReplay_RequiresRole(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	g := e2e.NewConsole(t, p, "--policy", "workspace")
	conn, err := grpc.NewClient(g.At, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	service := supervisorv1.NewDecisionServiceClient(conn)
	for role, want := range map[string]codes.Code{"viewer": codes.PermissionDenied, "approver": codes.PermissionDenied, "operator": codes.OK} {
		ctx := bearing(g.Ctx, g.Token(role))
		_, err := service.ReplayPolicy(ctx, &supervisorv1.ReplayPolicyRequest{Policy: []byte(looser)})
		if status.Code(err) != want {
			t.Errorf("a replay by a %s: %v, want %v", role, err, want)
		}
		ctx, cancel := context.WithCancel(ctx)
		stream, err := service.WatchDecisions(ctx, &supervisorv1.WatchDecisionsRequest{Latest: 10})
		if err == nil {
			_, err = stream.Recv()
		}
		if err != nil {
			t.Errorf("the decisions, for a %s: %v", role, err)
		}
		cancel()
	}
	if _, err := service.ReplayPolicy(g.Ctx, &supervisorv1.ReplayPolicyRequest{Policy: []byte(looser)}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a replay without a caller: %v", err)
	}
	if _, err := service.ReplayPolicy(bearing(g.Ctx, g.Token("operator")), &supervisorv1.ReplayPolicyRequest{Policy: make([]byte, 1<<20+1)}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a replay of too large a file: %v", err)
	}
	// The socket that agents can connect to shows decisions to people only, and accepts replays from no caller.
	admin, err := filepath.Glob(filepath.Join(p.Home, "run", "acphost", "*.sock"))
	if err != nil || len(admin) != 1 {
		t.Fatalf("the sockets are %q, %v", admin, err)
	}
	if _, err := e2e.ServicesAt(t, "unix:"+admin[0]).Decided.ReplayPolicy(g.Ctx, &supervisorv1.ReplayPolicyRequest{Policy: []byte(looser)}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a replay on the admin socket: %v", err)
	}
	g.Leave()
}

func TestReplay_CancelLeavesNothing(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, []string{"--policy", "workspace"})
	f, err := os.OpenFile(filepath.Join(p.Home, ".local", "state", "acphost", "audit.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20_000 {
		fmt.Fprintf(f, `{"time":"2026-01-01T00:00:00Z","id":"%d","verdict":"ask","plugin":"permd 1","answered_by":"front","action":{"kind":"fs.read","paths":[{"path":"/w/%d"}]}}`+"\n", i, i)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.Ctx)
	done := make(chan error, 1)
	go func() {
		_, err := s.Decided.ReplayPolicy(ctx, &supervisorv1.ReplayPolicyRequest{Policy: []byte(looser), Limit: 100_000})
		done <- err
	}()
	if !testkit.Poll(func() bool { return permds(t, s.PID()) == 2 }) {
		t.Error("no process of its own works for a replay")
	}
	cancel()
	if err := <-done; status.Code(err) != codes.Canceled {
		t.Errorf("a replay that is given up: %v", err)
	}
	if !testkit.Poll(func() bool { return permds(t, s.PID()) == 1 }) {
		t.Error("the process of a replay that was given up is still there")
	}
	res, err := s.Decided.ReplayPolicy(s.Ctx, &supervisorv1.ReplayPolicyRequest{Policy: []byte(looser), Limit: 100_000})
	for status.Code(err) == codes.ResourceExhausted { // the one before may be ending
		res, err = s.Decided.ReplayPolicy(s.Ctx, &supervisorv1.ReplayPolicyRequest{Policy: []byte(looser), Limit: 100_000})
	}
	if err != nil || res.GetDiffer() != 20_000 || len(res.GetDifferences()) != 500 || res.GetDifferences()[499].GetDecision().GetRecord().GetId() != "19999" {
		t.Errorf("a large one: %d differ, %d are reported, %v", res.GetDiffer(), len(res.GetDifferences()), err)
	}
	s.Finish()
}

// permds counts the children of a process that are permd.
func permds(t *testing.T, parent int) (n int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range stats {
		stat, _ := os.ReadFile(file) // it may have ended
		var state string
		var of int
		_, rest, found := strings.Cut(string(stat), " (permd) ")
		if _, err := fmt.Sscan(rest, &state, &of); found && err == nil && of == parent {
			n++
		}
	}
	return n
}
