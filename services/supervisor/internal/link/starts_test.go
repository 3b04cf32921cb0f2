package link

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/sandbox/decisions"
	"github.com/acphost/acphost/internal/testkit"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/containment"
	"github.com/acphost/acphost/services/supervisor/internal/kernel"
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

// The policy asks about everything, so an allowed program is one that the agent starts for itself.
func TestStarts_ProgramForItselfMustBeKnown(t *testing.T) {
	home := testkit.ShortDir(t)
	bin, other := filepath.Join(home, "bin"), filepath.Join(home, "other")
	makePrograms(t, filepath.Join(bin, "keep"), filepath.Join(other, "keep"))
	env := []string{"HOME=" + home, "PATH=" + bin}
	r := newRig(t, func(o *Options) { o.AgentEnviron = env },
		contained(&containment.Sandbox{Mine: kernel.NewOwn(kernel.Files{State: []string{"~/.own/**"}, Starts: [][]string{{"keep", "--in", "{state}"}}}, nil, env)}, containment.Proxy{}))
	writable, denied := "", false
	r.handler.decide = func(_ context.Context, a *permissionv1.Action) (*permissionv1.DecideResponse, error) {
		verdict := permissionv1.Verdict_VERDICT_ASK
		switch {
		case a.GetKind() == "fs.write" && writable != "" && strings.HasPrefix(a.GetPaths()[0].GetPath(), writable):
			verdict = permissionv1.Verdict_VERDICT_ALLOW
		case denied:
			verdict = permissionv1.Verdict_VERDICT_DENY
		}
		return &permissionv1.DecideResponse{Verdict: verdict}, nil
	}
	r.open(`{}`)
	expect := func(what string, want bool, program string, args []string, env ...string) {
		t.Helper()
		e := sandbox.Event{Operation: sandbox.Execute, PID: os.Getpid(), Path: program, Args: args, Env: env, Dir: home, Call: 7}
		if got := r.decider.Judge(t.Context(), decisions.Asked{Event: e, Program: "agent"}); got.Allowed != want {
			t.Errorf("%s: got %t (%s), want %t", what, got.Allowed, got.Why, want)
		}
	}
	keep, in := filepath.Join(bin, "keep"), filepath.Join(home, ".own", "git")
	args := []string{"keep", "--in", in}
	expect("as it is known", true, keep, args)
	expect("with a harmless variable", true, keep, args, "NO_COLOR=1")
	expect("with another variable", false, keep, args, "LD_PRELOAD=/x")
	expect("in another folder", false, keep, []string{"keep", "--in", home})
	expect("another program by this name", false, filepath.Join(other, "keep"), args)
	expect("another program, found by PATH", false, filepath.Join(other, "keep"), args, "PATH="+other+":"+bin)
	r.decider.Started(os.Getpid(), 7)
	write := sandbox.Event{Operation: sandbox.Write, PID: os.Getpid(), Path: "/elsewhere/file"}
	if got := r.decider.Judge(t.Context(), decisions.Asked{Event: write, Program: "agent"}); got.Allowed {
		t.Error("it has become a command, for which less is asked about")
	}
	writable = bin
	expect("where the agent may write", false, keep, args)
	writable, denied = "", true
	expect("denied by a rule", false, keep, args)
}

// An agent puts its own programs in a folder before all others in PATH. That gives it no rights: an allowed program then either only reads,
// or would be asked about in the same way.
func TestStarts_OwnFolderInPathGivesNoRights(t *testing.T) {
	home := testkit.ShortDir(t)
	bin, own, code := filepath.Join(home, "bin"), filepath.Join(home, ".own", "bin"), filepath.Join(home, "node_modules", "agent")
	makePrograms(t, filepath.Join(bin, "true"), filepath.Join(bin, "make"), filepath.Join(bin, "keep"), filepath.Join(code, "tool"), filepath.Join(own, "tool"))
	env := []string{"HOME=" + home, "PATH=" + bin}
	r := newRig(t, func(o *Options) { o.AgentEnviron = env },
		contained(&containment.Sandbox{Mine: kernel.NewOwn(kernel.Files{State: []string{"~/.own/**"}, Starts: [][]string{{"keep", "..."}}}, []string{filepath.Join(code, "tool")}, env)}, containment.Proxy{}))
	r.handler.decide = func(_ context.Context, a *permissionv1.Action) (*permissionv1.DecideResponse, error) {
		verdict := permissionv1.Verdict_VERDICT_ALLOW
		switch {
		case a.GetKind() == "fs.write", len(a.GetCommand().GetEnv()) > 0:
			verdict = permissionv1.Verdict_VERDICT_ASK
		case !a.GetCommand().GetSubCommands()[0].GetFacts().GetKnown() && strings.Contains(a.String(), ".aws"):
			verdict = permissionv1.Verdict_VERDICT_DENY
		}
		return &permissionv1.DecideResponse{Verdict: verdict}, nil
	}
	r.open(`{}`)
	expect := func(what string, allowed, command, apart bool, program string, args []string, path string) {
		t.Helper()
		e := sandbox.Event{Operation: sandbox.Execute, PID: os.Getpid(), Path: program, Args: args, Env: []string{"PATH=" + path}, Dir: home, Call: 7, Apart: apart}
		if got := r.decider.Judge(t.Context(), decisions.Asked{Event: e, Program: "agent"}); got.Allowed != allowed || got.TellStart != command {
			t.Errorf("%s: got %t, a command: %t (%s)", what, got.Allowed, got.TellStart, got.Why)
		}
	}
	ours, before := bin+":"+filepath.Join(home, "more"), own+":"+bin
	look, make := filepath.Join(bin, "true"), filepath.Join(bin, "make")
	expect("another folder that the agent cannot change", true, true, false, make, []string{"make", "all"}, ours)
	expect("what only looks", true, false, false, look, []string{"true"}, before)
	expect("what runs more", false, false, false, make, []string{"make", "all"}, before)
	expect("what runs more, in a namespace", true, false, true, make, []string{"make", "all"}, before)

	expect("what it starts for itself", true, false, false, filepath.Join(bin, "keep"), []string{"keep", "--hide", home + "/.aws"}, before)
	expect("what it is made of", true, false, false, filepath.Join(code, "tool"), []string{"tool", "--hide", home + "/.aws"}, before)
	expect("what it has put there", false, false, false, filepath.Join(own, "tool"), []string{"tool", home + "/.aws"}, before)
}
