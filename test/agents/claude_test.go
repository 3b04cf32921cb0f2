package agents

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// claudeEnv connects Claude Code to a model only, and disables its additional requests to the model, which would be
// mistaken for the conversation. IS_SANDBOX lets it run as root.
func claudeEnv(m *Model) []string {
	return []string{
		"ANTHROPIC_BASE_URL=" + m.URL, "ANTHROPIC_API_KEY=x", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1", "DISABLE_AUTOUPDATER=1",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION=false", "IS_SANDBOX=1",
	}
}

// claude starts Claude Code with a model without steps.
func (r *rig) claude() (*supervisorv1.Agent, *Model) {
	r.t.Helper()
	m := r.model(Anthropic)
	return r.start([]string{executable(r.t, "claude-agent-acp")}, claudeEnv(m)...), m
}

// claudeRules judge what Claude Code does in these tests.
const claudeRules = `
version: 1
rules:
  - {id: edits, effect: allow, on: [tool.read, tool.edit], path: ["${root}/**"]}
  - {id: touch, effect: allow, command: ["touch", "cd", "git status"], redirect: any, path: ["${root}/**"]}
  - {id: touching, effect: allow, command: ["touch", "cd", "git status"]}
  - {id: removing, effect: deny, command: ["rm"], reason: Nothing is removed here.}
  - {id: secrets, effect: deny, path: ["**/.env"], reason: Secrets stay where they are.}
`

func TestClaude_RunsTurn(t *testing.T) {
	executable(t, "claude-agent-acp")
	r := newRig(t, "")
	agent, m := r.claude()
	info := agent.GetInfo()
	if can := info.GetCapabilities(); info.GetName() != "@agentclientprotocol/claude-agent-acp" || info.GetVersion() == "" || !can.GetLoadSession() || !can.GetResumeSession() ||
		!can.GetForkSession() || !can.GetListSessions() || !can.GetPromptImage() || !can.GetPromptEmbeddedContext() {
		t.Errorf("the agent's info is %v", info)
	}
	s := r.open(agent)
	if s.GetMode() != "default" || s.GetModel() == "" {
		t.Errorf("the session is in the mode %q with the model %q", s.GetMode(), s.GetModel())
	}
	m.Play(Step{Thought: "Hm.", Text: "Hello there."})
	u := r.prompt(s, "Hello?")
	usage := u.stopped("end_turn").GetUsage()
	u.expectSaid("Hello there.")
	if !u.thought("Hm.") {
		t.Errorf("it did not think:\n%s", listing(u.seen))
	}
	if usage.GetTotal() != inputTokens+outputTokens || usage.GetOutput() != outputTokens || usage.GetCachedRead() != cachedTokens {
		t.Errorf("the turn took %v", usage)
	}
	m.Play(Step{Fail: 403})
	u = r.prompt(s, "And?")
	if end := u.end(); end.GetError().GetKind() != supervisorv1.ErrorKind_ERROR_KIND_AUTH_REQUIRED {
		t.Errorf("where the key does not count, the turn ends with %v", end)
	}
	u.expectSaid("the script refuses")
	expectNothingStrange(t, m)
	r.finish()
}

func TestClaude_CallsAreDecided(t *testing.T) {
	executable(t, "claude-agent-acp")
	r := newRig(t, claudeRules)
	r.file("a.txt", "one\ntwo\n")
	r.file("keep/me.txt", "here\n")
	r.file(".env", "KEY=1\n")
	if err := os.Mkdir(r.path("sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	agent, m := r.claude()
	s := r.openWithTool(agent)
	play := func(name string, args map[string]any) *turn {
		t.Helper()
		m.Play(Step{Text: "Doing.", Calls: []Call{{Name: name, Args: args}}})
		return r.prompt(s, "Go on.")
	}

	t.Run("an edit that is allowed", func(t *testing.T) {
		play("Read", map[string]any{"file_path": r.path("a.txt")}).stopped("end_turn")
		u := play("Edit", map[string]any{"file_path": r.path("a.txt"), "old_string": "two", "new_string": "three"})
		u.stopped("end_turn")
		r.expectFile("a.txt", "one\nthree\n")
		c := u.call("edit")
		if c.GetStatus() != "completed" || len(c.GetContent()) == 0 || c.GetContent()[0].GetDiff().GetPath() != r.path("a.txt") || !strings.Contains(c.GetContent()[0].GetDiff().GetNewText(), "three") {
			t.Errorf("the tool call is %v", c)
		}
		d := r.asked("tool.edit")
		if d.GetOutcome() != "allowed" || d.GetRule() != "edits" || len(d.GetAction().GetPaths()) != 1 || d.GetAction().GetPaths()[0].GetPath() != r.path("a.txt") ||
			d.GetAction().GetPaths()[0].GetAccess() != permissionv1.Access_ACCESS_WRITE || !d.GetAction().GetPaths()[0].GetInsideRoots() {
			t.Errorf("the audit has %v", d)
		}
	})
	t.Run("a command that is allowed", func(t *testing.T) {
		u := play("Bash", map[string]any{"command": "touch made && cd sub", "description": "Make."})
		u.stopped("end_turn")
		r.expectFile("made", "")
		if c := u.call("execute"); c.GetStatus() != "completed" {
			t.Errorf("the tool call is %v", c)
		}
		if d := r.asked("tool.execute"); d.GetRule() != "touching" && d.GetRule() != "touch" || len(d.GetAction().GetCommand().GetSubCommands()) != 2 {
			t.Errorf("the audit has %v", d)
		}
	})
	t.Run("a command in an unknown directory", func(t *testing.T) {
		u := play("Bash", map[string]any{"command": "touch x > out.txt", "description": "Write."})
		q := u.question()
		if q.GetPermission().GetFromAcphost() || q.GetPermission().GetKind() != "execute" {
			t.Errorf("the question is %v", q)
		}
		u.answer(q, "reject_once")
		u.stopped("end_turn")
		r.expectNoFile("sub/out.txt")
		if d := r.asked("tool.execute"); d.GetOutcome() != "denied" || d.GetAnsweredBy() != "tester" || !strings.Contains(d.GetAction().GetUnparsed(), "in which directory") {
			t.Errorf("the audit has %v", d)
		}
	})
	t.Run("a command that is denied", func(t *testing.T) {
		u := play("Bash", map[string]any{"command": "cd .. ; rm -rf keep " + r.path("keep"), "description": "Remove."})
		u.stopped("end_turn")
		r.expectFile("keep/me.txt", "here\n")
		if c := u.call("execute"); c.GetStatus() != "failed" {
			t.Errorf("the tool call is %v", c)
		}
		if d := r.asked("tool.execute"); d.GetOutcome() != "denied" || d.GetRule() != "removing" {
			t.Errorf("the audit has %v", d)
		}
	})
	t.Run("a file that is denied", func(t *testing.T) {
		u := play("Write", map[string]any{"file_path": r.path("sub/.env"), "content": "KEY=2\n"})
		u.stopped("end_turn")
		r.expectNoFile("sub/.env")
		if d := r.asked("tool.edit"); d.GetOutcome() != "denied" || d.GetRule() != "secrets" {
			t.Errorf("the audit has %v", d)
		}
	})
	t.Run("a tool that looks like a shell", func(t *testing.T) {
		play("ToolSearch", map[string]any{"query": "select:" + toolName}).stopped("end_turn")
		u := play(toolName, map[string]any{"words": "hello", "command": "git status"})
		u.answer(u.question(), "reject_once")
		u.stopped("end_turn")
		r.expectNoFile("../tool.log")
		if d := r.asked("tool.execute"); d.GetVerdict() != "ask" || !strings.Contains(d.GetAction().GetUnparsed(), "none of the agent's own") {
			t.Errorf("the audit has %v", d)
		}
	})
	t.Run("actions without a question", func(t *testing.T) {
		look := "cat " + r.path(".env")
		play("Bash", map[string]any{"command": look, "description": "Look."}).stopped("end_turn")
		d := r.done()
		if d.GetOutcome() != "done, not asked" || d.GetRule() != "secrets" || d.GetAction().GetCommand().GetText() != look {
			t.Errorf("the audit has %v", d)
		}
	})
	t.Run("nothing is asked of acphost's handlers", func(t *testing.T) {
		for _, f := range r.frames(s.GetSessionId(), "") {
			if f.Dir == "agent-to-handler" && f.Handler != "gate" {
				t.Errorf("the agent asks the handler %s for %s", f.Handler, f.Method)
			}
		}
	})
	expectNothingStrange(t, m)
	r.finish()
}

func TestClaude_PresetKeepsDirectory(t *testing.T) {
	executable(t, "claude-agent-acp")
	r := newRig(t, claudeRules)
	if err := os.Mkdir(r.path("sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	m := Anthropic(t)
	s := r.open(r.preset("claude", claudeEnv(m)...))
	for _, line := range []string{"touch first && cd sub", "touch second"} {
		m.Play(Step{Calls: []Call{{Name: "Bash", Args: map[string]any{"command": line, "description": "Make."}}}})
		r.prompt(s, "Go on.").stopped("end_turn")
	}
	r.expectFile("second", "")
	r.expectNoFile("sub/second")
	if d := r.asked("tool.execute"); d.GetOutcome() != "allowed" || d.GetAgent() != "claude-acp" {
		t.Errorf("the audit has %v", d)
	}
	r.finish()
}

func TestClaude_AsksForReadsIfConfigured(t *testing.T) {
	executable(t, "claude-agent-acp")
	r := newRig(t, claudeRules)
	r.file("../.claude/settings.json", `{"permissions":{"ask":["Read","Bash"]}}`)
	r.file(".env", "KEY=hidden\n")
	agent, m := r.claude()
	s := r.open(agent)
	for _, c := range []Call{
		{Name: "Read", Args: map[string]any{"file_path": r.path(".env")}},
		{Name: "Bash", Args: map[string]any{"command": "cat < .env", "description": "Look."}},
	} {
		m.Play(Step{Calls: []Call{c}})
		r.prompt(s, "Look.").stopped("end_turn")
		if m.Heard("hidden") {
			t.Errorf("with %s the model got to see what it must not", c.Name)
		}
	}
	for _, kind := range []string{"tool.read", "tool.execute"} {
		if d := r.asked(kind); d.GetOutcome() != "denied" || d.GetRule() != "secrets" {
			t.Errorf("the audit has %v", d)
		}
	}
	r.finish()
}

func TestClaude_ModesCancelAndPlan(t *testing.T) {
	executable(t, "claude-agent-acp")
	r := newRig(t, "")
	agent, m := r.claude()
	s := r.open(agent)

	var models []string
	for _, o := range s.GetOptions() {
		for _, c := range o.GetChoices() {
			if o.GetId() == "model" {
				models = append(models, c.GetValue())
			}
		}
	}
	if len(models) < 2 {
		t.Fatalf("there are the models %q", models)
	}
	other := models[slices.IndexFunc(models, func(id string) bool { return id != s.GetModel() })]
	switched, err := r.Sessions.SetModel(r.ctx, &supervisorv1.SetModelRequest{SessionId: s.GetSessionId(), ModelId: other})
	if err != nil || switched.GetSession().GetModel() != other {
		t.Errorf("with another model it is %v (%v)", switched, explain(err))
	}
	mode, err := r.Sessions.SetMode(r.ctx, &supervisorv1.SetModeRequest{SessionId: s.GetSessionId(), ModeId: "acceptEdits"})
	if err != nil || mode.GetSession().GetMode() != "acceptEdits" {
		t.Errorf("in another mode it is %v (%v)", mode, explain(err))
	}

	m.Play(Step{Text: "Planning.", Calls: []Call{{Name: "TodoWrite", Args: map[string]any{"todos": []any{
		map[string]any{"content": "First", "status": "in_progress", "activeForm": "Doing it"}, map[string]any{"content": "Then", "status": "pending", "activeForm": "Doing that"},
	}}}}})
	u := r.prompt(s, "Plan.")
	u.stopped("end_turn")
	if p := u.plan(); len(p) != 2 || p[0].GetContent() != "Doing it" || p[0].GetStatus() != "in_progress" || p[1].GetStatus() != "pending" {
		t.Errorf("the plan is %v; there were:\n%s", p, listing(u.seen))
	}

	r.cancels(s, m)
	r.finish()
}

func TestClaude_StartsInModeThatAsks(t *testing.T) {
	executable(t, "claude-agent-acp")
	for name, settings := range map[string]string{
		"without settings":                   `{}`,
		"settings with the mode acceptEdits": `{"permissions": {"defaultMode": "acceptEdits"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "")
			r.file("../.claude/settings.json", settings)
			r.file(".env", "KEY=1\n")
			m := Anthropic(t)
			s := r.open(r.preset("claude", claudeEnv(m)...))
			if s.GetMode() != "default" {
				t.Errorf("the session is in the mode %q, want default", s.GetMode())
			}
			m.Play(Step{Text: "Reading.", Calls: []Call{{Name: "Read", Args: map[string]any{"file_path": r.path(".env")}}}})
			r.prompt(s, "Read.").stopped("end_turn")
			m.Play(Step{Text: "Doing.", Calls: []Call{{Name: "Edit", Args: map[string]any{"file_path": r.path(".env"), "old_string": "1", "new_string": "2"}}}})
			u := r.prompt(s, "Edit.")
			u.answer(u.question(), "reject_once")
			u.end()
			r.expectFile(".env", "KEY=1\n")
			r.finish()
		})
	}
}

func TestClaude_ResumesAfterKill(t *testing.T) {
	executable(t, "claude-agent-acp")
	r := newRig(t, "")
	agent, m := r.claude()
	s := r.open(agent)
	expectKilled(t, r.killsInATurn(s, m, killed(t, agent)))
	r.goesOn(s, m)
	r.storesAndForks(agent, s, m)
	r.finish()
}

func TestClaude_ReportsMissingKey(t *testing.T) {
	cmd := executable(t, "claude-agent-acp")
	r := newRig(t, "")
	m := Anthropic(t)
	env := slices.DeleteFunc(claudeEnv(m), func(e string) bool { return strings.HasPrefix(e, "ANTHROPIC_API_KEY=") })
	s := r.open(r.start([]string{cmd}, env...))
	if end := r.prompt(s, "Hello?").end(); end.GetError().GetKind() != supervisorv1.ErrorKind_ERROR_KIND_AUTH_REQUIRED {
		t.Errorf("the turn ends with %v", end)
	}
	if n := len(m.Requests()); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
	if _, err := os.Stat(filepath.Join(r.home, ".claude")); err != nil {
		t.Errorf("it wrote nothing into the configured folder: %v", err)
	}
	r.finish()
}
