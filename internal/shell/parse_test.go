package shell_test

import (
	"strings"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/shell"
	"github.com/acphost/acphost/internal/testkit"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// show writes sub-commands in short: "wrapper, wrapper: @cwd NAME=VALUE argv|argv >path (dynamic)", one a line.
func show(subs []*permissionv1.SubCommand) string {
	var lines []string
	for _, sub := range subs {
		var parts []string
		if len(sub.Wrappers) > 0 {
			parts = append(parts, strings.Join(sub.Wrappers, ", ")+":")
		}
		switch {
		case sub.CwdUnknown:
			parts = append(parts, "@?")
		case sub.Cwd != "":
			parts = append(parts, "@"+sub.Cwd)
		}
		parts = append(parts, sub.Assignments...)
		if len(sub.Argv) > 0 {
			parts = append(parts, strings.Join(sub.Argv, "|"))
		}
		for _, r := range sub.Redirections {
			path := r.Path
			if r.Dynamic {
				path = "(dynamic)" + path
			}
			parts = append(parts, r.Operator+path)
		}
		if sub.Dynamic {
			parts = append(parts, "(dynamic)")
		}
		lines = append(lines, strings.Join(parts, " "))
	}
	return strings.Join(lines, "\n")
}

func TestParse_FindsEverySimpleCommand(t *testing.T) {
	tests := map[string]struct{ line, want string }{
		"a command":                       {"git status", "git|status"},
		"nothing":                         {"", ""},
		"a comment":                       {"ls # rm -rf /", "ls"},
		"chains":                          {"a && b || c; d & e", "a\nb\nc\nd\ne"},
		"pipes":                           {"a | b|c", "a\nb\nc"},
		"newlines":                        {"a\nb\n\n\tc", "a\nb\nc"},
		"a continued line":                {"git sta\\\ntus", "git|status"},
		"negation":                        {"! a", "a"},
		"quotes":                          {`a 'b c' "d e" f\ g h'i'"j"`, "a|b c|d e|f g|hij"},
		"quotes in the command's name":    {`r'm' \rm "rm"`, "rm|rm|rm"},
		"escapes in double quotes":        {`a "\$x \` + "`" + ` \" \\ \n"`, "a|$x ` \" \\ \\n"},
		"an empty argument":               {`a '' ""`, "a||"},
		"a subshell":                      {"(a; b) && c", "a\nb\nc"},
		"a block with a redirection":      {"{ a; b; } > f", ">f\na\nb"},
		"if":                              {"if a; then b; elif c; then d; else e; fi", "a\nb\nc\nd\ne"},
		"while and until":                 {"while a; do b; done; until c; do d; done", "a\nb\nc\nd"},
		"for, which assigns":              {"for x in 1 2; do a; done", "x=1 2\na"},
		"case":                            {"case $x in a) b;; *) c; d;; esac", "b\nc\nd"},
		"a function and its call":         {"f() { rm x; }; f y", "@? rm|x\nf|y (dynamic)"},
		"a function that hides a program": {"git() { ls; }\ngit status", "@? ls\ngit|status (dynamic)"},
		"a substitution":                  {"a $(b; c $(d))", "a|$(b; c $(d)) (dynamic)\nb\nc|$(d) (dynamic)\nd"},
		"backquotes":                      {"a `b`", "a|`b` (dynamic)\nb"},
		"a substitution in quotes":        {`a "x$(b)y"`, "a|x$(b)y (dynamic)\nb"},
		"a substitution as the command":   {"$(a) b", "$(a)|b (dynamic)\na"},
		"a substitution in an assignment": {"x=$(a) b", "x=$(a) b\na"},
		"a substitution in a default":     {"a ${x:-$(b)}", "a|${x:-$(b)} (dynamic)\nb"},
		"arithmetic":                      {"a $((1 + 2))", "a|$((1 + 2)) (dynamic)"},
		"a substitution in an export":     {"export A=$(b)", "A=$(b) export\nb"},
		"a substitution in a redirection": {"a > $(b)", "a >(dynamic)\nb"},
		"a substitution in a loop's list": {"for x in $(a); do b; done", "x=$(a)\nb\na"},
		"a substitution in case":          {"case $(a) in $(b)) c;; esac", "c\na\nb"},
		"a here-document":                 {"a <<EOF\n$(b)\nEOF\nc", "a\nb\nc"},
		"a quoted here-document":          {"a <<'EOF'\n$(b)\nEOF\n", "a"},
		"assignments alone":               {"x=1 y=$z", "x=1 y=$z"},
		"assignments before a command":    {"x=1 a", "x=1 a"},
		"export":                          {"export A=1 B; a", "A=1 export|B\na"},
		"redirections":                    {"a <i >o 2>>e >|c <>b", "a <i >o >>e >|c <>b"},
		"copies of descriptors":           {"a 2>&1 >&2 <&3 2>&-", "a"},
		"a redirection alone":             {"> f", ">f"},
		"a redirection in front":          {">f a b", "a|b >f"},
		"variables":                       {`a $x "${y}" '$z'`, "a|$x|${y}|$z (dynamic)"},
		"a literal dollar":                {`a '$x' \$y`, "a|$x|$y"},
		"globs":                           {"a *.go", "a|*.go (dynamic)"},
		"quoted globs":                    {`a '*.go' \?`, "a|*.go|?"},
		"a glob as the command":           {"/bin/r? x", "/bin/r?|x (dynamic)"},
		"tildes":                          {"a ~/x x~y", "a|~/x|x~y (dynamic)"},
		"a tilde in an option":            {"a --x=~", "a|--x=~ (dynamic)"},
		"braces":                          {"a {b,c}", "a|{b,c} (dynamic)"},
		"a range in braces":               {"{rm,-rf}; a{1..3}", "{rm,-rf} (dynamic)\n@? a{1..3} (dynamic)"},
		"braces with quotes in them":      {`{'rm',"x"}`, "{rm,x} (dynamic)"},
		"braces that expand to nothing":   {"a {} {b} x}", "a|{}|{b}|x}"},
		"test":                            {"[ -f x ] && test -d y", "[|-f|x|]\ntest|-d|y"},
		"a variable that is read":         {"read PATH", "read|PATH (dynamic)"},
		"a variable that is printed into": {"printf -v PATH x; printf x", "printf|-v|PATH|x (dynamic)\nprintf|x"},
		"assignment in an expansion":      {": ${PATH:=x}", ":|${PATH:=x} (dynamic)"},
		"a hash without a comment":        {"ls '# a' \"b # c\" d#e \\\n f # g\n", "ls|# a|b # c|d#e|f"},
		"hashes in a here-document":       {"cat <<E\na # \\\nb\nE\n", "cat"},
		"a backslash at a word's end":     {`ls a\\`, `ls|a\`},
		"a line that continues":           {"ls a\\\\\\\nb \"c\\\\\\\nd\"", `ls|a\b|c\d`},
		"quoted blanks":                   {"ls a\\ b 'c\u00a0d' \"e\ff\"", "ls|a b|c\u00a0d|e\ff"},
		"unicode":                         {"écho 'ß 漢字'", "écho|ß 漢字"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			subs, unparsed := shell.Parse(tt.line)
			if unparsed != "" {
				t.Errorf("%q is unparsed: %s", tt.line, unparsed)
			}
			if got := show(subs); got != tt.want {
				t.Errorf("%q\ngot:\n%s\nwant:\n%s", tt.line, got, tt.want)
			}
		})
	}
}

func TestParse_SeesThroughWrappers(t *testing.T) {
	tests := map[string]struct{ line, want string }{
		"sh -c":                             {`sh -c 'rm x; ls'`, "sh -c: rm|x\nsh -c: ls"},
		"bash with options in a cluster":    {`bash -lc "rm x"`, "bash -c: rm|x"},
		"bash with an option's value later": {`bash -euoc pipefail 'rm x'`, "bash -c: rm|x"},
		"bash with more options":            {`bash --norc -o pipefail -e +x -c 'rm x' name arg`, "bash -c: rm|x"},
		"a shell by its path":               {`/tmp/evil/sh -c 'rm x'`, "/tmp/evil/sh -c: rm|x"},
		"shells within shells":              {`sh -c "bash -c 'rm x'"`, "sh -c, bash -c: rm|x"},
		"redirections of a shell":           {`A=1 sh -c 'a; b' > f`, "A=1 >f\nsh -c: a\nsh -c: b"},
		"bash's own syntax after bash":      {`bash -c '[[ -f x ]] && diff <(a) <(b) &>/dev/null'`, "bash -c: [[|-f|x|]]\nbash -c: diff|<(a)|<(b) &>/dev/null (dynamic)\nbash -c: a\nbash -c: b"},
		"bash's quotes after bash":          {`bash -c "\$'r\\x6d' x"`, "bash -c: rm|x"},
		"a script":                          {"sh script.sh arg", "sh|script.sh|arg"},
		"a here-document for a shell":       {"sh <<'EOF'\nrm x\nEOF", "sh: rm|x"},
		"a here-string for bash":            {`bash -c 'bash <<< "rm x"'`, "bash -c, bash: rm|x"},
		"env":                               {"env A=1 B=2 rm x", "env: A=1 B=2 rm|x"},
		"env with options":                  {"env -i -u HOME PATH=/x rm x", "env -i -u: PATH=/x rm|x"},
		"env with a lone dash":              {"env - rm x", "env -i: rm|x"},
		"env that splits":                   {"env -S 'rm -rf x' y", "env: rm|-rf|x|y"},
		"env alone":                         {"env", "env"},
		"sudo":                              {"sudo -u root -n A=1 rm x", "sudo: A=1 rm|x"},
		"sudo with its value attached":      {"sudo -uroot -- rm x", "sudo: rm|x"},
		"doas":                              {"doas -u root rm x", "doas: rm|x"},
		"timeout":                           {"timeout -k 5 --signal=KILL 10 rm x", "timeout: rm|x"},
		"nice":                              {"nice rm x; nice -n 5 rm y; nice -5 rm z", "nice: rm|x\nnice: rm|y\nnice: rm|z"},
		"nohup":                             {"nohup rm x &", "nohup: rm|x"},
		"stdbuf and setsid":                 {"stdbuf -oL setsid -w rm x", "stdbuf, setsid: rm|x"},
		"exec":                              {"exec rm x; exec -a name rm x", "exec: rm|x\nexec -a: rm|x (dynamic)"},
		"exec without an environment":       {"exec -cl rm x", "exec -c -l: rm|x"},
		"exec for its redirections":         {"exec > f", "exec >f"},
		"command":                           {"command rm x; command -v rm", "command: rm|x\ncommand|-v|rm"},
		"command by the system's own PATH":  {"command -p rm x", "command -p: rm|x"},
		"bash with options' values later":   {`bash -oeo pipefail nounset -c 'rm x'`, "bash -c: rm|x"},
		"set":                               {"set -euo pipefail; set -- -k 'a[0]'; set", "set|-euo|pipefail\nset|--|-k|a[0]\nset"},
		"builtin":                           {"builtin cd x", "builtin: cd|x"},
		"time":                              {"time rm x; time -p rm y", "time: rm|x\ntime: rm|y"},
		"eval":                              {"eval 'rm x;' ls", "eval: rm|x\neval: ls"},
		"a trap":                            {"trap 'rm x' EXIT; trap - EXIT", "trap: @? rm|x\ntrap|-|EXIT"},
		"xargs":                             {"a | xargs -0 -n 1 rm -f", "a\nxargs: rm|-f|$@ (dynamic)"},
		"xargs with a place":                {"xargs -I% mv % x%y", "xargs: mv|{}|x{}y (dynamic)"},
		"xargs with a shell":                {"xargs -I{} sh -c 'rm x'", "xargs, sh -c: rm|x"},
		"find":                              {`find . -name x -exec rm -f {} \; -execdir ls {} +`, "find|.|-name|x|-exec|rm|-f|{}|;|-execdir|ls|{}|+\nfind -exec: rm|-f|{} (dynamic)\nfind -execdir: @? ls|{} (dynamic)"},
		"find with a shell":                 {`find . -exec sh -c 'rm x' \;`, "find|.|-exec|sh|-c|rm x|;\nfind -exec, sh -c: rm|x"},
		"busybox":                           {"busybox rm x; busybox sh -c 'rm y'", "busybox: rm|x\nbusybox, sh -c: rm|y"},
		"many at once":                      {`sudo env A=1 timeout 5 nice sh -c "exec rm x"`, "sudo, env, timeout, nice: A=1\nsudo, env, timeout, nice, sh -c, exec: rm|x"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			subs, unparsed := shell.Parse(tt.line)
			if unparsed != "" && !strings.Contains(tt.line, "xargs") {
				t.Errorf("%q is unparsed: %s", tt.line, unparsed)
			}
			if got := show(subs); got != tt.want {
				t.Errorf("%q\ngot:\n%s\nwant:\n%s", tt.line, got, tt.want)
			}
		})
	}
}

func TestParse_ReportsUnseenParts(t *testing.T) {
	tests := map[string]string{
		"an unclosed quote":                       "a 'b",
		"an unclosed substitution":                "a $(b",
		"a stray operator":                        "a &&",
		"a line over the limit":                   "a " + strings.Repeat("x", shell.MaxLine),
		"text that is not UTF-8":                  "a \xff",
		"a carriage return":                       "a\rb",
		"a NUL":                                   "a\x00b",
		"more commands than are listed":           strings.Repeat("a;", 1001),
		"brackets that nest":                      strings.Repeat("(", 5000),
		"lines within lines":                      nest(20),
		"wrappers around wrappers":                strings.Repeat("time ", 1000) + "a",
		"a shell that reads a pipe":               "echo 'rm x' | sh",
		"a shell with a dynamic line":             "sh -c \"$x\"",
		"a shell with a dynamic option":           "sh $x 'rm x'",
		"a shell with an option that loads":       "bash --rcfile f -c 'ls'",
		"a shell of another language":             "fish -c 'ls'",
		"zsh":                                     "zsh -c 'ls'",
		"eval of a variable":                      "eval $x",
		"eval of a substitution":                  `eval "$(ssh-agent)"`,
		"a sourced file":                          ". ./env; ls",
		"an alias":                                "alias ls='rm x'; ls",
		"env that splits more than words":         `env -S 'sh -c "rm x"'`,
		"env with an unknown option":              "env --argv0=x rm x",
		"sudo with a login shell":                 "sudo -i rm x",
		"sudo as an editor":                       "sudo -e /etc/passwd",
		"timeout of a dynamic time":               "timeout $x rm y",
		"time that writes a file":                 "time -o f ls",
		"find with a dynamic word":                "find $x rm y",
		"a program that runs others unseen":       "watch rm x",
		"a subscript that runs a command":         "test -v 'a[$(rm x)]'",
		"options before a command":                "time -- rm x",
		"options after an assignment for sudo":    "sudo A=1 -u root rm x",
		"a shell that reads a device":             "bash /dev/stdin",
		"a subscript that is printed into":        "printf -v 'a[$(rm x)]' y",
		"a callback of mapfile":                   "mapfile -C 'rm x' -c 1 a",
		"quotes in arithmetic":                    "echo $(( 'a[$(rm x)]' ))",
		"a variable in arithmetic":                "x=1; echo $((x + 1))",
		"a value with a substitution":             "x='a[$(rm x)]'; ls",
		"a prompt with a substitution":            "PS4='$(rm x)'; set -x; ls",
		"an expansion as a prompt":                "echo \"${x@P}\"",
		"an indirect expansion":                   "echo ${!x}",
		"a subscript by variable":                 "echo ${a[x]}",
		"a slice by variable":                     "echo ${a:x}",
		"bash's table of aliases":                 "BASH_ALIASES[ls]=rm\nls",
		"an integer variable":                     "declare -i x=y",
		"a test of numbers by name":               "bash -c '[[ x -eq 1 ]]'",
		"a test whether a variable is set":        "bash -c '[[ -v a[x] ]]'",
		"a test of a dynamic variable":            "[ -v $x ]",
		"the loader of programs":                  "/lib64/ld-linux-x86-64.so.2 /bin/rm x",
		"bash's tests for any shell":              "[[ a || rm x ]]",
		"bash's quotes for any shell":             `$'rm' x`,
		"bash's redirections for any shell":       "a &>/dev/null",
		"a process that is written to":            "tee >(b)",
		"bash's arithmetic for any shell":         "((a = 1))",
		"a coprocess for any shell":               "coproc a",
		"bash's functions for any shell":          "function f { a; }; f",
		"a comment that ends in a backslash":      "ls # \\\nrm x",
		"such a comment alone in its line":        "ls \\\n#x\\\nrm y",
		"such a comment in a substitution":        "ls $(ls # \\\nrm x\n)",
		"such a comment after backquotes":         "ls `ls # \\\nrm x`",
		"such a comment for a shell":              "sh -c 'ls # \\\nrm x'",
		"such a comment behind quotes":            `ls "#" 'x #' # \` + "\nrm x",
		"a backslash at the end":                  `ls \`,
		"a backslash at a comment's end":          `ls # x \`,
		"a backslash at a shell's end":            `sh -c 'ls \'`,
		"a dollar of the next line":               "ls $\\\nHOME",
		"a dollar of the next line, quoted":       "ls \"$\\\n{HOME}\"",
		"a form feed":                             "ls\fx",
		"a vertical tab":                          "ls x\vy",
		"another control character":               "ls x\by",
		"a blank that is not ASCII":               "ls x\u00a0y",
		"a line separator":                        "ls x\u2028rm y",
		"a blank without width":                   "ls x\u200by",
		"a descriptor that is closed, and more":   "ls >&-x",
		"bash with an option of shopt":            "bash -O extglob -c ls",
		"bash without an option of shopt":         "bash +O extglob -c ls",
		"such an option's value later":            "bash -Oc extglob ls",
		"an interactive shell":                    "bash -ic ls",
		"words that are assignments":              "bash -kc 'ls x=1'",
		"another grammar":                         "sh -o posix -c ls",
		"another grammar in a cluster":            "bash -oeo pipefail posix -c ls",
		"another grammar by name":                 "bash --posix -c ls",
		"a script with an option that loads":      "bash --init-file f x.sh",
		"an interactive script":                   "bash -i x.sh",
		"a shell's startup file":                  "BASH_ENV=x bash -c ls",
		"a shell's startup file, by env":          "env BASH_ENV=x bash -c ls",
		"sh's startup file, by env":               "env ENV=x sh -c ls",
		"options of the shell that reads":         "set -k; ls x=1",
		"options of that shell by name":           "set -o posix; ls",
		"options of bash":                         "shopt -s expand_aliases; ls",
		"a here-document with a variable for sh":  "sh <<EOF\n$x\nEOF",
		"an end of it after a backslash":          "ls <<EOF\n\\\nEOF\nrm x\nEOF",
		"an end of it over two lines":             "ls <<EOF\nE\\\nOF\nrm x\nEOF",
		"a delimiter that is quoted in part":      "ls <<'E'OF\na\\\nEOF\nrm x\nEOF",
		"a delimiter with a backslash in quotes":  "ls <<\"E\\$F\"\nE$F\nrm x\nE\\$F",
		"an end of it in an expansion":            "ls <<EOF\n${x-\nEOF\n}\nrm x\nEOF",
		"an end of it after an expansion":         "ls <<EOF\n${x}EOF\nls '\nEOF\nrm x #'",
		"an end of it in a substitution":          "x=$(ls <<EOF\nEOF)\nrm x\nEOF\n)",
		"a here-document after its substitution":  "x=$(ls <<EOF)\nrm x\nEOF\n",
		"a here-document in another one":          "ls <<E1\n$(ls <<E2\nE1\nrm x\nE2\n)\nE1",
		"single quotes in quotes":                 `ls; x="${y-'$(rm x)'}"`,
		"single quotes in a pattern in quotes":    `ls; x="${y:-${z#'$(rm x)'}}"`,
		"single quotes in a here-document":        "ls <<EOF\n${y-'$(rm x)'}\nEOF",
		"a wrapper in a command with its problem": "sudo sh -c 'a &&'",
	}
	for name, line := range tests {
		t.Run(name, func(t *testing.T) {
			subs, unparsed := shell.Parse(line)
			if unparsed == "" {
				t.Errorf("%.80q is taken for fully seen:\n%s", line, show(subs))
			}
		})
	}
}

func TestParse_UnparsedLineKeepsSeenCommands(t *testing.T) {
	for line, want := range map[string]string{
		"a $((1 + $(b)))":                "a|$((1 + $(b))) (dynamic)\nb",
		"a; b 'c":                        "a",
		"ls # \\\nrm x":                  "ls\nrm|x",
		"ls # a # \\\n# \\\nrm x # \\\n": "ls\nrm|x",
		"sudo -i; rm x":                  "sudo|-i (dynamic)\n@? rm|x",
	} {
		subs, unparsed := shell.Parse(line)
		if unparsed == "" || show(subs) != want {
			t.Errorf("%q: got %q:\n%s\nwant:\n%s", line, unparsed, show(subs), want)
		}
	}
}

func TestParse_ReturnsCommandsOfBothReadings(t *testing.T) {
	subs, unparsed := shell.Parse("[[ a || rm x ]]")
	if unparsed == "" || !strings.Contains(show(subs), "rm|x") {
		t.Errorf("got %q:\n%s\nwant the rm that a plain shell runs", unparsed, show(subs))
	}
}

func TestParse_HostileLinesAreQuick(t *testing.T) {
	lines := map[string]string{
		"parentheses": strings.Repeat("(", 4000), "substitutions": strings.Repeat("$(", 4000),
		"quoted substitutions": strings.Repeat(`"$(`, 4000), "conditions": strings.Repeat("if ", 21000),
		"pipes": "a" + strings.Repeat("|a", 32000), "arithmetic": "$((" + strings.Repeat("~", 60000) + "1))",
		"assignments": "$((a" + strings.Repeat("=a", 30000) + "))", "wrappers": strings.Repeat("time ", 13000),
		"expansions": strings.Repeat("${a:-", 4000), "here-documents": strings.Repeat("<<a ", 16000),
		"braces": strings.Repeat("{a,", 4000), "negations": "[[ " + strings.Repeat("! ", 32000),
		"env": strings.Repeat("env ", 16000), "evals": strings.Repeat("eval ", 13000) + "a",
		"finds":  "find " + strings.Repeat("-exec find ", 5000),
		"opaque": strings.Repeat("su -c su ", 1500), "gits": strings.Repeat("git -C a ", 7000), "ifs": strings.Repeat("if a; then cd b; else ", 2500),
		"hosts": strings.Repeat("ssh -oProxyCommand=ssh h ", 2500), "containers": strings.Repeat("docker run --entrypoint docker c ", 2000),
		"submodules": strings.Repeat("git submodule foreach ", 2900), "rebases": "git rebase " + strings.Repeat("-x 'git rebase -x git' ", 2500),
		"loops": strings.Repeat("while cd a; do ", 4000), "aliases": strings.Repeat("git -c 'alias.x=!git' ", 2500),
	}
	for name, line := range lines {
		// Far more than the 0.2 s that the slowest takes. A quadratic parser takes minutes, or overflows the stack.
		testkit.TakesAtMost(t, 20*time.Second, name, func() { shell.Parse(line) })
	}
}

func nest(depth int) string {
	line := "rm x"
	for range depth {
		line = "eval " + shell.Quote([]string{line})
		if len(line) > 30_000 {
			break
		}
	}
	return line
}
