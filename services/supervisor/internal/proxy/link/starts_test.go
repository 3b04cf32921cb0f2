package link

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/sandbox/decisions"
	"github.com/acphost/acphost/internal/testkit"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/sandbox/containment"
)

// makePrograms creates programs that do nothing, by their paths.
func makePrograms(t *testing.T, files ...string) {
	t.Helper()
	for _, file := range files {
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte("#!/bin/sh\n"), 0o700)); err != nil {
			t.Fatal(err)
		}
	}
}

// A program that no rule names starts with the rights of the agent. A program that a rule allows by its name belongs to
// a command, unless the agent may have chosen what the program finds.
func TestStarts_OnlyNamedProgramIsCommand(t *testing.T) {
	home := testkit.ShortDir(t)
	bin, more, evil := filepath.Join(home, "bin"), filepath.Join(home, "more"), filepath.Join(home, "evil")
	makePrograms(t, filepath.Join(bin, "make"), filepath.Join(bin, "other"), filepath.Join(bin, "asked"), filepath.Join(evil, "make"))
	env := []string{"HOME=" + home, "PATH=" + bin}
	r := newRig(t, func(o *Options) { o.AgentEnviron = env }, contained(&containment.Sandbox{}, containment.Proxy{}))
	r.handler.decide = func(_ context.Context, a *permissionv1.Action) (*permissionv1.DecideResponse, error) {
		d := &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_ASK}
		switch c := a.GetCommand(); {
		case len(c.GetArgv()) == 0:
		case c.GetArgv()[0] == "asked":
			d.Rule = "asks"
		case c.GetArgv()[0] == "make" && len(c.GetEnv()) == 0:
			d.Verdict, d.Rule = permissionv1.Verdict_VERDICT_ALLOW, "make"
		}
		return d, nil
	}
	itself := sandbox.Event{Operation: sandbox.Execute, PID: os.Getpid(), Path: bin + "/make", Args: []string{"make"}, Dir: home, Call: 7}
	if got := r.decider.Judge(t.Context(), decisions.Asked{Event: itself}); !got.Allowed || got.TellStart {
		t.Errorf("before a session is open: got %t, a command: %t; want true, false", got.Allowed, got.TellStart)
	}
	r.open(`{}`)
	for _, c := range []struct {
		name             string
		event            sandbox.Event
		allowed, command bool
	}{
		{"allowed by a rule", sandbox.Event{Path: bin + "/make", Args: []string{"make"}}, true, true},
		{"with a folder in PATH that changes nothing", sandbox.Event{Path: bin + "/make", Args: []string{"make"}, Env: []string{"PATH=" + more + ":" + bin}}, true, true},
		{"another program found by PATH", sandbox.Event{Path: evil + "/make", Args: []string{"make"}, Env: []string{"PATH=" + evil + ":" + bin}}, true, false},
		{"another program by this name", sandbox.Event{Path: evil + "/make", Args: []string{"make"}}, true, false},
		{"with another variable", sandbox.Event{Path: bin + "/make", Args: []string{"make"}, Env: []string{"LD_PRELOAD=/x"}}, true, false},
		{"in a mount namespace", sandbox.Event{Path: bin + "/make", Args: []string{"make"}, Apart: true}, true, false},
		{"a script by a name with ..", sandbox.Event{Path: bin + "/make", Args: []string{"make"}, Others: []string{bin + "/../bin/make"}}, true, false},
		{"not named by a rule", sandbox.Event{Path: bin + "/other", Args: []string{"other"}}, true, false},
		{"asked about by a rule", sandbox.Event{Path: bin + "/asked", Args: []string{"asked"}}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := c.event
			e.Operation, e.PID, e.Dir, e.Call = sandbox.Execute, os.Getpid(), home, 7
			got := r.decider.Judge(t.Context(), decisions.Asked{Event: e, Program: "agent"})
			if got.Allowed != c.allowed || got.TellStart != c.command {
				t.Errorf("got %t, a command: %t (%s); want %t, %t", got.Allowed, got.TellStart, got.Why, c.allowed, c.command)
			}
		})
	}
}
