package containment

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/sandbox/decisions"
)

func change(op sandbox.Operation, path string, with func(*sandbox.Event)) *event {
	e := &event{Asked: decisions.Asked{Event: sandbox.Event{Operation: op, Path: path}}}
	if with != nil {
		with(&e.Event)
	}
	return e
}

func placed(content string) func(*sandbox.Event) {
	return func(e *sandbox.Event) {
		e.Placed, e.Content, e.Others = true, []byte(content), []string{e.Path + ".lock"}
	}
}

// repository makes a folder that is git's own.
func repository(t *testing.T, config string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), ".git")
	for _, folder := range []string{"objects", "refs", "hooks"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range map[string]string{"HEAD": "ref: refs/heads/main\n", "config": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const ofRemote = "[remote \"origin\"]\n\turl = https://example.com/x\n"

func TestDecider_KnowsGitsBookkeeping(t *testing.T) {
	dir := repository(t, ofRemote)
	config, todo := filepath.Join(dir, "config"), filepath.Join(dir, "rebase-merge", "git-rebase-todo")
	for _, tt := range []struct {
		name  string
		event *event
		state bool
		runs  bool
		why   string
	}{
		{"the index", change(sandbox.Write, filepath.Join(dir, "index.lock"), nil), true, false, ""},
		{"a hook", change(sandbox.Write, filepath.Join(dir, "hooks", "pre-commit"), nil), false, true, ""},
		{"a sample of a hook", change(sandbox.Write, filepath.Join(dir, "hooks", "pre-commit.sample"), nil), true, false, ""},
		{"a file of the workspace", change(sandbox.Write, filepath.Join(filepath.Dir(dir), "config"), nil), false, false, ""},
		{"a file with the path of a repository", change(sandbox.Write, filepath.Join(filepath.Dir(dir), "x", ".git"), nil), false, true, ""},
		{"a harmless path", change(sandbox.Write, filepath.Join(filepath.Dir(dir), "x", ".git"), placed("gitdir: ../.git\n")), true, false, ""},
		{"a path to elsewhere", change(sandbox.Write, filepath.Join(filepath.Dir(dir), "x", ".git"), placed("gitdir: ../y\n")), false, true, "the path of a repository, to a folder that is not named .git"},
		{"a configuration of which the content is not known", change(sandbox.Write, config, nil), false, true, ""},
		{"a mode of a configuration", change(sandbox.Write, config, func(e *sandbox.Event) { e.Leaves = sandbox.LeavesContent }), true, false, ""},
		{"an index of which the content is not known", change(sandbox.Write, filepath.Join(dir, "index"), nil), false, true, ""},
		{"an index that is not one", change(sandbox.Move, filepath.Join(dir, "index"), placed("x")), false, true, "the new index is not well-formed"},
		{"a harmless configuration", change(sandbox.Move, config, placed(ofRemote+"[core]\n\tautocrlf = input\n")), true, false, ""},
		{"a configuration that runs something", change(sandbox.Move, config, placed(ofRemote+"[core]\n\tfsmonitor = ./x\n")), false, true, "core.fsmonitor"},
		{"another address", change(sandbox.Move, config, placed("[remote \"origin\"]\n\turl = https://example.org/x\n")), false, true, "remote.origin.url"},
		{"a todo list", change(sandbox.Move, todo, placed("pick abc\n")), true, false, ""},
		{"a todo list that runs something", change(sandbox.Move, todo, placed("exec x\n")), false, true, "the todo list: exec x"},
		{"a todo list of which the content is not known", change(sandbox.Write, todo, nil), false, true, ""},
		{"a todo list removed", change(sandbox.Write, todo, func(e *sandbox.Event) { e.Leaves = sandbox.LeavesNothing }), true, false, ""},
		{"a link in the place of a log", change(sandbox.Write, filepath.Join(dir, "logs", "HEAD"), func(e *sandbox.Event) { e.Leaves = sandbox.LeavesLink }), false, true, ""},
	} {
		var d Decider
		if got := d.gitMeaningOf(tt.event); got.state != tt.state || got.why != tt.why || got.runs != tt.runs {
			t.Errorf("%s: got %+v, want state %t, runs %t, %q", tt.name, got, tt.state, tt.runs, tt.why)
		}
	}
}

func TestDecider_RemembersRemovedConfigurations(t *testing.T) {
	dir := repository(t, ofRemote)
	config := filepath.Join(dir, "config")
	var d Decider
	if got := d.gitMeaningOf(change(sandbox.Write, config, func(e *sandbox.Event) { e.Leaves = sandbox.LeavesNothing })); !got.state {
		t.Fatal("a configuration cannot be removed")
	}
	if err := os.Remove(config); err != nil {
		t.Fatal(err)
	}
	if got := d.gitMeaningOf(change(sandbox.Move, config, placed("[remote \"origin\"]\n\turl = https://example.org/x\n"))); got.state || got.why != "remote.origin.url" {
		t.Errorf("another address after a removal: got %+v", got)
	}
	if got := d.gitMeaningOf(change(sandbox.Move, config, placed(ofRemote))); !got.state {
		t.Errorf("the same configuration again is refused: it changes %s", got.why)
	}
}

// TestDecider_TellsAddressesOfAgentFromUsers changes the addresses of remotes step by step, as git remote does.
func TestDecider_TellsAddressesOfAgentFromUsers(t *testing.T) {
	remote := func(name, url string) string { return "[remote \"" + name + "\"]\n\turl = " + url + "\n" }
	const a, b, evil = "https://a.example/x", "ssh://git@b.example/x", "https://evil.example/x"
	type step struct {
		content string
		refused string // the setting because of which it is refused; empty: it is written
		byUser  bool
	}
	for name, steps := range map[string][]step{
		"added, renamed, changed, removed": {{content: ofRemote + remote("up", a)}, {content: ofRemote + remote("down", a)}, {content: ofRemote + remote("down", b)}, {content: ofRemote}},
		"removed and added again":          {{content: ""}, {content: ofRemote}},
		"another address":                  {{content: remote("origin", evil), refused: "remote.origin.url"}},
		"removed, another address":         {{content: ""}, {content: remote("origin", evil), refused: "remote.origin.url"}, {content: remote("up", b)}},
		"removed, another to push to":      {{content: ""}, {content: ofRemote + "\tpushurl = " + evil + "\n", refused: "remote.origin.pushurl"}},
		"renamed, then another":            {{content: remote("up", "https://example.com/x")}, {content: remote("origin", evil), refused: "remote.origin.url"}},
		"changed by the user":              {{content: remote("origin", b), byUser: true}, {content: remote("origin", evil), refused: "remote.origin.url"}, {content: ""}, {content: remote("origin", b)}},
		"added by the user":                {{content: ofRemote + "[gc]\n\tauto = 1\n"}, {content: ofRemote + remote("up", a), byUser: true}, {content: ofRemote + remote("up", evil), refused: "remote.up.url"}},
		"of a submodule":                   {{content: "[submodule \"x\"]\n\turl = " + a + "\n", byUser: true}, {content: ""}, {content: "[submodule \"x\"]\n\turl = " + evil + "\n", refused: "submodule.x.url"}, {content: "[submodule \"x\"]\n\turl = " + a + "\n"}},
		"a mirror that is being cloned":    {{content: remote("m", a)}, {content: remote("m", a) + "\tmirror = true\n\tfetch = +refs/*:refs/*\n"}},
		"the user's, to mirror":            {{content: ofRemote + "\tmirror = true\n", refused: "remote.origin.mirror"}},
		"what belongs to it":               {{content: ofRemote + "\tgh-resolved = base\n[branch \"x\"]\n\tvscode-merge-base = y\n", byUser: true}, {content: ""}},
	} {
		t.Run(name, func(t *testing.T) {
			config := filepath.Join(repository(t, ofRemote), "config")
			var d Decider
			for i, s := range steps {
				if !s.byUser {
					if got := d.gitMeaningOf(change(sandbox.Move, config, placed(s.content))); got.why != s.refused || got.state != (s.refused == "") {
						t.Fatalf("step %d: got %+v, want it refused because of %q", i+1, got, s.refused)
					}
				}
				if s.refused != "" {
					continue
				}
				if err := os.WriteFile(config, []byte(s.content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestDecider_KeepsAddressesOfChangesThatFail: a change that was found harmless may fail afterwards.
func TestDecider_KeepsAddressesOfChangesThatFail(t *testing.T) {
	config := filepath.Join(repository(t, ofRemote), "config")
	var d Decider
	judge := func(content string) string { return d.gitMeaningOf(change(sandbox.Move, config, placed(content))).why }
	if why := judge(""); why != "" {
		t.Fatal(why)
	}
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if why := judge(ofRemote); why != "" {
		t.Fatal(why)
	}
	if why := judge("[remote \"origin\"]\n\turl = https://example.org/x\n"); why != "remote.origin.url" {
		t.Errorf("another address than the user's: got %q", why)
	}
}

func TestDecider_RemembersNoLargeConfigurations(t *testing.T) {
	dir := repository(t, "#"+strings.Repeat("x", maxRemembered))
	var d Decider
	if got := d.gitMeaningOf(change(sandbox.Write, filepath.Join(dir, "config"), func(e *sandbox.Event) { e.Leaves = sandbox.LeavesNothing })); got.state {
		t.Error("a large configuration is removed without a decision")
	}
}

func TestMovesRepository_DetectsGitFiles(t *testing.T) {
	for _, tt := range []struct {
		folder, file string
		want         bool
	}{
		{"/w/a", "/w/a/.git/config", true},
		{"/w/a", "/w/a/b/.git/hooks/x", true},
		{"/w/a/.git", "/w/a/.git/hooks/x", false},
		{"/w/a", "/w/ab/.git/x", false},
		{"/w/a", "/w/a/x", false},
		{"/", "/a/.git/x", true},
	} {
		if got := movesRepository(tt.folder, tt.file); got != tt.want {
			t.Errorf("%s in %s: got %t", tt.file, tt.folder, got)
		}
	}
}

// TestDecider_ComparesConfigurationsWithTheUsers: an agent changes a configuration in steps, or replaces a repository.
func TestDecider_ComparesConfigurationsWithTheUsers(t *testing.T) {
	const evil = "[remote \"evil\"]\n\turl = https://example.com/y\n"
	steps := func(d *Decider, dir string) (last gitMeaning) {
		config := filepath.Join(dir, "config")
		for _, more := range []string{evil, evil + "[remote]\n\tpushDefault = evil\n"} {
			last = d.gitMeaningOf(change(sandbox.Write, config, placed(ofRemote+more)))
			if last.state {
				if err := os.WriteFile(config, []byte(ofRemote+more), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		return last
	}
	t.Run("in steps", func(t *testing.T) {
		if got := steps(&Decider{}, repository(t, ofRemote)); !got.runs || got.why != "remote.pushdefault" {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("in a session's folder", func(t *testing.T) {
		d, dir := &Decider{}, repository(t, ofRemote)
		d.configs.acceptRepository(filepath.Dir(dir))
		if got := steps(d, dir); !got.runs || got.why != "remote.pushdefault" {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("by another repository", func(t *testing.T) {
		d, dir, other := &Decider{}, repository(t, ofRemote), repository(t, strings.Replace(ofRemote, "/x", "/y", 1))
		d.configs.acceptRepository(filepath.Dir(dir))
		move := func(path, to string) gitMeaning {
			return d.gitMeaningOf(change(sandbox.Move, path, func(e *sandbox.Event) { e.Others = []string{to} }))
		}
		if got := move(dir, dir+".old"); !got.state {
			t.Errorf("away: got %+v", got)
		}
		if err := os.Rename(dir, dir+".old"); err != nil {
			t.Fatal(err)
		}
		if got := move(dir, other); !got.runs || got.why != "remote.origin.url" {
			t.Errorf("another: got %+v", got)
		}
		if got := move(filepath.Dir(dir), filepath.Dir(other)); !got.runs || got.why != "remote.origin.url" {
			t.Errorf("another folder: got %+v", got)
		}
		if got := move(dir, dir+".old"); !got.state {
			t.Errorf("back: got %+v", got)
		}
		if got := d.gitMeaningOf(change(sandbox.Write, filepath.Join(dir, "config"), placed(strings.Replace(ofRemote, "/x", "/y", 1)))); !got.runs {
			t.Errorf("a new repository: got %+v", got)
		}
	})
}
