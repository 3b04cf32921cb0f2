package agents

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// transcripts names a folder into which messages of agents are written, in the form of the recorded dialects
// (services/supervisor/internal/policy/intent/testdata): tool calls, permission requests and calls, without details of this
// machine. Unset: nothing is written.
const transcripts = "ACPHOST_TRANSCRIPTS"

// portOf is the address of a server of a test's.
var portOf = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// cutOf is the home of a rig, where an agent has cut a path short.
var cutOf = regexp.MustCompile(`/tmp/acp(\d+|\b)`)

// transcribe writes what the agent of a session sent to acphost, and, beside it, asked: what it sent to the model last.
func (r *rig) transcribe(s *supervisorv1.Session, asked json.RawMessage, name string) {
	r.t.Helper()
	dir := os.Getenv(transcripts)
	if dir == "" {
		return
	}
	replace, calls := []string{s.GetSessionId(), "s"}, map[string]bool{}
	var b strings.Builder
	last := ""
	for _, f := range r.frames(s.GetSessionId(), "") {
		if !strings.HasPrefix(f.Dir, "agent-to-") || f.Answers != "" || f.Method == "session/update" && !strings.Contains(string(f.Frame), `"tool_call`) {
			continue
		}
		for _, c := range f.calls() {
			if id := c.ToolCallID; !calls[id] {
				calls[id] = true
				replace = append(replace, `"`+id+`"`, fmt.Sprintf(`"call_%d"`, len(calls)))
			}
		}
		line := r.anonymous(strings.NewReplacer(replace...).Replace(string(f.Frame))) + "\n"
		if line != last { // a question is recorded twice: as it was received, and as it was forwarded to the user
			b.WriteString(line)
		}
		last = line
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		r.t.Fatal(err)
	}
	for file, text := range map[string]string{name + ".ndjson": b.String(), name + ".model.json": string(asked)} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
}
