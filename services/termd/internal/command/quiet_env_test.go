package command

import (
	"os"
	"slices"
	"testing"
)

func TestUnasked_GitIsQuiet(t *testing.T) {
	dir := place(t)
	host := []string{"PATH=/usr/bin:/bin", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=a.b", "GIT_CONFIG_VALUE_0=c"}
	env := func(ruleAllowed bool) []string {
		plan, err := Resolve(Config{Environ: host}, Request{Command: "true", Roots: []string{dir}, RuleAllowed: ruleAllowed,
			Env: []Variable{{"GIT_EXTERNAL_DIFF", "x"}}})
		if err != nil {
			t.Fatal(err)
		}
		return plan.Env
	}
	normal, quiet := env(false), env(true)
	for _, entry := range []string{"GIT_CONFIG_COUNT=1", "GIT_EXTERNAL_DIFF=x"} {
		if !slices.Contains(normal, entry) || slices.Contains(quiet, entry) {
			t.Errorf("%s is in the environment that a person has allowed, %q, and not in the other, %q", entry, normal, quiet)
		}
	}
	for _, entry := range []string{"GIT_CONFIG_VALUE_0=c", "GIT_CONFIG_KEY_1=safe.bareRepository", "GIT_PAGER=cat"} {
		if !slices.Contains(quiet, entry) {
			t.Errorf("%s is missing in %q", entry, quiet)
		}
	}
}

func TestDecided_RunsOnlyDecidedProgram(t *testing.T) {
	dir := place(t)
	decided := &Argv{Args: []string{"true"}, Program: dir + "/decided"}
	resolve := func() Plan {
		plan, err := Resolve(Config{Environ: []string{"PATH=/usr/bin:/bin"}}, Request{Command: "true", Roots: []string{dir}, Decided: decided})
		if err != nil {
			t.Fatal(err)
		}
		return plan
	}
	if plan := resolve(); plan.Startable() == nil {
		t.Errorf("%s is not there, and %s would be started", decided.Program, plan.Program)
	}
	if err := os.WriteFile(decided.Program, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if plan := resolve(); plan.Program != decided.Program || plan.Args[0] != "true" {
		t.Errorf("got %q of %s", plan.Args, plan.Program)
	}
	decided.Program = "relative"
	if _, err := Resolve(Config{}, Request{Command: "true", Roots: []string{dir}, Decided: decided}); err == nil {
		t.Error("a program without a folder was taken")
	}
}
