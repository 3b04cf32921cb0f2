package pathglob

import (
	"testing"

	"github.com/bmatcuk/doublestar/v4"
)

func TestPattern_MatchesAsDoublestarDoes(t *testing.T) {
	paths := []string{"/", "/a", "/a/b", "/a/b.pem", "/a/.env", "/a/.env.local", "/.env", "/x/{a}", "/x/a*", "", "a", "/a/b/c/d.key"}
	for _, text := range []string{
		"**", "/**", "/**/.env", "/**/.env.*", "/**/*.{pem,key}", "/a", "/a/*", "/a/**", "/a/**/d.key", "/x/\\{a\\}", "/x/a\\*", "/[ab]", "/?",
		"/**/b/**", "/{a,x}/**",
	} {
		p := New(text)
		for _, path := range paths {
			if got, want := p.Matches(path), doublestar.MatchUnvalidated(text, path); got != want {
				t.Errorf("%s, %q: got %t, want %t", text, path, got, want)
			}
		}
	}
}

func TestEscape_MatchesOnlyThePath(t *testing.T) {
	for _, path := range []string{"/a/b", "/a*", "/a?", "/[a]", "/{a,b}", `/a\b`} {
		if p := New(Escape(path)); !p.Matches(path) || p.Matches("/a") {
			t.Errorf("%s: does not match itself, or matches others", path)
		}
	}
}

func TestSet_MayMatch(t *testing.T) {
	s, ok := NewSet([]string{"/**/.env", "/keys/**"})
	if !ok {
		t.Fatal("the patterns are not valid")
	}
	for path, want := range map[string]bool{
		"/a/.env": true, "/a/.ENV": true, "/Keys/x": true, "/keys": true, "/a/.envs": false, "/a/b": false, "/a/\u017f": true, "/a/\n": true,
	} {
		if got := s.MayMatch(path); got != want {
			t.Errorf("%q: got %t, want %t", path, got, want)
		}
	}
	if _, ok := NewSet([]string{"/["}); ok {
		t.Error("an invalid pattern is accepted")
	}
}
