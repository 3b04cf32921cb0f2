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
