package shell_test

import (
	"slices"
	"testing"

	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// around are ways to run a line within another.
var around = []func(line string) string{
	func(l string) string { return "sh -c " + shell.Quote([]string{l}) },
	func(l string) string { return "bash -lc " + shell.Quote([]string{l}) },
	func(l string) string { return "zsh -c " + shell.Quote([]string{l}) },
	func(l string) string { return "/bin/bash --norc -euo pipefail -c " + shell.Quote([]string{l, "x"}) },
	func(l string) string { return "env A=1 sh -c " + shell.Quote([]string{l}) },
	func(l string) string { return "env -S " + shell.Quote([]string{"sh -c " + shell.Quote([]string{l})}) },
	func(l string) string { return "sudo -u root -- sh -c " + shell.Quote([]string{l}) },
	func(l string) string {
		return "timeout -k 1 5 nice -n 5 nohup setsid sh -c " + shell.Quote([]string{l})
	},
	func(l string) string { return "ionice -c 3 stdbuf -oL sh -c " + shell.Quote([]string{l}) },
	func(l string) string { return "eval " + shell.Quote([]string{l}) },
	func(l string) string { return "exec -a x sh -c " + shell.Quote([]string{l}) },
	func(l string) string { return "command builtin eval " + shell.Quote([]string{l}) },
	func(l string) string { return "busybox sh -c " + shell.Quote([]string{l}) },
	func(l string) string { return "xargs -n 1 sh -c " + shell.Quote([]string{l}) },
	func(l string) string { return "find . -name x -exec sh -c " + shell.Quote([]string{l}) + " \\;" },
	func(l string) string { return "find . -execdir bash -c " + shell.Quote([]string{l}) + " {} +" },
	func(l string) string { return "trap " + shell.Quote([]string{l}) + " EXIT" },
	func(l string) string { return "git -c " + shell.Quote([]string{"alias.x=!" + l}) + " x" },
	func(l string) string { return "flock /tmp/x sh -c " + shell.Quote([]string{l}) },
	func(l string) string { return "su -c " + shell.Quote([]string{l}) },
	func(l string) string { return "watch " + shell.Quote([]string{l}) },
	func(l string) string { return "ssh host " + shell.Quote([]string{l}) },
	func(l string) string { return "docker run --rm -v /:/x image sh -c " + shell.Quote([]string{l}) },
	func(l string) string { return "kubectl exec pod -- sh -c " + shell.Quote([]string{l}) },
	func(l string) string { return "git submodule foreach " + shell.Quote([]string{l}) },
	func(l string) string { return "git -C x rebase -x " + shell.Quote([]string{l}) + " main" },
	func(l string) string { return "cd /tmp && " + l },
	func(l string) string { return "(" + l + "\n)" },
	func(l string) string { return "{ " + l + "\n}" },
	func(l string) string { return "echo $(" + l + "\n)" },
	func(l string) string { return "cat <(" + l + "\n)" },
	func(l string) string { return "f() {\n" + l + "\n}; f" },
	func(l string) string { return "if true; then\n" + l + "\nfi" },
	func(l string) string { return "for i in a; do\n" + l + "\ndone" },
	func(l string) string { return "case x in *)\n" + l + "\n;; esac" },
	func(l string) string { return "! time " + l },
	func(l string) string { return "true || " + l },
	func(l string) string { return "sh <<'END'\n" + l + "\nEND\n" },
	func(l string) string { return "bash <<< " + shell.Quote([]string{l}) },
	func(l string) string { return "cat <<END\n$(" + l + "\n)\nEND\n" },
	func(l string) string { return "x=$(" + l + "\n) ls" },
	func(l string) string { return "ls >$(" + l + "\n)" },
	func(l string) string { return "echo ${x:-$(" + l + "\n)}" },
	func(l string) string { return "coproc {\n" + l + "\n}" },
	func(l string) string { return "alias ls=" + shell.Quote([]string{l}) + "; ls" },
	func(l string) string { return "PROMPT_COMMAND=" + shell.Quote([]string{l}) + " bash" },
}

// FuzzParse_FindsCommandInWrappers puts a command into nested wrappers. Parse must return the command, or report that
// it has not parsed all of the line.
func FuzzParse_FindsCommandInWrappers(f *testing.F) {
	for i := range around {
		f.Add([]byte{byte(i)})
		f.Add([]byte{byte(i), byte(i * 7), byte(i * 13)})
	}
	f.Fuzz(func(t *testing.T, choice []byte) {
		line := "rm -rf x"
		for _, c := range choice[:min(6, len(choice))] {
			line = around[int(c)%len(around)](line)
		}
		subs, unparsed := shell.Parse(line)
		if unparsed == "" && !slices.ContainsFunc(subs, func(sub *permissionv1.SubCommand) bool {
			return slices.Equal(sub.GetArgv(), []string{"rm", "-rf", "x"})
		}) {
			t.Errorf("%q is taken for fully seen:\n%s", line, show(subs))
		}
	})
}
