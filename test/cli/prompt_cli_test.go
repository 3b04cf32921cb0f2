package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

// allowing permits the demo agent's actions in the workspace.
const allowing = `
version: 1
rules:
  - {id: files, effect: allow, on: [fs.read, fs.write, tool.edit], path: ["${root}/**"]}
  - {id: commands, effect: allow, command: [echo, exit, grep]}
`

func TestPrompt_PrintsPlainLinesWithoutTerminal(t *testing.T) {
	t.Parallel()
	for name, words := range map[string]string{"tour": "tour", "demo": "Please fix the spelling."} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			p.File(t, "notes.md", e2e.Misspelt)
			flags := p.Policy(t, allowing, "")
			status, out, errs := p.Cli(t, e2e.DemoCommand(words, flags...)...)
			if status != 0 {
				t.Errorf("the exit status is %d, want 0", status)
			}
			if strings.ContainsAny(out+errs, "\x1b\r") {
				t.Errorf("output to a file has cursor movements or colors: %q", out+errs)
			}
			golden(t, p, "prompt_"+name+".out", terminalsLast(out))
			golden(t, p, "prompt_"+name+".err", errs)
		})
	}
}

func TestPrompt_ShowsAgentStderrOnRequest(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "notes.md", e2e.Misspelt)
	script := `printf 'ready \033[6n\n' >&2; exec "$0"`
	for _, verbose := range []bool{true, false} {
		args := append([]string{"prompt", fmt.Sprintf("--verbose=%t", verbose)}, p.Policy(t, allowing, "")...)
		status, _, errs := p.Cli(t, append(args, "tour", "--", "/bin/sh", "-c", script, e2e.Program("demoagent"))...)
		if shown := strings.Contains(errs, "agent: ready \\u{1b}[6n\n"); status != 0 || shown != verbose || strings.Contains(errs, "\x1b") {
			t.Errorf("--verbose=%t: exit status %d, standard error %q", verbose, status, errs)
		}
	}
}

// terminalsLast moves the output of terminals after all other output, because its time varies. It merges blank lines.
func terminalsLast(out string) string {
	var lines, written []string
	for _, line := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "│ "):
			written = append(written, line)
		case line != "" || len(lines) > 0 && lines[len(lines)-1] != "":
			lines = append(lines, line)
		}
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return strings.Join(append(lines, written...), "\n") + "\n"
}

func TestPrompt_PrintsJSONEvents(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "notes.md", e2e.Misspelt)
	status, out, errs := p.Cli(t, e2e.DemoCommand("Please fix the spelling.", "--json")...)
	if status != 0 || errs != "" && !strings.Contains(errs, "no user was here") {
		t.Errorf("the exit status is %d, and standard error\n%s", status, errs)
	}
	var (
		last *supervisorv1.Event
		kept strings.Builder
	)
	for line := range strings.Lines(out) {
		last = &supervisorv1.Event{}
		if err := protojson.Unmarshal([]byte(line), last); err != nil {
			t.Fatalf("a line is no event: %v\n%s", err, line)
		}
		if !json.Valid([]byte(last.GetRaw())) && last.GetRaw() != "" {
			t.Errorf("the raw JSON is invalid: %s", line)
		}
		if last.GetAvailableCommands() == nil { // sent when the session is opened: before the turn, or in it
			kept.WriteString(line)
		}
	}
	if last.GetTurnEnded().GetStopReason() != "end_turn" {
		t.Errorf("the last line is %v", last)
	}
	golden(t, p, "prompt_demo.json", kept.String())
}

func TestPrompt_ExitStatusOfTurn(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]int{
		"repeat": 0, "refuse": 3, "max_tokens": 4, "max_turn_requests": 5, "error -32000 please log in": 7, "error -32603 it broke": 1, "crash": 1,
	} {
		t.Run(words, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			status, _, errs := p.Cli(t, e2e.DemoCommand(words)...)
			if status != want {
				t.Errorf("the exit status is %d, want %d\n%s", status, want, errs)
			}
			switch words {
			case "crash":
				e2e.ExpectContains(t, "standard error", errs, "status 3", "these are the last words")
			case "error -32603 it broke":
				e2e.ExpectContains(t, "standard error", errs, "it broke")
			}
		})
	}
	for name, c := range map[string]struct {
		args []string
		want int
		says string
	}{
		"no agent":           {[]string{"prompt", "hello"}, 2, "--agent"},
		"no text":            {[]string{"prompt", "--", "agent"}, 2, "text"},
		"no such command":    {[]string{"prompt", "hello", "--", "no-such-agent"}, 127, "no-such-agent"},
		"an unknown command": {[]string{"prompt", "hello", "--", "/etc/passwd"}, 126, "/etc/passwd"},
		"no such file":       {[]string{"prompt", "--file", "missing", "hello", "--", e2e.Program("demoagent")}, 1, "missing"},
		"no such session":    {[]string{"prompt", "--session", "demo-NONE", "hello", "--", e2e.Program("demoagent")}, 1, "demo-NONE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, out, errs := e2e.NewPlace(t).Cli(t, c.args...)
			if status != c.want || out != "" {
				t.Errorf("the exit status is %d, want %d, and the output %q", status, c.want, out)
			}
			e2e.ExpectContains(t, "standard error", errs, c.says)
		})
	}
}

func TestPrompt_ExitStatusOfDenials(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		words, policy string
		flags         []string
		want          int
		errs          []string
	}{
		"by a rule":               {"Please fix the spelling.", "readonly", []string{"--fail-on-denied"}, 8, []string{"action denied: edit ", "(rule no-writes: "}},
		"without the flag":        {"Please fix the spelling.", "readonly", nil, 0, []string{"action denied: edit "}},
		"unattended":              {"Please fix the spelling.", "workspace", []string{"--fail-on-denied"}, 8, []string{"no user was here to answer 1 question: ", "diary.md"}},
		"nothing":                 {"repeat hello", "readonly", []string{"--fail-on-denied"}, 0, nil},
		"the turn takes too long": {"sleep 600000", "workspace", []string{"--timeout", "1s"}, 124, []string{"the turn has not ended after 1s (--timeout)"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			p.File(t, "notes.md", e2e.Misspelt)
			status, out, errs := p.Cli(t, e2e.DemoCommand(c.words, append(c.flags, "--output", "final", "--policy", c.policy)...)...)
			if status != c.want {
				t.Errorf("the exit status is %d, want %d\n%s\n%s", status, c.want, out, errs)
			}
			e2e.ExpectContains(t, "standard error", errs, c.errs...)
			if len(c.errs) == 0 && strings.Contains(errs, "denied") {
				t.Errorf("an action is reported as denied: %s", errs)
			}
			if strings.Contains(out, "Edit notes.md") {
				t.Errorf("the answer has tool calls in it: %s", out)
			}
		})
	}
}

func TestPrompt_AcceptsFilesImagesAndStdin(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "a.txt", "a file\n")
	p.File(t, "dot.png", "\x89PNG\r\n\x1a\n and more")
	caller := wire.Start(t, wire.Options{
		Name:    "caller",
		Command: append([]string{e2e.Program("acphost")}, e2e.DemoCommand("-", "--json", "--file", "a.txt", "--image", "dot.png")...),
		Dir:     p.Work, Env: p.Env(),
	})
	caller.Write("repeat from standard input")
	caller.Close()
	var prompt []*supervisorv1.ContentBlock
	message := ""
	for {
		m := caller.Next()
		e := &supervisorv1.Event{}
		if err := protojson.Unmarshal(m.Raw, e); err != nil {
			t.Fatal(err)
		}
		if b := e.GetTurnStarted().GetPrompt(); b != nil {
			prompt = b
		}
		message += e.GetAgentMessage().GetContent().GetText().GetText()
		if e.GetTurnEnded() != nil {
			break
		}
	}
	if status := caller.ExpectExit(); status != 0 {
		t.Errorf("the exit status is %d, want 0", status)
	}
	if len(prompt) != 3 || prompt[0].GetText().GetText() != "repeat from standard input\n" || prompt[1].GetResource().GetText() != "a file\n" ||
		!bytes.HasPrefix(prompt[2].GetImage().GetData(), []byte("\x89PNG")) || prompt[2].GetImage().GetMimeType() != "image/png" || !strings.HasPrefix(prompt[1].GetResource().GetUri(), "file://"+p.Work) {
		t.Errorf("the prompt is %v", prompt)
	}
	e2e.ExpectContains(t, "the agent's message", message, "from standard input")
}

func TestPrompt_ResumesStoredSession(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	kept := "DEMOAGENT_STATE=" + filepath.Join(p.Home, "kept")
	run := func(args ...string) (string, string) {
		t.Helper()
		command := append([]string{e2e.Program("acphost")}, args...)
		proc := wire.Start(t, wire.Options{Name: "caller", Command: command, Dir: p.Work, Env: p.Env(kept)})
		proc.ExpectEnd()
		var message strings.Builder
		for _, m := range proc.Waiting() {
			message.Write(m.Raw)
			message.WriteByte('\n')
		}
		if status := proc.ExpectExit(); status != 0 {
			t.Fatalf("the exit status is %d", status)
		}
		return message.String(), proc.Stderr()
	}
	_, errs := run(e2e.DemoCommand("repeat one", "--mode", "code", "--model", "mini")...)
	_, id, found := strings.Cut(errs, "session ")
	if !found {
		t.Fatalf("the session is not named: %s", errs)
	}
	id = strings.TrimSpace(strings.SplitN(id, "\n", 2)[0])
	out, _ := run(e2e.DemoCommand("repeat two", "--session", id)...)
	e2e.ExpectContains(t, "the output", out, id+": two")
	if strings.Contains(out, "one") {
		t.Errorf("history is printed: %s", out)
	}
	out, _ = run(e2e.DemoCommand("repeat three", "--continue", "--output", "final")...)
	if out != id+": three\n" {
		t.Errorf("the newest session's answer is %q, want that of %s", out, id)
	}
	data, err := os.ReadFile(filepath.Join(p.Home, "kept", id+".json"))
	if err != nil || !strings.Contains(string(data), `"mode":"code","model":"mini"`) {
		t.Errorf("the agent keeps %s (%v)", data, err)
	}
}

func TestPrompt_InterruptLeavesNoProcess(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		words, says string
		play        func(t *testing.T, p *wire.Process)
		want        int
	}{
		"once, the turn is cancelled": {"sleep", "\"text\":\"waiting\"", func(t *testing.T, p *wire.Process) { e2e.Send(t, p, syscall.SIGINT) }, 6},
		"twice, it ends whatever the agent does": {"hang", "hanging", func(t *testing.T, p *wire.Process) {
			e2e.Send(t, p, syscall.SIGINT)
			if !testkit.Poll(func() bool { return strings.Contains(p.Stderr(), "being cancelled") }) {
				t.Error("it does not state that the turn is being cancelled")
			}
			_ = p.Cmd.Process.Signal(syscall.SIGINT) // it may have ended, with 6, half a second after the first one
		}, 130},
		"by SIGTERM":                   {"sleep", "waiting", func(t *testing.T, p *wire.Process) { e2e.Send(t, p, syscall.SIGTERM) }, 143},
		"with a command in a terminal": {"/run echo begun; sleep 600", `"terminalId"`, func(t *testing.T, p *wire.Process) { e2e.Send(t, p, syscall.SIGINT) }, 6},
		"by SIGKILL":                   {"/run echo begun; sleep 600", `"terminalId"`, func(t *testing.T, p *wire.Process) { e2e.Send(t, p, syscall.SIGKILL) }, 128 + 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			proc, pids := prompting(t, p, c.words, c.says)
			if len(pids) < 3 {
				t.Fatalf("the family of the prompt is %d processes", len(pids))
			}
			c.play(t, proc)
			if got := proc.ExpectExit(); got != c.want && (got != 6 || c.want != 130) {
				t.Errorf("the exit status is %d, want %d", got, c.want)
			}
			p.ExpectNobody(t, pids)
		})
	}
}

func TestPrompt_EndsOnClosedPipe(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	out, err := p.Shell(t, filepath.Dir(e2e.Program("acphost")), `acphost prompt "flood 1000000" -- demoagent | head -n 3`)
	if err != nil || !strings.Contains(out, "piece 2") {
		t.Errorf("the first lines are %q (%v)", out, err)
	}
	p.ExpectNobody(t, nil)
}

func TestPrompt_UserAnswersQuestion(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ key, says string }{
		"allowing": {"a", "ask ok: allow"}, "rejecting": {"r", "ask ok: reject"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			x := p.Terminal(t, append([]string{e2e.Program("acphost")}, e2e.DemoCommand("ask")...))
			// The screen shows the change and the keys.
			x.Shows("notes.md", "old", "new", "[a] Allow", "[A] Always allow", "[r] Reject", "Press a A r")
			if c.key == "a" {
				x.Allows(c.key)
			} else {
				x.Keys(c.key)
			}
			x.Shows(c.says)
			if status := x.Exits(); status != 0 {
				t.Errorf("the exit status is %d, want 0", status)
			}
		})
	}
}

func TestPrompt_UserCancelsTurn(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "notes.md", e2e.Misspelt)
	x := p.Terminal(t, append([]string{e2e.Program("acphost")}, e2e.DemoCommand("Please fix the spelling.")...))
	x.Shows("Edit notes.md", "recieve", "receive", "Press a A r")
	x.Allows("a")
	// The output of the command in the terminal is shown, and the rejection.
	x.Exits()
	e2e.ExpectContains(t, "the terminal", x.All(), "I will look at notes.md first.", "Read notes.md", "grep -n receive notes.md", "3:We will receive the parts on Monday.", "diary.md", "The spelling is right now.")
	if got, err := os.ReadFile(p.Path("notes.md")); err != nil || !strings.Contains(string(got), "receive") {
		t.Errorf("notes.md holds %q (%v)", got, err)
	}

	q := e2e.NewPlace(t)
	x = q.Terminal(t, append([]string{e2e.Program("acphost")}, e2e.DemoCommand("ask")...))
	x.Shows("Press a A r")
	x.Keys("C-c")
	if status := x.Exits(); status != 6 {
		t.Errorf("after Ctrl-C the exit status is %d, want 6", status)
	}
	q.ExpectNobodyBut(t, "tmux")

	r := e2e.NewPlace(t)
	x = r.Terminal(t, append([]string{e2e.Program("acphost")}, e2e.DemoCommand("hang")...))
	x.Shows("hanging")
	x.Keys("C-c")
	x.Shows("again")
	x.Keys("C-c")
	if status := x.Exits(); status != 130 && status != 6 { // 6: half a second was over before the second one came
		t.Errorf("after the second Ctrl-C the exit status is %d, want 130", status)
	}
	r.ExpectNobodyBut(t, "tmux")
}

func TestPrompt_ShowsLongCommandBeforeAllow(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	line := "echo begun > made"
	for i := range 83 {
		line += fmt.Sprintf("\necho %d >> made", i)
	}
	args := e2e.DemoCommand("/run " + line)
	x := p.Terminal(t, append([]string{e2e.Program("acphost"), args[0], "--policy", "workspace"}, args[1:]...))
	x.Shows("more lines: v shows all. Press a")
	x.Keys("a")
	x.Shows("\n      echo 82 >> made\n", "\nPress a A r R")
	x.Keys("r")
	if status := x.Exits(); status != 0 {
		t.Errorf("the exit status is %d, want 0", status)
	}
	if _, err := os.Stat(p.Path("made")); err == nil {
		t.Error("a rejected command was run")
	}
}

func TestPrompt_UserFillsInForm(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	x := p.Terminal(t, append([]string{e2e.Program("acphost")}, e2e.DemoCommand("elicit")...))
	x.Shows("How should it be built?", "A form of 3 fields")
	x.Keys("Enter")
	x.Shows("Clean first (y or n")
	x.Keys("y", "Enter")
	x.Shows("Jobs (integer")
	x.Keys("Enter") // what is proposed
	x.Shows("[2] release", "Target (a number")
	x.Keys("2", "Enter")
	x.Shows("Press Enter to send the form")
	x.Keys("Enter")
	x.Shows(`elicit ok: accept {"clean":true,"jobs":2,"target":"release"}`)
	if status := x.Exits(); status != 0 {
		t.Errorf("the exit status is %d, want 0", status)
	}
}

func TestCommands_RejectAdministrationByAgents(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	acphost := e2e.Program("acphost")
	for _, verb := range []string{"policy reload", "handler restart terminal", "grants revoke abcdefghij", "policy trust", "certs init x"} {
		_, out, _ := p.Cli(t, e2e.DemoCommand("/run "+acphost+" "+verb)...)
		name := strings.Join(strings.Fields(verb)[:2], " ")
		e2e.ExpectContains(t, verb, strings.ReplaceAll(out, "\n    │ ", ""), "acphost "+name+" is for people: run it in a terminal of your own, not through an agent or a handler")
	}
}

// prompting starts "acphost prompt" and waits until the agent has sent words.
func prompting(t *testing.T, p *e2e.Place, words, message string) (*wire.Process, []int) {
	t.Helper()
	proc := wire.Start(t, wire.Options{Name: "caller", Command: append([]string{e2e.Program("acphost")}, e2e.DemoCommand(words, "--json")...), Dir: p.Work, Env: p.Env()})
	proc.ExpectWhere("the agent's words", func(m wire.Message) bool { return strings.Contains(string(m.Raw), message) })
	return proc, familyOf(t, proc.PID())
}

// familyOf is every process below one.
func familyOf(t *testing.T, pid int) []int {
	t.Helper()
	pids, err := proc.Descendants(pid)
	if err != nil {
		t.Fatal(err)
	}
	return pids
}
