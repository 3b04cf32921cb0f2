package textform

import (
	"strings"
	"testing"
)

func TestForm_IsKeptByWrite(t *testing.T) {
	for name, tt := range map[string]struct{ old, content, want string }{
		"CRLF":                                        {"a\r\nb\r\n", "a\nc\n", "a\r\nc\r\n"},
		"CRLF, of one line":                           {"a\r\n", "a\nc", "a\r\nc"},
		"CRLF, without an end of the last":            {"a\r\nb", "c\nd", "c\r\nd"},
		"CRLF, and an agent knows it":                 {"a\r\nb\r\n", "a\r\nc\r\n", "a\r\nc\r\n"},
		"CRLF, and lines of LF are put in":            {"a\r\nb\r\n", "a\r\nx\ny\nb\r\n", "a\r\nx\r\ny\r\nb\r\n"},
		"CRLF, and a CR within a line":                {"a\r\n", "b\rc\n", "b\rc\r\n"},
		"CRLF after a CR":                             {"a\r\r\n", "b\r\r\nc\n", "b\r\r\nc\r\n"},
		"only empty lines":                            {"\r\n", "\n\n", "\r\n\r\n"},
		"LF, and an agent writes CRLF":                {"a\nb\n", "a\r\nb\r\n", "a\r\nb\r\n"},
		"mixed line ends":                             {"a\r\nb\n", "a\nb\n", "a\nb\n"},
		"mixed line ends, LF first":                   {"a\nb\r\n", "a\nb\n", "a\nb\n"},
		"CR alone":                                    {"a\rb\r", "a\nb\n", "a\nb\n"},
		"no line end":                                 {"a", "a\nb\n", "a\nb\n"},
		"an empty file":                               {"", "a\r\nb\n", "a\r\nb\n"},
		"a mark":                                      {"\ufeffa\n", "b\n", "\ufeffb\n"},
		"a mark, and an agent knows it":               {"\ufeffa\n", "\ufeffb\n", "\ufeffb\n"},
		"a mark, and CRLF":                            {"\ufeffa\r\n", "b\n", "\ufeffb\r\n"},
		"a mark alone":                                {"\ufeff", "b\n", "\ufeffb\n"},
		"a mark, and the file is emptied":             {"\ufeffa\r\n", "", ""},
		"no mark, and an agent writes one":            {"a\n", "\ufeffa\n", "\ufeffa\n"},
		"a mark in the middle":                        {"a\ufeff\n", "b\n", "b\n"},
		"no text, by a NUL":                           {"a\x00\r\n", "b\n", "b\n"},
		"no text, by its coding":                      {"\xe9\r\n", "b\n", "b\n"},
		"the mark of UTF-16":                          {"\xff\xfea\x00\r\x00\n\x00", "b\n", "b\n"},
		"CRLF, with written content that is not text": {"a\r\n", "\x00\n", "\x00\r\n"},
	} {
		form := Of(tt.old)
		if got := form.Apply(tt.content); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
		if again := form.Apply(tt.want); again != tt.want {
			t.Errorf("%s: applied twice, it is %q", name, again)
		}
		if (form != Form{}) != (form.String() != "") {
			t.Errorf("%s: it is called %q", name, form)
		}
		if form != (Form{}) && !May(tt.old) {
			t.Errorf("%s: by its beginning, it has no form", name)
		}
	}
}

func FuzzForm(f *testing.F) {
	for _, seed := range [][2]string{{"a\r\n", "b\n"}, {"\ufeffa", "b"}, {"\ufeff\r\n", "\ufeff\ufeffa\r\r\n\n"}, {"a\r\nb\n", "\r"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, old, content string) {
		form := Of(old)
		kept := form.Apply(content)
		if kept != form.Apply(kept) {
			t.Fatalf("%q in the form of %q is %q, which is not in it", content, old, kept)
		}
		if bare := strings.Count(kept, "\n") - strings.Count(kept, "\r\n"); form.CRLF && bare != 0 {
			t.Fatalf("%q keeps %d LF alone", kept, bare)
		}
		if plain := form.Plain(kept); form.Apply(plain) != kept {
			t.Fatalf("%q without its form, %q, is brought to %q", kept, plain, form.Apply(plain))
		}
		if form != (Form{}) && !May(old[:min(len(old), 16)]) {
			t.Fatalf("by its beginning, %q has no form", old)
		}
	})
}
