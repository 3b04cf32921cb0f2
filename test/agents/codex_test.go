package agents

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// codex starts Codex in a mode, with a model without steps. The model has a name that Codex knows, because its tools
// depend on the name.
func (r *rig) codex(mode string) (*supervisorv1.Agent, *Model) {
	r.t.Helper()
	env, m := r.codexEnv()
	if mode != "" {
		env = append(env, "INITIAL_AGENT_MODE="+mode)
	}
	return r.start([]string{executable(r.t, "codex-acp")}, env...), m
}

// codexEnv connects Codex to a new model.
func (r *rig) codexEnv() ([]string, *Model) {
	r.t.Helper()
	m := r.model(Responses)
	r.file("../codex/config.toml", fmt.Sprintf(`
model = "gpt-5.5"
model_provider = "script"
[model_providers.script]
name = "Script"
base_url = "%s/v1"
wire_api = "responses"
env_key = "SCRIPT_KEY"
request_max_retries = 0
stream_max_retries = 0
`, m.URL))
	return []string{"CODEX_HOME=" + filepath.Join(r.home, "codex"), "SCRIPT_KEY=x", "NO_BROWSER=1"}, m
}

// shell is a call of Codex's shell that asks to run outside of its sandbox.
func shell(line string) Call {
	return Call{Name: "exec_command", Args: map[string]any{"cmd": line, "sandbox_permissions": "require_escalated", "justification": "It is needed."}}
}

// patch is a call of the tool with which Codex changes files.
func patch(lines ...string) Call {
	return Call{Name: "apply_patch", Free: "*** Begin Patch\n" + strings.Join(lines, "\n") + "\n*** End Patch\n"}
}

// codexRules judge what Codex does in these tests.
const codexRules = `
version: 1
rules:
  - {id: edits, effect: allow, on: [tool.edit], path: ["${root}/**"]}
  - {id: making, effect: allow, command: ["touch"], redirect: any, path: ["${root}/**"]}
  - {id: removing, effect: deny, command: ["rm"], reason: Nothing is removed here.}
  - {id: secrets, effect: deny, path: ["**/.env"], reason: Secrets stay where they are.}
`

func TestCodex_RunsTurn(t *testing.T) {
	executable(t, "codex-acp")
	r := newRig(t, "")
	agent, m := r.codex("read-only")
	info := agent.GetInfo()
	if can := info.GetCapabilities(); info.GetName() != "@agentclientprotocol/codex-acp" || info.GetVersion() == "" || !can.GetLoadSession() || !can.GetResumeSession() ||
		!can.GetForkSession() || !can.GetListSessions() || !can.GetPromptImage() || len(info.GetAuthMethods()) == 0 {
		t.Errorf("the agent's info is %v", info)
	}
	s := r.open(agent)
	if s.GetMode() != "read-only" || s.GetModel() == "" {
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
	m.Play(Step{Fail: 400})
	u = r.prompt(s, "And?")
	u.stopped("end_turn")
	u.expectSaid("the script refuses")
	expectNothingStrange(t, m)
	r.finish()
}

func TestCodex_CallsAreDecided(t *testing.T) {
	executable(t, "codex-acp")
	r := newRig(t, codexRules)
	r.file("a.txt", "one\ntwo\n")
	r.file("keep.txt", "here\n")
	r.file("big.txt", strings.Repeat("x", 1100<<10)+"\n")
	if err := os.Mkdir(r.path("sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	agent, m := r.codex("read-only")
	s := r.openWithTool(agent)
	play := func(c Call) *turn {
		t.Helper()
		m.Play(Step{Text: "Doing.", Calls: []Call{c}})
		return r.prompt(s, "Go on.")
	}
	// A rejected question ends the turn, since Codex offers no other way to reject.
	refused := func(c Call) {
		t.Helper()
		u := play(c)
		u.answer(u.question(), "reject_once")
		u.end()
	}

	t.Run("a patch that is allowed", func(t *testing.T) {
		u := play(patch("*** Update File: a.txt", "@@", "-two", "+three"))
		u.stopped("end_turn")
		r.expectFile("a.txt", "one\nthree\n")
		c := u.call("edit")
		if c.GetStatus() != "completed" || len(c.GetContent()) != 1 || c.GetContent()[0].GetDiff().GetPath() != r.path("a.txt") || !strings.Contains(c.GetContent()[0].GetDiff().GetNewText(), "three") {
			t.Errorf("the tool call is %v", c)
		}
		d := r.asked("tool.edit")
		if d.GetOutcome() != "allowed" || d.GetRule() != "edits" || len(d.GetAction().GetPaths()) != 1 || d.GetAction().GetPaths()[0].GetPath() != r.path("a.txt") ||
			d.GetAction().GetPaths()[0].GetAccess() != permissionv1.Access_ACCESS_WRITE || !d.GetAction().GetPaths()[0].GetInsideRoots() {
			t.Errorf("the audit has %v", d)
		}
	})
	t.Run("a command that is allowed, in its directory", func(t *testing.T) {
		c := shell("touch made > out.txt")
		c.Args["workdir"] = r.path("sub")
		u := play(c)
		u.stopped("end_turn")
		r.expectFile("sub/made", "")
		r.expectFile("sub/out.txt", "")
		if c := u.call("execute"); c.GetStatus() != "completed" {
			t.Errorf("the tool call is %v", c)
		}
		if d := r.asked("tool.execute"); d.GetRule() != "making" || d.GetAction().GetCommand().GetCwd() != r.path("sub") || d.GetAction().GetPaths()[0].GetPath() != r.path("sub/out.txt") {
			t.Errorf("the audit has %v", d)
		}
	})
	t.Run("a command that is denied", func(t *testing.T) {
		u := play(shell("cat a.txt && rm -f keep.txt"))
		u.end()
		r.expectFile("keep.txt", "here\n")
		if c := u.call("execute"); c.GetStatus() != "failed" {
			t.Errorf("the tool call is %v", c)
		}
		if d := r.asked("tool.execute"); d.GetOutcome() != "denied" || d.GetRule() != "removing" {
			t.Errorf("the audit has %v", d)
		}
	})
	t.Run("a command with quotes that one pair is not enough for", func(t *testing.T) {
		play(shell(`rm -f 'keep.txt' "$HOME/x"`)).end()
		r.expectFile("keep.txt", "here\n")
		if d := r.asked("tool.execute"); d.GetOutcome() != "denied" || d.GetRule() != "removing" || !strings.HasPrefix(d.GetAction().GetCommand().GetText(), "rm -f") {
			t.Errorf("the audit has %v", d)
		}
	})
	t.Run("a patch that is denied", func(t *testing.T) {
		play(patch("*** Add File: new.txt", "+x", "*** Add File: sub/.env", "+KEY=1")).end()
		r.expectNoFile("sub/.env")
		r.expectNoFile("new.txt")
		if d := r.asked("tool.edit"); d.GetOutcome() != "denied" || d.GetRule() != "secrets" {
			t.Errorf("the audit has %v", d)
		}
	})
	t.Run("a patch that moves a file and hides where to", func(t *testing.T) {
		big := strings.Repeat("x", 1100<<10)
		refused(patch("*** Update File: big.txt", "*** Move to: ../stolen.txt", "@@", "-"+big, "+"+big+"y"))
		r.expectNoFile("../stolen.txt")
		if d := r.asked("tool.edit"); d.GetVerdict() != "ask" || !strings.Contains(d.GetAction().GetUnparsed(), "not shown in full") {
			t.Errorf("the audit has %v", d)
		}
	})
	t.Run("a tool that looks like a shell", func(t *testing.T) {
		refused(Call{Namespace: "mcp__rig", Name: "say", Args: map[string]any{"words": "hello", "command": "touch x"}})
		r.expectNoFile("../tool.log")
		if d := r.asked("tool.execute"); d.GetVerdict() != "ask" || !strings.Contains(d.GetAction().GetUnparsed(), "arguments cannot be read") || !strings.Contains(d.GetAction().GetRawInput(), "hello") {
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

func TestCodex_DefaultModeAsksNothing(t *testing.T) {
	executable(t, "codex-acp")
	r := newRig(t, codexRules)
	agent, m := r.codex("")
	s := r.open(agent)
	if s.GetMode() != "agent" {
		t.Errorf("it starts in the mode %q", s.GetMode())
	}
	m.Play(
		Step{Calls: []Call{patch("*** Add File: .env", "+KEY=1")}},
		// Where it has no sandbox, a separate model answers: the script, which has this text in the turn if that model
		// is not asked.
		Step{Text: `{"risk_level": "low", "user_authorization": "high", "outcome": "allow", "rationale": "It was asked for."}`},
	)
	r.prompt(s, "Go on.").stopped("end_turn")
	r.expectFile(".env", "KEY=1\n")
	if d := r.done(); d.GetOutcome() != "done, not asked" || d.GetVerdict() != "deny" || d.GetRule() != "secrets" {
		t.Errorf("the audit has %v", d)
	}
	r.finish()
}

func TestCodex_PresetAsks(t *testing.T) {
	executable(t, "codex-acp")
	r := newRig(t, codexRules)
	env, m := r.codexEnv()
	s := r.open(r.preset("codex", env...))
	if s.GetMode() != "read-only" {
		t.Errorf("it starts in the mode %q", s.GetMode())
	}
	m.Play(Step{Calls: []Call{patch("*** Add File: .env", "+KEY=1")}})
	r.prompt(s, "Go on.").end()
	r.expectNoFile(".env")
	if d := r.asked("tool.edit"); d.GetOutcome() != "denied" || d.GetRule() != "secrets" || d.GetAgent() != "codex-acp" {
		t.Errorf("the audit has %v", d)
	}
	r.finish()
}

func TestCodex_ModesAndCancel(t *testing.T) {
	executable(t, "codex-acp")
	r := newRig(t, "")
	agent, m := r.codex("read-only")
	s := r.open(agent)
	var modes []string
	for _, mode := range s.GetModes() {
		modes = append(modes, mode.GetId())
	}
	if want := []string{"read-only", "workspace-write", "agent", "agent-full-access"}; !slices.Equal(modes, want) {
		t.Errorf("there are the modes %q, want %q", modes, want)
	}
	mode, err := r.Sessions.SetMode(r.ctx, &supervisorv1.SetModeRequest{SessionId: s.GetSessionId(), ModeId: "workspace-write"})
	if err != nil || mode.GetSession().GetMode() != "workspace-write" || option(mode.GetSession(), "mode") != "workspace-write" {
		t.Errorf("in another mode it is %v (%v)", mode, explain(err))
	}
	r.cancels(s, m)
	r.finish()
}

func TestCodex_ResumesAfterKill(t *testing.T) {
	executable(t, "codex-acp")
	r := newRig(t, "")
	agent, m := r.codex("read-only")
	s := r.open(agent)
	expectKilled(t, r.killsInATurn(s, m, killed(t, agent)))
	r.goesOn(s, m)
	r.storesAndForks(agent, s, m)
	r.finish()
}

func TestCodex_ReportsMissingKey(t *testing.T) {
	cmd := executable(t, "codex-acp")
	r := newRig(t, "")
	agent := r.start([]string{cmd}, "NO_BROWSER=1")
	_, err := r.Sessions.NewSession(r.ctx, &supervisorv1.NewSessionRequest{AgentId: agent.GetId(), Cwd: r.work})
	if err == nil || !strings.Contains(explain(err).Error(), "ERROR_KIND_AUTH_REQUIRED") {
		t.Errorf("a session was refused with %v", explain(err))
	}
	r.finish()
}
