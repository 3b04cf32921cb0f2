package adversary

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
)

// stormScript starts 150 programs at once, of which each tenth is denied. $1 is its number among the scripts.
const stormScript = `i=0
while [ $i -lt 150 ]; do
	if [ $((i % 10)) = 9 ]; then { /usr/bin/id 2>&- || echo denied $1 $i; } & else /bin/echo ran $1 $i & fi
	i=$((i + 1))
done
wait
`

// TestExec_ManyProgramsAtOnce: each of 8 × 150 programs is decided, started and recorded once, and the sandbox keeps no
// memory of them.
func TestExec_ManyProgramsAtOnce(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	rules := kernelRules + "  - {id: storm, effect: allow, command: [sh ./storm]}\n"
	s := openFixture(t, inSandbox("enforce", rules))
	turn := s.Send("session/prompt", params("prompt", []any{map[string]any{"type": "text", "text": "go"}}))
	asked := s.agent.Expect("session/prompt")
	s.File(t, "storm", stormScript)
	s.File(t, "storm.out", "")
	box := parent(s.hand.pid)
	before := open(t, box)
	s.hand.worked("burst", "8", s.Path("storm.out"), "/bin/sh", "./storm")

	out, err := os.ReadFile(s.Path("storm.out"))
	if err != nil {
		t.Fatal(err)
	}
	times := map[string]int{}
	for line := range strings.Lines(string(out)) {
		times[strings.TrimSpace(line)]++
	}
	for k := range 8 {
		for i := range 150 {
			line := fmt.Sprintf("ran %d %d", k, i)
			if i%10 == 9 {
				line = fmt.Sprintf("denied %d %d", k, i)
			}
			if times[line] != 1 {
				t.Errorf("%q %d times, want once", line, times[line])
			}
			delete(times, line)
		}
	}
	if len(times) > 0 {
		t.Errorf("ATTACK SUCCEEDED: there is also %v", times)
	}

	if !testkit.Poll(func() bool { return open(t, box) <= before }) {
		t.Errorf("the sandbox has %d open files, and had %d", open(t, box), before)
	}
	// Go keeps threads that have waited once. There are as many as wait at once, not as many as there were programs.
	if n, err := strconv.Atoi(statusOf(box)["Threads"]); err != nil || n > 64 {
		t.Errorf("the sandbox has %d threads (%v)", n, err)
	}
	s.hand.worked("run", "/bin/echo", "after")

	s.agent.Reply(asked, map[string]any{"stopReason": "end_turn"}) // counts are recorded when the turn is over
	turn.Result(nil)
	const started, denied = 8 + 8*135 + 1, 8 * 15 // denials of one action are one record in a turn, and one with their number
	var got, refusals int
	if !testkit.Poll(func() bool {
		got, refusals = 0, 0
		out, status := s.person("audit", "query", "--json", "--door", "kernel", "--kind", "terminal.create", "--limit", "0")
		for line := range strings.Lines(out) {
			var rec struct {
				Outcome string
				Repeats json.Number
			}
			if status != 0 || json.Unmarshal([]byte(line), &rec) != nil {
				t.Fatalf("the record (status %d): %s", status, out)
			}
			n, _ := rec.Repeats.Int64()
			switch rec.Outcome {
			case "allowed":
				got += int(max(n, 1))
			case "denied":
				refusals += int(max(n, 1))
			}
		}
		return got == started
	}) {
		t.Errorf("the record has %d starts, want %d", got, started)
	}
	if refusals != denied {
		t.Errorf("the record has %d denials, want %d", refusals, denied)
	}
	s.finish()
}

// open is how many files a process has open; 0: it keeps that from all but root.
func open(t *testing.T, pid int) int {
	t.Helper()
	fds, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "fd"))
	if err != nil && !(os.IsPermission(err) && os.Getuid() != 0) {
		t.Fatal(err)
	}
	return len(fds)
}
