package man

import "testing"

func TestRoff_EscapesRequests(t *testing.T) {
	for in, want := range map[string]string{
		".so x":        `\&.so x`,
		"a\n'br\n.b c": "a\n\\&'br\n\\&.b c",
		`a\fBb -c`:     `a\efBb \-c`,
	} {
		if got := roff(in); got != want {
			t.Errorf("roff(%q) is %q, want %q", in, got, want)
		}
	}
}
