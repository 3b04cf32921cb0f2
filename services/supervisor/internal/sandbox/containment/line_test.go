package containment

import (
	"path/filepath"
	"testing"

	"github.com/acphost/acphost/internal/facts"
	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/shell"
	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// commandOf is an action that runs a line in /w, a root of its session.
func commandOf(text string) *permissionv1.Action {
	subs, unparsed := shell.Parse(text)
	for _, sub := range subs {
		dir := filepath.Join("/w", sub.GetCwd())
		if sub.GetCwdUnknown() {
			dir = ""
		}
		sub.Facts = facts.Of(sub, dir, nil)
		sub.Repository = &acpv1.Repository{GitDir: "/w/.git"}
	}
	return &permissionv1.Action{
		Roots: []string{"/w"}, ResolvedRoots: []string{"/real/w"},
		Command: &permissionv1.Command{Text: text, Cwd: "/w", SubCommands: subs, Unparsed: unparsed},
	}
}

func TestLine_Names(t *testing.T) {
	for _, c := range []struct {
		line   string
		leaves sandbox.Leaves
		named  []string
		others []string
	}{
		{"make test", "", []string{"/w/test"}, []string{"/w", "/w/.git/hooks/pre-commit", "/h/.bashrc", "/w/make", "/w/test/x"}},
		{"make -C . test", "", nil, []string{"/w/.git/hooks/x", "/w/.vscode/tasks.json"}},
		{"cp a .git/hooks/pre-commit", "",
			[]string{"/w/.git/hooks/pre-commit", "/real/w/.git/hooks/pre-commit", "/w/.git/hooks/pre-commit.tmp"},
			[]string{"/w/.git/hooks/pre-push", "/w/.git/config"}},
		{"./gen .vscode/tasks", "", []string{"/w/.vscode/tasks", "/w/.vscode/tasks.tmp", "/w/.vscode/tasks.Xa91bc", "/w/.vscode/.tasks.1234.tmp"},
			[]string{"/w/.vscode/tasks.json", "/w/.vscode/.tasks.json", "/w/.vscode/tasks.tmp.json"}},
		{"cp a b .git/hooks", "", []string{"/w/.git/hooks/a", "/w/.git/hooks/b"}, []string{"/w/.git/config"}},
		{"cp tasks.json .vscode", "", []string{"/w/.vscode/tasks.json"}, []string{"/w/.vscode/launch.json"}},
		{"cat a > ~/.bashrc && make", "", []string{"/h/.bashrc"}, []string{"/h/.profile", "/h/.bashrc/x"}},
		{`sed -i s/a/b/ "$HOME/.bashrc"`, "", []string{"/h/.bashrc", "/h/sedAb3xYz", "/h/.bashrc.bak"}, []string{"/h/.bash_profile", "/h/sed"}},
		{"cat ~/.bashrc && make", "", nil, []string{"/h/.profile"}},
		{"tar xf a.tar -C /opt/x", "", []string{"/opt/x", "/opt/x/a/b"}, []string{"/opt/y", "/opt"}},
		{"make PREFIX=/opt/x install", "", []string{"/opt/x/bin/a"}, []string{"/opt"}},
		{"find / -delete", "", nil, []string{"/h/.bashrc", "/etc/x", "/w/.git/hooks/x"}},
		{"ruby x.rb /h", "", []string{"/h"}, []string{"/h/.bashrc"}},
		{"./run ..", "", nil, []string{"/h/.bashrc", "/w/.git/hooks/x"}},
		{"git --git-dir=.git gc", "", nil, []string{"/w/.git/hooks/x"}},
		{"rm -rf .git", sandbox.LeavesNothing, []string{"/w/.git/hooks/x"}, []string{"/w/.vscode/x"}},
		{"rm -rf .git", "", nil, []string{"/w/.git/hooks/x"}},
		{"touch /opt/x/y/z", sandbox.LeavesFolder, []string{"/opt/x", "/opt/x/y"}, []string{"/opt/y"}},
		{"touch /opt/x/y/z", "", []string{"/opt/x/y/z"}, []string{"/opt/x/y"}},
		{"cd sub && cp a ../b", "", []string{"/w/b"}, []string{"/b", "/w/sub/a"}},
		{"cd $x && cp a b", "", nil, []string{"/w/b"}},
		{"git config core.pager x", "", []string{"/w/.git/config"}, []string{"/w/.git/hooks/x", "/h/.gitconfig"}},
		{"git remote set-url origin x && ls", "", []string{"/w/.git/config"}, nil},
		{"git config --global a.b c", "", []string{"/h/.gitconfig", "/h/.gitconfig.lock"}, nil},
		{"git config core.pager x && make", "", nil, []string{"/w/.git/config"}},
	} {
		l := newLine(commandOf(c.line), "/h")
		for _, path := range c.named {
			if !l.names(path, c.leaves) {
				t.Errorf("%s does not name %s (%q)", c.line, path, c.leaves)
			}
		}
		for _, path := range c.others {
			if l.names(path, c.leaves) {
				t.Errorf("%s names %s (%q)", c.line, path, c.leaves)
			}
		}
	}
}

func TestLine_OfNoCommandNamesNothing(t *testing.T) {
	if l := newLine(&permissionv1.Action{}, "/h"); l != nil || l.names("/w/x", "") {
		t.Errorf("got %v", l)
	}
	for _, path := range []string{"/w/x", ""} {
		if (&line{}).names(path, "") {
			t.Errorf("a command that was not decided names %q", path)
		}
	}
}
