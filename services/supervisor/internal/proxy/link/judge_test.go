package link

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// asked returns the action that the policy is asked about when a program starts; nil: acphost refused the start without asking.
func (r *startRig) asked(t *testing.T, args ...string) *permissionv1.Action {
	t.Helper()
	r.policy.asked = nil
	got := r.decider.Judge(context.Background(), r.starts(args...))
	if got.Allowed != (r.policy.asked != nil) {
		t.Fatalf("%q: allowed: %v (%s), and the policy was asked: %v", args, got.Allowed, got.Why, r.policy.asked)
	}
	return r.policy.asked
}

// TestJudge_UsesCurrentFiles changes files between two equal requests. The second is decided by the changed files.
func TestJudge_UsesCurrentFiles(t *testing.T) {
	program := func(a *permissionv1.Action) *permissionv1.SubCommand { return a.GetCommand().GetSubCommands()[0] }
	elf := append([]byte("\x7fELF"), make([]byte, 100)...)
	for name, c := range map[string]struct {
		args   []string
		before func(r *startRig) error
		change func(r *startRig) error
		seen   func(r *startRig, a *permissionv1.Action) bool // after the change, and not before
	}{
		"a program of the name appears in a folder that PATH has before": {
			args: []string{"true"}, change: func(r *startRig) error { return os.WriteFile(r.dir+"/p3/bin/true", elf, 0o700) },
			seen: func(r *startRig, a *permissionv1.Action) bool {
				return program(a).GetArgv()[0] == r.dir+"/usr/bin/true"
			},
		},
		"a file there becomes executable": {
			args: []string{"true"}, before: func(r *startRig) error { return os.WriteFile(r.dir+"/p3/bin/true", elf, 0o600) },
			change: func(r *startRig) error { return os.Chmod(r.dir+"/p3/bin/true", 0o700) },
			seen: func(r *startRig, a *permissionv1.Action) bool {
				return program(a).GetArgv()[0] == r.dir+"/usr/bin/true"
			},
		},
		"the program is removed": {
			args: []string{"true"}, change: func(r *startRig) error { return os.Remove(r.dir + "/usr/bin/true") },
			seen: func(_ *startRig, a *permissionv1.Action) bool { return program(a).GetProgram().GetMissing() },
		},
		"the program becomes a script of the workspace, of the same size": {
			args: []string{"true"}, before: func(r *startRig) error { return os.WriteFile(r.dir+"/usr/bin/true", elf, 0o700) },
			change: func(r *startRig) error {
				script := []byte("#!" + r.ws + "/x\n")
				return os.WriteFile(r.dir+"/usr/bin/true", append(script, make([]byte, max(0, len(elf)-len(script)))...), 0o700)
			},
			seen: func(_ *startRig, a *permissionv1.Action) bool { return program(a).GetProgram().GetInsideRoots() },
		},
		"a folder of PATH leads through the workspace": {
			args: []string{"true"}, before: func(r *startRig) error { return os.Symlink("../usr/bin", r.ws+"/bin") },
			change: func(r *startRig) error {
				return errors.Join(os.Remove(r.dir+"/p6/bin"), os.Symlink("../ws/bin", r.dir+"/p6/bin"))
			},
			seen: func(_ *startRig, a *permissionv1.Action) bool { return program(a).GetProgram().GetInsideRoots() },
		},
		"a folder of PATH becomes the workspace, for a program that is a script": {
			args: []string{"true"}, before: func(r *startRig) error { return os.WriteFile(r.dir+"/usr/bin/true", []byte("#!/bin/sh\n"), 0o700) },
			change: func(r *startRig) error {
				return errors.Join(os.Remove(r.dir+"/p0/bin"), os.Symlink("../ws", r.dir+"/p0/bin"))
			},
			seen: func(_ *startRig, a *permissionv1.Action) bool { return program(a).GetProgram().GetDoubtInsideRoots() },
		},
		"a file becomes a link that leads out": {
			args: []string{"cc", "src/file.c"}, change: func(r *startRig) error {
				return errors.Join(os.Remove(r.ws+"/src/file.c"), os.Symlink("../../home/secret", r.ws+"/src/file.c"))
			},
			seen: func(r *startRig, a *permissionv1.Action) bool {
				words := program(a).GetResolvedWords()
				return len(words) == 1 && words[0].GetResolvedPath() == r.dir+"/home/secret"
			},
		},
		"a folder on the way becomes a link that leads out": {
			args: []string{"cc", "src/file.c"}, before: func(r *startRig) error { return os.MkdirAll(r.dir+"/home", 0o700) },
			change: func(r *startRig) error {
				return errors.Join(os.Rename(r.ws+"/src", r.ws+"/was"), os.Symlink("../home", r.ws+"/src"))
			},
			seen: func(r *startRig, a *permissionv1.Action) bool {
				words := program(a).GetResolvedWords()
				return len(words) == 1 && words[0].GetResolvedPath() == r.dir+"/home/file.c"
			},
		},
		"a link that led out becomes a file": {
			args: []string{"cc", "src/file.c"}, before: func(r *startRig) error {
				return errors.Join(os.Remove(r.ws+"/src/file.c"), os.Symlink("../../home/secret", r.ws+"/src/file.c"))
			},
			change: func(r *startRig) error {
				return errors.Join(os.Remove(r.ws+"/src/file.c"), os.WriteFile(r.ws+"/src/file.c", nil, 0o600))
			},
			seen: func(_ *startRig, a *permissionv1.Action) bool { return len(program(a).GetResolvedWords()) == 0 },
		},
		"a file becomes a link to what is kept from agents": {
			args: []string{"cc", "src/file.c"}, change: func(r *startRig) error {
				return errors.Join(os.Remove(r.ws+"/src/file.c"), os.Symlink(r.dir+"/state/audit.jsonl", r.ws+"/src/file.c"))
			},
			seen: func(_ *startRig, a *permissionv1.Action) bool { return a == nil },
		},
		"the folder of the command leads elsewhere": {
			args: []string{"true"}, before: func(r *startRig) error { return os.MkdirAll(r.dir+"/home", 0o700) },
			change: func(r *startRig) error {
				return errors.Join(os.Rename(r.ws, r.dir+"/was"), os.Symlink("home", r.dir+"/ws"))
			},
			seen: func(r *startRig, a *permissionv1.Action) bool {
				return program(a).GetProgram() != nil && a.GetCommand().GetCwd() == r.dir+"/home"
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newStartRig(t)
			if c.before != nil {
				if err := c.before(r); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				if a := r.asked(t, c.args...); a == nil || c.seen(r, a) {
					t.Fatalf("before the change, the policy is asked %v", a)
				}
			}
			if err := c.change(r); err != nil {
				t.Fatal(err)
			}
			if a := r.asked(t, c.args...); !c.seen(r, a) {
				t.Errorf("the change is not seen: the policy is asked %v", a)
			}
		})
	}
}

// TestJudge_ProgramsAreIndependent asks about programs in one link, and about each in its own link.
func TestJudge_ProgramsAreIndependent(t *testing.T) {
	r := newStartRig(t)
	for _, args := range [][]string{
		{"true"}, {"true", "x"}, {"cc", "-O2", "-c", "-o", "out/file.o", "src/file.c"}, {"cc", "-Iinclude", "@out/args", "../../etc/passwd"},
		{"cc", r.dir + "/home/x", "~/x", "$HOME", "src/*.c"}, {"true", "--file=" + r.ws + "/none/x", "/proc/self/cwd/src"},
	} {
		among := r.asked(t, args...)
		alone := newStartRig(t)
		for i, arg := range args {
			args[i] = strings.ReplaceAll(arg, r.dir, alone.dir)
		}
		text, err := proto.Marshal(alone.asked(t, args...))
		if err != nil {
			t.Fatal(err)
		}
		want, err := proto.Marshal(among)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.ReplaceAll(string(text), alone.dir, r.dir); len(alone.dir) == len(r.dir) && got != string(want) {
			t.Errorf("%q: alone the policy is asked\n%q, among others\n%q", args, got, want)
		}
	}
}
