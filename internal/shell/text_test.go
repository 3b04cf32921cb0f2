package shell_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/shell"
)

// TestText_OfFirstCommand checks the text of the word that is known only at run time, in the first command of each
// line.
func TestText_OfFirstCommand(t *testing.T) {
	h := workspace(t, project...)
	for line, want := range map[string]string{
		`echo "$(ls)"`:                                  "text",
		`echo "files: $(ls | wc -l)"`:                   "", // a number
		`dirname "files: $(ls | wc -l)"`:                "text",
		`echo $(ls | sort -t x)`:                        "anything",
		"echo \"`ls`\"":                                 "anything",
		`echo "$(ls)"*`:                                 "anything",
		`echo ~"$(ls)"`:                                 "anything",
		`head -n $((1 + 2)) go.mod`:                     "text",
		`n=$(cat go.mod); echo "$n"`:                    "text",
		`n=$(cat go.mod); echo $n`:                      "anything",
		`n=$(cat go.mod)$SECRET; echo "$n"`:             "anything",
		`n=$SECRET; m=$n; echo "$m"`:                    "anything",
		`[ -f x ] && n=$(ls); n=$SECRET; echo "$n"`:     "anything",
		`echo "$SECRET"`:                                "anything",
		`echo "$(ls)$SECRET"`:                           "anything",
		`echo "${n:-$SECRET}$(ls)"`:                     "anything",
		`n=$(ls); echo "${n%.go}"`:                      "text",
		`n=$(ls); echo "${n%$SECRET}"`:                  "anything",
		`for x in $SECRET; do echo "$x"; done`:          "anything",
		`while read -r l; do echo "$l"; done < go.mod`:  "text",
		`while read -r l; do echo $l; done < go.mod`:    "anything",
		`while read -r PATH; do echo "$(ls)"; done < x`: "text",
		`path=$(ls); echo "$path"`:                      "anything",
		`ls | xargs -I{} echo "{}: x" y`:                "",
		`seq 1 900 | xargs -I{} echo {}`:                "text",
		`seq 1 900 | xargs echo`:                        "anything",
		`bash -c 'cat <(ls)'`:                           "pipe",
		`cat <(ls)`:                                     "pipe",
		`bash -c 'cat x<(ls)'`:                          "anything",
		`bash -c 'tee >(ls)'`:                           "anything",
		`bash -c 'echo "<($x)"'`:                        "anything",
	} {
		subs, _ := h.Parse(line)
		got := ""
		for _, sub := range subs {
			for i := range sub.GetArgv() {
				if !shell.DynamicWord(sub, i) || got != "" || sub.GetArgv()[0] == "read" {
					continue
				}
				switch {
				case shell.TextWord(sub, i):
					got = "text"
				case shell.PipedWord(sub, i):
					got = "pipe"
				default:
					got = "anything"
				}
			}
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

// TestText_ArithmeticIsPlain: the result of arithmetic in the line itself cannot hold a subscript that a shell
// evaluates.
func TestText_ArithmeticIsPlain(t *testing.T) {
	h := workspace(t, project...)
	for line, plain := range map[string]bool{
		`i=0; i=$((i+1)); echo $i`:                     true,
		`i=0; while [ $i -lt 3 ]; do i=$((i+1)); done`: true,
		`i=$(cat x); echo $((i+1))`:                    false,
		`i='a[$(id)]'; echo $((i+1))`:                  false,
		`i=0; read -r i; echo $((i+1))`:                false,
		`for i in $(cat x); do echo $((i+1)); done`:    false,
		`echo $((i+1))`:                                false,
		`PATH=1; echo $((PATH+1))`:                     false,
		`i=0; echo $(($(cat x)+i))`:                    false,
		`i=0; echo $((a[i]))`:                          false,
	} {
		if _, unparsed := h.Parse(line); (unparsed == "") != plain {
			t.Errorf("%s: unparsed %q, want plain: %v", line, unparsed, plain)
		}
		if _, unparsed := shell.Parse(line); strings.Contains(line, "i+1") && unparsed == "" {
			t.Errorf("%s: it is plain in a folder that is not known, where the environment may set i", line)
		}
	}
}

func TestHere_ExpandsSubstitutions(t *testing.T) {
	h := workspace(t, project...)
	for line, want := range map[string][]string{
		`wc -l $(ls docs/x.md docs/y.md)`:                   {"wc -l docs/x.md docs/y.md", "wc -l", "ls docs/x.md docs/y.md"},
		`cat docs/{x,y}.md`:                                 {"cat docs/x.md docs/y.md docs/{x,y}.md"},
		`cat "$(dirname docs/x.md)/y.md"`:                   {"cat docs/y.md", "dirname docs/x.md"},
		`ls docs/*.md | while read -r f; do cat "$f"; done`: {"ls docs/x.md docs/y.md", "read -r f", "cat docs/x.md", "cat docs/y.md"},
	} {
		subs, unparsed := h.Parse(line)
		var got []string
		for _, sub := range subs {
			got = append(got, strings.Join(sub.GetArgv(), " "))
		}
		if unparsed != "" || !slices.Equal(got, want) {
			t.Errorf("%s: got %s (%s), want %s", line, fmt.Sprintf("%q", got), unparsed, fmt.Sprintf("%q", want))
		}
	}
}

func TestInput_MayBeSecret(t *testing.T) {
	for line, want := range map[string]bool{
		"cat <<< \"$SECRET\"":                          true,
		"cat <<EOF\n$SECRET\nEOF":                      true,
		"cat <<'EOF'\n$SECRET\nEOF":                    false,
		"cat <<EOF\n$HOME \\ $((1+1))\nEOF":            false,
		"cat <<< \"$(ls)\"":                            false,
		"cat <<< a":                                    false,
		"{ cat; } <<< $SECRET":                         true,
		"sh -c cat <<< $SECRET":                        true,
		"while read -r x; do ls; done <<< \"$SECRET\"": true,
	} {
		subs, _ := shell.Parse(line)
		if len(subs) == 0 || subs[0].GetInputDynamic() != want {
			t.Errorf("%q: got %v, want %v", line, subs, want)
		}
	}
}
