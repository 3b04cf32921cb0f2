//go:build linux || darwin

package output

import (
	"os"
	"testing"

	"github.com/creack/pty"
)

func TestIsTerminal_DetectsTerminals(t *testing.T) {
	ours, theirs, err := pty.Open()
	if err != nil {
		t.Skip("no pseudo-terminal: ", err)
	}
	defer ours.Close()
	defer theirs.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for name, c := range map[string]struct {
		file *os.File
		want bool
	}{
		"a terminal": {theirs, true}, "a pipe": {r, false}, "the null device": {null, false}, "a file": {file, false},
	} {
		if got := IsTerminal(c.file); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
	}
	if err := pty.Setsize(ours, &pty.Winsize{Rows: 30, Cols: 100}); err != nil {
		t.Fatal(err)
	}
	if got := terminalWidth(theirs); got != 100 {
		t.Errorf("the width is %d, want 100", got)
	}
	if got := terminalWidth(file); got != 0 {
		t.Errorf("a file's width is %d, want 0", got)
	}
}
