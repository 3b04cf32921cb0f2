package conformance

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestACaseEndsAtItsFirstUnmetDemand(t *testing.T) {
	unmet := errors.New("unmet")
	var did []string
	cases := kind("k", []demand{
		{Name: "ends", Run: func(_ context.Context, e *Env) {
			e.after(func() { did = append(did, "first") })
			e.after(func() { did = append(did, "second") })
			check(nil)
			_ = must(1, nil)
			must(2, unmet)
			did = append(did, "gone on")
		}},
		{Name: "is skipped", Run: func(context.Context, *Env) { fail(skip("why")) }},
		{Name: "is met", Run: func(context.Context, *Env) {}},
		{Name: "panics", Run: func(context.Context, *Env) { panic("oh") }},
	})
	run := func(i int) error { return Suite{}.RunCase(t.Context(), cases[i]) }
	if err := run(0); !errors.Is(err, unmet) {
		t.Errorf("an unmet demand: %v", err)
	}
	if want := []string{"second", "first"}; !slices.Equal(did, want) {
		t.Errorf("what was done at the end: %q, want %q", did, want)
	}
	if err := run(1); !errors.Is(err, ErrSkipped) {
		t.Errorf("a skipped case: %v", err)
	}
	if err := run(2); err != nil {
		t.Errorf("a case whose demands are met: %v", err)
	}
	if err := run(3); err == nil || !strings.Contains(err.Error(), "panicked: oh") {
		t.Errorf("a case that panics: %v", err)
	}
	if got := cases[0]; got.Name != "k/ends" || got.Kind != "k" {
		t.Errorf("the case is named %q, of kind %q", got.Name, got.Kind)
	}
}
