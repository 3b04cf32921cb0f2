package shell_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/acphost/acphost/internal/shell"
)

func TestParse_WorkingDirectoryOfCommands(t *testing.T) {
	for name, tt := range map[string]struct{ line, want string }{
		"cd that must succeed":                {"cd /tmp && rm x", "cd|/tmp\n@/tmp rm|x"},
		"a relative one":                      {"cd a/b && ls && ls", "cd|a/b\n@a/b ls\n@a/b ls"},
		"one after the other":                 {"cd a && cd b && ls", "cd|a\n@a cd|b\n@a/b ls"},
		"an absolute one after it":            {"cd a && cd /b && ls", "cd|a\n@a cd|/b\n@/b ls"},
		"cd to where it is":                   {"cd . && ls", "cd|.\nls"},
		"cd with options":                     {"cd -P -- /x && ls", "cd|-P|--|/x\n@/x ls"},
		"cd that may fail":                    {"cd a; ls", "cd|a\n@? ls"},
		"cd that may fail, on the next line":  {"cd a\nls", "cd|a\n@? ls"},
		"a command that runs if it fails":     {"cd a || ls", "cd|a\nls"},
		"a command that runs in both cases":   {"cd a && ls; rm x", "cd|a\n@a ls\n@? rm|x"},
		"cd or the end":                       {"cd a || exit 1; ls", "cd|a\nexit|1\n@a ls"},
		"cd or the end, in braces":            {"cd a || { echo no; exit; }; ls", "cd|a\necho|no\nexit\n@a ls"},
		"an invalid exit":                     {"cd a || exit 1 2; ls", "cd|a\nexit|1|2\n@? ls"},
		"an end that is redefined":            {"exit() { :; }; cd a || exit; ls", "@? :\n@? cd|a\n@? exit (dynamic)\n@? ls"},
		"cd that is redefined":                {"cd() { :; }; cd a && ls", "@? :\n@? cd|a (dynamic)\n@? ls"},
		"return at the top is no end":         {"cd a || return; ls", "cd|a\nreturn\n@? ls"},
		"negation":                            {"! cd a || ls", "cd|a\n@a ls"},
		"cd to a variable":                    {"cd $d && ls", "cd|$d (dynamic)\n@? ls"},
		"cd home":                             {"cd && ls; cd ~ && ls", "cd\n@? ls\n@? cd|~ (dynamic)\n@? ls"},
		"cd back":                             {"cd - && ls", "cd|-\n@? ls"},
		"cd up":                               {"cd .. && ls", "cd|..\n@? ls"},
		"cd up after a name":                  {"cd a/../b && ls", "cd|a/../b\n@? ls"},
		"cd with too much":                    {"cd a b && ls", "cd|a|b\n@? ls"},
		"a subshell":                          {"(cd a && ls); ls", "cd|a\n@a ls\nls"},
		"a substitution":                      {"x=$(cd a && ls); ls", "x=$(cd a && ls)\ncd|a\n@a ls\nls"},
		"a shell":                             {"sh -c 'cd a && ls'; ls", "sh -c: cd|a\nsh -c: @a ls\nls"},
		"a shell somewhere":                   {"cd a && sh -c 'cd b && ls'", "cd|a\nsh -c: @a cd|b\nsh -c: @a/b ls"},
		"the background":                      {"cd a && ls & ls", "cd|a\n@a ls\nls"},
		"a pipe":                              {"cd a | ls; rm x", "cd|a\nls\nrm|x"},
		"a pipe's last part":                  {"ls | cd a; rm x", "ls\n@? cd|a\n@? rm|x"},
		"a pipe after cd":                     {"cd a && ls | wc", "cd|a\n@a ls\n@a wc"},
		"eval":                                {"eval 'cd a' && ls", "eval: cd|a\n@a ls"},
		"command and builtin":                 {"command cd a && builtin cd b && ls", "command: cd|a\nbuiltin: @a cd|b\n@a/b ls"},
		"cd elsewhere than in the shell":      {"env cd a && ls", "env: cd|a\nls"},
		"a command that may be cd":            {"$c a; ls", "$c|a (dynamic)\n@? ls"},
		"pushd and popd":                      {"pushd a && ls && popd && ls", "pushd|a\n@a ls\n@a popd\n@? ls"},
		"if":                                  {"if cd a; then ls; else rm x; fi; wc", "cd|a\n@a ls\nrm|x\n@? wc"},
		"if not, the end":                     {"if cd a; then ls; else exit; fi; wc", "cd|a\n@a ls\nexit\n@a wc"},
		"if it cannot, the end":               {"if ! cd a; then exit 1; fi; ls", "cd|a\nexit|1\n@a ls"},
		"a block":                             {"{ cd a; } && ls", "cd|a\n@a ls"},
		"where the shell believes to be":      {"PWD=/etc; cd a && ls", "@? PWD=/etc\n@? cd|a\n@? ls"},
		"an if that goes nowhere":             {"if a; then ls; fi; wc", "a\nls\nwc"},
		"a loop":                              {"for i in 1 2; do cd a && ls; done; wc", "@? i=1 2\n@? cd|a\n@? ls\n@? wc"},
		"a loop with subshells":               {"for i in 1 2; do (cd a && ls); done; wc", "i=1 2\ncd|a\n@a ls\nwc"},
		"a loop that is left":                 {"cd /b && while :; do cd a && break; cd /b || exit; done; wc", "cd|/b\n@? :\n@? cd|a\n@? break\n@? cd|/b\n@? exit\n@? wc"},
		"case":                                {"case x in a) cd a;; b) ls;; esac; wc", "@? cd|a\n@? ls\n@? wc"},
		"case with an end":                    {"case x in a) exit;; b) ls;; esac; wc", "exit\nls\nwc"},
		"a function that goes":                {"f() { cd a; }; f; ls", "@? cd|a\n@? f (dynamic)\n@? ls"},
		"a function that stays":               {"f() { ls; }; wc", "@? ls\nwc"},
		"a trap that goes":                    {"trap 'cd /etc' DEBUG; ls", "trap: @? cd|/etc\n@? ls"},
		"a trap that stays":                   {"trap 'rm x' EXIT; ls", "trap: @? rm|x\nls"},
		"CDPATH is changed":                   {"CDPATH=/etc; cd a && ls", "@? CDPATH=/etc\n@? cd|a\n@? ls"},
		"CDPATH may be changed":               {"export $x; cd a && ls", "@? export|$x (dynamic)\n@? cd|a\n@? ls"},
		"redirections":                        {"cd a && { ls; } > f", "cd|a\n@a >f\n@a ls"},
		"env -C":                              {"env -C a ls; env --chdir=/b ls", "env -C: @a ls\nenv --chdir: @/b ls"},
		"env -C after cd":                     {"cd a && env -C b sh -c 'ls'", "cd|a\nenv -C, sh -c: @a/b ls"},
		"sudo -D":                             {"sudo -D /x ls", "sudo -D: @/x ls"},
		"make -C":                             {"make -C a -j4 test; make --directory=b; make -Cc; make --dir d", "@a make|-C|a|-j4|test\n@b make|--directory=b\n@c make|-Cc\n@d make|--dir|d"},
		"make that is not clear":              {"make -sC a; make -f -C x; make $x", "@? make|-sC|a\n@? make|-f|-C|x\n@? make|$x (dynamic)"},
		"find in each folder":                 {"cd a && find . -execdir ls \\; -exec wc {} +", "cd|a\n@a find|.|-execdir|ls|;|-exec|wc|{}|+\nfind -execdir: @? ls\nfind -exec: @a wc|{} (dynamic)"},
		"xargs":                               {"cd a && xargs ls", "cd|a\nxargs: @a ls|$@ (dynamic)"},
		"git -C":                              {"git -C /x status; git -C a -C b push", "git -C: @/x git|status\ngit -C: @a/b git|push"},
		"git -C after cd":                     {"cd a && git -C ../b log", "cd|a\ngit -C: @a/../b git|log"},
		"git in an unknown folder":            {"git -C '~/x' status", "git -C: @? git|status"},
		"git with a setting that only prints": {"git -c color.ui=never log > f", "git|log >f"},
		"git with settings for less":          {"git -c core.hooksPath=/dev/null -c core.fsmonitor= -c safe.bareRepository=explicit rev-parse HEAD", "git|rev-parse|HEAD"},
		"git without its pager":               {"git --no-pager log", "git|log"},
		"git with another git folder":         {"git --git-dir=/x -C a push", "@a git|--git-dir=/x|-C|a|push\ngit --git-dir -C: @a git|push"},
	} {
		t.Run(name, func(t *testing.T) {
			subs, unparsed := shell.Parse(tt.line)
			if got := show(subs); unparsed != "" || got != tt.want {
				t.Errorf("%q: %q\ngot:\n%s\nwant:\n%s", tt.line, unparsed, got, tt.want)
			}
		})
	}
}

func TestParse_NumbersDynamicWords(t *testing.T) {
	for line, want := range map[string]string{
		"a b":                    "[[]]",
		"a $x b *":               "[[1 3]]",
		"$a b":                   "[[0]]",
		"xargs rm -f":            "[[2]]",
		"xargs -I% mv % d":       "[[1]]",
		"find . -exec ls {} \\;": "[[] [1]]",
		"read x":                 "[[]]", // dynamic, and any of them may be
		"ls() { a; }; ls $x":     "[[] [0 1]]",
		"ls() { a; }; ls":        "[[] [0]]",
	} {
		subs, _ := shell.Parse(line)
		var got [][]uint32
		for _, sub := range subs {
			got = append(got, sub.GetDynamicWords())
			if len(sub.GetDynamicWords()) > 0 && (!sub.GetDynamic() || !slices.IsSorted(sub.GetDynamicWords())) {
				t.Errorf("%q: %v", line, sub)
			}
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%q: got %v, want %s", line, got, want)
		}
	}
}

func TestParse_RedefinedNamesAreNotFullySeen(t *testing.T) {
	for _, line := range []string{
		"alias ls='rm x'; ls", "unalias -a; ls", "hash -p /tmp/x ls; ls", "enable -f x.so ls", "enable -n cd; cd x", "source x", ". x", "PROMPT_COMMAND='rm x'; ls", "BASH_ENV=x bash -c ls",
		"export BASH_ENV=x; ls", "ENV=x sh -c ls", "python - <<EOF\nx\nEOF", "python <<'EOF'\nx\nEOF", "echo x | python3", "node -i <<E\nx\nE", "perl /dev/stdin <<E\nx\nE", "bash <<EOF\n$x\nEOF",
		"zsh <<'EOF'\nls\nEOF", "git -c alias.x='!rm y' x", "git -c core.pager=x log", "git -c core.sshCommand=x fetch", "git -c core.fsmonitor status", "git -c core.fsmonitor=true status", "git -c core.hooksPath=/dev/nullx status", "git -c core.hooksPath=/dev/null push", "git -c core.hooksPath=/dev/null $x", "git --config-env=core.pager=X log", "git --exec-path=/x log", "git $x push",
		"git --new-option push", "git -c $x push", "su -c 'rm x'", "flock f rm x", "chroot /x rm y", "unshare rm x", "nsenter -t 1 rm x", "strace rm x", "ltrace rm x", "gdb --args rm x", "parallel rm ::: x",
		"watch rm x", "script -c 'rm x'", "run0 rm x", "trap \"$x\" EXIT", "eval \"$x\"", "bash -c \"$x\"", "exec -b x", "command -z rm",
	} {
		if subs, unparsed := shell.Parse(line); unparsed == "" {
			t.Errorf("%q is taken for fully seen:\n%s", line, show(subs))
		}
	}
}

func TestParse_OpaqueWrappersShowLikelyCommand(t *testing.T) {
	for line, want := range map[string]string{
		"flock f rm x": "rm", "su -c 'rm x'": "rm", "su root -c 'rm x'": "rm", "chroot /x rm y": "rm", "strace -f rm x": "rm", "gdb --args rm x": "rm", "script -qc 'rm x' f": "", "watch 'rm x'": "",
		"git -c alias.x='!rm y' x": "rm", "nsenter --all sh -c 'rm x'": "rm", "unshare -r rm x": "rm",
	} {
		subs, unparsed := shell.Parse(line)
		found := ""
		for _, sub := range subs {
			if len(sub.GetArgv()) > 0 && sub.GetArgv()[0] == "rm" {
				found = "rm"
			}
		}
		if unparsed == "" || found != want {
			t.Errorf("%q: %q, found %q:\n%s", line, unparsed, found, show(subs))
		}
	}
}
