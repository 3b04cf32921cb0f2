package shell_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/shell"
)

// workspace is a folder with files and folders in it; a name that ends in a slash is a folder.
func workspace(t *testing.T, names ...string) shell.Here {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name+"x")), 0o700); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "/") {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return shell.Here{Dir: dir}
}

var project = []string{"README.md", "go.mod", ".env", ".git/config", "src/main.go", "src/main_test.go", "src/.hidden.go", "src/a b.txt",
	"docs/x.md", "docs/y.md", "empty/", "n1", "n2", "n10", "one.c"}

func TestHere_ExpandsCertainWords(t *testing.T) {
	h := workspace(t, project...)
	if err := os.Symlink("/etc", h.Dir+"/.link"); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ line, want string }{
		"a pattern":                                      {"wc -l src/*.go", "wc|-l|src/main.go|src/main_test.go"},
		"a question mark":                                {"cat n?", "cat|n1|n2"},
		"brackets":                                       {"cat n[12] n[!1] n[0-9][0-9]", "cat|n1|n2|n2|n10"},
		"hidden names":                                   {"ls -d .e* .[a-f]*", "ls|-d|.env|.[a-f]* (dynamic)"},
		"an explicit dot":                                {"ls -d .e*", "ls|-d|.env"},
		"all names with a dot":                           {"ls -d .*", "ls|-d|.* (dynamic)"},
		"no name":                                        {"ls *.zip", "ls|*.zip"},
		"quotes":                                         {`cat 'src'/"ma"*_t\est.go '*'.go`, "cat|src/main_test.go|*.go"},
		"folders":                                        {"ls -d */", "ls|-d|docs/|empty/|src/"},
		"folders within":                                 {"cat */*.md", "cat|docs/x.md|docs/y.md"},
		"a name after a pattern":                         {"cat */x.md", "cat|docs/x.md"},
		"an absolute pattern":                            {"cat " + h.Dir + "/one.*", "cat|" + h.Dir + "/one.c"},
		"a pattern elsewhere":                            {"cat /etc/host*", "cat|/etc/host* (dynamic)"},
		"a pattern that leads out":                       {"cat ../*", "cat|../* (dynamic)"},
		"stars that may go deeper":                       {"cat **/x.md", "cat|**/x.md|docs/x.md"},
		"stars after a folder":                           {"wc -l src/**/*.go", "wc|-l|src/**/*.go|src/main.go|src/main_test.go"},
		"stars at the end":                               {"ls src/**", "ls|src/** (dynamic)"},
		"stars as a part":                                {"cat s**/x", "cat|s**/x (dynamic)"},
		"stars that are quoted":                          {"cat '**'/x.md", "cat|**/x.md"},
		"stars after a star":                             {"cat */**/x.md", "cat|*/**/x.md (dynamic)"},
		"stars for another program":                      {"uniq **/x.md", "uniq|**/x.md (dynamic)"},
		"letters in a range":                             {"cat [a-o]ne.c", "cat|[a-o]ne.c (dynamic)"},
		"braces":                                         {"cat {n1,n2}*", "cat|{n1,n2}* (dynamic)"},
		"a tilde":                                        {"cat ~/*", "cat|~/* (dynamic)"},
		"in a folder":                                    {"cd src && cat *.go", "cd|src\n@src cat|main.go|main_test.go"},
		"in a subshell":                                  {"(cd src && cat *.go); cat *.c", "cd|src\n@src cat|main.go|main_test.go\ncat|one.c"},
		"in a subshell that may not get there":           {"(cd src; cat x); cat y", "cd|src\n@src cat|x\ncat|x\ncat|y"},
		"in a substitution that may not":                 {`echo "$(cd src; pwd)"`, "echo|$(cd src; pwd) (dynamic)\ncd|src\n@src pwd\npwd"},
		"after a chain that may stop earlier":            {"cd src && cat x | sort; cat y", "cd|src\n@src cat|x\n@src sort\n@src cat|y\ncat|y"},
		"after a chain with two moves":                   {"cd src && cd sub; cat y", "cd|src\n@src cd|sub\n@? cat|y"},
		"after a chain that may leave":                   {"cd src || cd docs; cat y", "cd|src\ncd|docs\n@? cat|y"},
		"back up":                                        {"cd src && ls && cd .. && cat *.c", "cd|src\n@src ls\n@src cd|..\ncat|one.c"},
		"up and into another":                            {"cd src && cd ../docs && ls", "cd|src\n@src cd|../docs\n@docs ls"},
		"up by a path":                                   {"cd " + h.Dir + "/src/../docs && ls", "cd|" + h.Dir + "/src/../docs\n@" + h.Dir + "/docs ls"},
		"up from the folder itself":                      {"cd .. && ls", "cd|..\n@? ls"},
		"up more often than down":                        {"cd src && cd ../.. && ls", "cd|src\n@src cd|../..\n@? ls"},
		"up from a link":                                 {"cd .link && cd .. && cat x", "cd|.link\n@.link cd|..\n@? cat|x"},
		"up after a link":                                {"cd .link/../docs && cat x", "cd|.link/../docs\n@? cat|x"},
		"up from a missing folder":                       {"cd none && cd .. && ls", "cd|none\n@none cd|..\n@? ls"},
		"up after a change of folders":                   {"cd src && mv x y && cd .. && ls", "cd|src\n@src mv|x|y\n@src cd|..\n@? ls"},
		"up where it may not have gone down":             {"cd src; cd .. && ls", "cd|src\n@src cd|..\nls\ncd|..\n@? ls"},
		"after a loop that moves":                        {"for d in src docs; do cd $d && ls; done; cat y", "@? d=src docs\n@? cd|$d (dynamic)\n@? ls\n@? cat|y"},
		"in the folder itself":                           {"cd " + h.Dir + " && cat x; cat y", "cd|" + h.Dir + "\ncat|x\ncat|y"},
		"in a shell":                                     {"sh -c 'cat *.c'", "sh -c: cat|one.c"},
		"after an unknown operand":                       {"cd $x; cat *.c", "cd|$x (dynamic)\n@? cat|*.c (dynamic)"},
		"a program to which the order matters":           {"uniq n*", "uniq|n* (dynamic)"},
		"such a program and one name":                    {"uniq one*", "uniq|one.c"},
		"sed":                                            {"sed -n 1,20p docs/*", "sed|-n|1,20p|docs/x.md|docs/y.md"},
		"sed without a script":                           {"sed -n docs/*", "sed|-n|docs/* (dynamic)"},
		"sed that writes":                                {"sed -i s/a/b/ docs/*", "sed|-i|s/a/b/|docs/* (dynamic)"},
		"sort that writes":                               {"sort -o n*", "sort|-o|n* (dynamic)"},
		"a pattern as the program":                       {"./n? x", "./n?|x (dynamic)"},
		"a redirection":                                  {"cat <one.*", "cat <(dynamic)"},
		"the directory":                                  {`ls "$PWD" ${PWD}/docs`, "ls|" + h.Dir + "|" + h.Dir + "/docs"},
		"the directory elsewhere":                        {`cd src && ls "$PWD"`, "cd|src\n@src ls|$PWD (dynamic)"},
		"the directory that is set":                      {`PWD=/etc; ls "$PWD"`, "PWD=/etc\nls|$PWD (dynamic)"},
		"a status":                                       {`echo $? "$#"; exit $?`, "echo|$?|$#\nexit|$?"},
		"a status for a program":                         {"cat $?", "cat|$? (dynamic)"},
		"a variable":                                     {`f=one.c; cat "$f" ${f}`, "cat|one.c|one.c"},
		"a variable in a word":                           {`d=src; cat "$d"/*_test.go $d/x`, "cat|src/main_test.go|src/x"},
		"a variable and a chain":                         {`d=src && f=x && cat $d/$f`, "cat|src/x"},
		"a variable that may not be set":                 {`true && f=x; cat $f`, "true\nf=x\ncat|$f (dynamic)"},
		"a variable in a branch":                         {`if true; then f=x; fi; cat $f`, "true\nf=x\ncat|$f (dynamic)"},
		"a variable in a subshell":                       {`(f=x); cat $f`, "f=x\ncat|$f (dynamic)"},
		"a variable in a pipe":                           {`f=x | cat $f`, "f=x\ncat|$f (dynamic)"},
		"a variable that is used before":                 {`cat $f; f=x`, "cat|$f (dynamic)\nf=x"},
		"a variable that is set twice":                   {`f=x; f=y; cat $f`, "f=x\nf=y\ncat|$f (dynamic)"},
		"a variable before a command":                    {`f=x cat $f`, "f=x cat|$f (dynamic)"},
		"a variable that programs know":                  {`http_proxy=x; cat $http_proxy`, "http_proxy=x\ncat|$http_proxy (dynamic)"},
		"a variable that is read":                        {`f=x; read f; cat $f`, "f=x\nread|f\ncat|$f (dynamic)"},
		"a variable that is exported":                    {`f=x; export f; cat $f`, "f=x\nexport|f\ncat|$f (dynamic)"},
		"a variable that is printed into":                {`f=x; printf -v f y; cat $f`, "f=x\nprintf|-v|f|y (dynamic)\ncat|$f (dynamic)"},
		"a variable with blanks":                         {`f='a b'; cat "$f"; cat $f`, "f=a b\ncat|a b\ncat|$f (dynamic)"},
		"a variable with a pattern":                      {`f='*.c'; cat "$f" $f`, "f=*.c\ncat|*.c|$f (dynamic)"},
		"a variable without a value":                     {`f=; cat $f`, "f=\ncat|$f (dynamic)"},
		"a part of a variable":                           {`f=x.go; cat ${f%.go}`, "f=x.go\ncat|${f%.go} (dynamic)"},
		"a default":                                      {"f=x; cat ${f:-/etc/passwd}", "f=x\ncat|${f:-/etc/passwd} (dynamic)"},
		"a variable twice":                               {"f=x; cat $f$f", "cat|xx"},
		"a tilde before a variable":                      {"f=x; cat ~$f", "f=x\ncat|~$f (dynamic)"},
		"a variable as the program":                      {"f=ls; $f x", "f=ls\n$f|x (dynamic)"},
		"a variable in another shell":                    {`f=x; sh -c 'cat $f'`, "sh -c: cat|$f (dynamic)"},
		"a loop":                                         {`for f in a 'b c'; do wc -l "$f"; done`, "wc|-l|a\nwc|-l|b c"},
		"a loop over a pattern":                          {`for f in src/*.go; do wc -l "$f"; done; ls`, "wc|-l|src/main.go\nwc|-l|src/main_test.go\nls"},
		"a loop in a loop":                               {`for i in 1 2; do for j in 3 4; do echo $i$j; done; done`, "echo|13\necho|14\necho|23\necho|24"},
		"a variable after its loop":                      {`for f in a; do cat $f; done; cat $f`, "f=a\ncat|a\ncat|$f (dynamic)"},
		"a loop that changes its variable":               {`for f in a b; do f=c; cat $f; done`, "f=a b\nf=c\ncat|$f (dynamic)"},
		"a loop over a substitution":                     {`for f in $(ls *.md; ls); do cat $f; done`, "f=$(ls *.md; ls)\ncat|$f (dynamic)\nls|*.md (dynamic)\nls"},
		"a loop over lines":                              {`while read f; do cat $f; done < list`, "<list\nread|f\ncat|$f (dynamic)"},
		"a loop that goes elsewhere":                     {`for d in src docs; do cd $d; ls; done`, "@? d=src docs\n@? cd|$d (dynamic)\n@? ls"},
		"a loop with a subshell":                         {`for d in src docs; do (cd $d && ls *.md); done`, "cd|src\n@src ls|*.md\ncd|docs\n@docs ls|x.md|y.md"},
		"a loop over more than is followed":              {"for i in " + strings.Repeat("x ", 65) + "; do ls $i; done", "i=" + strings.TrimSuffix(strings.Repeat("x ", 65), " ") + "\nls|$i (dynamic)"},
		"a loop over a variable that counts":             {"for PATH in a; do ls; done", "PATH=a\nls"},
		"a folder that may not be reached":               {"cd src; cat *.go", "cd|src\n@src cat|main.go|main_test.go\ncat|*.go"},
		"a function":                                     {"f() { rm x; }; cat *.c", "@? rm|x\ncat|*.c (dynamic)"},
		"a command that changes files before":            {"touch x.c; cat *.c", "touch|x.c\ncat|*.c (dynamic)"},
		"a wait for others before":                       {"sleep 3; cat *.c", "sleep|3\ncat|*.c (dynamic)"},
		"a command that changes files after":             {"cat *.c; touch x.c", "cat|one.c\ntouch|x.c"},
		"a command that changes files in a substitution": {"cat *.c $(touch x.c)", "cat|*.c|$(touch x.c) (dynamic)\ntouch|x.c"},
		"a command that changes files at the same time":  {"cat *.c | tee x.c", "cat|*.c (dynamic)\ntee|x.c"},
		"a command that changes files in the previous iteration": {"while true; do cat *.c; touch x.c; done", "true\ncat|*.c (dynamic)\ntouch|x.c"},
		"a command that changes files in the background":         {"touch x.c & cat *.c", "touch|x.c\ncat|*.c (dynamic)"},
		"output before":                     {"ls > x.c; cat *.c", "ls >x.c\ncat|*.c (dynamic)"},
		"output to nowhere before":          {"ls 2>/dev/null; cat *.c", "ls >/dev/null\ncat|one.c"},
		"no patterns":                       {"set -f; cat *.c", "set|-f\ncat|*.c (dynamic)"},
		"no patterns in a shell":            {"sh -f -c 'cat *.c'", "sh -c: cat|*.c (dynamic)"},
		"no patterns in a shell, by a word": {"bash -o noglob -c 'cat *.c'", "bash -c: cat|*.c (dynamic)"},
		"other patterns by a variable":      {"GLOBIGNORE=x sh -c 'cat *.c'", "GLOBIGNORE=x\nsh -c: cat|*.c (dynamic)"},
		"other patterns by env":             {"env GLOBIGNORE=x sh -c 'cat *.c'", "env: GLOBIGNORE=x\nenv, sh -c: cat|*.c (dynamic)"},
		"set that changes nothing":          {"set -eu; cat *.c", "set|-eu\ncat|one.c"},
		"other separators":                  {"IFS=n; f=one.c; cat $f", "IFS=n\nf=one.c\ncat|$f (dynamic)"},
		"if":                                {"if [ -f go.mod ]; then head -5 go.mod; fi", "[|-f|go.mod|]\nhead|-5|go.mod"},
		"test and its status":               {"test -e x; echo $?", "test|-e|x\necho|$?"},
		"test and else":                     {"[ -d src ] && ls src || echo none", "[|-d|src|]\nls|src\necho|none"},
		"whether there is a program":        {"command -v go && cat *.c", "command|-v|go\ncat|one.c"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			subs, unparsed := h.Parse(tt.line)
			if unparsed != "" {
				t.Errorf("%q is unparsed: %s", tt.line, unparsed)
			}
			if got := show(subs); got != tt.want {
				t.Errorf("%q\ngot:\n%s\nwant:\n%s", tt.line, got, tt.want)
			}
		})
	}
}

func TestHere_AppendsCertainNames(t *testing.T) {
	h := workspace(t, "go.mod", "src/main.go", "src/b.go", "src/.env", "src/in/c.go", "odd/a b.go", "many/"+strings.Repeat("x", 9))
	for i := range 201 {
		if err := os.WriteFile(fmt.Sprintf("%s/many/%d.go", h.Dir, i), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("src", h.Dir+"/link"); err != nil {
		t.Fatal(err)
	}
	const all = "src/b.go|src/in/c.go|src/main.go"
	tests := map[string]struct{ line, want string }{
		"find":                            {"find src -name '*.go' | xargs wc -l", "xargs: wc|-l\nxargs: wc|-l|" + all},
		"find that hides nothing":         {"find src -maxdepth 1 -type f | xargs -r cat", "xargs: cat|src/.env|src/b.go|src/main.go"},
		"less of it":                      {"find src -name '*.go' -not -path '*/in/*' | xargs -r cat", "xargs: cat|src/b.go|src/main.go"},
		"what only lessens it":            {"find src -name '*.go' -size +1k | xargs -r cat", "xargs: cat|" + all},
		"filters":                         {"find src -name '*.go' 2>/dev/null | sort -r | grep -v x | head -3 | xargs -r grep -n foo", "xargs: grep|-n|foo|" + all},
		"NULs":                            {"find src -name '*.go' -print0 | xargs -0r cat", "xargs: cat|" + all},
		"NULs on one side":                {"find src -name '*.go' -print0 | xargs -r cat", "xargs: cat|$@ (dynamic)"},
		"one by one":                      {"find src -name 'm*.go' | xargs -I% grep x %", "xargs: grep|x|src/main.go"},
		"ls":                              {"cd src && ls *.go | xargs -r head -5", "xargs: @src head|-5|b.go|main.go"},
		"ls of a folder":                  {"ls src | xargs -r wc", "xargs: wc|b.go|in|main.go"},
		"names with blanks":               {"find odd -name '*.go' | xargs cat", "xargs: cat|$@ (dynamic)"},
		"too many names":                  {"find many | xargs cat", "xargs: cat|$@ (dynamic)"},
		"an alternative":                  {"find src -name a -o -name b | xargs cat", "xargs: cat|$@ (dynamic)"},
		"alternatives of names":           {`find src \( -name 'm*.go' -o -name 'b*' \) -print0 | xargs -0r cat`, "xargs: cat|src/b.go|src/main.go"},
		"none of the alternatives":        {`find src -type f ! \( -name 'm*.go' -o -name '.*' \) | xargs -r cat`, "xargs: cat|src/b.go|src/in/c.go"},
		"alternatives of other kinds":     {`find src \( -name 'm*.go' -o -delete \) | xargs -r cat`, "xargs: cat|$@ (dynamic)"},
		"alternatives after alternatives": {`find src \( -name a -o -name b \) -o -name c | xargs -r cat`, "xargs: cat|$@ (dynamic)"},
		"links that are followed":         {"find -L src | xargs cat", "xargs: cat|$@ (dynamic)"},
		"a link":                          {"find link -name '*.go' | xargs cat", "xargs: cat|$@ (dynamic)"},
		"elsewhere":                       {"find /etc -name hosts | xargs cat", "xargs: cat|$@ (dynamic)"},
		"a filter that cuts":              {"find src | head -c 5 | xargs cat", "xargs: cat|$@ (dynamic)"},
		"a filter that changes":           {"find src | sed s,src,/etc, | xargs cat", "xargs: cat|$@ (dynamic)"},
		"a filter that shows parts":       {"find src | grep -o c | xargs cat", "xargs: cat|$@ (dynamic)"},
		"a filter that reads a file":      {"find src | sort list | xargs cat", "xargs: cat|$@ (dynamic)"},
		"input from a file":               {"find src | xargs cat <list", "xargs: cat|$@ <list (dynamic)"},
		"xargs that reads a file":         {"find src | xargs -a list cat", "xargs: cat|$@ (dynamic)"},
		"a program that takes them apart": {"find src -name '*.go' | xargs uniq", "xargs: uniq|$@ (dynamic)"},
		"a program that writes":           {"find src -name '*.go' | xargs rm", "xargs: rm|$@ (dynamic)"},
		"a shell":                         {"find src -name '*.go' | xargs sh -c 'cat $1'", "xargs, sh -c: cat|$1 (dynamic)"},
		"find -exec":                      {"find src -name '*.go' -exec grep -l foo {} +", "find -exec: grep|-l|foo|" + all},
		"find -exec for each":             {"find src -name 'm*.go' -o -name x -exec wc {} \\;", "find -exec: wc|{} (dynamic)"},
		"find -exec for one":              {"find src -maxdepth 1 -name '[bm]*.go' -exec wc {} \\;", "find -exec: wc|src/b.go\nfind -exec: wc|src/main.go"},
		"find -exec that writes":          {"find src -exec rm {} +", "find -exec: rm|{} (dynamic)"},
		"find -exec that follows links":   {"find src -exec cat {} + -follow", "find -exec: cat|{} (dynamic)"},
		"find -exec that finds nothing":   {"find src -type f -name '*.zip' -exec wc -l {} \\;", "find -exec: wc|-l|src/x.zip"},
		"find that finds nothing":         {"find src -name 'a?c*' | xargs -r wc -l", "xargs: wc|-l|src/axcx"},
		"one by one of nothing":           {"find src -name '*.zip' | xargs -I% cat %", "xargs: cat|src/x.zip"},
		"alternatives that find nothing":  {`find src \( -name '*.a' -o -name '*.b' \) -exec cat {} +`, "find -exec: cat|src/x.a|src/x.b"},
		"nothing by other conditions":     {"find src -path '*.zip' -exec wc {} \\;", "find -exec: wc|{} (dynamic)"},
		"find -exec and a part":           {"find src -exec cat x{} \\;", "find -exec: cat|x{} (dynamic)"},
		"find -exec as another user":      {"sudo find src -exec cat {} +", "sudo, find -exec: cat|{} (dynamic)"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			subs, unparsed := h.Parse(tt.line)
			if unparsed != "" {
				t.Errorf("%q is unparsed: %s", tt.line, unparsed)
			}
			var ran []string
			for line := range strings.SplitSeq(show(subs), "\n") {
				if wrapper, _, ok := strings.Cut(line, ": "); ok && (strings.Contains(wrapper, "xargs") || strings.Contains(wrapper, "-exec")) {
					ran = append(ran, line)
				}
			}
			if got := strings.Join(ran, "\n"); got != tt.want {
				t.Errorf("%q\ngot:\n%s\nwant:\n%s", tt.line, got, tt.want)
			}
		})
	}
}

func TestHere_QuotedLineIsOneName(t *testing.T) {
	h := workspace(t, "a.md", "b.md", "docs/c d")
	const possible = "cat|a.md|b.md|docs"
	for line, want := range map[string]string{
		`cat "$(ls | head -1)"`:                     possible,
		`cat "$(ls | sort | tail -n 1)"`:            possible,
		`cat "$(find . -name '*.x' | head -n1)"`:    "cat|./x.x",
		`cat "$(ls)"`:                               `cat|$(ls) (dynamic)`,
		`cat "$(ls | head -2)"`:                     `cat|$(ls | head -2) (dynamic)`,
		`cat "x$(ls | head -1)"`:                    `cat|x$(ls | head -1) (dynamic)`,
		`cat "$(ls docs | head -1)"`:                `cat|$(ls docs | head -1) (dynamic)`,
		`cat "$(echo /etc/passwd | head -1)"`:       `cat|$(echo /etc/passwd | head -1) (dynamic)`,
		`uniq "$(ls | head -1)"`:                    `uniq|$(ls | head -1) (dynamic)`,
		`touch z; cat "$(ls | head -1)"`:            `touch|z` + "\n" + `cat|$(ls | head -1) (dynamic)`,
		`cat "$(ls | head -1 | sed s,a.md,/etc/,)"`: `cat|$(ls | head -1 | sed s,a.md,/etc/,) (dynamic)`,
	} {
		subs, unparsed := h.Parse(line)
		got, _, _ := strings.Cut(show(subs), "\nls")
		got, _, _ = strings.Cut(got, "\nfind")
		got, _, _ = strings.Cut(got, "\necho")
		if unparsed != "" || got != want {
			t.Errorf("%q: %q\ngot:\n%s\nwant:\n%s", line, unparsed, got, want)
		}
		if first := subs[0]; strings.HasPrefix(want, possible) && len(first.GetPossibleWords()) != 3 {
			t.Errorf("%q: the words %v are only possible, want all three", line, first.GetPossibleWords())
		}
	}
}

// TestHere_ReadsBodyOfEmptyLoop: a loop over no files may have files when the line runs.
func TestHere_ReadsBodyOfEmptyLoop(t *testing.T) {
	h := workspace(t, "a.md", "empty/")
	for line, want := range map[string]string{
		`for f in $(find . -name '*.zip'); do rm x; done`:          "rm|x",
		`for f in $(find . -name '*.zip'); do sh "$f"; done`:       "sh|./x.zip",
		`for f in $(ls empty); do rm x; done`:                      "rm|x",
		`find . -name '*.zip' | while read -r f; do rm "$f"; done`: "rm|$f (dynamic)",
	} {
		subs, _ := h.Parse(line)
		if got := show(subs); !strings.Contains(got, want) {
			t.Errorf("%q: got\n%s\nwant %s in it", line, got, want)
		}
	}
}

func TestHere_ListsTrackedFiles(t *testing.T) {
	h := workspace(t, "go.mod", "src/main.go", "src/b.go", "untracked.go")
	run := func(args ...string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), "git", args...)
		c.Dir = h.Dir
		c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	run("init", "-q")
	run("add", "go.mod", "src")
	for line, want := range map[string]string{
		"git ls-files | xargs -r wc -l":              "git|ls-files\nxargs: wc|-l|go.mod|src/b.go|src/main.go",
		"git ls-files '*.go' | head | xargs -r cat":  "git|ls-files|*.go\nhead\nxargs: cat|src/b.go|src/main.go",
		"git ls-files -z src | xargs -0 -r cat":      "git|ls-files|-z|src\nxargs: cat|src/b.go|src/main.go",
		"git ls-files -o | xargs cat":                "git|ls-files|-o\nxargs: cat|$@ (dynamic)",
		"cd src && git ls-files | xargs cat":         "cd|src\n@src git|ls-files\nxargs: @src cat|$@ (dynamic)",
		"git -C src ls-files | xargs cat":            "git -C: @src git|ls-files\nxargs: cat|$@ (dynamic)",
		"git ls-files ':(icase)*.GO' | xargs -r cat": "git|ls-files|:(icase)*.GO\nxargs: cat|$@ (dynamic)",
	} {
		subs, unparsed := h.Parse(line)
		if got := show(subs); unparsed != "" || got != want {
			t.Errorf("%q: %q\ngot:\n%s\nwant:\n%s", line, unparsed, got, want)
		}
	}
	run("update-index", "--add", "--cacheinfo", "100644,e69de29bb2d1d6434b8b29ae775ad8c2e48c5391,src /etc/passwd")
	subs, _ := h.Parse("git ls-files | xargs -r cat")
	if got, want := show(subs), "git|ls-files\nxargs: cat|$@ (dynamic)"; got != want {
		t.Errorf("a tracked name with a blank: got\n%s\nwant\n%s", got, want)
	}
}

func TestHere_LimitsExpansion(t *testing.T) {
	h := workspace(t, "a.c")
	for i := range 1001 {
		if err := os.WriteFile(fmt.Sprintf("%s/f%d", h.Dir, i), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	grows := "a=" + strings.Repeat("x", 1000) + ";"
	for name := 'b'; name < 'h'; name++ {
		grows += fmt.Sprintf("%c=%s;", name, strings.Repeat(fmt.Sprintf("$%c", name-1), 100))
	}
	for name, line := range map[string]string{
		"values that grow":          grows + "ls $g",
		"more words than are seen":  "ls f* f*",
		"more turns than are taken": "for i in 1 2 3 4 5 6 7; do for j in 1 2 3 4 5 6 7; do for k in 1 2 3 4 5 6 7; do ls $i; done; done; done",
		"more words than are kept":  "for i in 1 2 3; do ls $i" + strings.Repeat(" x", 20_000) + "; done",
	} {
		subs, unparsed := h.Parse(line)
		if last := subs[len(subs)-1]; unparsed != "" || !last.GetDynamic() || last.GetWritten() != "" {
			t.Errorf("%s: %q, %.200s", name, unparsed, last)
		}
	}
	if subs, _ := h.Parse("ls *.c"); subs[0].GetDynamic() {
		t.Errorf("within the bounds: %s", subs[0])
	}
}
