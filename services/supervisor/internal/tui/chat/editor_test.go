package chat

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

func TestEditor_WrapsLongLines(t *testing.T) {
	var e editor
	e.Set("abcdefghij\nxy")
	rows, x, y := e.Show(5)
	if got := strings.Join(rows, "|"); got != "abcd|efgh|ij|xy" || x != 2 || y != 3 {
		t.Errorf("got %s with the cursor at %d, %d", got, x, y)
	}
	e.Up(5)
	e.Up(5)
	if _, x, y := e.Show(5); x != 2 || y != 1 {
		t.Errorf("the cursor is at %d, %d, want it two rows above", x, y)
	}
	if e.Before() != "abcdef" {
		t.Errorf("before the cursor is %q", e.Before())
	}
}

func TestEditor_LimitsInput(t *testing.T) {
	var e editor
	if !e.Insert(strings.Repeat("x", maxInput)) || e.Insert("y") {
		t.Error("the bound does not hold")
	}
	if len(e.Text()) != maxInput {
		t.Errorf("there are %d bytes", len(e.Text()))
	}
}

func TestEditor_RemovesEscapesFromPastedText(t *testing.T) {
	var e editor
	e.Insert("a\x1b[31mb\r\nc\rd\x00e\u202ef")
	if got, want := e.Text(), "a[31mb\nc\nde\u202ef"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	rows, _, _ := e.Show(40)
	if got := strings.Join(rows, "|"); got != "a[31mb|c|de·f" {
		t.Errorf("shown is %q", got)
	}
}

func FuzzEditor(f *testing.F) {
	f.Add("hello\nworld", "LLLBDRUDWKX", 10)
	f.Add("a\u0301👩‍👩‍👧 日本\t", "BBBBBBB", 3)
	f.Fuzz(func(t *testing.T, text, ops string, width int) {
		if len(text) > 1000 || len(ops) > 200 {
			return
		}
		width = 1 + (width&0x7fffffff)%100
		var e editor
		e.Insert(text)
		for _, op := range ops {
			switch op {
			case 'L':
				e.Left()
			case 'R':
				e.Right()
			case 'U':
				e.Up(width)
			case 'D':
				e.Down(width)
			case 'B':
				e.Backspace()
			case 'X':
				e.Delete()
			case 'W':
				e.DeleteWord()
			case 'K':
				e.DeleteToEnd()
			case 'S':
				e.DeleteToStart()
			case 'w':
				e.WordLeft()
			case 'e':
				e.WordRight()
			default:
				e.Insert(string(op))
			}
			if e.size != len(e.Text()) {
				t.Fatalf("the size is %d, the text has %d bytes: %q", e.size, len(e.Text()), e.Text())
			}
			rows, x, y := e.Show(width)
			if y < 0 || y >= len(rows) || x < 0 || width > 2 && x > width {
				t.Fatalf("the cursor is at %d, %d of %d rows of %d columns", x, y, len(rows), width)
			}
			for _, r := range rows {
				if ansi.Strip(r) != r || !utf8.ValidString(r) {
					t.Fatalf("the row %q would be obeyed", r)
				}
			}
		}
	})
}
