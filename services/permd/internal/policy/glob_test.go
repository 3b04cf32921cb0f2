package policy

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
)

func TestGlob_Matches(t *testing.T) {
	tests := []struct {
		glob      string
		match, no []string
	}{
		{"/a", []string{"/a"}, []string{"/a/b", "/ab", "/", "/A"}},
		{"/", []string{"/"}, []string{"/a"}},
		{"/a/**", []string{"/a", "/a/b", "/a/.b/c"}, []string{"/ab", "/b/a"}},
		{"/a/*", []string{"/a/b", "/a/.b"}, []string{"/a", "/a/b/c"}},
		{"/**", []string{"/", "/a", "/a/b"}, nil},
		{"**", []string{"/a", "/a/b"}, nil},
		{"**/.env", []string{"/.env", "/a/.env", "/a/b/.env"}, []string{"/a.env", "/.env/a", "/.envx"}},
		{"/**/.git/**", []string{"/.git", "/a/.git/b", "/a/.git"}, []string{"/a/.github", "/git"}},
		{"/**/*.pem", []string{"/x.pem", "/a/b/x.pem", "/.pem"}, []string{"/a/xpem", "/x.pem/a"}},
		{"/a/**/b", []string{"/a/b", "/a/x/y/b"}, []string{"/ab", "/a/xb"}},
		{"/a/{b,c}/d", []string{"/a/b/d", "/a/c/d"}, []string{"/a/d", "/a/bc/d"}},
		{"/a/{b/**,c}", []string{"/a/b/x", "/a/c"}, []string{"/a/c/x"}},
		{"/a/[bc]?", []string{"/a/bx", "/a/cy"}, []string{"/a/b", "/a/dx", "/a/b/"}},
		{`/a/\*`, []string{"/a/*"}, []string{"/a/b", `/a/\*`}},
		{"/a/x*y*z", []string{"/a/xyz", "/a/x1y2z"}, []string{"/a/x/yz", "/a/xz"}},
		{"/ä/*", []string{"/ä/ö"}, []string{"/a/ö"}},
		{"~/x", []string{"/home/u+[1]/x"}, []string{"/home/u1/x", "/x"}},
		{"~", []string{"/home/u+[1]"}, []string{"/home/u+[1]/x"}},
		{"~/**", []string{"/home/u+[1]", "/home/u+[1]/a/b"}, []string{"/home/u+[1]x"}},
	}
	for _, tt := range tests {
		g, err := newGlob(tt.glob, places{homes: []string{"/home/u+[1]"}})
		if err != nil {
			t.Errorf("%s: %v", tt.glob, err)
			continue
		}
		for _, name := range tt.match {
			if !matchesAny(g.exact, name) || !matchesAny(g.folded, fold(name)) {
				t.Errorf("%s does not match %s", tt.glob, name)
			}
		}
		for _, name := range tt.no {
			if matchesAny(g.exact, name) {
				t.Errorf("%s matches %s", tt.glob, name)
			}
		}
	}
}

func TestGlob_BelowRoot(t *testing.T) {
	tests := []struct {
		glob      string
		match, no []string
	}{
		{"${root}", []string{""}, []string{"a"}},
		{"${root}/**", []string{"", "a", "a/b"}, nil},
		{"${root}/*", []string{"a", ".a"}, []string{"", "a/b"}},
		{"${root}/**/x", []string{"x", "a/x"}, []string{"", "ax", "x/a"}},
		{"${root}/a/**", []string{"a", "a/b"}, []string{"", "b", "ab"}},
	}
	for _, tt := range tests {
		g, err := newGlob(tt.glob, places{})
		if err != nil || !g.rooted {
			t.Errorf("%s: %v", tt.glob, err)
			continue
		}
		for _, tail := range tt.match {
			if !g.exact[0].below(tail) {
				t.Errorf("%s does not match %q", tt.glob, tail)
			}
		}
		for _, tail := range tt.no {
			if g.exact[0].below(tail) {
				t.Errorf("%s matches %q", tt.glob, tail)
			}
		}
	}
}

func TestGlob_MatchesRealDirectory(t *testing.T) {
	at := places{real: func(path string) (string, error) {
		switch path {
		case "/etc":
			return "/private/etc", nil
		case "":
			return "", nil
		}
		return path, doublestar.ErrPatternNotExist
	}}
	for glob, name := range map[string]string{
		"/etc/**": "/private/etc/passwd", "/etc/passwd": "/private/etc/passwd", "/etc/new/dir/*": "/private/etc/new/dir/x",
	} {
		g, err := newGlob(glob, at)
		if err != nil {
			t.Fatal(err)
		}
		if !matchesAny(g.folded, name) {
			t.Errorf("%s does not match %s", glob, name)
		}
		if matchesAny(g.exact, name) {
			t.Errorf("%s allows %s", glob, name)
		}
	}
}

func TestGlob_Kinds(t *testing.T) {
	for pattern, kinds := range map[string][2]string{
		"*":           {"unknown", "fs.read"},
		"fs.*":        {"fs.read", "fs.read.x"},
		"*.read":      {"tool.read", "tool.readx"},
		"tool.*e*":    {"tool.delete", "tool.think"},
		"*.*":         {"fs.", "fs"},
		"_acme.com/x": {"_acme.com/x", "_acme.com/xy"},
		"fs.read":     {"fs.read", "fs.reax"},
		"a*b*c":       {"aXbbYbc", "aXb.bc"},
	} {
		if !kindGlob(pattern).matches(kinds[0]) {
			t.Errorf("%s does not match %s", pattern, kinds[0])
		}
		if kindGlob(pattern).matches(kinds[1]) {
			t.Errorf("%s matches %s", pattern, kinds[1])
		}
	}
}

func TestFold_JoinsSpellings(t *testing.T) {
	for _, same := range [][2]string{
		{".ENV", ".env"}, {"é", "e\u0301"}, {"É", "e\u0301"}, {"\u212a", "k"}, {"ſ", "s"}, {".g\u200cit", ".git"}, {"ΣΑΣ", "σας"},
	} {
		if fold(same[0]) != fold(same[1]) {
			t.Errorf("%q is %q, %q is %q", same[0], fold(same[0]), same[1], fold(same[1]))
		}
	}
	if fold("a") == fold("b") || fold("/x/y") != "/x/y" {
		t.Error("fold joins what differs")
	}
}

// FuzzGlob_QuickTestsAgreeWithMatch compares with the library without the quick tests.
func FuzzGlob_QuickTestsAgreeWithMatch(f *testing.F) {
	for _, seed := range [][2]string{
		{"/a/**", "/a"}, {"/**/b", "/b"}, {"/a/{**,b}", "/a"}, {"/a{,/b}", "/a"}, {"/**/x/**", "/x"}, {"/a*b", "/ab"}, {`/\a*`, "/ab"},
		{"/a/**/b/**/c", "/a/b/c"}, {"/[a]", "/a"}, {"/{a,b}c", "/ac"}, {"/*/**", "/a"}, {"/**/*", "/"}, {"/a]", "/a]"}, {"/a}b*", "/a}b"}, {`/a\\`, `/a\`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		if !strings.HasPrefix(text, "/") || len(text) > 100 || len(name) > 100 || !utf8.ValidString(text+name) {
			t.Skip("only short absolute globs of valid text are compared")
		}
		if _, err := newGlob(text, places{}); err != nil {
			t.Skipf("the glob is refused: %v", err)
		}
		want, err := doublestar.Match(text, name)
		if err != nil {
			t.Skipf("doublestar refuses the glob: %v", err)
		}
		p := newPattern(text)
		if got := p.Matches(name); got != want {
			t.Fatalf("%q, %q: got %v, the library returns %v", text, name, got, want)
		}
	})
}
