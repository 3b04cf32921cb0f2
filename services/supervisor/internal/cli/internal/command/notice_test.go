//go:build linux || darwin

package command

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/creack/pty"
)

// printed returns the text that a call prints on a standard error that is a terminal with the given number of columns;
// 0: the number is unknown.
func printed(t *testing.T, columns uint16, do func(*Call)) string {
	t.Helper()
	ours, theirs, err := pty.Open()
	if err != nil {
		t.Skip("no pseudo-terminal: ", err)
	}
	defer ours.Close()
	if err := pty.Setsize(theirs, &pty.Winsize{Rows: 24, Cols: columns}); err != nil {
		t.Fatal(err)
	}
	do(&Call{Stderr: theirs})
	if _, err := theirs.WriteString("\x04"); err != nil { // what ends it, so that it can be read to there
		t.Fatal(err)
	}
	defer theirs.Close()
	var all []byte
	for b := make([]byte, 256); !bytes.Contains(all, []byte("\x04")); {
		n, err := ours.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b[:n]...)
	}
	return strings.ReplaceAll(strings.TrimSuffix(string(all), "\x04"), "\r\n", "\n")
}

func TestNotice_WrapsAtWordsOnTerminal(t *testing.T) {
	say := func(c *Call) { c.Notice("no policy is set: what an agent asks goes to %s\n\tand a line", "the person") }
	if got, want := printed(t, 30, say), "acphost: no policy is set:\n  what an agent asks goes to\n  the person\n    and a line\n"; got != want {
		t.Errorf("it prints\n%swant\n%s", got, want)
	}
	if got, want := printed(t, 0, say), "acphost: no policy is set: what an agent asks goes to the person\n"; !strings.HasPrefix(got, want) {
		t.Errorf("without a width it prints\n%swant\n%s", got, want)
	}
}

func TestNotice_IsOneLineForPrograms(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	long := strings.Repeat("word ", 100) + "end"
	(&Call{Stderr: w}).Notice("%s", long)
	_ = w.Close()
	got := make([]byte, 1024)
	n, err := r.Read(got)
	if err != nil || string(got[:n]) != "acphost: "+long+"\n" {
		t.Errorf("it prints %q (%v)", got[:n], err)
	}
	if got := WrapLines(&bytes.Buffer{}, long+"\n"); got != long {
		t.Errorf("for a writer that is no file it is %q", got)
	}
}
