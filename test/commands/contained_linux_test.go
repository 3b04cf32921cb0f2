package commands

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/acphost/acphost/internal/git"
	"github.com/acphost/acphost/internal/sandbox"
)

// whole runs every hostile line in the sandbox. Otherwise, of the effects with hundreds of lines, one line of sample is
// run.
var whole = flag.Bool("whole", false, "run every hostile line in the sandbox")

const sample = 6

// escapes says, for the effects that must not leave the sandbox, what of a run in it has done so; empty: nothing has.
// Processes may read files outside of the workspace that hold no secret, and run code of the workspace.
var escapes = map[string]func(run) string{
	"secret": func(r run) string { return when(effects["secret"](r), "it shows the secret") },
	"environment": func(r run) string {
		return when(effects["environment"](r), "it shows the environment of another process")
	},
	"ends":     func(r run) string { return when(r.ended, "it ends another process") },
	"connects": func(r run) string { return when(r.connected, "it connects") },
	"settings": nothing,
	"writes":   nothing,
	"runs":     nothing,
}

func nothing(run) string { return "" }

func when(is bool, text string) string {
	if is {
		return text
	}
	return ""
}

// runsLater are parts of the names of files that other programs run.
var runsLater = []string{"/.git/hooks/", "/.github/workflows/", "/.vscode/", "/.envrc", "/.gitconfig", "/.bashrc", "/.profile"}

// TestHostileLines_StayInSandbox has an agent run hostile lines in a script, so that only what the processes do is
// decided, under the policy workspace. Its user rejects everything that is asked.
func TestHostileLines_StayInSandbox(t *testing.T) {
	if err := sandbox.Supported(); err != nil {
		t.Skipf("no sandbox here: %v", err)
	}
	t.Parallel()
	const desks = 4
	var lines []*entry
	taken := map[string]int{}
	all := hostile(t)
	for i := range all {
		e := &all[i]
		if escapes[e.Does] == nil || e.Unproven != "" || e.lacks() != "" {
			continue
		}
		if taken[e.Does]++; *whole || taken[e.Does]%sample == 1 || len(all)/20 > count(all, e.Does) {
			lines = append(lines, e)
		}
	}
	base, repo := folder(t), repository(t)
	t.Run("desk", func(t *testing.T) {
		for n := range desks {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				var connections atomic.Int32
				b := builder{base: filepath.Join(base, fmt.Sprint(n)), git: repo, port: listen(t, &connections)}
				(&fixture{home: b.home()}).furnish(t)
				d := openDesk(t, "workspace", b.home(), "--sandbox", "enforce")
				for i := n; i < len(lines); i += desks {
					if why := d.contain(b, lines[i], i, &connections); why != "" {
						t.Errorf("%s: %s\n%s", lines[i].Name, why, lines[i].text())
					}
				}
				d.finish()
			})
		}
	})
	t.Logf("%d of %d hostile lines ran in the sandbox", len(lines), len(all))
}

func count(all []entry, does string) (n int) {
	for i := range all {
		if all[i].Does == does {
			n++
		}
	}
	return n
}

// contain runs an entry in a session and a fixture of its own, and returns what escaped from the sandbox; empty:
// nothing.
func (d *desk) contain(b builder, e *entry, n int, connections *atomic.Int32) string {
	d.t.Helper()
	s := b.fixture(d.t, fmt.Sprint("line", n))
	victim := exec.CommandContext(d.t.Context(), "sleep", "1000")
	victim.Env = []string{"TOKEN=" + s.canary}
	if err := victim.Start(); err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = victim.Process.Kill(); _ = victim.Wait() }()
	s.victim = victim.Process.Pid
	s.prepare(d.t, e)
	config := filepath.Join(s.ws, ".git", "config")
	settings, _ := os.ReadFile(config)
	before, connected := s.digest(d.t), connections.Load()
	script := filepath.Join(s.base, "script")
	if err := os.WriteFile(script, []byte(s.script(e)), 0o600); err != nil {
		d.t.Fatal(err)
	}

	id := d.open(s)
	answer := d.agent.Send("terminal/create", map[string]any{"sessionId": id, "command": "timeout", "args": []string{"-k", "1", "20", "sh", script}, "cwd": s.ws}).Answer()
	if answer.Error != nil {
		return "the script is refused: " + answer.Error.Message
	}
	var made struct{ TerminalID string }
	answer.Decode(d.t, &made)
	terminal := map[string]any{"sessionId": id, "terminalId": made.TerminalID}
	d.agent.Request("terminal/wait_for_exit", terminal, nil)
	var said struct{ Output string }
	d.agent.Request("terminal/output", terminal, &said)
	d.agent.Request("terminal/release", terminal, nil)
	d.close(id)

	r := run{fixture: s, output: said.Output, changed: changed(before, s.digest(d.t))}
	r.connected, r.ended = connections.Load() > connected, !alive(s.victim)
	after, _ := os.ReadFile(config)
	why := ""
	if e.Does != "secret" || !s.committed(d.t) {
		why = escapes[e.Does](r)
	}
	for _, name := range r.changed {
		switch {
		case strings.Contains(name, "/.local/state/acphost/"): // acphost's own
		case !strings.HasPrefix(name, "/ws/"):
			why += "; it changes " + name
		case name == "/ws/.git/config":
			if runs := git.AddressesOf(settings).HarmlessConfig(config, after, settings); runs != "" {
				why += "; git would run " + runs
			}
		case strings.HasSuffix(name, ".sample"): // git runs no such hook
		case slices.ContainsFunc(runsLater, func(part string) bool { return strings.Contains(name, part) }):
			why += "; it changes " + name + ", which other programs run"
		}
	}
	if why != "" {
		why = strings.TrimPrefix(why, "; ") + "\noutput: " + said.Output
	}
	return why
}

// committed reports whether the secret is in an object of the repository. Processes may read git's objects.
func (s *fixture) committed(t *testing.T) bool {
	cmd := exec.CommandContext(t.Context(), "git", "cat-file", "--batch-all-objects", "--batch")
	cmd.Dir, cmd.Env = s.ws, s.environ()
	out, err := cmd.Output() // it fails without a repository
	return err == nil && strings.Contains(string(out), s.secret)
}

// script returns a script that runs an entry as an agent would.
func (s *fixture) script(e *entry) string {
	quote := func(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
	lines := []string{"cd " + quote(s.cwd(e))}
	for _, entry := range s.expandAll(e.Env) {
		name, value, _ := strings.Cut(entry, "=")
		lines = append(lines, "export "+name+"="+quote(value))
	}
	if len(e.Argv) == 0 {
		return strings.Join(append(lines, s.expand(e.Line)), "\n") + "\n"
	}
	var words []string
	for _, word := range s.expandAll(e.Argv) {
		words = append(words, quote(word))
	}
	return strings.Join(append(lines, strings.Join(words, " ")), "\n") + "\n"
}
