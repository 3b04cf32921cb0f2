package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// agentHome makes a home folder whose PATH has one installed agent, and a file with one of the user's own.
func agentHome(t *testing.T) (home string, env map[string]string) {
	t.Helper()
	home = t.TempDir()
	for name, text := range map[string]string{
		"bin/gemini":                  "#!/bin/sh\n",
		"bin/mine":                    "#!/bin/sh\n",
		".config/acphost/agents.json": `{"agents": [{"id": "mine", "name": "My\tagent", "distribution": {"npx": {"package": "@me/mine", "cmd": "mine", "args": ["acp"], "env": {"MODE": "acp"}}}}]}`,
	} {
		file := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return home, map[string]string{"HOME": home, "PATH": filepath.Join(home, "bin")}
}

func TestAgentsAreListedWithWhatIsInstalledAndHowToGetTheOthers(t *testing.T) {
	home, env := agentHome(t)
	status, stdout, stderr := (&call{env: env}).run(t, "agents", "list")
	if status != 0 || stderr != "" {
		t.Fatalf("status %d: %s", status, stderr)
	}
	golden(t, "agents-list.txt", strings.ReplaceAll(stdout, home, "HOME"))

	status, stdout, _ = (&call{env: env}).run(t, "agents", "list", "--json", "--installed")
	var list []listedAgent
	if err := json.Unmarshal([]byte(stdout), &list); err != nil || status != 0 {
		t.Fatalf("status %d, %v: %s", status, err, stdout)
	}
	if len(list) != 2 || list[0].ID != "gemini" || list[1].ID != "mine" || list[1].Source != filepath.Join(home, ".config/acphost/agents.json") {
		t.Errorf("the list is %+v", list)
	}
}

func TestAnAgentIsRunByItsName(t *testing.T) {
	home, env := agentHome(t)
	for _, c := range []struct {
		args    []string
		command []string
		name    string
	}{
		{[]string{"--agent", "gemini-cli"}, []string{"gemini", "--acp"}, "gemini"},
		{[]string{"--agent=mine", "--", "--yes", "-c", "x"}, []string{"mine", "acp", "--yes", "-c", "x"}, "mine"},
		{[]string{"--agent=mine", "--agent-name", "other", "--observe", "--"}, []string{"mine", "acp"}, "other"},
	} {
		call := &call{env: env}
		status, _, stderr := call.run(t, append([]string{"run"}, c.args...)...)
		if call.hosted == nil {
			t.Fatalf("%q: status %d: %s", c.args, status, stderr)
		}
		c.command[0] = filepath.Join(home, "bin", c.command[0])
		if h := call.hosted; !slices.Equal(h.Command, c.command) || h.AgentName != c.name {
			t.Errorf("%q: runs %q as %q", c.args, h.Command, h.AgentName)
		}
		if mine := strings.Contains(c.command[0], "mine"); mine != slices.Contains(call.hosted.Env, "MODE=acp") || !slices.Contains(call.hosted.Env, "PATH="+os.Getenv("PATH")) {
			t.Errorf("%q: the environment is %q", c.args, call.hosted.Env)
		}
	}
	for want, args := range map[string][]string{
		`no agent is called "gpt"; there are claude-acp,`:                       {"--agent", "gpt"},
		"the agent codex-acp is not installed; get it with: npm install -g @ag": {"--agent", "codex"},
		`put "--" before arguments`:                                             {"--agent", "gemini", "gemini", "--acp"},
	} {
		call := &call{env: env}
		if status, _, stderr := call.run(t, append([]string{"run"}, args...)...); status == 0 || call.hosted != nil || !strings.Contains(stderr, want) {
			t.Errorf("%q: status %d, %q; want %q", args, status, stderr, want)
		}
	}
}

func TestOnATerminalTheNamedAgentTakesTheProcess(t *testing.T) {
	home, env := agentHome(t)
	call := &call{env: env, terminal: true}
	if _, _, stderr := call.run(t, "run", "--agent", "mine", "--", "login"); !slices.Equal(call.executed, []string{filepath.Join(home, "bin/mine"), "acp", "login"}) {
		t.Errorf("executed %q: %s", call.executed, stderr)
	}
}

func TestALoginThatIsKnownTakesTheProcess(t *testing.T) {
	home, env := agentHome(t)
	known := &call{env: env, terminal: true}
	if _, _, stderr := known.run(t, "agents", "login", "gemini"); !slices.Equal(known.executed, []string{filepath.Join(home, "bin/gemini")}) {
		t.Errorf("executed %q: %s", known.executed, stderr)
	}
	without := &call{env: env}
	if status, _, stderr := without.run(t, "agents", "login", "gemini"); status != 1 || without.executed != nil || !strings.Contains(stderr, "needs a terminal") {
		t.Errorf("status %d, executed %q: %s", status, without.executed, stderr)
	}
}

func TestManualPagesAreWrittenForEveryCommand(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	status, stdout, stderr := (&call{}).run(t, "man", dir)
	if status != 0 || !strings.HasSuffix(stdout, " pages in "+dir+"\n") {
		t.Fatalf("status %d, %q: %s", status, stdout, stderr)
	}
	for _, name := range []string{"acphost", "acphost-run", "acphost-policy-check", "acphost-doctor", "acphost-agents-login"} {
		if _, err := os.Stat(filepath.Join(dir, name+".1")); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "acphost-guard.1")); err == nil {
		t.Error("there is a page for what is hidden")
	}
	page, err := os.ReadFile(filepath.Join(dir, "acphost-doctor.1"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	_, body, _ := strings.Cut(text, "\n") // the first line has the version
	golden(t, "acphost-doctor.1", body)
	if !strings.HasPrefix(text, `.TH "ACPHOST\-DOCTOR" 1 `) {
		t.Errorf("the title is %q", text[:40])
	}
	if status, _, stderr := (&call{}).run(t, "man"); status != 2 || !strings.Contains(stderr, "expected the folder") {
		t.Errorf("without a folder: %d, %s", status, stderr)
	}
}

func TestWhatTheTextOfAPageLooksLikeIsNotARequest(t *testing.T) {
	for in, want := range map[string]string{
		".so x":        `\&.so x`,
		"a\n'br\n.b c": "a\n\\&'br\n\\&.b c",
		`a\fBb -c`:     `a\efBb \-c`,
	} {
		if got := roff(in); got != want {
			t.Errorf("roff(%q) is %q, want %q", in, got, want)
		}
	}
}

func TestNamesAreCompleted(t *testing.T) {
	_, env := agentHome(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"run", "--agent", ""}, "mine\tMy\tagent\n"},
		{[]string{"doctor", "--agent", ""}, "claude\tClaude Agent\n"},
		{[]string{"agents", "login", ""}, "gemini\tGemini CLI\n"},
		{[]string{"run", "--fs", ""}, "handler\nfront\ndeny\n"},
		{[]string{"run", "--log-level", ""}, "debug\ninfo\nwarn\nerror\n"},
	} {
		if status, stdout, _ := (&call{env: env}).run(t, append([]string{"__complete"}, c.args...)...); status != 0 || !strings.Contains(stdout, c.want) {
			t.Errorf("%q is completed with %q, want %q (%d)", c.args, stdout, c.want, status)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if status, stdout, _ := (&call{}).run(t, "completion", shell); status != 0 || !strings.Contains(stdout, "acphost") {
			t.Errorf("completion for %s: %d", shell, status)
		}
	}
}
