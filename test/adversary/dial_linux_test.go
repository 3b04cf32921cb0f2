package adversary

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDial_RejectsAgents: "acphost dial" connects programs to a supervisor. It rejects an agent even if one of the
// protections around the agent is missing.
func TestDial_RejectsAgents(t *testing.T) {
	needsConfinement(t)
	t.Parallel()
	for _, config := range []string{"", "agent: {no_landlock: true}", "agent: {no_seccomp: true}"} {
		for _, how := range []string{"itself", "stray", "command"} {
			t.Run(how+" "+config, func(t *testing.T) {
				t.Parallel()
				s := openFixture(t, policy(askWrites, config))
				h := s.hand
				switch how {
				case "stray":
					h = h.spawn(how)
				case "command":
					h = s.command()
				}
				call, asked, id := s.question("stolen")
				for _, a := range h.refused("call-through", append([]string{program("acphost"), s.sockets()[0]}, verbs(id, s.Path("canary"))...)...) {
					if a.What == "dial" && !strings.Contains(a.Got, "may not connect") {
						t.Errorf("it was refused for another reason: %s", a)
					}
				}
				notWritten(t, s.Path("canary"))
				notWritten(t, s.Path("stolen"))
				if !t.Failed() {
					s.refuse(asked)
					call.Refused(-32603)
					s.finish()
				}
				h.leave()
			})
		}
	}
}

// TestDial_ConnectionOfUserIsUnreachable: messages between a person's program and its supervisor pass through two
// sockets, which an agent of the same user can name in /proc.
func TestDial_ConnectionOfUserIsUnreachable(t *testing.T) {
	needsConfinement(t)
	t.Parallel()
	for _, config := range []string{"{}", "agent: {no_landlock: true}"} {
		t.Run(config, func(t *testing.T) {
			t.Parallel()
			s := openFixture(t, configured(config))
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
			cmd := exec.Command(program("acphost"), "dial", "--socket", s.sockets()[0])
			cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = s.Env(), theirs, theirs, os.Stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			_ = theirs.Close()
			conn, err := net.FileConn(ours)
			if err != nil {
				t.Fatal(err)
			}
			line := make([]byte, len("connected ")+len(fmt.Sprint(s.PID()))+1)
			if _, err := io.ReadFull(conn, line); err != nil || string(line) != fmt.Sprintf("connected %d\n", s.PID()) {
				t.Fatalf("acphost dial says %q, %v", line, err)
			}
			for _, file := range []string{
				fmt.Sprintf("/proc/%d/fd/0", cmd.Process.Pid), fmt.Sprintf("/proc/%d/fd/1", cmd.Process.Pid), fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), ours.Fd()),
			} {
				s.hand.refused("write", file, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
			}
			_ = ours.Close()
			_ = conn.Close()
			if err := cmd.Wait(); err != nil {
				t.Errorf("acphost dial: %v", err)
			}
			s.finish()
		})
	}
}
