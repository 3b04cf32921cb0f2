//go:build linux || darwin

package prompt

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/testkit"
)

func TestKeyboard_ReadsKeysAndRestoresTerminal(t *testing.T) {
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
	if _, err := master.WriteString("ré\r"); err != nil {
		t.Fatal(err)
	}
	want := []key{{name: keyRune, r: 'r', together: true}, {name: keyRune, r: 'é', together: true}, {name: keyEnter, together: true}}
	for i, w := range want {
		select {
		case got := <-k.Keys():
			if got != w {
				t.Errorf("key %d is %+v, want %+v", i, got, w)
			}
		case <-testkit.After():
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

func TestKeyboard_NoticesHangup(t *testing.T) {
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
			t.Error("a key without input")
		}
	case <-testkit.After():
		t.Error("it is not noticed")
	}
	k.Close()
}

func TestKeyboard_RejectsNonTerminals(t *testing.T) {
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

func TestKeyParser_JoinsPieces(t *testing.T) {
	for text, want := range map[string][]key{
		"\x1b":         {{name: keyEscape}},
		"\x1bOPa":      nil,
		"\x1b[1;5Ca":   nil,
		"\x1bxa":       nil,
		"\x7f\b\x15\n": {{name: keyBackspace, together: true}, {name: keyBackspace, together: true}, {name: keyKill, together: true}, {name: keyEnter, together: true}},
		"\x00\x01\xff": nil,
		"\x03":         {{name: keyInterrupt}}, // where the terminal makes no signal of it
		"\x1b[A\x03":   {{name: keyInterrupt}},
		"日":            {{name: keyRune, r: '日'}},
		"aa":           {{name: keyRune, r: 'a', together: true}, {name: keyRune, r: 'a', together: true}},
	} {
		var p keyParser
		if got := p.parse([]byte(text), time.Now()); !slices.Equal(got, want) {
			t.Errorf("%q is %+v, want %+v", text, got, want)
		}
	}
	var p keyParser
	now := time.Now()
	got := slices.Concat(p.parse([]byte("\xe6"), now), p.parse([]byte("\x97"), now), p.parse([]byte("\xa5"), now))
	if !slices.Equal(got, []key{{name: keyRune, r: '日'}}) {
		t.Errorf("in pieces it is %+v", got)
	}
}

// answers are reports that terminals send without a key: each has an "a", which would allow the action.
var answers = map[string]string{
	"its name":                      "\x1bP>|a terminal(369)\x1b\\",
	"its name, in 8 bits":           "\x90>|a\x9c",
	"its name, in UTF-8's 8 bits":   "\u0090>|a\u009c",
	"a setting":                     "\x1bP1$r0;1a\x1b\\",
	"its title":                     "\x1b]la\x1b\\",
	"a title with a byte as of ST":  "\x1b]lÜa\x1b\\",
	"the clipboard":                 "\x1b]52;c;aaaa\a",
	"a string that was cut short":   "\x1b]la\x18",
	"an application's string":       "\x1b_Gi=1;a\x1b\\",
	"private and start of string":   "\x1b^a\x1b\\\x1bXa\x1b\\",
	"a string in a string":          "\x1bPa\x1b]a\x1b\\",
	"a click at the 65th column":    "\x1b[M aa",
	"a click, in UTF-8":             "\x1b[M aä",
	"a paste":                       "\x1b[200~a\ra\x1b[201~",
	"its sort":                      "\x1b[?64;1a\x1b[c",
	"a function key":                "\x1bOa",
	"Alt and a key":                 "\x1ba",
	"where the cursor is, and more": "\x1b[1;1Ra",
}

// Reports that the terminal sends are not keys, wherever a report is split, and neither is the text directly after
// them.
func TestKeyParser_IgnoresAnswersOfTerminal(t *testing.T) {
	for name, text := range answers {
		for cut := range len(text) {
			now := time.Now()
			var p keyParser
			var got []key
			read := func(part string, after time.Duration) {
				now = now.Add(after)
				got = append(got, p.parse([]byte(part), now)...)
			}
			read(text[:cut], 0)
			read(text[cut:], 20*time.Millisecond)
			read("a", 50*time.Millisecond)
			got = slices.DeleteFunc(got, func(k key) bool { return k.name == keyEscape }) // an ESC that came alone looks like the key
			if len(got) > 0 {
				t.Errorf("%s, cut at %d: %+v", name, cut, got)
			}
			read("a", 200*time.Millisecond)
			if want := []key{{name: keyRune, r: 'a'}}; !slices.Equal(got, want) {
				t.Errorf("%s, cut at %d: a key afterwards is %+v, want %+v", name, cut, got, want)
			}
		}
	}
}

func TestKeyParser_UnendedSequenceTimesOut(t *testing.T) {
	for _, begun := range []string{"\x1b[1", "\x1bP", "\x1b]52;", "\x1b[200~", "\x1b[M"} {
		now := time.Now()
		var p keyParser
		if got := p.parse([]byte(begun), now); got != nil {
			t.Errorf("%q is %+v", begun, got)
		}
		if got := p.parse([]byte("a"), now.Add(900*time.Millisecond)); got != nil {
			t.Errorf("inside of %q there is %+v", begun, got)
		}
		if got := p.parse([]byte("r"), now.Add(2*time.Second)); !slices.Equal(got, []key{{name: keyRune, r: 'r'}}) {
			t.Errorf("long after %q a key is %+v", begun, got)
		}
	}
}

func FuzzKeys(f *testing.F) {
	for _, text := range answers {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var p keyParser
		now := time.Now()
		p.parse(data, now)
		if got := p.parse([]byte("a"), now.Add(2*time.Second)); !slices.Equal(got, []key{{name: keyRune, r: 'a'}}) {
			t.Errorf("behind %q a key is %+v", data, got)
		}
	})
}
