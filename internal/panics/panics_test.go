package panics

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestGuard_LogsStackAndRunsCleanup(t *testing.T) {
	var out bytes.Buffer
	var order []string
	Guard(slog.New(slog.NewTextHandler(&out, nil)), "testing", func() { panic("injected") },
		func(error) { order = append(order, "first"); panic("again") },
		func(err error) {
			order = append(order, "second")
			if !strings.Contains(err.Error(), "while testing") || strings.Contains(err.Error(), "injected") {
				t.Errorf("the error is %q", err)
			}
		})()
	if strings.Join(order, " ") != "first second" {
		t.Errorf("ran %v", order)
	}
	for _, want := range []string{"level=ERROR", "injected", "panics_test.go"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log lacks %q: %s", want, out.String())
		}
	}
}

func TestCatch_ReturnsErrors(t *testing.T) {
	log, wrong := slog.New(slog.DiscardHandler), errors.New("wrong")
	if err := Catch(log, "testing", func() error { return wrong }); !errors.Is(err, wrong) {
		t.Errorf("got %v", err)
	}
	var p *Error
	if err := Catch(log, "testing", func() error { panic(nil) }); !errors.As(err, &p) {
		t.Errorf("got %v, want an *Error", err)
	}
}
