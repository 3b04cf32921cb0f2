package git_test

import (
	"os"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/git"
)

const todo = "/w/.git/rebase-merge/git-rebase-todo"

func TestHarmlessSteps_TodoLists(t *testing.T) {
	for _, c := range []struct{ before, data, why string }{
		{"", "", ""},
		{"", "pick 1234567 one\nreword abc two\nedit abc\nsquash abc\nfixup -C abc\ndrop abc\nbreak\nnoop\n# a comment: exec x\n\n", ""},
		{"", "label onto\nreset onto\nmerge -C abc topic # Merge\nupdate-ref refs/heads/x\n", ""},
		{"", "p abc\n\tr abc\r\ne abc\ns abc\nf abc\nd abc\nb\nl x\nt x\nm x\nu refs/heads/y", ""},
		{"pick a\nexec make\npick b\nexec make\n", "exec make\npick b\nexec make\n", ""},
		{"pick a\nexec make\npick b\n", "exec make\npick b\nexec make\n", "the todo list: exec make"},
		{"exec make", "exec make test\n", "the todo list: exec make test"},
		{"", "pick abc\nexec x\n", "the todo list: exec x"},
		{"", "x y", "the todo list: x y"},
		{"", " \texec y", "the todo list: exec y"},
		{"", "unknown y", "the todo list: unknown y"},
		{"", "update-ref refs/replace/abc", "the todo list: update-ref refs/replace/abc"},
		{"", "pick a\x00\nexec y", "a todo list that is not well-formed"},
	} {
		if why := git.HarmlessSteps(todo, []byte(c.data), []byte(c.before)); why != c.why {
			t.Errorf("%q after %q: got %q, want %q", c.data, c.before, why, c.why)
		}
	}
}

func TestGuardSteps_GuardsNewCommands(t *testing.T) {
	const guarded = `exec : "${ACPHOST_SANDBOX:?an agent wrote this command, and only the sandbox of acphost runs it}"; `
	for name, c := range map[string]struct{ before, data, want string }{
		"a command":            {"", "pick a\nexec make\n", "pick a\n" + guarded + "make\n"},
		"short, after blanks":  {"", " \tx\t make  all \r\n", guarded + "make  all\n"},
		"no command":           {"", "exec\nx \npick x exec y\n# exec y\nexecute y\n", "exec\nx \npick x exec y\n# exec y\nexecute y\n"},
		"a guarded one":        {"", guarded + "make\n", guarded + "make\n"},
		"a guard after others": {"", "exec  " + guarded[len("exec "):] + "make\n", guarded + guarded[len("exec "):] + "make\n"},
		"the user's":           {"exec make\n", "exec make\nexec make\n", "exec make\n" + guarded + "make\n"},
		"the last line":        {"", "exec make", guarded + "make\n"},
		"nothing":              {"exec make\n", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := git.GuardSteps(todo, []byte(c.data), []byte(c.before))
			if string(got) != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if again := git.GuardSteps(todo, got, []byte(c.before)); string(again) != c.want {
				t.Errorf("guarded again, got %q, want %q", again, c.want)
			}
			why := git.HarmlessSteps(todo, got, []byte(c.before))
			if harmful := name == "no command"; (why != "") != harmful {
				t.Errorf("got the reason %q, want one: %t", why, harmful)
			}
		})
	}
	const options = "[options]\n\tx = exec make\nexec make\n"
	for _, file := range []string{"/w/.git/rebase-merge/strategy", "/w/.git/sequencer/opts"} {
		if got := git.GuardSteps(file, []byte(options), nil); string(got) != options {
			t.Errorf("%s: got %q", file, got)
		}
	}
}

// TestGuardSteps_RunsOnlyInSandbox continues a rebase whose todo list has guarded commands, as the user does and as a
// process in the sandbox does. No command can be written so that its guard has no effect.
func TestGuardSteps_RunsOnlyInSandbox(t *testing.T) {
	for name, command := range map[string]string{
		"a program": "MARK", "a list": "true && MARK", "a pipe": "| MARK", "in the background": "& MARK", "an end": "; MARK", "or": "|| MARK",
		"a brace": "} MARK", "a function": ":() { MARK; }; :", "a quote": "\" MARK \"", "a substitution": "$(MARK)", "a redirection": "<<x MARK",
		"a comment": "# x\rMARK", "a carriage return": "\r MARK", "another blank": "\v MARK", "a guard's end": "}\"; MARK",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepository(t)
			file := r.dir + "/.git/rebase-merge/git-rebase-todo"
			env := append(r.environ(), "GIT_EDITOR=true", "GIT_SEQUENCE_EDITOR=echo break >", "GIT_AUTHOR_NAME=n", "GIT_AUTHOR_EMAIL=e", "GIT_COMMITTER_NAME=n", "GIT_COMMITTER_EMAIL=e")
			runs := func(env []string) bool {
				if out, err := r.shell(env, "git checkout -qf && git clean -qfd && git rebase -i HEAD"); err != nil {
					t.Fatalf("begin a rebase: %v\n%s", err, out)
				}
				data := git.GuardSteps(file, []byte("exec "+strings.ReplaceAll(command, "MARK", r.mark)+"\n"), nil)
				if why := git.HarmlessSteps(file, data, nil); why != "" {
					t.Errorf("%q is rejected: %s", data, why)
				}
				write(t, file, string(data), 0o600)
				_ = os.Remove(r.trace)
				out, err := r.shell(env, "git rebase --continue")
				t.Logf("%v\n%s", err, out)
				_, ran := os.Stat(r.trace)
				_, _ = r.shell(env, "git rebase --abort")
				return ran == nil
			}
			if runs(env) {
				t.Errorf("%q runs outside of the sandbox", command)
			}
			if name == "a program" && !runs(append(env, git.SandboxVariable+"=1")) {
				t.Errorf("%q does not run in the sandbox", command)
			}
		})
	}
}

func TestHarmlessSteps_Strategies(t *testing.T) {
	for file, contents := range map[string]map[string]string{
		"rebase-merge/strategy": {
			"": "", "ort": "", "recursive\n": "", "ours": "", "x": "the strategy of the rebase", "x/y": "the strategy of the rebase",
			" ort": "the strategy of the rebase", "ort\nx": "the strategy of the rebase",
		},
		"sequencer/opts": {
			"": "", "[options]\n\tstrategy-option = ours\n\tsignoff = true\n": "", "[options]\nstrategy = ort\n": "",
			"[options]\nstrategy = x/y\n": "options.strategy", "[options]\nunknown = x\n": "options.unknown", "[include]\npath = x\n": "include.path",
			"[options \"x\"]\nstrategy = ort\n": "options.x.strategy", "[options\n": "the options of a cherry-pick, in a file that is not well-formed",
		},
	} {
		for data, want := range contents {
			if why := git.HarmlessSteps("/w/.git/"+file, []byte(data), nil); why != want {
				t.Errorf("%s with %q: got %q, want %q", file, data, why, want)
			}
		}
	}
}

// TestHarmlessSteps_Traps continues a rebase or a cherry-pick after its files were changed, and expects that a content
// with which git runs a program is rejected. "MARK" is the program.
func TestHarmlessSteps_Traps(t *testing.T) {
	const topic = `commit() { git add f && git commit -qm "$1"; }
		git checkout -q -b topic && echo a >f && commit a && echo b >f && commit b && git checkout -q -b other HEAD~2 && echo c >f && commit c`
	for name, c := range map[string]struct {
		begin, next string // commands that stop at a conflict, and continue
		file, data  string // below .git
		trap        bool
	}{
		"exec":                    {file: "rebase-merge/git-rebase-todo", data: "exec MARK\n", trap: true},
		"its short form":          {file: "rebase-merge/git-rebase-todo", data: "x MARK\n", trap: true},
		"after blanks":            {file: "rebase-merge/git-rebase-todo", data: "noop\n \t exec\tMARK", trap: true},
		"after a carriage return": {file: "rebase-merge/git-rebase-todo", data: "noop\r\nexec MARK\r\n", trap: true},
		"in a comment":            {file: "rebase-merge/git-rebase-todo", data: "# exec MARK\n"},
		"in an argument":          {file: "rebase-merge/git-rebase-todo", data: "noop\rexec MARK\n"},
		"a strategy":              {file: "rebase-merge/strategy", data: "x/y", trap: true},
		"a strategy of git's own": {file: "rebase-merge/strategy", data: "ort"},
		"a cherry-pick's strategy": {begin: "git cherry-pick topic~1 topic", next: "git cherry-pick --continue",
			file: "sequencer/opts", data: "[options]\n\tstrategy = x/y\n", trap: true},
		"a cherry-pick's list": {begin: "git cherry-pick topic~1 topic", next: "git cherry-pick --continue",
			file: "sequencer/todo", data: "pick topic~1\nexec MARK\n"}, // git rejects it
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepository(t)
			if c.begin == "" {
				c.begin, c.next = "git rebase topic", "git rebase --continue"
			}
			env := append(r.environ(), "GIT_EDITOR=true", "GIT_AUTHOR_NAME=n", "GIT_AUTHOR_EMAIL=e", "GIT_COMMITTER_NAME=n", "GIT_COMMITTER_EMAIL=e")
			shell := func(line string) {
				t.Helper()
				out, err := r.shell(env, line)
				if err != nil {
					t.Fatalf("%s: %v\n%s", line, err, out)
				}
			}
			shell("git checkout -qf && git clean -qfd && " + topic)
			shell("! " + c.begin + " && mkdir git-merge-x && cp " + r.mark + " git-merge-x/y && echo d >f && git add f")
			if c.file == "rebase-merge/strategy" {
				shell("echo pick topic >.git/rebase-merge/git-rebase-todo")
			}
			file := r.dir + "/.git/" + c.file
			if got := git.WriteOf(git.Change{Path: file}); got != git.Steps {
				t.Errorf("got %v, want Steps", got)
			}
			data := strings.ReplaceAll(c.data, "MARK", r.mark)
			write(t, file, data, 0o600)
			_ = os.Remove(r.trace)
			out, _ := r.shell(env, c.next)
			_, err := os.Stat(r.trace)
			if ran := err == nil; ran != c.trap {
				t.Errorf("git ran the program: %t, want %t\n%s", ran, c.trap, out)
			}
			if why := git.HarmlessSteps(file, []byte(data), nil); (why != "") != c.trap && c.file != "sequencer/todo" {
				t.Errorf("got %q, want a reason: %t", why, c.trap)
			}
		})
	}
}
