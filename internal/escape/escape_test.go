package escape

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// read returns the result of a Scanner for input in pieces of the given size: text unchanged, controls and sequences in
// brackets.
func read(in string, size int) string {
	var b strings.Builder
	var s Scanner
	for len(in) > 0 {
		n := min(size, len(in))
		for t := range s.Scan([]byte(in[:n])) {
			switch {
			case t.Sequence != nil && t.Sequence.Control:
				fmt.Fprintf(&b, "<%s%c>", t.Sequence.Params, t.Sequence.Final)
			case t.Sequence != nil:
				fmt.Fprintf(&b, "<ESC %c>", t.Sequence.Final)
			case t.Text != "":
				b.WriteString(t.Text)
			default:
				fmt.Fprintf(&b, "<%02x>", t.Control)
			}
		}
		in = in[n:]
	}
	return b.String() + s.Rest()
}

func TestScanner_SplitsOutput(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"text and controls", "a\tb\r\nc\x7f", "a<09>b<0d><0a>c<7f>"},
		{"control sequences", "\x1b[1;31mx\x1b[?25l\x1b[>4;1m\x1b[2 q", "<1;31m>x<?25l><>4;1m><2 q>"},
		{"one byte after ESC", "\x1b7a\x1bcb", "<ESC 7>a<ESC c>b"},
		{"character sets", "\x1b(Ba\x1b)0b\x1b \n#cd", "ab<0a>d"},
		{"a control character in a sequence counts as if it stood before", "\x1b[3\n1mx\x1b(\rBy", "<0a><31m>x<0d>y"},
		{"a sequence in a sequence", "\x1b[3\x1b[1mx", "<1m>x"},
		{"a sequence that is broken off", "a\x1b[31\x18b\x1b]0;t\x1ac", "abc"},
		{"a sequence broken by another character", "a\x1b[3é\x1b(é\x1bé", "aééé"},
		{"DEL is passed over", "\x1b[3\x7f1m", "<31m>"},
		{"titles and links", "\x1b]0;t\x07a\x1b]8;;http://x\x1b\\b\x1bkt\x1b\\c", "abc"},
		{"a title with a byte that could end it", "a\x1b]0;✳ b\ac", "ac"},
		{"a title never ended takes its line", "\x1b]0;oops\r\nnext", "<0a>next"},
		{"a device's string goes over lines, and no bell ends it", "a\x1bPq#0\n~\a\x1b\\b\x1b_z\x1b\\c", "abc"},
		{"a string ended by another sequence", "a\x1b]0;x\x1b[31mb\x1bP\x1b\x1b7c", "a<31m>b<ESC 7>c"},
		{"a sequence that is too long", "\x1b[" + strings.Repeat("1", 300) + "mx", strings.Repeat("1", 44) + "mx"},
		{"half a character", "\xe2\x1b[2Ja€\xe2\x82", "\ufffd<2J>a€\ufffd\ufffd"},
		{"controls of eight bits are no controls", "a\x9b31mb", "a\ufffd31mb"},
		{"one that is not whole", "a\x1b[3", "a"},
	} {
		for _, size := range []int{1, 2, 1000} {
			if got := read(c.in, size); got != c.want {
				t.Errorf("%s, %d at a time: %q, want %q", c.name, size, got, c.want)
			}
		}
	}
}

func FuzzScanner(f *testing.F) {
	f.Add("\x1b[31mred\x1b[0m\r\n\x1b]52;c;aGk=\x07\x1bP1$r\x1b\\\xc2\x9b\xe2\x82", 3)
	f.Fuzz(func(t *testing.T, in string, size int) {
		size = max(size, 1)%64 + 1
		whole := read(in, len(in)+1)
		if got := read(in, size); got != whole {
			t.Errorf("in pieces of %d: %q, whole %q", size, got, whole)
		}
		if strings.Contains(whole, "\x1b") || !utf8.ValidString(whole) {
			t.Errorf("%q is read as %q", in, whole)
		}
	})
}
