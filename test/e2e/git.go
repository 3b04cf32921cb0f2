package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/wire"
)

// Repository makes the workspace a repository with one commit, of which a file has changed since.
func (p *Place) Repository(t testing.TB, at string) {
	t.Helper()
	dir := p.Path(at)
	p.File(t, filepath.Join(at, "file"), "one\n")
	for _, args := range [][]string{
		{"init", "--quiet"}, {"add", "file"},
		{"-c", "user.name=n", "-c", "user.email=e@example.com", "commit", "--quiet", "--message", "one"},
	} {
		cmd := wire.Command(t, "git", args...)
		cmd.Dir, cmd.Env = dir, p.Env("GIT_CONFIG_NOSYSTEM=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	p.File(t, filepath.Join(at, "file"), "two\n")
}

// Trap writes a program that leaves a trace where it ran, and returns it and the trace.
func (p *Place) Trap(t testing.TB, name string) (program, trace string) {
	t.Helper()
	trace = filepath.Join(p.Home, "ran-"+strings.ReplaceAll(name, "/", "-"))
	program = p.File(t, name, fmt.Sprintf("#!/bin/sh\necho ran >>%s\n", trace))
	if err := os.Chmod(program, 0o700); err != nil {
		t.Fatal(err)
	}
	return program, trace
}

// Runs has the agent run a command and waits for its end; it must not be asked about.
func (s *Scene) Runs(with ...any) {
	s.T.Helper()
	var made struct{ TerminalID string }
	s.Agent.Request("terminal/create", Params(with...), &made)
	s.Agent.Request("terminal/wait_for_exit", Params("terminalId", made.TerminalID), nil)
}

// AskedFor has the agent run a command about which a person must be asked, who says no; it returns the reason.
func (s *Scene) AskedFor(with ...any) string {
	s.T.Helper()
	run := s.Agent.Send("terminal/create", Params(with...))
	q := s.Asked()
	s.Choose(q, "reject_once")
	_ = run.Refused(-32603)
	s.Status(q, "failed")
	return string(q.Raw)
}

// ExpectNoTrace fails the test if a program that Trap made has run, and makes room for the next one.
func (p *Place) ExpectNoTrace(t testing.TB, trace string) {
	t.Helper()
	if _, err := os.Stat(trace); err == nil {
		t.Errorf("%s: a program of the workspace ran, and nobody was asked", filepath.Base(trace))
		_ = os.Remove(trace)
	}
}

// Ready is the configuration with a ready-made policy.
func (p *Place) Ready(t testing.TB, name string) []string {
	t.Helper()
	return p.Config(t, "permission: {policy: "+name+"}\n")
}

// TrapOnly is trap for what only its trace is needed of.
func (p *Place) TrapOnly(t testing.TB, name string) string {
	_, trace := p.Trap(t, name)
	return trace
}

// Configure changes the settings of a repository of the workspace.
func (p *Place) Configure(t testing.TB, at string, args ...string) {
	t.Helper()
	cmd := wire.Command(t, "git", append([]string{"config", "--local"}, args...)...)
	cmd.Dir, cmd.Env = p.Path(at), p.Env("GIT_CONFIG_NOSYSTEM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git config %q: %v\n%s", args, err, out)
	}
}
