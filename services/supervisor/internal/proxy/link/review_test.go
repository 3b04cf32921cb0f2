package link

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/sandbox/containment"
)

// notes collects notes for the audit log.
type notes struct {
	mu  sync.Mutex
	all []string
}

func (n *notes) add(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, text)
}

func (n *notes) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.all
	n.all = nil
	return all
}

// turnEnds ends a turn, and returns the texts that the client gets before the answer to the prompt.
func (r *rig) turnEnds(id string) (shown []string) {
	r.t.Helper()
	r.agent.send(
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s",`+
			`"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"bye"}}}}`,
		fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":{"stopReason":"end_turn"}}`, id))
	for {
		line := r.client.next()
		var m struct {
			ID     string
			Params struct {
				Update struct{ Content struct{ Text string } }
			}
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			r.t.Fatalf("%s: %v", line, err)
		}
		if m.ID == id {
			return shown
		}
		shown = append(shown, m.Params.Update.Content.Text)
	}
}

func TestReview_NamesListenersOnce(t *testing.T) {
	var n notes
	r := newRig(t, contained(&containment.Sandbox{}, containment.Proxy{}, func(o *containment.Options) {
		o.AgentPID, o.Note = os.Getpid, n.add
	}))
	r.open(`{}`)
	r.prompt("1")
	if got := r.turnEnds("1"); !slices.Equal(got, []string{"bye"}) {
		t.Errorf("without a listener: got %q, want the agent's text alone", got)
	}
	if got := n.take(); len(got) > 0 {
		t.Errorf("without a listener: got the notes %q, want none", got)
	}
	r.prompt("2")
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	want := fmt.Sprintf("listening for connections: %s (%s)", listener.Addr(), filepath.Base(os.Args[0]))
	got := r.turnEnds("2")
	if len(got) != 2 || got[0] != "bye" || !strings.Contains(got[1], reviewTitle+": "+want) {
		t.Errorf("got %q, want the agent's text, then %q", got, want)
	}
	if got := n.take(); len(got) != 1 || !strings.HasSuffix(got[0], `, session s, end of a turn: `+want) {
		t.Errorf("got the notes %q, want one with %q", got, want)
	}
	r.prompt("3")
	if got := r.turnEnds("3"); !slices.Equal(got, []string{"bye"}) {
		t.Errorf("in the next turn: got %q, want the agent's text alone", got)
	}
}

func TestReview_NamesFilesOfNewCommits(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=n", "-c", "user.email=n@example.org"}, args...)...)
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	write := func(name string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	git("init", "-q", "-b", "main")
	write("a.txt")
	git("add", ".")
	git("commit", "-qm", "first")

	var n notes
	r := newRig(t, contained(&containment.Sandbox{}, containment.Proxy{}, func(o *containment.Options) { o.Note = n.add }))
	asksAll := false
	r.handler.decide = func(_ context.Context, a *permissionv1.Action) (*permissionv1.DecideResponse, error) {
		isWorkflow := func(p *permissionv1.PathAccess) bool { return strings.Contains(p.GetPath(), "/.github/") }
		if asksAll || slices.ContainsFunc(a.GetPaths(), isWorkflow) {
			return &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_ASK}, nil
		}
		return &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_ALLOW}, nil
	}
	r.openIn(dir)
	r.prompt("1")
	write("b.txt")
	workflow := write(".github/workflows/ci.yml")
	git("add", ".")
	git("commit", "-qm", "second")
	want := "changed by new commits, and run later by other programs: " + workflow
	if got := r.turnEnds("1"); len(got) != 2 || !strings.Contains(got[1], reviewTitle+": "+want+"\n") {
		t.Errorf("got %q, want the agent's text, then %q", got, want)
	}
	if got := n.take(); len(got) != 1 || !strings.HasSuffix(got[0], want) {
		t.Errorf("got the notes %q, want one with %q", got, want)
	}
	r.prompt("2")
	if got := r.turnEnds("2"); !slices.Equal(got, []string{"bye"}) {
		t.Errorf("in the next turn: got %q, want the agent's text alone", got)
	}
	r.prompt("3")
	write(".github/workflows/other.yml")
	git("add", ".")
	git("commit", "-qm", "third")
	asksAll = true
	if got := r.turnEnds("3"); !slices.Equal(got, []string{"bye"}) {
		t.Errorf("with a policy that asks about every file: got %q, want the agent's text alone", got)
	}
}
