package terminal_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/e2e"
)

func TestFilesWatch_Terminal(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, []string{"--observe"})
	x := p.Terminal(t, []string{e2e.Program("acphost"), "files", "--watch", "--pid", strconv.Itoa(s.PID())})
	x.Shows("no agent has used a file lately")
	reads := func(id string, paths ...string) {
		var at []any
		for _, path := range paths {
			at = append(at, map[string]any{"path": p.Path(path)})
		}
		s.Agent.Notify("session/update", e2e.Params("update", map[string]any{
			"sessionUpdate": "tool_call", "toolCallId": id, "title": id, "kind": "read", "status": "completed", "locations": at,
		}))
		s.Expect("session/update")
	}
	usage := func(used int) {
		s.Agent.Notify("session/update", e2e.Params("update", map[string]any{"sessionUpdate": "usage_update", "used": used, "size": 1000}))
		s.Expect("session/update")
	}
	reads("t1", "src/pkg/a.go", "src/pkg/\x1b[2J\x1b]0;owned\a.go", strings.Repeat("long", 60)+".md")
	usage(900)
	x.Shows("src/pkg/", "100%    a.go", `\u{1b}[2J`, "longlong", "…  read, turn 0")
	usage(100) // they leave the context
	reads("t2", "new.go")
	testkit.Eventually(t, "the hottest comes first", func() bool {
		now := x.Screen()
		first, cooler := strings.Index(now, "100%  new.go"), strings.Index(now, "a.go")
		return first >= 0 && first < cooler && !strings.Contains(now, "100%    a.go")
	})
	if out, err := x.Tmux("resize-window", "-x", "50", "-y", "8"); err != nil {
		t.Fatalf("tmux: %v\n%s", err, out)
	}
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprintf("many/%02d.go", i))
	}
	reads("t3", many...)
	now := x.Shows("supervisor ", "more lines")
	for line := range strings.SplitSeq(now, "\n") {
		if len([]rune(line)) > 50 {
			t.Errorf("a line is too long: %s", line)
		}
	}
	s.Close()
	s.ExpectExit()
	x.Shows("acphost: the supervisor is stopping")
	if got := x.Exits(); got != 1 {
		t.Errorf("the exit status is %d, want 1", got)
	}
	p.ExpectNobodyBut(t, "tmux")
}
