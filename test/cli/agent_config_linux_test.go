package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
)

// agentConfig is a configuration that sets keys of agent, and what the agent observes of them.
type agentConfig struct {
	keys      []string
	text      string                 // of the section agent
	also      string                 // further sections
	observe   func(o *observedAgent) // checks the keys
	silent    bool                   // the agent does not answer initialize
	otherUser bool                   // the agent runs as another user, which needs root
}

// observedAgent is an agent that one command has run with a configuration.
type observedAgent struct {
	*testing.T
	p *e2e.Place
	// says has one line for each property that the agent observed of its own process.
	says string
	// shown is the text of the agent's session; empty without one.
	shown string
	// failed is the command's output about an agent that does not answer.
	failed string
	late   bool // the agent was left running for three seconds after the end of its input
}

func (o *observedAgent) expect(line string) {
	o.Helper()
	if !slices.Contains(strings.Split(o.says, "\n"), line) {
		o.Errorf("the agent observes no %q:\n%s", line, o.says)
	}
}

// agentConfigs set every key of agent between them.
func agentConfigs(p *e2e.Place) []agentConfig {
	return []agentConfig{
		{
			keys: []string{"name", "env", "no_landlock", "capabilities", "quirks", "stop_grace_ms"},
			text: fmt.Sprintf("{name: 'of the file', env: {MINE: {value: given}, KEY: {file: %q}}, no_landlock: true, capabilities: [CHOWN], quirks: [create_by_reading], stop_grace_ms: 1}", filepath.Join(p.Home, "key")),
			observe: func(o *observedAgent) {
				o.expect("MINE=given")
				o.expect("KEY=from the file")
				o.expect("signals=yes")
				if os.Geteuid() == 0 {
					o.expect("CapEff:\t0000000000000001")
				}
				if o.late {
					o.Error("the agent was not ended by stop_grace_ms")
				}
				if status, out, errs := o.p.Cli(o, "sessions", "list", "--json"); status != 0 || !strings.Contains(out, `"of the file"`) {
					o.Errorf("the sessions are not of the agent's configured name: %d %s%s", status, out, errs)
				}
				e2e.ExpectContains(o, "the session", o.shown, "read ok")
			},
		},
		{
			keys:      []string{"user", "no_seccomp"},
			otherUser: true,
			text:      "{user: nobody, no_seccomp: true}",
			observe: func(o *observedAgent) {
				o.expect("user=" + fmt.Sprint(e2e.AgentUser(o).UID))
				o.expect(seccompFilters(o))
			},
		},
		{
			keys:    []string{"unreadable"},
			text:    fmt.Sprintf("{unreadable: [%q]}", filepath.Join(p.Home, "hidden")),
			also:    "sidecars",
			observe: func(o *observedAgent) { o.expect("hidden=closed") },
		},
		{
			keys:   []string{"initialize_timeout_seconds"},
			silent: true,
			text:   "{initialize_timeout_seconds: 1}",
			observe: func(o *observedAgent) {
				e2e.ExpectContains(o, "the error", o.failed, "initialize", "1s")
			},
		},
	}
}

// seccompFilters is the line of /proc/self/status for a process with as many filters as this one.
func seccompFilters(t testing.TB) string {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "Seccomp_filters:") {
			return strings.TrimSpace(line)
		}
	}
	return "Seccomp_filters:\t0"
}

// TestAgentConfiguration_AppliesToEachCommand sets each key of agent and runs the agent with each command that runs
// agents. A key of the message without an entry here fails the test.
func TestAgentConfiguration_AppliesToEachCommand(t *testing.T) {
	t.Parallel()
	covered := map[string]bool{"max_restarts": true} // see the test of "config check"
	for _, c := range agentConfigs(e2e.NewPlace(t)) {
		for _, key := range c.keys {
			covered[key] = true
		}
	}
	fields := (&configv1.Agent{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if name := string(fields.Get(i).Name()); !covered[name] {
			t.Errorf("no configuration here sets agent.%s: add one, and what an agent observes of it", name)
		}
	}
	for i := range agentConfigs(e2e.NewPlace(t)) {
		for _, command := range []string{"run", "prompt", "chat", "serve"} {
			p := e2e.NewPlace(t)
			c := agentConfigs(p)[i]
			t.Run(strings.Join(c.keys, ",")+"/"+command, func(t *testing.T) {
				t.Parallel()
				c.run(t, command)
			})
		}
	}
}

// run runs the agent with one command.
func (c agentConfig) run(t *testing.T, command string) {
	p := e2e.NewPlace(t)
	c = agentConfigs(p)[slices.IndexFunc(agentConfigs(p), func(d agentConfig) bool { return slices.Equal(c.keys, d.keys) })]
	if c.otherUser {
		h := e2e.NewUserPlace(t)
		p = h.Place
	}
	if c.keys[0] == "unreadable" && proc.ConfineSupported() != nil {
		t.Skip("Landlock is not there")
	}
	for name, text := range map[string]string{"key": "from the file\n", "hidden": "secret"} {
		if err := os.WriteFile(filepath.Join(p.Home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	also := ""
	if c.also == "sidecars" {
		for _, name := range []string{"fs", "terminal"} {
			_, address := p.Sidecar(t, map[string]string{"fs": "fsd", "terminal": "termd"}[name])
			also += fmt.Sprintf("  %s: {address: %q, secret_file: %q, agent_may_call: true}\n", name, address, p.Secret(t))
		}
		also = "handlers:\n" + also
	}
	flags := p.Config(t, "agent: "+c.text+"\n"+also)
	o := &observedAgent{T: t, p: p}
	agent := c.agent(t, p)
	if c.silent {
		o.failed = fails(t, p, command, flags, agent)
	} else {
		o.shown = drives(t, p, command, flags, agent)
		o.says = readFile(t, p.Path("says"))
		_, err := os.Stat(p.Path("late"))
		o.late = err == nil
	}
	c.observe(o)
}

// agent returns the command of an agent that writes down what it observes, and is the demo agent then.
func (c agentConfig) agent(t *testing.T, p *e2e.Place) []string {
	if c.silent {
		return []string{"sleep", "600"}
	}
	script := p.File(t, "agent.sh", `#!/bin/sh
{
	echo "MINE=$MINE"
	echo "KEY=$KEY"
	echo "user=$(id -u)"
	grep -E '^(CapEff|Seccomp_filters):' /proc/self/status
	if kill -0 `+strconv.Itoa(os.Getpid())+`; then echo signals=yes; fi
	if cat '`+filepath.Join(p.Home, "hidden")+`'; then echo; echo hidden=open; else echo hidden=closed; fi
} > says
'`+e2e.Program("demoagent")+`'
sleep 3
echo > late
`)
	if err := os.Chmod(script, 0o755); err != nil {
		t.Fatal(err)
	}
	return []string{script}
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestServeAgents_AreStartedAsConfigured sets each key of serve.agents.
func TestServeAgents_AreStartedAsConfigured(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	script := p.File(t, "agent.sh", "#!/bin/sh\necho \"$MINE|$(pwd)|$*\" > \"$OUT\"\nexec '"+e2e.Program("demoagent")+"'\n")
	dir := p.Path("below")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(script, 0o755); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(p.Home, ".config", "acphost")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "agents.json"), []byte(`{"agents": [{"id": "mine", "name": "Mine", "distribution": {"npx": {"package": "@me/mine", "cmd": "agent.sh", "args": ["three"]}}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	keys := map[string]string{"command": script, "name": "second", "cwd": dir, "env": "MINE", "preset": "mine"}
	fields := (&configv1.ServeAgent{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if name := string(fields.Get(i).Name()); keys[name] == "" {
			t.Errorf("this test does not set serve.agents.%s", name)
		}
	}
	s := p.Serve(t, p.Config(t, fmt.Sprintf(`
agent: {env: {MINE: {value: of all}}}
serve:
  agents:
    - {command: [%q, one], name: second, cwd: %q, env: {MINE: {value: own}, OUT: {value: %q}}}
    - {command: [%q, two], env: {OUT: {value: %q}}}
    - {preset: mine, env: {OUT: {value: %q}}}
`, script, dir, p.Path("one"), script, p.Path("two"), p.Path("three"))), "PATH="+p.Work+":"+os.Getenv("PATH"))
	testkit.Eventually(t, "the agents run", func() bool {
		_, out, _ := p.Cli(t, "agents", "running", "--pid", strconv.Itoa(s.PID()))
		return strings.Count(out, "running") == 3 && strings.Contains(out, "second-1")
	})
	e2e.ExpectFile(t, p.Path("one"), "own|"+dir+"|one\n")
	e2e.ExpectFile(t, p.Path("two"), "of all|"+p.Work+"|two\n")
	e2e.ExpectFile(t, p.Path("three"), "of all|"+p.Work+"|three\n")
	s.Finish()
}

// TestConfigCheck_NamesCommandsThatIgnoreKey checks the keys that not every command applies.
func TestConfigCheck_NamesCommandsThatIgnoreKey(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	for key, c := range map[string]struct{ text, ignored string }{
		"agent.max_restarts":   {"agent: {max_restarts: 2}\n", "acphost run, acphost prompt"},
		"serve.agents":         {"serve: {agents: [{command: [x]}]}\n", "acphost run, acphost prompt, acphost chat"},
		"serve.gateway_agents": {"serve: {gateway_agents: [{command: [x]}]}\n", "acphost run, acphost prompt, acphost chat"},
	} {
		status, out, errs := p.Cli(t, append([]string{"config", "check"}, p.Config(t, c.text)...)...)
		if want := "note: " + key + " does not apply to " + c.ignored; status != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: status %d, %q%q; want %q", key, status, out, errs, want)
		}
	}
}

// drives has a command run an agent and hold a session, and returns what the session shows.
func drives(t *testing.T, p *e2e.Place, command string, flags, agent []string) string {
	t.Helper()
	words := "/read " + p.Path("missing")
	switch command {
	case "run":
		h := p.Start(t, flags, agent)
		h.Initialize(`{}`).Result(nil)
		var opened struct{ SessionID string }
		h.Request("session/new", map[string]any{"cwd": p.Work, "mcpServers": []any{}}, &opened)
		h.Request("session/prompt", map[string]any{"sessionId": opened.SessionID, "prompt": []any{map[string]any{"type": "text", "text": words}}}, nil)
		h.Close()
		h.ExpectExit()
	case "prompt":
		status, out, errs := p.Cli(t, slices.Concat([]string{"prompt"}, flags, []string{words, "--"}, agent)...)
		if status != 0 {
			t.Fatalf("status %d: %s%s", status, out, errs)
		}
	case "chat":
		x := p.Terminal(t, slices.Concat([]string{e2e.Program("acphost"), "chat"}, flags, []string{"--"}, agent))
		x.Shows("Demo agent 1.0.0", "❯", "Ask · Maxi")
		x.Says(words)
		x.Shows("read ", "Maxi · /help")
		x.Says("/quit")
		x.Exits()
	case "serve":
		s := p.Serve(t, slices.Concat(flags, []string{"--"}, agent))
		var id string
		testkit.Eventually(t, "the agent runs", func() bool {
			agents, err := s.Agents.ListAgents(s.Ctx, &supervisorv1.ListAgentsRequest{})
			if err != nil || len(agents.GetAgents()) != 1 || agents.GetAgents()[0].GetState() != supervisorv1.AgentState_AGENT_STATE_RUNNING {
				return false
			}
			id = agents.GetAgents()[0].GetId()
			return true
		})
		s.Prompt(s.Open(id).GetSessionId(), words).Stopped("end_turn")
		e2e.Send(t, s.Process, syscall.SIGTERM) // sidecars stay, so that not all processes of the place end
		if status := s.ExpectExit(); status != 0 {
			t.Errorf("the exit status is %d, want 0", status)
		}
	}
	_, out, _ := p.Cli(t, "sessions", "list", "--json")
	var listed struct {
		ID string `json:"session"`
	}
	if err := json.Unmarshal([]byte(out), &listed); err != nil {
		t.Fatalf("the sessions are %q: %v", out, err)
	}
	_, shown, errs := p.Cli(t, "sessions", "show", listed.ID)
	return shown + errs
}

// fails has a command run an agent that does not answer, and returns the command's output about it.
func fails(t *testing.T, p *e2e.Place, command string, flags, agent []string) string {
	t.Helper()
	args := slices.Concat(flags, []string{"--"}, agent)
	switch command {
	case "run":
		h := p.Start(t, flags, agent)
		e := h.Initialize(`{}`).Refused(-32603)
		h.Close()
		h.ExpectExit()
		return e.Message
	case "chat":
		x := p.Terminal(t, slices.Concat([]string{e2e.Program("acphost"), "chat"}, args))
		return x.Shows("initialize")
	case "prompt":
		_, _, errs := p.Cli(t, slices.Concat([]string{"prompt"}, flags, []string{"hello", "--"}, agent)...)
		return errs
	}
	_, _, errs := p.Cli(t, slices.Concat([]string{"serve"}, args)...)
	return errs
}
