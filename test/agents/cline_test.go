package agents

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// clineEnv connects Cline to a model only.
func (r *rig) clineEnv(m *Model) []string {
	r.t.Helper()
	r.file("../.cline/data/settings/providers.json", fmt.Sprintf(`{"version": 1, "lastUsedProvider": "openai-compatible", "modes": {}, "providers": {"openai-compatible": {
		"settings": {"provider": "openai-compatible", "apiKey": "x", "model": "gpt-5", "baseUrl": "%s/v1"}, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}}}`, m.URL))
	return []string{"CLINE_API_KEY=x", "CLINE_PROVIDER=openai-compatible", "CLINE_MODEL=gpt-5"}
}

// TestCline_PresetSharesNoDaemon: by default Cline starts a daemon that all of its sessions share, and that ends with
// the agent that started it.
func TestCline_PresetSharesNoDaemon(t *testing.T) {
	executable(t, "cline")
	for _, tt := range []struct {
		name string
		own  []string // agents.json
	}{
		{"as its entry starts it", nil},
		{"without the defaults of its entry", []string{`{"agents": [{"id": "cline", "acphost": {"defaults": {}}}]}`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, "workspace", tt.own...)
			m := Completions(t)
			env := r.clineEnv(m)
			var agents []*supervisorv1.Agent
			var sessions []*supervisorv1.Session
			for range 2 { // the second finds what the first has begun
				agents = append(agents, r.startAs(&supervisorv1.StartAgentRequest{Preset: "cline", Separate: true}, env))
				sessions = append(sessions, r.open(agents[len(agents)-1]))
				m.Play(Step{Text: "Hello."})
				r.prompt(sessions[len(sessions)-1], "Hello?").stopped("end_turn")
			}
			// Whether the second session survives depends on how soon Cline notices that the daemon has ended, and
			// starts another.
			_, err := os.Stat(filepath.Join(r.home, ".cline", "data", "logs", "hub-daemon.log"))
			if begun := err == nil; begun != (tt.own != nil) {
				t.Errorf("a daemon was begun: %t; if it never is, Cline needs no default any more", begun)
			}
			if tt.own != nil {
				return
			}
			if _, err := r.Agents.StopAgent(r.ctx, &supervisorv1.StopAgentRequest{AgentId: agents[0].GetId()}); err != nil {
				t.Fatal(explain(err))
			}
			m.Play(Step{Text: "Still here."})
			u := r.prompt(sessions[1], "And you?")
			u.stopped("end_turn")
			u.expectSaid("Still here.")
			r.finish()
		})
	}
}
