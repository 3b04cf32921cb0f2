package lazyregexp

import (
	"slices"
	"testing"
)

func TestNew_CompilesAtOnceInTests(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("it is not compiled before its first use")
		}
	}()
	New("(")
}

func TestRegexp_CompilesAtFirstUse(t *testing.T) {
	inTest = false
	defer func() { inTest = true }()
	r := New("(a)(b*)")
	if r.rx != nil {
		t.Error("it is compiled before")
	}
	if got := r.FindStringSubmatch("xabb"); !slices.Equal(got, []string{"abb", "a", "bb"}) {
		t.Errorf("found %q", got)
	}
	rx := r.rx
	if !r.MatchString("a") || r.rx != rx {
		t.Error("it is compiled a second time")
	}
}
