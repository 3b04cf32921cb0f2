package adversary

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/wire"
)

// verdict is what acphost owes of an attack.
type verdict int

const (
	// refused: it must not work.
	refused verdict = iota
	// rootLimit: it must not work, but where acphost runs as root and so the agent as the same user: then what the file
	// system lets root do stands, and acphost is alive and serves.
	rootLimit
	// limit: it may work. acphost is alive and serves all the same.
	limit
)

func (v verdict) refuses() bool { return v == refused || v == rootLimit && os.Getuid() != 0 }

// onProcesses are attacks on one of acphost's processes, each of which is tried on every one of them.
var onProcesses = []struct {
	deed   string
	does   string
	owes   verdict
	except map[string]verdict // of what is tried, by its name
}{
	// Root may read the folder of files of a process of root's: it gets their numbers, and may neither follow nor open one.
	{"reach", "trace, read, write, signal or borrow from it", refused, map[string]verdict{"list fd": rootLimit}},
	{"odd-limit", "set its limits by the system calls of other architectures", refused, nil},
	{"signal-by-pipe", "have a pipe send it KILL: setting that up is the attacker's business, what comes of it is not", limit, nil},
	// Whose kernel lets a process of the same user be slowed down; seen from outside it is a slow machine.
	{"slow", "have it run last, on one processor", limit, nil},
	// The files of a process that cannot be dumped belong to root.
	{"proc-write", "change what /proc lets change", rootLimit, map[string]verdict{"write comm": refused, "write attr/exec": refused}},
}

func TestProcesses_AreUnreachableForAgent(t *testing.T) {
	needsConfinement(t)
	t.Parallel()
	for _, of := range []string{"agent", "command"} {
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			s := openFixture(t, nil)
			own, h := s.own(), s.hand
			if of == "command" {
				h = s.command()
			}
			for _, attack := range onProcesses {
				for name, pid := range own {
					for _, a := range h.try(attack.deed, fmt.Sprint(pid)) {
						owes := attack.owes
						if v, ok := attack.except[a.What]; ok {
							owes = v
						}
						if a.Err == "" && owes.refuses() {
							t.Errorf("ATTACK SUCCEEDED: %s could %s, %s: %s", h.name, attack.does, name, a)
						}
					}
				}
			}
			s.expectAlive(own)
			s.expectWork()
			h.leave()
			s.finish()
		})
	}
}

// onSystem are attacks on the system that stands between an agent and acphost.
var onSystem = []struct {
	deed string
	args []string
	owes verdict
	// except says what else is owed for what is tried, by its name.
	except map[string]verdict
}{
	{"child", nil, refused, map[string]verdict{"ptrace attach": limit}}, // watching one's own child is what debuggers do
	{"kernel", nil, refused, map[string]verdict{"open /proc/sys/kernel/core_pattern": rootLimit, "open /proc/sysrq-trigger": rootLimit, "open /dev/mem": rootLimit, "open /dev/kmsg": rootLimit}},
	{"processes", []string{"300"}, limit, nil},
	{"hoard", nil, limit, nil},
}

func TestProcesses_SystemServicesGiveNoAccess(t *testing.T) {
	needsConfinement(t)
	t.Parallel()
	for _, of := range []string{"agent", "command"} {
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			s := openFixture(t, nil)
			own, h := s.own(), s.hand
			if of == "command" {
				h = s.command()
			}
			for _, attack := range onSystem {
				for _, a := range h.try(attack.deed, attack.args...) {
					owes := attack.owes
					if v, ok := attack.except[a.What]; ok {
						owes = v
					}
					if a.Err == "" && owes.refuses() {
						t.Errorf("ATTACK SUCCEEDED: %s: %s", h.name, a)
					}
				}
				s.expectAlive(own)
				s.expectWork()
			}
			h.leave()
			s.finish()
		})
	}
}

// TestAbstractSocket_IsUnreachable tries every system call that connects or sends.
func TestAbstractSocket_IsUnreachable(t *testing.T) {
	needsConfinement(t)
	t.Parallel()
	s := openFixture(t, nil)
	name := "@acphost-adversary-" + filepath.Base(s.Home)
	l, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for _, h := range []*hand{s.hand, s.command(), s.hand.spawn("stray")} {
		for _, a := range h.try("doors", fmt.Sprint(os.Getpid())) {
			if a.What == "unix:"+name && a.Err != "EPERM" {
				t.Errorf("ATTACK SUCCEEDED: %s connected to a socket outside of its domain: %s", h.name, a)
			}
		}
		h.refused("io_uring", name)
		h.leave()
	}
	s.finish()
}

// TestCgroup_FreezeLetsNothingThrough: root can write into cgroups if they are not sealed. While acphost is frozen, it
// lets nothing through, and it continues afterwards.
func TestCgroup_FreezeLetsNothingThrough(t *testing.T) {
	t.Parallel()
	s := openFixture(t, nil)
	for _, h := range []*hand{s.hand, s.command()} {
		for _, a := range h.try("cgroup", fmt.Sprint(s.PID())) {
			if a.Err == "" && strings.HasPrefix(a.What, "open ") && rootLimit.refuses() {
				t.Errorf("ATTACK SUCCEEDED: %s: %s", h.name, a)
			}
		}
	}
	// What a freezer does to a process, a stop does too.
	testkit.Freeze(t, s.PID())
	asked := s.agent.Send("fs/write_text_file", params("path", s.Path("frozen"), "content", "x"))
	notWritten(t, s.Path("frozen"))
	if err := unix.Kill(s.PID(), unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	asked.Result(nil)
	s.hand.leave()
	s.finish()
}

// TestOutput_HeldPipeDoesNotBlockOthers: an agent can make the kernel block the reader of its output for any time, even
// with RWF_NOWAIT. This limit affects only that agent, and acphost ends it. The test runs Go code on one processor,
// which a thread that Go does not know to be blocked would occupy.
func TestOutput_HeldPipeDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	s := openFixture(t, nil, "GOMAXPROCS=1")
	own := s.own()
	for _, a := range s.hand.try("hold-output") {
		if a.Err != "" {
			t.Fatalf("the output could not be held: %s", a)
		}
	}
	s.expectAlive(own)
	s.finish()
}

// TestInput_HeldPipeDoesNotPreventEnd: an agent can block a write to its input for any time, and a close of the pipe
// with it.
func TestInput_HeldPipeDoesNotPreventEnd(t *testing.T) {
	t.Parallel()
	s := openFixture(t, nil)
	for _, a := range s.hand.try("hold-input") {
		if a.Err != "" {
			t.Fatalf("the input could not be held: %s", a)
		}
	}
	s.Notify("session/cancel", map[string]any{"sessionId": "s1"})
	s.finish()
}

// TestTerminal_AgentCannotInjectInput: a person's shell would run an injected line without any restrictions. The agent
// cannot stop the terminal either, which would block its writers. A known limit: an agent of the same user can write to
// the terminal.
func TestTerminal_AgentCannotInjectInput(t *testing.T) {
	needsConfinement(t)
	t.Parallel()
	p := wire.NewPlace(t)
	master, theirs, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = master.Close(), theirs.Close() }()
	stage := p.NewStage(t)
	shell := &fixture{Place: p, t: t, Process: wire.Start(t, wire.Options{Name: "a person's shell", Command: []string{program("attacker"), "shell", stage.Path, theirs.Name()}, Env: p.Env()})}
	person := shell.awaitHand("a person's shell", stage)
	s := openFixtureAt(t, p, nil)
	for _, h := range []*hand{s.hand, s.command(), s.hand.spawn("stray")} {
		for _, a := range h.try("tty", theirs.Name()) {
			if a.Err == "" && a.What != "open" {
				t.Errorf("ATTACK SUCCEEDED: %s: %s", h.name, a)
			}
		}
		h.leave()
	}
	person.leave()
	person.s.ExpectExit()
	s.finish()
}

// TestFullDisk_DeniesUnrecordedActions: if the record has no room, actions that have to be recorded are rejected.
func TestFullDisk_DeniesUnrecordedActions(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small file system for the record")
	}
	p := wire.NewPlace(t)
	state := filepath.Join(p.Home, ".local", "state", "acphost")
	if err := os.MkdirAll(state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", state, "tmpfs", 0, "size=1m,mode=0700"); errors.Is(err, unix.EPERM) {
		t.Skip("this root cannot mount a file system")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(state, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s := openFixtureAt(t, p, policy("version: 1\nrules: [{id: all, effect: allow, path: [\"/**\"]}, {id: run, effect: allow, on: [terminal.create]}]\n", ""))
	own := s.own()
	h := s.command()
	if filled := h.try("fill", state); filled[0].Err == "" {
		write := s.agent.Send("fs/write_text_file", params("path", s.Path("unrecorded"), "content", strings.Repeat("x", 1<<10))).Answer()
		for range 64 { // room for a line may be left in the last page
			if write.Error != nil {
				break
			}
			write = s.agent.Send("fs/write_text_file", params("path", s.Path("unrecorded"), "content", "x")).Answer()
		}
		if write.Error == nil {
			t.Errorf("ATTACK SUCCEEDED: a file was written that the record does not show: %s", write.Raw)
		}
		if err := os.Remove(filepath.Join(state, "filling")); err != nil {
			t.Error(err)
		}
	}
	s.expectAlive(own)
	s.expectWork()
	h.leave()
	s.finish()
}

// TestUserNamespace_RejectedAsAgent: in its own user namespace an attacker is root and process 1, and has no parent.
func TestUserNamespace_RejectedAsAgent(t *testing.T) {
	needsConfinement(t)
	t.Parallel()
	s := openFixture(t, policy(askWrites, ""))
	own := s.own()
	_, _, id := s.question("stolen")
	for _, from := range []*hand{s.hand, s.command()} {
		stage := s.NewStage(t)
		a := from.try("namespace", stage.Path)
		if a[0].Err != "" {
			continue // it may not have one
		}
		h := s.awaitHand("a process in a namespace of "+from.name, stage)
		for name, pid := range own {
			for _, a := range h.try("limit", fmt.Sprint(pid), "CORE") {
				if a.Err == "" {
					t.Errorf("ATTACK SUCCEEDED: %s, of %s: %s", h.name, name, a)
				}
			}
		}
		if err := h.callsVerbs(h.addresses(), id); err != nil {
			t.Errorf("%s could not call: %v", h.name, err)
		}
		h.leave()
	}
	notWritten(t, s.Path("stolen"))
	s.expectAlive(own)
	s.finish()
}

// TestProcesses_StartWithRestrictions reads /proc of an agent, a command, and processes that left either.
func TestProcesses_StartWithRestrictions(t *testing.T) {
	needsConfinement(t)
	t.Parallel()
	none := strings.Repeat("0", 16)
	s := openFixture(t, nil)
	command := s.command()
	for _, h := range []*hand{s.hand, command, s.hand.spawn("stray"), command.spawn("stray")} {
		a := h.try("status", "CapEff", "CapPrm", "CapBnd", "CapAmb", "CapInh", "NoNewPrivs", "Seccomp")
		want := map[string]string{"CapEff": none, "CapPrm": none, "CapAmb": none, "CapInh": none, "NoNewPrivs": "1", "Seccomp": "2"}
		if os.Getuid() == 0 {
			want["CapBnd"] = none // who has no CAP_SETPCAP cannot give it up, and no_new_privs makes it mean nothing
		}
		for name, value := range want {
			if got := a.of(t, name); got.Got != value {
				t.Errorf("ATTACK SUCCEEDED: %s has %s: %s, want %s", h.name, name, got.Got, value)
			}
		}
		h.leave()
	}
	s.finish()
}

// TestCapabilities_AgentKeepsConfigured also checks that the agent has no other capabilities.
func TestCapabilities_AgentKeepsConfigured(t *testing.T) {
	needsConfinement(t)
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root has capabilities to give")
	}
	s := openFixture(t, configured("agent: {capabilities: [NET_BIND_SERVICE]}\n"))
	a := s.hand.try("status", "CapEff", "CapBnd", "NoNewPrivs")
	if want := fmt.Sprintf("%016x", 1<<unix.CAP_NET_BIND_SERVICE); a.of(t, "CapEff").Got != want || a.of(t, "CapBnd").Got != want {
		t.Errorf("the agent has %v, want %s", a, want)
	}
	s.finish()
}
