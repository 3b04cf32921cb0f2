package confirm

import (
	"strings"
	"testing"
)

func TestCode_NeedsAllLetters(t *testing.T) {
	var codes Codes
	c := codes.New()
	if len(c.Text()) != least || strings.Trim(c.Text(), letters) != "" {
		t.Fatalf("the code is %q", c.Text())
	}
	if done, stands := c.Key(c.Text()[:1]); done || !stands || c.Typed() != c.Text()[:1] {
		t.Errorf("its first letter: done %v, stands %v, typed %q", done, stands, c.Typed())
	}
	if done, stands := c.Key(c.Text()[1:]); !done || !stands {
		t.Errorf("its last letter: done %v, stands %v", done, stands)
	}
}

func TestCodes_LengthenAfterWrongKey(t *testing.T) {
	var codes Codes
	for i := range 10 {
		c := codes.New()
		if want := min(least+i, most); len(c.Text()) != want {
			t.Errorf("after %d wrong keys the code is %q, want %d letters", i, c.Text(), want)
		}
		wrong := "!"
		if i%2 == 1 {
			wrong = "" // a key that is no letter
		}
		if done, stands := c.Key(wrong); done || stands {
			t.Errorf("a wrong key: done %v, stands %v", done, stands)
		}
	}
}

func TestCodes_Differ(t *testing.T) {
	seen := map[string]bool{}
	for range 200 {
		var codes Codes
		seen[codes.New().Text()] = true
	}
	if len(seen) < 100 { // of 529
		t.Errorf("200 codes are %d different ones", len(seen))
	}
}
