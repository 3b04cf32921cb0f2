package agents

import "testing"

// claudeEnv has Claude Code talk to a model, and to nobody else.
func claudeEnv(m *Model) []string {
	return []string{
		"ANTHROPIC_BASE_URL=" + m.URL, "ANTHROPIC_API_KEY=x", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1", "DISABLE_AUTOUPDATER=1",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "IS_SANDBOX=1",
	}
}

func TestClaudeSpeaks(t *testing.T) {
	t.Parallel()
	cmd := executable(t, "claude-agent-acp")
	m := Anthropic(t, Step{Thought: "Hm.", Text: "Hello there."})
	r := newRig(t, "")
	s := r.open(r.start([]string{cmd}, claudeEnv(m)...))
	u := r.prompt(s, "Hello?")
	u.stopped("end_turn")
	u.expectSaid("Hello there.")
	if strange := m.Strange(); len(strange) > 0 {
		t.Errorf("the model was asked what it does not know: %q", strange)
	}
	r.finish()
}
