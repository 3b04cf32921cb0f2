package shell

import (
	"fmt"
	"strings"
	"testing"
)

func TestLayout_PositionsOfWords(t *testing.T) {
	for line, want := range map[string]string{
		`a "b c" 'd'\e $f`:            `0[a|"b c"|'d'\e|$f!]`,
		`A=1 a | b <<< 'x y' && c`:    `1[a] 1[b <'x y'] 0[c]`,
		`a | { b | c; } | d`:          `1[a] 1[b] 1[c] 1[d]`,
		`a $(b | c) | d`:              `1[a|$(b | c)!] 2[b] 2[c] 1[d]`,
		"cat <<EOF | x\nhe re\nEOF\n": `1[cat <he re] 1[x]`,
		`export A=1 B`:                `0[export]`,
		`if a; then b; fi`:            `0[a] 0[b]`,
		`a "$(b c)" > "$(d)"`:         `0[a|"$(b c)"!] 0[b|c] 0[d]`,
		`sh -c 'mysql -p"x"'`:         `0[sh|-c|'mysql -p"x"']`,
	} {
		commands, ok := Layout(line)
		if !ok {
			t.Errorf("%q: not ok", line)
			continue
		}
		var got []string
		for _, c := range commands {
			var words []string
			for _, w := range c.Words {
				words = append(words, line[w.Start:w.End]+map[bool]string{true: "!"}[w.Dynamic])
			}
			text := strings.Join(words, "|")
			for _, in := range c.Input {
				text += " <" + strings.TrimSpace(line[in.Start:in.End])
			}
			got = append(got, fmt.Sprintf("%d[%s]", c.Pipeline, text))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q:\ngot  %s\nwant %s", line, strings.Join(got, " "), want)
		}
	}
	for _, line := range []string{"a 'b", "a\xff", strings.Repeat("a", MaxLine+1), "a )"} {
		if _, ok := Layout(line); ok {
			t.Errorf("%.20q is laid out", line)
		}
	}
}

func FuzzLayout(f *testing.F) {
	f.Add("a | b $(c <<< d) <<E\nx\nE\n")
	f.Fuzz(func(t *testing.T, line string) {
		commands, _ := Layout(line)
		for _, c := range commands {
			for _, w := range append(c.Words, c.Input...) {
				if w.Start < 0 || w.End > len(line) || w.Start > w.End {
					t.Errorf("%q: a word from %d to %d", line, w.Start, w.End)
				}
			}
		}
	})
}
