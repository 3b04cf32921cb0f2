package gate

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

func TestSeen_LimitsKinds(t *testing.T) {
	g := gateWith(false, answers(Allow))
	for i := range 10 * maxKinds {
		g.Seen(fmt.Sprintf("_x/%d", i))
	}
	g.Seen("\xff" + strings.Repeat("y", 1<<20))
	c := g.Counters()
	if n := len(c.GetObserved()); n > maxKinds+1 {
		t.Errorf("%d kinds are kept", n)
	}
	var sum uint64
	for _, n := range c.GetObserved() {
		sum += n
	}
	if sum != 10*maxKinds+1 {
		t.Errorf("%d calls were counted", sum)
	}
	if _, err := proto.Marshal(&supervisorv1.GateCounters{Observed: c.GetObserved()}); err != nil {
		t.Errorf("what was counted cannot be shown: %v", err)
	}
}

func TestActive_KeepsRootsWithRuleFile(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "policy.yaml")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	g := gateWith(false, answers(Deny))
	g.opts.WorkspacePolicy = "policy.yaml"
	if !g.Active([]string{root}) {
		t.Fatal("the rule file does not count")
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if !g.Decides("fs/write_text_file", []string{root}) {
		t.Error("the agent removed the rule file, and nothing is decided any more")
	}
	if g.Active([]string{t.TempDir()}) {
		t.Error("another root is ruled too")
	}
}

func TestReported_DetectsOtherAction(t *testing.T) {
	yes := Outcome{Allowed: true, By: ByClient, Option: acp.AllowOnce}
	no := Outcome{By: ByClient, Option: acp.RejectOnce}
	run := func(line string) *permissionv1.Action {
		return commandOf("tool.execute", "t", line, permissionv1.Door_DOOR_REQUEST)
	}
	unclear := &permissionv1.Action{Kind: "tool.execute", ToolCallId: "t", Door: permissionv1.Door_DOOR_REQUEST, Unparsed: "only a title"}
	for _, tt := range []struct {
		name        string
		asked, done *permissionv1.Action
		reported    bool
	}{
		{"another command", run("ls"), run("rm -rf /"), true},
		{"the same command", run("ls"), run("ls"), false},
		{"another file", editOf("t", "/w/a"), editOf("t", "/w/b"), true},
		{"the same file", editOf("t", "/w/a"), editOf("t", "/w/a"), false},
		{"a command in place of an edit", editOf("t", "/w/a"), run("rm a"), true},
		{"what was asked was not clear", unclear, run("ls"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := gateWith(true, answers(Ask))
			settle(t, g, request(tt.asked), yes)
			rep, err := g.Reported(t.Context(), request(tt.done), true)
			if err != nil || (rep.Decision != nil) != tt.reported {
				t.Errorf("got %+v, %v", rep, err)
			}
		})
	}
	t.Run("refused first, then allowed", func(t *testing.T) {
		g := gateWith(true, answers(Ask))
		settle(t, g, request(run("ls")), no)
		settle(t, g, request(run("ls")), yes)
		if rep, err := g.Reported(t.Context(), request(run("ls")), true); err != nil || rep.Decision != nil {
			t.Errorf("got %+v, %v", rep, err)
		}
	})
}

func TestRecord_DoubtfulAnswerAllowsNoCall(t *testing.T) {
	for _, doubtful := range []bool{false, true} {
		g := gateWith(true, answers(Ask))
		settle(t, g, request(editOf("t", "/w/a")), Outcome{Allowed: true, By: ByClient, Option: acp.AllowOnce, Doubtful: doubtful})
		d, err := g.Decide(t.Context(), request(fileCall("fs.write", "/w/a", write)))
		want := Allow
		if doubtful {
			want = Ask
		}
		if err != nil || d.Verdict != want {
			t.Errorf("doubtful %v: the call is decided %v, %v", doubtful, d.Verdict, err)
		}
	}
	g := gateWith(true, answers(Ask))
	settle(t, g, request(editOf("t", "/w/a")), Outcome{By: ByClient, Option: acp.RejectOnce, Doubtful: true})
	if d, _ := g.Decide(t.Context(), request(fileCall("fs.write", "/w/a", write))); d.Verdict != Deny {
		t.Errorf("what a person refused is decided %v", d.Verdict)
	}
}

func TestProtectedCommand_FollowsLinks(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, WorkspaceFolder), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(WorkspaceFolder, filepath.Join(root, "harmless")); err != nil {
		t.Fatal(err)
	}
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		t.Fatal(err)
	}
	g := gateWith(true, answers(Allow))
	for line, want := range map[string]bool{"cp x harmless/policy.yaml": true, "cp x harmful/policy.yaml": false} {
		c := commandOf("terminal.create", "", line, permissionv1.Door_DOOR_CALL).GetCommand()
		if got := protectedCommand(t, g, c, []string{root, real}); (got != "") != want {
			t.Errorf("%s: protected is %q", line, got)
		}
	}
	c := commandOf("terminal.create", "", "rm policy.yaml", permissionv1.Door_DOOR_CALL).GetCommand()
	c.Cwd = filepath.Join(root, "harmless")
	if protectedCommand(t, g, c, []string{root, real}) == "" {
		t.Error("a working directory that leads there is not protected")
	}
}

func TestDecide_ErrorHidesSockets(t *testing.T) {
	gone := policy(func(context.Context) (*permissionv1.DecideResponse, error) {
		return nil, status.Error(codes.Unavailable, `connection error: dial unix /run/p.sock: connect: no such file or directory`)
	})
	g := New(Options{Enforced: true, Logger: gateWith(true, gone).opts.Logger, Chain: []Policy{
		{Name: "permission", Conn: func() (grpc.ClientConnInterface, error) { return gone, nil }}}})
	d, err := g.Decide(t.Context(), request(editOf("t", "/w/a")))
	if err != nil || d.Verdict != Deny || strings.Contains(d.Reason, "p.sock") || !strings.Contains(d.Reason, "handler permission cannot be reached") {
		t.Errorf("got %+v, %v", d, err)
	}
}
