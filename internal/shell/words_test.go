package shell_test

import (
	"slices"
	"testing"

	"github.com/acphost/acphost/internal/shell"
)

func TestWords_OfSimpleCommand(t *testing.T) {
	for line, want := range map[string][]string{
		"ls": {"ls"}, " git  commit -m 'a b' ": {"git", "commit", "-m", "a b"}, `a "b"\ c ''`: {"a", "b c", ""}, "ls;": {"ls"}, "a\\\nb": {"ab"},
	} {
		if got, ok := shell.Words(line); !ok || !slices.Equal(got, want) {
			t.Errorf("%q: got %q, %v, want %q", line, got, ok, want)
		}
	}
	for _, line := range []string{"", " ", "#x", "ls # x", "a; b", "a && b", "a | b", "a &", "! a", "(a)", "{ a; }", "a > f", "a < f", "a <<E\nx\nE", "A=1 a", "A=1", "a $x", "a *", "$a",
		"a $(b)", "a `b`", "a ~", "a {b,c}", "a\nb", "time a", "export A=1", "[[ a ]]", "let a", "f() { a; }", "if a; then b; fi", "a 'b", "'' a", "$'a'", "a\x00", "a 2>&1", "coproc a", "((1))"} {
		if argv, ok := shell.Words(line); ok {
			t.Errorf("%q is taken for the plain command %q", line, argv)
		}
	}
}
