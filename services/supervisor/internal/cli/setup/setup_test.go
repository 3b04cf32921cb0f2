package setup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/commandtest"
)

// home is a home folder with Gemini CLI installed, in which this program is called acphost.
func home(t *testing.T) (string, *commandtest.Call) {
	t.Helper()
	dir, env := commandtest.AgentHome(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(exe, filepath.Join(dir, "bin", "acphost")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "bin/mine")); err != nil { // its own agent is known, and not installed
		t.Fatal(err)
	}
	return dir, &commandtest.Call{Env: env}
}

func put(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// must calls the command, which succeeds, and returns what it prints.
func must(t *testing.T, c *commandtest.Call, args ...string) string {
	t.Helper()
	status, stdout, stderr := c.Run(t, New, append([]string{"setup"}, args...)...)
	if status != 0 || stderr != "" {
		t.Fatalf("%v: status %d, %s%s", args, status, stdout, stderr)
	}
	return stdout
}

func TestZed_KeepsOtherSettings(t *testing.T) {
	for name, c := range map[string]struct{ before, want string }{
		"none": {"", `{
  "agent_servers": {
    "gemini": {
      "type": "custom",
      "command": "BIN/acphost",
      "args": ["run", "--policy", "workspace", "--agent", "gemini", "--"]
    }
  }
}
`},
		"others": {`// mine
{
    "theme": "One Dark", // dark
    /* agents */
    "agent_servers": {
        "mine": {"command": "x"}, // keep
    },
}
`, `// mine
{
    "theme": "One Dark", // dark
    /* agents */
    "agent_servers": {
        "mine": {"command": "x"}, // keep
        "gemini": {
            "type": "custom",
            "command": "BIN/acphost",
            "args": ["run", "--policy", "workspace", "--agent", "gemini", "--"]
        },
    },
}
`},
		"without a comma": {"{\"vim_mode\": true // yes\n}", `{"vim_mode": true, // yes
  "agent_servers": {
    "gemini": {
      "type": "custom",
      "command": "BIN/acphost",
      "args": ["run", "--policy", "workspace", "--agent", "gemini", "--"]
    }
  }
}`},
		"the agent, by another name": {`{
  "agent_servers": {
    "gemini-cli": {"type": "registry", "env": {"A": "<&>"}}
  }
}`, `{
  "agent_servers": {
    "gemini-cli": {"type": "custom", "env": {"A": "<&>"},
      "command": "BIN/acphost",
      "args": ["run", "--policy", "workspace", "--agent", "gemini", "--"]
    }
  }
}`},
	} {
		t.Run(name, func(t *testing.T) {
			dir, call := home(t)
			file := filepath.Join(dir, ".config/zed/settings.json")
			if c.before != "" {
				put(t, file, c.before)
			}
			want := strings.ReplaceAll(c.want, "BIN", filepath.Join(dir, "bin"))
			must(t, call, "zed", "--", "--policy", "workspace")
			if got := get(t, file); got != want {
				t.Fatalf("got\n%s\nwant\n%s", got, want)
			}
			if out := must(t, call, "zed", "--", "--policy", "workspace"); !strings.Contains(out, "already") {
				t.Errorf("the second time: %s", out)
			}
			if info, err := os.Stat(file); err != nil || c.before != "" && info.Mode() != 0o640 {
				t.Errorf("its mode is %v, %v", info.Mode(), err)
			}
			must(t, call, "zed", "--undo")
			if c.before == "" {
				if exists(file) {
					t.Errorf("left: %s", get(t, file))
				}
			} else if got := get(t, file); got != c.before {
				t.Errorf("undone:\n%s\nwant\n%s", got, c.before)
			}
			if left, err := filepath.Glob(filepath.Join(filepath.Dir(file), "*acphost*")); err != nil || len(left) > 0 {
				t.Errorf("left beside it: %v, %v", left, err)
			}
		})
	}
}

func TestSetup_KeepsLaterChanges(t *testing.T) {
	dir, call := home(t)
	file := filepath.Join(dir, ".jetbrains/acp.json")
	put(t, file, `{"agent_servers": {"Gemini CLI": {"command": "/opt/gemini", "args": ["--acp"]}}}`)
	must(t, call, "jetbrains", "--agent", "gemini", "--agent", "mine")
	put(t, file, strings.Replace(get(t, file), "{", "{\n  \"new\": [1],", 1))
	must(t, call, "jetbrains", "--undo")
	want := `{
  "new": [1],"agent_servers": {"Gemini CLI": {"command": "/opt/gemini", "args": ["--acp"]}
  }}`
	if got := get(t, file); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestSetup_KeepsUnreadableSettings(t *testing.T) {
	for _, text := range []string{`{"a":`, `[]`, `{"agent_servers": []}`, `{"agent_servers": {"gemini": 1}}`, `{"agent_servers": {}, "agent_servers": {}}`} {
		dir, call := home(t)
		file := filepath.Join(dir, ".config/zed/settings.json")
		put(t, file, text)
		status, _, stderr := call.Run(t, New, "setup", "zed")
		if status != 1 || !strings.Contains(stderr, "nothing was changed") || get(t, file) != text || exists(file+backupSuffix) {
			t.Errorf("%s: status %d, %s, now %s", text, status, stderr, get(t, file))
		}
	}
}

func TestSetup_WritesThroughLink(t *testing.T) {
	dir, call := home(t)
	file := filepath.Join(dir, ".config/zed/settings.json")
	put(t, filepath.Join(dir, "dotfiles/zed.json"), "{}\n")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../dotfiles/zed.json", file); err != nil {
		t.Fatal(err)
	}
	must(t, call, "zed")
	if to, err := os.Readlink(file); err != nil || to != "../../dotfiles/zed.json" || !strings.Contains(get(t, file), "acphost") {
		t.Errorf("the link leads to %s, %v; its file has %s", to, err, get(t, file))
	}
}

func TestEmacs_WritesBetweenMarkers(t *testing.T) {
	dir, call := home(t)
	init := filepath.Join(dir, ".emacs.d/init.el")
	put(t, init, "(setq mine t)")
	must(t, call, "emacs", "--agent", "gemini")
	must(t, call, "emacs", "--agent", "claude", "--", "--policy", `a "b"`)
	must(t, call, "emacs", "--agent", "gemini", "--", "--observe")
	exe := filepath.Join(dir, "bin/acphost")
	want := `(setq mine t)
;; acphost setup: begin. "acphost setup emacs" writes these lines.
(with-eval-after-load 'agent-shell
  (setq agent-shell-google-gemini-acp-command '("` + exe + `" "run" "--observe" "--agent" "gemini" "--"))
  (setq agent-shell-anthropic-claude-acp-command '("` + exe + `" "run" "--policy" "a \"b\"" "--agent" "claude-acp" "--"))
  t)
;; acphost setup: end
`
	if got := get(t, init); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	put(t, init, get(t, init)+"(setq more t)\n")
	must(t, call, "emacs", "--undo")
	if got := get(t, init); got != "(setq mine t)\n(setq more t)\n" {
		t.Errorf("undone: %s", got)
	}

	lua := filepath.Join(dir, ".config/nvim/lua/acphost.lua")
	if out := must(t, call, "neovim"); !strings.Contains(out, `acp = require("acphost")`) {
		t.Errorf("the next step is not printed: %s", out)
	}
	if got := get(t, lua); !strings.Contains(got, `  gemini_cli = through("gemini_cli", { "`+exe+`", "run", "--agent", "gemini", "--" }),`) {
		t.Errorf("got %s", got)
	}
	must(t, call, "neovim", "--undo")
	if exists(lua) {
		t.Errorf("left: %s", get(t, lua))
	}
}

func TestSetup_UsageErrorsChangeNothing(t *testing.T) {
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{nil, 2, "expected an editor: zed, jetbrains, neovim, emacs"},
		{[]string{"vim"}, 2, `does not know an editor "vim"`},
		{[]string{"zed", "more"}, 2, "expected an editor"},
		{[]string{"zed", "--agent", "nobody"}, 1, "nobody"},
		{[]string{"neovim", "--agent", "mine"}, 1, "has no place for the agent mine"},
		{[]string{"emacs", "--agent", "gemini", "--", "--policy", "a\nb"}, 1, "control character"},
		{[]string{"zed", "--undo"}, 1, "was not written by"},
	} {
		dir, call := home(t)
		status, stdout, stderr := call.Run(t, New, append([]string{"setup"}, c.args...)...)
		if status != c.status || !strings.Contains(stderr, c.want) || stdout != "" {
			t.Errorf("%v: status %d, %s%s", c.args, status, stdout, stderr)
		}
		if exists(filepath.Join(dir, ".config/zed")) || exists(filepath.Join(dir, ".emacs.d")) {
			t.Errorf("%v: something was written", c.args)
		}
	}
	dir, call := home(t)
	if err := os.Remove(filepath.Join(dir, "bin/gemini")); err != nil {
		t.Fatal(err)
	}
	if status, _, stderr := call.Run(t, New, "setup", "zed"); status != 1 || !strings.Contains(stderr, "name one with --agent") {
		t.Errorf("without an agent: status %d, %s", status, stderr)
	}
}

func TestSetup_PrintWritesNothing(t *testing.T) {
	dir, call := home(t)
	out := must(t, call, "zed", "--print")
	if !strings.HasPrefix(out, "{\n  \"agent_servers\": {\n    \"gemini\": {") || exists(filepath.Join(dir, ".config/zed")) {
		t.Errorf("printed %s", out)
	}
}
