package terminals

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/commandtest"
)

func TestTerminalsList_PrintsTerminals(t *testing.T) {
	status, stdout, stderr := (&commandtest.Call{Env: commandtest.Play(t, &commandtest.Supervisor{PID: 11})}).Run(t, New, "terminals", "list")
	if status != 0 || stderr != "" {
		t.Fatalf("status %d: %s", status, stderr)
	}
	testkit.Golden(t, "terminals-list.txt", stdout)
}

func TestTerminalsTail_PrintsOutput(t *testing.T) {
	env := commandtest.Play(t, &commandtest.Supervisor{PID: 11}, &commandtest.Supervisor{PID: 12})
	const told = "acphost: 12 bytes of output are missing here\nacphost: ended by SIGKILL\n"
	status, stdout, stderr := (&commandtest.Call{Env: env}).Run(t, New, "terminals", "tail", "1f", "--pid", "11")
	if want := "10%\n20%\nred end\n"; status != 0 || stdout != want || stderr != told {
		t.Errorf("into a file: status %d, %q, want %q: %q", status, stdout, want, stderr)
	}
	status, stdout, stderr = (&commandtest.Call{Env: env, Terminal: true}).Run(t, New, "terminals", "tail", "acphost-1f", "--pid", "12")
	if want := "10%\r20%\r\n\x1b[31mred\x1b[0m end\x1b[0m\x1b[?25h\n"; status != 0 || stdout != want || stderr != told {
		t.Errorf("onto a terminal: status %d, %q, want %q: %q", status, stdout, want, stderr)
	}
	for want, args := range map[string][]string{
		"may be any of 2 terminals": {"acphost-1f"},
		"there is no terminal x":    {"x"},
		`no terminal "x" is here`:   {"x", "--pid", "11"},
	} {
		if status, _, stderr := (&commandtest.Call{Env: env}).Run(t, New, append([]string{"terminals", "tail"}, args...)...); status != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%q: status %d, %q; want %q", args, status, stderr, want)
		}
	}
}

func TestScreenText_KeepsOnlyHarmlessSequences(t *testing.T) {
	for _, c := range []struct{ name, in, screen, plain string }{
		{"colours", "\x1b[1;38:5:9mx\x1b[m", "\x1b[1;38:5:9mx\x1b[m", "x"},
		{"movements", "a\x1b[2K\x1b[3;4Hb", "a\x1b[2K\x1b[3;4Hb", "ab"},
		{"the cursor hidden", "\x1b[?25lx", "\x1b[?25lx", "x"},
		{"another screen", "\x1b[?1049hx\x1b[?1000h", "x", "x"},
		{"the clipboard", "a\x1b]52;c;aGk=\x07b\x1b]52;c;aGk=\x1b\\c", "abc", "abc"},
		{"a title, in old words", "\x1bktitle\x1b\\x", "x", "x"},
		{"a query", "\x1b[c\x1b[6n\x1b[>c\x1b[21t\x1b[?6nx\x1bZ\x05", "x", "x"},
		{"a device's string", "\x1bP+q544e\x1b\\x\x1b_Gi=1\x1b\\y\x1b^z\x1b\\", "xy", "xy"},
		{"a string that is broken off by a sequence", "\x1b]0;t\x1b[31mx", "\x1b[31mx", "x"},
		{"a string that is broken off", "\x1b]0;t\x18x", "x", "x"},
		{"character sets", "\x1b(0x\x1b(B", "x", "x"},
		{"a reset", "\x1bcx", "x", "x"},
		{"control characters of eight bits", "a\x9b31mb\xc2\x9b31mc", "a\ufffd31mb31mc", "a\ufffd31mb31mc"},
		{"a character in pieces", "\xe2\x82\xacx\xe2\x82", "€x\ufffd\ufffd", "€x\ufffd\ufffd"},
		{"a bell, and backspaces", "a\x07b\bc", "ab\bc", "abc"},
		{"directions", "a\u202eb\u2066c", "abc", "abc"},
		{"progress", "1%\r2%\r\n\rdone\r", "1%\r2%\r\n\rdone\r", "1%\n2%\ndone"},
		{"a sequence in a sequence", "\x1b[3\x1b[1mx", "\x1b[1mx", "x"},
		{"a sequence without end", "\x1b[" + strings.Repeat("1;", 100) + "mx", "x", "x"},
	} {
		for _, moves := range []bool{true, false} {
			want := c.plain
			if moves {
				want = c.screen
			}
			for _, step := range []int{1, 2, 1000} { // however it is cut
				var out strings.Builder
				s := &screenText{w: &out, moves: moves}
				for piece := range slices.Chunk([]byte(c.in), step) {
					if n, err := s.Write(piece); n != len(piece) || err != nil {
						t.Fatal(n, err)
					}
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				got := strings.TrimSuffix(strings.TrimSuffix(out.String(), "\n"), "\x1b[0m\x1b[?25h")
				if got != want {
					t.Errorf("%s, moves %v, %d at a time: %q, want %q", c.name, moves, step, got, want)
				}
			}
		}
	}
}

func FuzzScreenText(f *testing.F) {
	f.Add([]byte("\x1b[31mred\x1b[0m\r\n\x1b]52;c;aGk=\x07"), true)
	f.Add([]byte("\x1bP1$r\x1b\\\xc2\x9b\xe2\x82"), false)
	f.Fuzz(func(t *testing.T, data []byte, moves bool) {
		var whole, pieces strings.Builder
		one, many := &screenText{w: &whole, moves: moves}, &screenText{w: &pieces, moves: moves}
		_, _ = one.Write(data)
		for i := range data {
			_, _ = many.Write(data[i : i+1])
		}
		if err := errors.Join(one.Close(), many.Close()); err != nil {
			t.Fatal(err)
		}
		text := whole.String()
		if text != pieces.String() {
			t.Errorf("%q in pieces is %q, want %q", data, pieces.String(), text)
		}
		if !utf8.ValidString(text) {
			t.Errorf("%q is not text: %q", data, text)
		}
		for _, r := range strings.NewReplacer("\x1b[", "").Replace(text) {
			if unicode.IsControl(r) && r != '\n' && r != '\t' && (!moves || r != '\r' && r != '\b') {
				t.Errorf("%q has %q in it: %q", data, r, text)
			}
		}
		if !moves && strings.Contains(text, "\x1b") {
			t.Errorf("%q has escape sequences: %q", data, text)
		}
	})
}
