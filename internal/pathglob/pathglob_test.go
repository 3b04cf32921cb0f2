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

// TestSet_MatchesAsItsPatterns compares a set with doublestar for each pattern and path, so that no pattern is filed under a part
// that a matching path lacks.
func TestSet_MatchesAsItsPatterns(t *testing.T) {
	patterns := []string{
		"/**/.env", "/**/.env.*", "/**/*.{pem,key}", "/**/{a,x}/**", "/a", "/a/**", "/**", "/**/*.", "/**/.config/{b,d}/*.{yml,toml}",
		"/**/credentials{,.toml}", "/x/\\{a\\}", "/[ab]/c", "/?", "/**/id_{rsa,dsa}", "/dev/{sd,hd,bsg/}*", "/**/client*.json", "/**/*a*", "/**/*.t?r",
	}
	paths := []string{
		"/", "/a", "/a/b", "/b/a", "/b/a/c", "/.env", "/q/.env", "/q/.env.local", "/q/x.pem", "/q/.pem", "/q/x.key.old", "/q/x.", "/.config/b/c.yml",
		"/q/.config/d/c.toml", "/.config/c.yml", "/q/credentials", "/q/credentials.toml", "/x/{a}", "/a/c", "/q/id_rsa", "/dev/sda", "/dev/bsg/0", "/dev/bsg",
		"/q/client-1.json", "/q/bab", "/q/x.tar", "/q",
	}
	for _, text := range patterns {
		s, ok := NewSet([]string{text})
		if !ok {
			t.Fatalf("%s is not valid", text)
		}
		all := 0
		for _, path := range paths {
			want := doublestar.MatchUnvalidated(text, path)
			if got := s.MayMatch(path); got != want {
				t.Errorf("%s, %s: got %t, want %t", text, path, got, want)
			}
			if want {
				all++
			}
		}
		if all == 0 {
			t.Errorf("%s matches no path of the test", text)
		}
	}
}
