package agents

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// openCodeEnv connects OpenCode to a model only, and sets the "permission" of its configuration.
func openCodeEnv(t testing.TB, m *Model, permission map[string]string) []string {
	t.Helper()
	if permission == nil {
		permission = map[string]string{}
	}
	config, err := json.Marshal(map[string]any{
		"model": "script/small", "small_model": "script/small", "enabled_providers": []string{"script"}, "autoupdate": false, "share": "disabled",
		"permission": permission,
		"provider": map[string]any{"script": map[string]any{
			"npm": "@ai-sdk/openai-compatible", "name": "Script", "options": map[string]any{"baseURL": m.URL + "/v1", "apiKey": "x"},
			"models": map[string]any{
				"small": map[string]any{"name": "Small", "limit": map[string]any{"context": 100_000, "output": 8_000}},
				// By its name it is given apply_patch in place of edit and write.
				"gpt-5": map[string]any{"name": "Patcher", "limit": map[string]any{"context": 100_000, "output": 8_000}},
			},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return []string{
		"OPENCODE_CONFIG_CONTENT=" + string(config), "OPENCODE_DISABLE_PROJECT_CONFIG=1", "OPENCODE_DISABLE_MODELS_FETCH=1",
		"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_PURE=1", "SHELL=/bin/sh",
		"npm_config_registry=http://127.0.0.1:1/", // for what it installs into its own folder: a port that refuses
	}
}

// everything has OpenCode ask for all that it can ask for.
func everything() map[string]string { return map[string]string{"*": "ask"} }

// openCode starts OpenCode and opens a session.
func (r *rig) openCode(m *Model, permission map[string]string) *supervisorv1.Session {
	r.t.Helper()
	return r.open(r.start([]string{executable(r.t, "opencode"), "acp"}, openCodeEnv(r.t, m, permission)...))
}

func TestOpenCode_RunsTurn(t *testing.T) {
	t.Parallel()
	cmd := executable(t, "opencode")
	m := Completions(t, Step{Thought: "Hm.", Text: "Hello there."})
	r := newRig(t, "")
	agent := r.start([]string{cmd, "acp"}, openCodeEnv(t, m, nil)...)
	if i := agent.GetInfo(); i.GetName() != "OpenCode" || i.GetVersion() == "" || !i.GetCapabilities().GetLoadSession() || len(i.GetAuthMethods()) == 0 {
		t.Errorf("the agent sends %v", i)
	}
	s := r.open(agent)
	// Its modes are a config option and nothing else.
	if s.GetMode() != "build" {
		t.Errorf("the session is %v, want it in the mode build", s)
	}
	if _, err := r.Sessions.SetMode(r.ctx, &supervisorv1.SetModeRequest{AgentId: agent.GetId(), SessionId: s.GetSessionId(), ModeId: "plan"}); err != nil {
		t.Errorf("set its mode: %v", explain(err))
	}
	if got, err := r.State.GetSession(r.ctx, &supervisorv1.GetSessionRequest{AgentId: agent.GetId(), SessionId: s.GetSessionId()}); err != nil || got.GetSession().GetMode() != "plan" {
		t.Errorf("the session is %v (%v), want it in the mode plan", got, explain(err))
	}
	if s.GetModel() != "script/small" {
		t.Errorf("the session's model is %q, want script/small", s.GetModel())
	}
	u := r.prompt(s, "Hello?")
	end := u.stopped("end_turn")
	u.expectSaid("Hello there.")
	if got := end.GetUsage(); got.GetOutput() != outputTokens || got.GetTotal() != inputTokens+outputTokens {
		t.Errorf("the turn took %v, want %d tokens out of %d", got, outputTokens, inputTokens+outputTokens)
	}
	if !slices.ContainsFunc(u.seen, func(e *supervisorv1.Event) bool {
		return e.GetUsage().GetSize() == 100_000 && e.GetUsage().GetUsed() > 0
	}) {
		t.Errorf("no event has the use of the context; there were:\n%s", listing(u.seen))
	}
	if strange := m.Strange(); len(strange) > 0 {
		t.Errorf("the model was asked what it does not know: %q", strange)
	}
	r.finish()
}

func TestOpenCode_AsksBeforeEdit(t *testing.T) {
	t.Parallel()
	executable(t, "opencode")
	m := Completions(t)
	r := newRig(t, "version: 1\nrules: []\n") // no rule matches: a person is asked, and the record states that
	file := r.file("a.txt", "one\ntwo\n")
	m.Play(
		Step{Calls: []Call{{Name: "read", Args: map[string]any{"filePath": file}}}},
		Step{Calls: []Call{{Name: "edit", Args: map[string]any{"filePath": file, "oldString": "two", "newString": "three"}}}},
		Step{Text: "All done."},
	)
	s := r.openCode(m, map[string]string{"*": "allow", "edit": "ask"})
	u := r.prompt(s, "Edit it.")
	q := u.question()
	if p := q.GetPermission(); p.GetKind() != "edit" || len(p.GetContent()) != 1 || p.GetContent()[0].GetDiff().GetNewText() != "one\nthree\n" {
		t.Errorf("the question is %v, want an edit with the whole new text", q)
	}
	r.expectFile("a.txt", "one\ntwo\n")
	u.answer(q, "allow_once")
	u.stopped("end_turn")
	r.expectFile("a.txt", "one\nthree\n")
	u.expectSaid("All done.")
	c := u.call("edit")
	if c.GetStatus() != "completed" || !slices.ContainsFunc(c.GetContent(), func(c *supervisorv1.ToolCallContent) bool {
		return c.GetDiff().GetPath() == file && c.GetDiff().GetNewText() == "three"
	}) {
		t.Errorf("the tool call is %v, want it completed with a diff", c)
	}
	a := r.asked("tool.edit").GetAction()
	if a.GetUnparsed() != "" || len(a.GetPaths()) != 1 || a.GetPaths()[0].GetPath() != file || a.GetPaths()[0].GetAccess() != permissionv1.Access_ACCESS_WRITE {
		t.Errorf("the question was understood as %v, want a write of %s", a, file)
	}
	// It writes by its client as well, before it does so itself.
	if n := len(r.frames(s.GetSessionId(), "fs/write_text_file")); n != 2 {
		t.Errorf("%d frames of fs/write_text_file, want a request and its answer", n)
	}
	r.finish()
}

func TestOpenCode_DeniedCommandDoesNotRun(t *testing.T) {
	t.Parallel()
	executable(t, "opencode")
	m := Completions(t)
	r := newRig(t, `version: 1
rules:
  - {id: no-rm, effect: deny, command: [rm], reason: nothing is removed here}
`)
	r.file("a.txt", "here\n")
	m.Play(
		Step{Calls: []Call{{Name: "bash", Args: map[string]any{"command": "echo x && rm a.txt", "description": "remove it"}}}},
		Step{Text: "Then not."},
	)
	s := r.openCode(m, everything())
	u := r.prompt(s, "Remove it.")
	u.stopped("end_turn")
	r.expectFile("a.txt", "here\n")
	if c := u.call("execute"); c.GetStatus() != "failed" {
		t.Errorf("the tool call is %v, want it failed", c)
	}
	d := r.asked("tool.execute")
	if got := d.GetAction().GetCommand().GetText(); d.GetVerdict() != "deny" || d.GetRule() != "no-rm" || got != "echo x && rm a.txt" {
		t.Errorf("decided: %v, want the command denied by no-rm", d)
	}
	r.finish()
}

// TestOpenCode_UsesReportedFolder: OpenCode's question omits the folder of a command, which the report before it has.
func TestOpenCode_UsesReportedFolder(t *testing.T) {
	t.Parallel()
	executable(t, "opencode")
	m := Completions(t)
	r := newRig(t, `version: 1
rules:
  - {id: look, effect: allow, command: [cat, touch]}
  - {id: secrets, effect: deny, path: ["${root}/secrets/**"]}
`)
	r.file("secrets/key", "hidden\n")
	m.Play(Step{Calls: []Call{{Name: "bash", Args: map[string]any{"command": "cat key", "description": "look", "workdir": "secrets"}}}})
	s := r.openCode(m, map[string]string{"*": "allow", "bash": "ask"})
	r.prompt(s, "Look.").end()
	d := r.asked("tool.execute")
	if a := d.GetAction(); d.GetOutcome() != "denied" || d.GetRule() != "secrets" || a.GetUnparsed() != "" || a.GetCommand().GetCwd() != r.path("secrets") {
		t.Errorf("decided: %v, want the command denied for the file that it reads in the folder that the model chose", d)
	}
	if m.Heard("hidden") {
		t.Error("the command ran")
	}
	r.finish()
}

// TestOpenCode_DeletingPatchIsDelete: OpenCode reports a patch that deletes a file as an edit.
func TestOpenCode_DeletingPatchIsDelete(t *testing.T) {
	t.Parallel()
	executable(t, "opencode")
	m := Completions(t)
	r := newRig(t, `version: 1
rules:
  - {id: edits, effect: allow, on: [tool.edit, "fs.*"], path: ["${root}/**"]}
`)
	r.file("a.txt", "one\n")
	r.file("b.txt", "one\n")
	m.Play(
		Step{Calls: []Call{{Name: "apply_patch", Args: map[string]any{"patchText": "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+two\n*** End Patch"}}}},
		Step{Calls: []Call{{Name: "apply_patch", Args: map[string]any{"patchText": "*** Begin Patch\n*** Delete File: b.txt\n*** End Patch"}}}},
	)
	s := r.openCode(m, map[string]string{"*": "allow", "edit": "ask"})
	if _, err := r.Sessions.SetModel(r.ctx, &supervisorv1.SetModelRequest{AgentId: s.GetAgentId(), SessionId: s.GetSessionId(), ModelId: "script/gpt-5"}); err != nil {
		t.Fatal(explain(err))
	}
	u := r.prompt(s, "Patch.")
	q := u.question() // the first went through
	r.expectFile("a.txt", "two\n")
	u.answer(q, "reject_once")
	u.end()
	r.expectFile("b.txt", "one\n")
	if d := r.asked("tool.edit"); d.GetVerdict() == "allow" || !strings.Contains(d.GetAction().GetUnparsed(), "deletes a file") {
		t.Errorf("decided: %v, want a person to be asked about the deletion", d)
	}
	r.finish()
}

// TestOpenCode_UnaskedCommandIsReported: OpenCode runs a line without a command in it without asking. A policy can only
// report that.
func TestOpenCode_UnaskedCommandIsReported(t *testing.T) {
	t.Parallel()
	executable(t, "opencode")
	m := Completions(t)
	r := newRig(t, `version: 1
rules:
  - {id: keep, effect: deny, path: ["${root}/a.txt"], reason: it stays}
`)
	r.file("a.txt", "here\n")
	m.Play(Step{Calls: []Call{{Name: "bash", Args: map[string]any{"command": "> a.txt", "description": "empty it"}}}})
	s := r.openCode(m, everything())
	u := r.prompt(s, "Empty it.")
	u.stopped("end_turn")
	r.expectFile("a.txt", "")
	d := r.decision("what was done without a question", func(d *supervisorv1.AuditRecord) bool { return d.GetAction().GetDone() })
	if d.GetVerdict() != "deny" || d.GetRule() != "keep" || d.GetAction().GetCommand().GetText() != "> a.txt" {
		t.Errorf("recorded: %v, want what the rule keep denies", d)
	}
	r.finish()
}

func TestOpenCode_Cancel(t *testing.T) {
	t.Parallel()
	executable(t, "opencode")
	m := Completions(t)
	r := newRig(t, "")
	s := r.openCode(m, nil)
	r.cancels(s, m)
	r.finish()
}

func TestOpenCode_ResumesAfterKill(t *testing.T) {
	t.Parallel()
	cmd := executable(t, "opencode")
	m := Completions(t)
	r := newRig(t, "")
	agent := r.start([]string{cmd, "acp"}, openCodeEnv(t, m, nil)...)
	s := r.open(agent)
	if _, err := r.Sessions.SetMode(r.ctx, &supervisorv1.SetModeRequest{AgentId: agent.GetId(), SessionId: s.GetSessionId(), ModeId: "plan"}); err != nil {
		t.Fatal(explain(err))
	}
	expectKilled(t, r.killsInATurn(s, m, killed(t, agent)))
	r.goesOn(s, m)
	if got, err := r.State.GetSession(r.ctx, &supervisorv1.GetSessionRequest{AgentId: agent.GetId(), SessionId: s.GetSessionId()}); err != nil || got.GetSession().GetMode() != "plan" {
		t.Errorf("the session is %v (%v), want it still in the mode plan", got, explain(err))
	}
	r.storesAndForks(agent, s, m)
	r.finish()
}
