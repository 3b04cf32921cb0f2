package render

import (
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
)

// Recorded requests of agents are shown completely, without repetitions.
func TestQuestion_RecordedRequestsMatchGoldenFiles(t *testing.T) {
	var b strings.Builder
	for _, agent := range []string{"claude", "codex", "opencode", "qwen"} {
		b.WriteString("== " + agent + "\n")
		recorded, err := os.ReadFile("../../policy/intent/testdata/" + agent + ".ndjson")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(recorded)) {
			var m struct {
				Method string         `json:"method"`
				Params jsontext.Value `json:"params"`
			}
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				t.Fatal(err)
			}
			if m.Method == acp.MethodRequestPermission {
				b.WriteString(Question(Options{Cwd: "/ws"}, event.Question(m.Method, m.Params, nil, false)))
			}
		}
	}
	testkit.Golden(t, "requests.txt", b.String())
}
