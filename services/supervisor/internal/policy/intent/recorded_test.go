package intent

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/policy/dialect"
)

// What agents were recorded to ask, or to report as done, is read as the file beside each recording says. A recording is
// called like its agent: testdata/codex.ndjson, with its version if that matters: testdata/gemini@0.61.0.ndjson. Whoever adds one looks at what "go test -update" makes of it.
func TestRecorded_MatchesGoldenFiles(t *testing.T) {
	recordings, err := filepath.Glob("testdata/*.ndjson")
	if err != nil || len(recordings) == 0 {
		t.Fatalf("found no recordings: %v", err)
	}
	for _, file := range recordings {
		agent := strings.TrimSuffix(filepath.Base(file), ".ndjson")
		t.Run(agent, func(t *testing.T) {
			if dialect.Of(agent) == nil {
				t.Errorf("no dialect is for an agent that calls itself %s", agent)
			}
			told := replayed(t, file, agent)
			if told == "" {
				t.Error("nothing is asked or done in it")
			}
			testkit.Golden(t, agent+".txt", told)
		})
	}
}

// replayed folds recorded frames as a session does, and tells how each question among them is read, and each call that is
// reported as ended and was not asked about.
func replayed(t *testing.T, file, agent string) string {
	t.Helper()
	frames, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	calls, asked := map[string]*acp.ToolCall{}, map[string]bool{}
	for frame := range bytes.Lines(frames) {
		frame = bytes.TrimSpace(frame)
		method, _ := acp.String(acp.Get(frame, "method"))
		isQuestion := method == acp.MethodRequestPermission
		report := acp.Get(frame, "params", "update")
		if isQuestion {
			report = acp.Get(frame, "params", "toolCall")
		}
		id := acp.ToolCallID(report)
		if id == "" {
			continue
		}
		if calls[id] == nil {
			calls[id] = &acp.ToolCall{}
		}
		calls[id].Merge(report)
		asked[id] = asked[id] || isQuestion
		if isQuestion || !asked[id] && acp.ToolCallEnded(calls[id].Status) {
			s := inSession(agent)
			_, s.Version, _ = strings.Cut(agent, "@")
			tell(&b, isQuestion, s, *calls[id])
		}
	}
	return b.String()
}

func tell(b *strings.Builder, isQuestion bool, s Session, tc acp.ToolCall) {
	a := Question(s, tc)
	what := "asks"
	if !isQuestion {
		what = "did"
	}
	title, _, _ := strings.Cut(a.GetTitle(), "\n")
	fmt.Fprintf(b, "%s: %s\n", what, title)
	is := inShort(a)
	fmt.Fprintf(b, "  %s", is.kind)
	if a.GetTool() != "" {
		fmt.Fprintf(b, " by %s", a.GetTool())
	}
	b.WriteByte('\n')
	for _, c := range is.commands {
		fmt.Fprintf(b, "  run %s\n", c)
	}
	if is.cwd != "" {
		fmt.Fprintf(b, "  in  %s\n", is.cwd)
	}
	if a.GetCommand().GetCwdDoubtful() {
		b.WriteString("  in  another directory, perhaps\n")
	}
	for _, p := range is.paths {
		fmt.Fprintf(b, "  %s\n", p)
	}
	if is.unparsed != "" {
		fmt.Fprintf(b, "  unclear: %s\n", is.unparsed)
	}
}
