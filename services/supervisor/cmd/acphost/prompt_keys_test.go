//go:build linux || darwin

package main

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

func TestKeysAreReadOneByOneAndTheTerminalIsPutBack(t *testing.T) {
	master, terminal, err := pty.Open()
	if err != nil {
		t.Skip("no pseudo-terminal: ", err)
	}
	t.Cleanup(func() {
		_ = terminal.Close()
		_ = master.Close()
	})
	before := attributes(t, terminal)
	if _, err := master.WriteString("aaa"); err != nil { // before anything was asked
		t.Fatal(err)
	}
	k, err := openKeyboard(terminal)
	if err != nil {
		t.Fatal(err)
	}
	during := attributes(t, terminal)
	if during.Lflag&(unix.ICANON|unix.ECHO) != 0 || during.Lflag&unix.ISIG == 0 || during.Oflag != before.Oflag {
		t.Errorf("while keys are read: %+v", during)
	}
	if _, err := master.WriteString("r\x1b[Aé\r"); err != nil {
		t.Fatal(err)
	}
	want := []key{{name: keyRune, r: 'r'}, {name: keyRune, r: 'é'}, {name: keyEnter}}
	for i, w := range want {
		select {
		case got := <-k.Keys():
			if got != w {
				t.Errorf("key %d is %+v, want %+v", i, got, w)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("key %d does not come", i)
		}
	}
	k.Close()
	k.Close()
	if after := attributes(t, terminal); after != before {
		t.Errorf("the terminal was %+v, and is %+v", before, after)
	}
}

func attributes(t *testing.T, terminal *os.File) unix.Termios {
	t.Helper()
	a, err := unix.IoctlGetTermios(int(terminal.Fd()), getAttributes)
	if err != nil {
		t.Fatal(err)
	}
	return *a
}

func TestATerminalThatIsGoneHasNoMoreKeys(t *testing.T) {
	master, terminal, err := pty.Open()
	if err != nil {
		t.Skip("no pseudo-terminal: ", err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	k, err := openKeyboard(terminal)
	if err != nil {
		t.Fatal(err)
	}
	_ = master.Close()
	select {
	case _, ok := <-k.Keys():
		if ok {
			t.Error("a key came from nowhere")
		}
	case <-time.After(10 * time.Second):
		t.Error("it is not noticed")
	}
	k.Close()
}

func TestWhatIsNoTerminalHasNoKeys(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.Close()
		_ = w.Close()
	})
	if k, err := openKeyboard(r); err == nil {
		k.Close()
		t.Error("a pipe was taken for a terminal")
	}
}

func TestKeysInPieces(t *testing.T) {
	for text, want := range map[string][]key{
		"\x1b":         {{name: keyEscape}},
		"\x1bOPa":      {{name: keyRune, r: 'a'}},
		"\x1b[1;5Ca":   {{name: keyRune, r: 'a'}},
		"\x1bxa":       {{name: keyRune, r: 'a'}},
		"\x7f\b\x15\n": {{name: keyBackspace}, {name: keyBackspace}, {name: keyKill}, {name: keyEnter}},
		"\x00\x01\xff": nil,
		"\x03":         {{name: keyInterrupt}}, // where the terminal makes no signal of it
		"日":            {{name: keyRune, r: '日'}},
	} {
		var p keyParser
		if got := p.parse([]byte(text)); !slices.Equal(got, want) {
			t.Errorf("%q is %+v, want %+v", text, got, want)
		}
	}
	var p keyParser
	got := slices.Concat(p.parse([]byte("\xe6")), p.parse([]byte("\x97")), p.parse([]byte("\xa5")))
	if !slices.Equal(got, []key{{name: keyRune, r: '日'}}) {
		t.Errorf("in pieces it is %+v", got)
	}
}
