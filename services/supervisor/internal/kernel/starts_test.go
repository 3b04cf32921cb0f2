package kernel

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
)

func TestOwn_StartsOnlyProgramsOfPreset(t *testing.T) {
	home := testkit.ShortDir(t)
	for _, dir := range []string{".agent/snapshot/a", "work/sub", "elsewhere"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{".agent/snapshot/out": "elsewhere", "work/out": "elsewhere"} {
		if err := os.Symlink(filepath.Join(home, to), filepath.Join(home, link)); err != nil {
			t.Fatal(err)
		}
	}
	state := []string{"~/.agent", "~/.agent/settings.json", "~/.agent/snapshot/**"}
	starts := [][]string{
		{"git", "--git-dir", "{state}", "--work-tree", "{root}", "write-tree"},
		{"git", "--git-dir={state}", "show", "{object}:{file}"},
		{"GIT_DIR={state}", "git", "init"},
		{"keep", "--why=a {name} runs", "{number}"},
		{"wall", "--new", "..."},
	}
	o := NewOwn(Files{State: state, Starts: starts}, nil, []string{"HOME=" + home})
	hash := strings.Repeat("0a", 20)
	for _, tt := range []struct {
		line string // words and, behind " | ", variables
		want bool
	}{
		{"git --git-dir ~/.agent/snapshot/a --work-tree ~/work write-tree", true},
		{"git --git-dir ~/.agent/snapshot/new --work-tree ~/work/sub write-tree", true},
		{"git --git-dir ~/.agent/snapshot --work-tree ~/work write-tree", false}, // the folder of all
		{"git --git-dir ~/.agent/settings.json --work-tree ~/work write-tree", false},
		{"git --git-dir ~/work/.git --work-tree ~/work write-tree", false},
		{"git --git-dir ~/.agent/snapshot/out --work-tree ~/work write-tree", false},
		{"git --git-dir ~/.agent/snapshot/../snapshot/a --work-tree ~/work write-tree", false},
		{"git --git-dir ~/.agent/snapshot/../../elsewhere --work-tree ~/work write-tree", false},
		{"git --git-dir .agent/snapshot/a --work-tree ~/work write-tree", false},
		{"git --git-dir ~/.agent/snapshot/a --work-tree ~/elsewhere write-tree", false},
		{"git --git-dir ~/.agent/snapshot/a --work-tree ~/work/out write-tree", false},
		{"git --git-dir ~/.agent/snapshot/a --work-tree ~/work write-tree --x", false},
		{"git --git-dir ~/.agent/snapshot/a --work-tree ~/work", false},
		{"git --work-tree ~/work --git-dir ~/.agent/snapshot/a write-tree", false},
		{"git --git-dir ~/.agent/snapshot/a --work-tree ~/work gc", false},
		{"/tmp/git --git-dir ~/.agent/snapshot/a --work-tree ~/work write-tree", false},
		{"git --git-dir ~/.agent/snapshot/a --work-tree ~/work write-tree | GIT_SSH_COMMAND=x", false},
		{"git --git-dir=~/.agent/snapshot/a show " + hash + ":src/a.txt", true},
		{"git --git-dir=~/.agent/snapshot/a show HEAD:src/a.txt", false},
		{"git --git-dir=~/.agent/snapshot/a,~/x show " + hash + ":a", false},
		{"git init | GIT_DIR=~/.agent/snapshot/a", true},
		{"git init | GIT_DIR=~/elsewhere", false},
		{"git init | GIT_DIR=~/.agent/snapshot/a GIT_TEMPLATE_DIR=/x", false},
		{"git init | GIT_TEMPLATE_DIR=/x", false},
		{"git init", false},
		{"wall --new", true},
		{"wall --new -- rm x", true},
		{"wall --old", false},
		{"wall", false},
	} {
		line, env, _ := strings.Cut(strings.ReplaceAll(tt.line, "~", home), " | ")
		if got := o.Starts(strings.Fields(line), strings.Fields(env), []string{home + "/work"}); got != tt.want {
			t.Errorf("%s: got %t, want %t", tt.line, got, tt.want)
		}
	}
	for why, want := range map[string]bool{"--why=a tool runs": true, "--why=a tool; x runs": false, "--why=a  runs": false} {
		if got := o.Starts([]string{"keep", why, "12"}, nil, nil); got != want {
			t.Errorf("%s: got %t, want %t", why, got, want)
		}
	}
	if o.Starts([]string{"keep", "--why=a tool runs", "1x"}, nil, nil) || (*Own)(nil).Starts([]string{"keep"}, nil, nil) || o.Starts(nil, nil, nil) {
		t.Error("what nobody named is known")
	}
	if with := o.With("/x"); !with.Starts([]string{"wall", "--new"}, nil, nil) {
		t.Error("with a further folder, nothing is known")
	}
}

func TestCheckStart_RejectsInvalidWords(t *testing.T) {
	for line, want := range map[string]string{
		"git status": "", "GIT_DIR={state} git init": "", "bwrap --new ...": "", "git show {object}:{file}": "", "sleep infinity": "",
		"": "by its name", "A=b": "by its name", "/usr/bin/git status": "by its name", "{state} x": "by its name", "...": "by its name",
		"git ...": `before "..."`, "git {path}": "placeholders", "git {state": "placeholders", "git }": "placeholders", "git ... x": "",
	} {
		if got := CheckStart(strings.Fields(line)); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
}
