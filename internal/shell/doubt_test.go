package shell_test

import (
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/shell"
	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

func TestDoubt_GitDiffDependsOnRepository(t *testing.T) {
	sub := func(line, gitDir, cwd string) *permissionv1.SubCommand {
		return &permissionv1.SubCommand{Argv: strings.Fields(line), Cwd: cwd, Program: &acpv1.Program{Path: "/usr/bin/git", ResolvedPath: "/usr/bin/git"},
			Repository: &acpv1.Repository{GitDir: gitDir, AtRoot: gitDir != ""}}
	}
	for _, s := range []*permissionv1.SubCommand{
		sub("git diff", "/ws/.git", ""), sub("git diff a b", "/ws/.git", ""), sub("git diff --stat main..x -- a", "/ws/.git", ""), sub("git diff /ws/a /ws", "/ws/.git", ""),
		sub("git diff ../a ../b/c", "/ws/.git", "/ws/sub"), sub("git status", "", ""), sub("git log", "", ""), sub("git show /x", "/ws/.git", ""),
	} {
		if why := shell.Doubt(s); why != "" {
			t.Errorf("%q: %s", s.GetArgv(), why)
		}
	}
	linked := sub("git diff /name/a", "/ws/.git", "")
	linked.ResolvedWords = []*permissionv1.ResolvedWord{{Word: 2, ResolvedPath: "/ws/a"}}
	if why := shell.Doubt(linked); why != "" {
		t.Errorf("a root by another name: %s", why)
	}
	for _, s := range []*permissionv1.SubCommand{
		sub("git diff a b", "", ""), sub("git --no-pager diff a b", "", ""), sub("git diff empty /other", "/ws/.git", ""), sub("git diff empty /wss", "/ws/.git", ""),
		sub("git diff ../a ../../b", "/ws/.git", "/ws/sub"), sub("git diff a ../b", "/ws/.git", ""),
	} {
		if shell.Doubt(s) == "" {
			t.Errorf("%q in %q: nothing is in doubt", s.GetArgv(), s.GetRepository().GetGitDir())
		}
	}
}
