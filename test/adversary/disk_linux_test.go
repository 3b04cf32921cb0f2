package adversary

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/wire"
)

// smallRoom is set in the run that root starts as an unprivileged user: a file system of 1 MiB for one test.
const smallRoom = "ACPHOST_ADVERSARY_SMALL"

// mountSmall mounts a file system of 1 MiB that belongs to a user.
func mountSmall(dir string, uid int) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=1m,mode=0700,uid=%d,gid=%d", uid, uid))
}

// smallState gives acphost a small file system for all that it records, and returns its folder.
func smallState(t *testing.T, p *wire.Place) string {
	t.Helper()
	state := filepath.Join(p.Home, ".local", "state")
	if os.Getuid() == 0 {
		if err := mountSmall(state, 0); errors.Is(err, unix.EPERM) {
			t.Skip("this root cannot mount a file system")
		} else if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(state, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		return state
	}
	small := os.Getenv(smallRoom)
	if small == "" {
		t.Skip("only root can mount a small file system for the record")
	}
	if err := os.MkdirAll(filepath.Dir(state), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(small, state); err != nil {
		t.Fatal(err)
	}
	return small
}

// fillUp leaves no page free in a folder's file system, and returns what makes room again.
func fillUp(t *testing.T, dir string) (release func()) {
	t.Helper()
	name := filepath.Join(dir, "filling")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for n := 0; !errors.Is(err, unix.ENOSPC); n++ {
		if _, err = f.Write(make([]byte, 4096)); n > 1<<16 {
			t.Fatalf("%s is not full", dir)
		}
	}
	return func() {
		if err := os.Remove(name); err != nil {
			t.Error(err)
		}
	}
}

// TestFullDisk_SandboxDeniesUnrecordedChanges: if the record has no room, actions of a process that have to be recorded
// are rejected, and the process gets the reason. Actions that were recorded before continue, and denied actions stay
// denied. When there is room again, all actions continue, and the record has every action that was done.
func TestFullDisk_SandboxDeniesUnrecordedChanges(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	p := wire.NewPlace(t)
	state := smallState(t, p)
	rules := kernelRules + "  - {id: build, effect: allow, command: [sh ./build]}\n"
	s := openFixtureAt(t, p, inSandbox("enforce", rules))
	h, own := s.hand, s.own()
	turn := s.Send("session/prompt", params("prompt", []any{map[string]any{"type": "text", "text": "go"}}))
	asked := s.agent.Expect("session/prompt")
	s.File(t, ".env", "SECRET=1")
	s.File(t, "build", `mkdir "new-$1" && echo x >"new-$1/file"; echo status $?`)
	file := func(i int) string { return s.Path(fmt.Sprintf("folder-%d/file", i)) }
	const most = 80 // there is room for some lines in the last page of the record
	for i := range most {
		s.File(t, fmt.Sprintf("folder-%d/.keep", i), "")
	}
	h.worked("write", file(0), "x")
	if got := h.worked("run", "/bin/sh", "./build", "first")[0].Got; !strings.Contains(got, "status 0") {
		t.Errorf("before the disk is full: %q", got)
	}
	release := fillUp(t, state)

	var made, refused []string
	for i := 1; i < most; i++ { // a folder that has no record has to have one first
		if a := h.try("write", file(i), "x")[0]; a.Err == "" {
			made = append(made, file(i))
		} else if refused = append(refused, file(i)); a.Err != "EACCES" {
			t.Errorf("%s, want EACCES", a)
		}
	}
	if len(refused) < most/2 {
		t.Fatalf("ATTACK SUCCEEDED: with a full disk, only %d of %d files were refused", len(refused), most)
	}
	for _, file := range refused {
		notWritten(t, file)
	}
	h.refused("write", s.Path(".env"), "SECRET=2")
	h.refused("run", "/usr/bin/id")
	h.worked("write", file(0), "y") // this folder has its record
	got := h.try("run", "/bin/sh", "./build", strings.Repeat("second", 20))[0].Got
	if !strings.Contains(got, "could not record it") || !strings.Contains(got, "Permission denied") {
		t.Errorf("a command said %q, want what it was told and why it failed", got)
	}
	s.agent.Reply(asked, map[string]any{"stopReason": "end_turn"})
	turn.Result(nil)

	release()
	s.prompt()
	h.worked("write", refused[0], "x")
	h.worked("run", "/bin/echo", "after")
	h.refused("write", s.Path(".env"), "SECRET=3")
	if text, err := os.ReadFile(s.Path(".env")); err != nil || string(text) != "SECRET=1" {
		t.Errorf("ATTACK SUCCEEDED: .env has %q, %v", text, err)
	}
	s.recorded(append(made, file(0), refused[0], `"rule":"run"`, `"rule":"env"`)...)
	s.expectAlive(own)
	s.finish()
	// How often the first turn did what was recorded could not be recorded at its end, and is now.
	var out string
	if !testkit.Poll(func() bool {
		out, _ = runAs(t, p, "audit", "query", "--json", "--door", "kernel", "--rule", "build")
		return strings.Contains(out, `"repeats":"1"`)
	}) {
		t.Errorf("the record does not say how often a rule has allowed something:\n%s", out)
	}
}

// TestFileLease_DoesNotBlockRuleFiles: a process that opens a file under a lease waits for the lease's owner, for up to
// 45 seconds. acphost reads rule files, and a user's editor opens them.
func TestFileLease_DoesNotBlockRuleFiles(t *testing.T) {
	needsConfinement(t)
	positions(t, policy(askWrites, ""), func(t *testing.T, s *fixture, h *hand) {
		t.Helper()
		h.refused("lease", filepath.Join(filepath.Dir(s.Work), "config", "policy.yaml"))
	})
}
