package conformance

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestCase_EndsAtFirstFailure(t *testing.T) {
	unmet := errors.New("unmet")
	var did []string
	cases := named("k", []Case{
		{"ends", func(_ context.Context, e *env) {
			e.onCleanup(func() { did = append(did, "first") })
			e.onCleanup(func() { did = append(did, "second") })
			check(nil)
			_ = must(1, nil)
			must(2, unmet)
			did = append(did, "gone on")
		}},
		{"is skipped", func(context.Context, *env) { skipIf(true, "why") }},
		{"is met", func(context.Context, *env) { require(true, "unmet") }},
		{"panics", func(context.Context, *env) { panic("oh") }},
		{"is unmet", func(context.Context, *env) { require(false, "it is %s", "so") }},
		{"differs", func(context.Context, *env) { expect(false, "it", 1, 2) }},
	})
	run := func(i int) error { return Suite{}.RunCase(t.Context(), cases[i]) }
	if err := run(0); !errors.Is(err, unmet) {
		t.Errorf("an unmet demand: %v", err)
	}
	if want := []string{"second", "first"}; !slices.Equal(did, want) {
		t.Errorf("the cleanup at the end: %q, want %q", did, want)
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
	for i, want := range map[int]string{4: "it is so", 5: "it: got 1, want 2"} {
		if err := run(i); err == nil || err.Error() != want {
			t.Errorf("a demand that is not met: %v, want %q", err, want)
		}
	}
	if got := cases[0].Name; got != "k/ends" {
		t.Errorf("the case is named %q", got)
	}
}

func TestCase_PanicOrTimeoutFails(t *testing.T) {
	suite := Suite{Timeout: 1}
	for name, run := range map[string]func(context.Context, *env){
		"panics": func(context.Context, *env) { panic("at once") },
		"hangs":  func(ctx context.Context, _ *env) { <-ctx.Done(); check(ctx.Err()) },
	} {
		if err := suite.RunCase(t.Context(), Case{name, run}); err == nil {
			t.Errorf("a case that %s passed", name)
		}
	}
}

func TestCase_RemovesItsFiles(t *testing.T) {
	var dir string
	err := Suite{}.RunCase(t.Context(), Case{"leaves nothing", func(_ context.Context, e *env) {
		dir = e.dir
		if len(e.scope) != 32 || len(e.context().GetRoots()) != 1 || e.context().GetRoots()[0].GetPath() != dir {
			t.Errorf("the environment is %+v", e)
		}
		check(os.MkdirAll(dir+"/closed/inner", 0o755))
		check(os.Chmod(dir+"/closed", 0))
	}})
	if err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
}
