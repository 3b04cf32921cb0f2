package wordset_test

import (
	"maps"
	"testing"

	"github.com/acphost/acphost/internal/wordset"
)

func TestSet_HasEachWord(t *testing.T) {
	if got := wordset.Of(" a\n\tb a "); !maps.Equal(got, map[string]bool{"a": true, "b": true}) {
		t.Errorf("got %v", got)
	}
	if got := wordset.Of(""); len(got) != 0 {
		t.Errorf("of no words: %v", got)
	}
}
