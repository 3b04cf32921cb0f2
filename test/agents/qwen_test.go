package agents

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/proc"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/wire"
)

// qwenSettings are the text of ~/.qwen/settings.json. They disable what Qwen Code does with tools after a turn, whose
// requests to the model would use up steps of the script.
const qwenSettings = `{
  "memory": {"enableManagedAutoMemory": false, "enableManagedAutoDream": false},
  "ui": {"enableFollowupSuggestions": false},
  "privacy": {"usageStatisticsEnabled": false},
  "general": {"enableAutoUpdate": false}
}`

// qwenEnv connects Qwen Code to a model only.
func qwenEnv(m *Model) []string {
	return []string{"OPENAI_BASE_URL=" + m.URL + "/v1", "OPENAI_API_KEY=x", "OPENAI_MODEL=small", "QWEN_CODE_DISABLE_CRON=1"}
}

// qwen starts Qwen Code and opens a session in the mode that asks.
func (r *rig) qwen(m *Model, flags ...string) *supervisorv1.Session {
	r.t.Helper()
	r.file("../.qwen/settings.json", qwenSettings)
	if len(flags) == 0 {
		flags = []string{"--approval-mode", "default"}
	}
	return r.open(r.start(append([]string{executable(r.t, "qwen"), "--acp"}, flags...), qwenEnv(m)...))
}

func TestQwenCode_RunsTurn(t *testing.T) {
	t.Parallel()
	executable(t, "qwen")
	m := Completions(t, Step{Thought: "Hm.", Text: "Hello there."})
	r := newRig(t, "")
	s := r.qwen(m)
	if !slices.ContainsFunc(s.GetModes(), func(m *supervisorv1.SessionMode) bool { return m.GetId() == "yolo" }) || s.GetMode() != "default" {
		t.Errorf("the session is %v, want its modes, and it in default", s)
	}
	u := r.prompt(s, "Hello?")
	if got := u.stopped("end_turn").GetUsage(); got.GetOutput() != outputTokens || got.GetTotal() != inputTokens+outputTokens {
		t.Errorf("the turn took %v, want %d tokens out of %d", got, outputTokens, inputTokens+outputTokens)
	}
	u.expectSaid("Hello there.")
	if !slices.ContainsFunc(u.seen, func(e *supervisorv1.Event) bool {
		return strings.Contains(e.GetAgentThought().GetContent().GetText().GetText(), "Hm.")
	}) {
		t.Errorf("it did not think aloud; there were:\n%s", listing(u.seen))
	}
	if strange := m.Strange(); len(strange) > 0 {
		t.Errorf("the model was asked what it does not know: %q", strange)
	}
	r.finish()
}

func TestQwenCode_RequiresLoginWithoutKey(t *testing.T) {
	t.Parallel()
	cmd := executable(t, "qwen")
	r := newRig(t, "")
	agent := r.start([]string{cmd, "--acp"})
	_, err := r.Sessions.NewSession(r.ctx, &supervisorv1.NewSessionRequest{AgentId: agent.GetId(), Cwd: r.work})
	if err == nil || !strings.Contains(explain(err).Error(), supervisorv1.ErrorKind_ERROR_KIND_AUTH_REQUIRED.String()) {
		t.Errorf("got the error %v, want one about a required login", explain(err))
	}
	r.finish()
}

func TestQwenCode_WritesThroughClient(t *testing.T) {
	t.Parallel()
	executable(t, "qwen")
	m := Completions(t)
	r := newRig(t, "version: 1\nrules: []\n")
	file := r.file("a.txt", "one\ntwo\n")
	m.Play(
		Step{Calls: []Call{{Name: "read_file", Args: map[string]any{"file_path": file}}}},
		Step{Calls: []Call{{Name: "edit", Args: map[string]any{"file_path": file, "old_string": "two", "new_string": "three"}}}},
		Step{Text: "All done."},
	)
	s := r.qwen(m)
	u := r.prompt(s, "Edit it.")
	for { // reading goes through the client too, and is asked about by the policy, not by Qwen Code
		q := u.question()
		if q.GetPermission().GetKind() == "edit" {
			if c := q.GetPermission().GetContent(); len(c) != 1 || c[0].GetDiff().GetNewText() != "one\nthree\n" {
				t.Errorf("the question is %v, want an edit with the whole new text", q)
			}
			r.expectFile("a.txt", "one\ntwo\n")
			u.answer(q, "allow_once")
			break
		}
		u.answer(q, "allow_once")
	}
	u.stopped("end_turn")
	r.expectFile("a.txt", "one\nthree\n")
	u.expectSaid("All done.")
	c := u.call("edit")
	if c.GetStatus() != "completed" || len(c.GetContent()) != 1 || c.GetContent()[0].GetDiff().GetPath() != file {
		t.Errorf("the tool call is %v, want it completed with a diff", c)
	}
	a := r.asked("tool.edit").GetAction()
	if a.GetUnparsed() != "" || len(a.GetPaths()) != 1 || a.GetPaths()[0].GetPath() != file || a.GetPaths()[0].GetAccess() != permissionv1.Access_ACCESS_WRITE {
		t.Errorf("the question was understood as %v, want a write of %s", a, file)
	}
	for _, f := range r.frames(s.GetSessionId(), "fs/write_text_file") {
		if f.Handler != "fs" {
			t.Errorf("a frame of fs/write_text_file is not the handler's: %s", f.Frame)
		}
	}
	if n := len(r.frames(s.GetSessionId(), "fs/write_text_file")); n != 2 {
		t.Errorf("%d frames of fs/write_text_file, want a request and its answer", n)
	}
	r.finish()
}

func TestQwenCode_DeniedCommandDoesNotRun(t *testing.T) {
	t.Parallel()
	executable(t, "qwen")
	m := Completions(t)
	r := newRig(t, `version: 1
rules:
  - {id: make, effect: allow, command: [mkdir]}
  - {id: no-rm, effect: deny, command: [rm], reason: nothing is removed here}
`)
	r.file("sub/a.txt", "here\n")
	m.Play(
		Step{Calls: []Call{{Name: "run_shell_command", Args: map[string]any{"command": "mkdir made", "directory": r.path("sub"), "is_background": false}}}},
		Step{Calls: []Call{{Name: "run_shell_command", Args: map[string]any{"command": "echo x && rm a.txt", "directory": r.path("sub"), "is_background": false}}}},
	)
	s := r.qwen(m)
	u := r.prompt(s, "Remove it.")
	u.end()
	r.expectFile("sub/a.txt", "here\n")
	d := r.asked("tool.execute")
	if c := d.GetAction().GetCommand(); d.GetVerdict() != "deny" || d.GetRule() != "no-rm" || c.GetText() != "echo x && rm a.txt" || c.GetCwd() != r.path("sub") {
		t.Errorf("decided: %v, want the command denied by no-rm, in the folder that it names", d)
	}
	calls := u.calls()
	if len(calls) != 2 || calls[0].GetKind() != "execute" || calls[1].GetStatus() != "failed" {
		t.Errorf("the tool calls are %v, want the second to have failed", calls)
	}
	r.decision("the command that a rule allows", func(d *supervisorv1.AuditRecord) bool { return d.GetRule() == "make" && d.GetVerdict() == "allow" })
	r.finish()
}

// TestQwenCode_LeavesPlanModeIfAllowed: Qwen Code asks before it leaves plan mode, with options that name the next
// mode.
func TestQwenCode_LeavesPlanModeIfAllowed(t *testing.T) {
	t.Parallel()
	executable(t, "qwen")
	m := Completions(t)
	r := newRig(t, "version: 1\nrules: []\n")
	m.Play(Step{Calls: []Call{{Name: "exit_plan_mode", Args: map[string]any{"plan": "Do it."}}}}, Step{Text: "Then I begin."})
	s := r.qwen(m)
	if _, err := r.Sessions.SetMode(r.ctx, &supervisorv1.SetModeRequest{AgentId: s.GetAgentId(), SessionId: s.GetSessionId(), ModeId: "plan"}); err != nil {
		t.Fatal(explain(err))
	}
	u := r.prompt(s, "Plan.")
	q := u.question()
	if q.GetPermission().GetKind() != "switch_mode" {
		t.Errorf("the question is %v, want one about its mode", q)
	}
	u.answer(q, "restore_previous") // allow_once could mean two of them
	u.stopped("end_turn")
	if got, err := r.State.GetSession(r.ctx, &supervisorv1.GetSessionRequest{AgentId: s.GetAgentId(), SessionId: s.GetSessionId()}); err != nil || got.GetSession().GetMode() != "default" {
		t.Errorf("the session is %v (%v), want it in the mode default", got, explain(err))
	}
	r.finish()
}

func TestQwenCode_Cancel(t *testing.T) {
	t.Parallel()
	executable(t, "qwen")
	m := Completions(t)
	r := newRig(t, "")
	s := r.qwen(m)
	r.cancels(s, m)
	r.finish()
}

func TestQwenCode_ResumesAfterKill(t *testing.T) {
	t.Parallel()
	executable(t, "qwen")
	m := Completions(t)
	r := newRig(t, "")
	s := r.qwen(m)
	got, err := r.Agents.GetAgent(r.ctx, &supervisorv1.GetAgentRequest{AgentId: s.GetAgentId()})
	if err != nil {
		t.Fatal(explain(err))
	}
	agent := got.GetAgent()
	// It has started itself twice more, and the last of these, to which the others pass all on, holds the session.
	all, err := proc.Descendants(int(agent.GetPid()))
	all = slices.DeleteFunc(all, func(pid int) bool { return !strings.Contains(wire.Describe([]int{pid}), "--acp") })
	if err != nil || len(all) == 0 {
		t.Fatalf("below %d there are no more of its kind (%v)", agent.GetPid(), err)
	}
	if end := r.killsInATurn(s, m, func() {
		if err := syscall.Kill(all[len(all)-1], syscall.SIGKILL); err != nil { // parents precede their children
			t.Fatal(err)
		}
	}); end.GetError().GetKind() != supervisorv1.ErrorKind_ERROR_KIND_CRASHED {
		t.Errorf("the turn ends with %v", end)
	}
	r.goesOn(s, m)

	// Its stored sessions are listed and loaded. It cannot close or fork sessions.
	r.expectStored(agent, s)
	r.finish()
}
