package plaintext

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

// kept is a scrollback that keeps everything.
type kept struct{ bytes.Buffer }

func (k *kept) Write(p []byte) { k.Buffer.Write(p) }

// read feeds pieces to a screen and returns its whole text.
func read(pieces ...[]byte) string {
	var scrollback kept
	s := New(&scrollback)
	for _, p := range pieces {
		s.Write(p)
	}
	s.Finish()
	return string(s.AppendTo(scrollback.Bytes()))
}

func TestText_RendersPlainText(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"nothing", "", ""},
		{"a line is as it was, with one line feed", "hello\r\n", "hello\n"},
		{"an unterminated line is there too", "one\r\ntwo", "one\ntwo"},
		{"a line feed alone starts a line", "one\ntwo\n", "one\ntwo\n"},
		{"several returns before a line feed", "one\r\r\ntwo", "one\ntwo"},
		{"colours leave no trace", "\x1b[1;31mred\x1b[0m and \x1b[38;2;1;2;3mmore\x1b[m\r\n", "red and more\n"},
		{"colours with colons", "\x1b[4:3mcurly\x1b[58:2::1:2:3m\x1b[0m", "curly"},
		{"a return overwrites", "abcdef\rXY", "XYcdef"},
		{"a progress bar is one line", " 10%\r 50%\r100%\r\ndone\r\n", "100%\ndone\n"},
		{"erase to the end of the line", "downloading 10%\r\x1b[Kdone\r\n", "done\n"},
		{"erase the whole line", "abc\x1b[2K\rx", "x"},
		{"erase to the start", "abcdef\x1b[3D\x1b[1Kx", "   xef"},
		{"backspace overwrites", "abc\b\bX", "aXc"},
		{"backspace stops at the start", "a\b\b\b\bX", "X"},
		{"man's bold", "N\bNA\bAM\bM", "NAM"},
		{"tabs are kept", "a\tb\r\n\tc\r\n", "a\tb\n\tc\n"},
		{"overwriting inside of a tab makes it spaces", "a\tb\r\x1b[3Cx", "a  x    b"},
		{"a tab over text moves", "abcdefghij\r\tX", "abcdefghXj"},
		{"cursor up changes an earlier line", "one\r\ntwo\r\n\x1b[2Auno\x1b[2B\r", "uno\ntwo\n"},
		{"several progress bars", "a 0\r\nb 0\r\n\x1b[2A\x1b[2Ka 1\r\n\x1b[2Kb 1\r\n", "a 1\nb 1\n"},
		{"cursor up stops at the top", "one\x1b[99A\rtwo", "two"},
		{"moving right past the end fills with spaces", "a\x1b[3Cb", "a   b"},
		{"moving right and away leaves nothing", "a\x1b[3C\r\nb", "a\nb"},
		{"an absolute column", "abc\x1b[10Gx", "abc      x"},
		{"an absolute position", "\x1b[2;3Hx\x1b[1;1Hy", "y\n  x"},
		{"save and restore", "ab\x1b7cd\x1b8X", "abXd"},
		{"delete and insert characters", "abcdef\r\x1b[2P\x1b[1@", " cdef"},
		{"erase characters", "abcdef\r\x1b[2X", "  cdef"},
		{"insert a line", "one\r\ntwo\x1b[L\rnew", "one\nnew\ntwo" + strings.Repeat("\n", 27)},
		{"delete a line", "one\r\ntwo\r\nthree\x1b[2;1H\x1b[M", "one\nthree" + strings.Repeat("\n", 28)},
		{"repeat a character", "-\x1b[4b|", "-----|"},
		{"clearing the screen keeps the text", "one\r\ntwo\x1b[H\x1b[2J\x1b[3Jthree", "one\ntwo\nthree"},
		{"a full reset too", "one\x1bctwo", "one\ntwo"},
		{"home and erase below redraws", "frame 1\r\nmore\x1b[H\x1b[Jframe 2", "frame 2"},
		{"the alternate screen goes away", "one\r\n\x1b[?1049h\x1b[Hvim\x1b[?1049ltwo", "one\ntwo"},
		{"the alternate screen shows while it is there", "one\x1b[?1049hvim", "one\nvim"},
		{"a window title", "\x1b]0;title\x07a\x1b]2;other\x1b\\b", "ab"},
		{"a link", "\x1b]8;;https://example.com\x1b\\text\x1b]8;;\x1b\\", "text"},
		{"a title never ended costs one line", "\x1b]0;oops\r\nnext\r\n", "\nnext\n"},
		{"a device control string", "a\x1bPq#0\n~\x1b\\b", "ab"},
		{"a string ended by another sequence", "a\x1b]0;x\x1b[31mb", "ab"},
		{"a character set", "\x1b(Ba\x1b)0b", "ab"},
		{"a sequence cut off by cancel", "a\x1b[31\x18b", "ab"},
		{"a sequence broken by a character that is no part of it", "a\x1b[3é", "aé"},
		{"private and intermediate sequences", "\x1b[?25la\x1b[>4;1m\x1b[!p\x1b[?2004hb\x1b[2 qc", "abc"},
		{"bell, NUL and the like", "a\x00\x07\x0e\x0f\x7fb", "ab"},
		{"eight-bit controls", "a\u0085b\u009b31mc", "ab31mc"},
		{"UTF-8", "héllo 世界 🎉\r\n", "héllo 世界 🎉\n"},
		{"overwriting wide characters", "下载 10%\r下载 20%", "下载 20%"},
		{"a narrow character over half a wide one", "世界\rx", "x 界"},
		{"a combining mark stays with its letter", "e\u0301x\r\x1b[1Cy", "e\u0301y"},
		{"each byte that is no UTF-8 is replaced", "a\xff\xfeb\xe2\x82", "a\ufffd\ufffdb\ufffd\ufffd"},
		{"a scroll region", "one\r\n\x1b[1;2rA\r\nB\r\nC", "Ane\nB\nC"},
		{"vertical tab and form feed", "a\vb\fc", "a\nb\nc"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := read([]byte(tt.in)); got != tt.want {
				t.Errorf("%q\n got %q\nwant %q", tt.in, got, tt.want)
			}
			var bytewise [][]byte
			for i := range len(tt.in) {
				bytewise = append(bytewise, []byte(tt.in[i:i+1]))
			}
			if got := read(bytewise...); got != tt.want {
				t.Errorf("%q, a byte at a time\n got %q\nwant %q", tt.in, got, tt.want)
			}
		})
	}
}

func TestScreen_KeepsScrolledLines(t *testing.T) {
	var in, want strings.Builder
	for i := range 1000 {
		line := strings.Repeat("x", i%200)
		in.WriteString(line + "\r\n")
		want.WriteString(line + "\n")
	}
	if got := read([]byte(in.String())); got != want.String() {
		t.Errorf("got %d bytes, want %d", len(got), want.Len())
	}
}

func TestScreen_KeepsLongLines(t *testing.T) {
	for _, unit := range []string{"x", "é", "a\t", "世"} {
		want := "before\n" + strings.Repeat(unit, 100_000) + "\nafter"
		if got := read([]byte(strings.ReplaceAll(want, "\n", "\r\n"))); got != want {
			t.Errorf("a line of %q: got %d bytes, want %d", unit, len(got), len(want))
		}
	}
}

func TestScreen_StatusLineBelowScrollRegion(t *testing.T) {
	in := "\x1b[1;29r\x1b7\x1b[30;1Hstatus\x1b8"
	var want strings.Builder
	for i := range 60 {
		line := "line " + strings.Repeat("i", i)
		in += line + "\r\n"
		want.WriteString(line + "\n")
	}
	want.WriteString("\nstatus")
	if got := read([]byte(in)); got != want.String() {
		t.Errorf("got %q\nwant %q", got, want.String())
	}
}

func TestScreen_HostileOutputIsBounded(t *testing.T) {
	for _, tt := range []struct{ name, unit string }{
		{"combining marks over text", "a\r\u0301"},
		{"marks without end", "\u0301"},
		{"moves on a long line", "é\x1b[D\x1b[C"},
		{"inserted blanks", "ab\x1b[D\x1b[99@"},
		{"a string without end", "\x1bP"},
		{"a sequence without end", "\x1b[1;1;1;"},
		{"rows up and down", "\x1b[30;120Hx\x1b[1;1H"},
		{"inserted lines", "\x1b[99L"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var scrollback kept
			s := New(&scrollback)
			s.Write([]byte(strings.Repeat("é", 8000)))
			for range 100 {
				s.Write([]byte(strings.Repeat(tt.unit, 100)))
			}
			held := 0
			for y := range Rows {
				held += cap(s.g.rows[y].text)
			}
			if most := 6 * rowMax; held > most || s.Len() > most {
				t.Errorf("got %d bytes held, want at most %d", held, most)
			}
		})
	}
}

func FuzzScreen(f *testing.F) {
	for _, seed := range []string{
		"hello\r\n", "\x1b[31mred\x1b[0m", "a\tb\r\x1b[3Cx", "\x1b[2J\x1b[H", "\x1b]0;t\x07x", "世界\r\x1b[Ce\u0301",
		"\x1b[?1049hx\x1b[?1049l", "\x1b[5;10r\n\n\n\x1bM\x1b[L\x1b[M", "\xe2\x82\x1b[\xff", "x\x1b[99b\b\b\x1b[9P\x1b[9@", "\x1bPq\x1b\\",
	} {
		f.Add([]byte(seed), 3)
	}
	f.Fuzz(func(t *testing.T, in []byte, at int) {
		whole := read(in)
		if !utf8.ValidString(whole) {
			t.Fatalf("%q: the text is not UTF-8: %q", in, whole)
		}
		if i := strings.IndexFunc(whole, func(c rune) bool {
			return c != '\n' && c != '\t' && (c < 0x20 || (c >= 0x7f && c < 0xa0))
		}); i >= 0 {
			t.Fatalf("%q: the text has a control character at %d: %q", in, i, whole)
		}
		at = min(max(at, 0), len(in))
		if split := read(in[:at], in[at:]); split != whole {
			t.Fatalf("%q: cut at %d\n got %q\nwant %q", in, at, split, whole)
		}
	})
}

// FuzzText checks that text without control characters stays unchanged.
func FuzzText(f *testing.F) {
	f.Add("plain\nlines", 2)
	f.Add("wide 世界\tand tabs\n", 7)
	f.Fuzz(func(t *testing.T, in string, at int) {
		in = strings.ToValidUTF8(in, "")
		in = strings.Map(func(c rune) rune {
			if c != '\n' && c != '\t' && (c < 0x20 || (c >= 0x7f && c < 0xa0)) {
				return -1
			}
			return c
		}, in)
		raw := []byte(strings.ReplaceAll(in, "\n", "\r\n"))
		at = min(max(at, 0), len(raw))
		if got := read(raw[:at], raw[at:]); got != in {
			t.Fatalf("got %q, want %q", got, in)
		}
	})
}

func BenchmarkScreen(b *testing.B) {
	for _, bb := range []struct{ name, unit string }{
		{"text", strings.Repeat("x", 78) + "\r\n"},
		{"yes", "y\r\n"},
		{"colours", "\x1b[32mok\x1b[0m  \x1b[1mpackage/name\x1b[0m 0.123s\r\n"},
		{"utf8", strings.Repeat("世", 26) + "\r\n"},
	} {
		b.Run(bb.name, func(b *testing.B) {
			chunk := bytes.Repeat([]byte(bb.unit), 4096/len(bb.unit))
			s := New(discard{})
			b.SetBytes(int64(len(chunk)))
			for b.Loop() {
				s.Write(chunk)
			}
		})
	}
}

type discard struct{}

func (discard) Write([]byte) {}
