package shell

import (
	"strings"
	"testing"
)

// TestParse_NestedLinesAreQuick: a parser that reads each part twice for each level of nesting takes exponential time.
// An agent can send such lines. Each of these took hours.
func TestParse_NestedLinesAreQuick(t *testing.T) {
	nest := func(before, inner, after string) string {
		const depth = 200
		return strings.Repeat(before, depth) + inner + strings.Repeat(after, depth)
	}
	for name, line := range map[string]string{
		"substitutions":                           "echo " + nest("$(echo ", "ls", ")"),
		"substitutions between quotes":            "echo " + nest(`"$(echo `, "ls", `)"`),
		"substitutions of names":                  "cat " + nest("$(dirname ", "src/a", ")"),
		"substitutions of lists":                  "wc " + nest("$(ls | grep $(ls ", "src", "))"),
		"pipes in substitutions":                  "wc " + nest("$(find . | head -n $(", "ls", "))"),
		"substitutions in redirections":           "cat " + nest("$(cat < $(ls ", "src", "))"),
		"files of processes":                      "cat " + nest("<(cat $(cat ", "a", "))"),
		"defaults of variables":                   "echo " + nest("${x:-$(echo ", "y", ")}"),
		"arithmetic":                              "echo " + nest("$((1 + $(echo ", "1", ")))"),
		"loops over the output of a substitution": nest("for x in $(ls $(ls)); do ", "echo $x", "; done"),
		"loops over the output of a pipe":         nest("ls | while read -r x; do ", "echo $(ls $(ls))", "; done"),
		"assignments":                             nest("x=$(echo ", "y", ")"),
		"tests":                                   nest("[[ $(echo ", "y", ") ]]"),
		"branches":                                nest("if ls $(ls $(ls)); then ", "ls", "; else ls; fi"),
		"a long pipe":                             "ls" + strings.Repeat(" | sort", 20_000),
		"a long list":                             "ls" + strings.Repeat("; ls *", 5000),
		"a long chain":                            "ls" + strings.Repeat(" && cd . || cd ..", 5000),
		"many folders":                            "ls" + strings.Repeat("; cd sub", 5000),
		"lines of lines":                          strings.Repeat("eval ", 200) + "ls",
		"programs that start programs":            strings.Repeat("env sh -c ls; xargs ", 200) + "ls",
		"shells in substitutions":                 "echo " + nest("$(sh -c 'ls'; eval echo ", "ls", ")"),
		"shells with arguments":                   strings.Repeat("sh -c '$0 \"$@\"' ", 200) + "ls",
		"patterns in braces":                      "ls " + strings.Repeat("{a,b}", 200),
		"patterns of folders":                     "ls " + strings.Repeat("*/**/", 200),
		"functions":                               nest("f() { ls $(ls $(ls)); ", "f", "; }"),
		"groups":                                  nest("{ cd a; ls $(ls $(ls)); ", "ls", "; }"),
		"subshells":                               nest("( cd a; ", "ls", " )"),
		"cases":                                   nest("case $(ls $(ls)) in x) ", "ls", ";; esac"),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			subs, unparsed := Here{Dir: dir}.Parse(line)
			if len(subs) == 0 && unparsed == "" {
				t.Errorf("nothing was read of %.60q", line)
			}
		})
	}
}
