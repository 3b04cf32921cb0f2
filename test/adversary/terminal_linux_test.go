package adversary

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
)

// terminalRules let every command run, and deny a file and a program whoever comes to them.
const terminalRules = `
version: 1
rules:
  - {id: env, effect: deny, path: ["**/.env"]}
  - {id: no-id, effect: deny, command: ["id"]}
  - {id: run, effect: allow, on: [terminal.create]}
`

// TestTerminal_CommandIsHeldToDenyRules: a command is allowed as a whole, without its individual actions. Deny rules
// apply to these and to all descendants, also detached ones.
func TestTerminal_CommandIsHeldToDenyRules(t *testing.T) {
	needsSandbox(t)
	for _, how := range []string{"itself", "orphan", "stray"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := openFixture(t, inSandbox("enforce", terminalRules))
			s.prompt()
			h := s.command()
			if how != "itself" {
				h = h.spawn(how)
			}
			s.File(t, ".env", "SECRET=1")
			s.File(t, "other", "x")
			h.refused("write", s.Path(".env"), "SECRET=2")
			h.refused("link", s.Path(".env"), s.Path("linked"))
			h.refused("run", "/usr/bin/id")
			h.refused("run", "/bin/sh", "-c", "mv other .env || exit 1")
			h.worked("write", s.Path("inside"), "x")
			h.refused("write", filepath.Join(s.Home, "outside"), "x") // the line does not name it, and no rule allows it
			if got, err := os.ReadFile(s.Path(".env")); err != nil || string(got) != "SECRET=1" {
				t.Errorf("ATTACK SUCCEEDED: .env has %q, %v", got, err)
			}
			s.recorded(`"rule":"env"`, `"rule":"no-id"`)
			s.finish()
		})
	}
}

// TestTerminal_ObserveRejectsNothing also checks that actions are recorded that would have been rejected.
func TestTerminal_ObserveRejectsNothing(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	s := openFixture(t, inSandbox("observe", terminalRules))
	s.prompt()
	s.File(t, ".env", "SECRET=1")
	s.command().worked("write", s.Path(".env"), "SECRET=2")
	s.recorded(`"rule":"env"`, `"outcome":"done, not asked"`)
	s.finish()
}

// TestTerminal_OrphansStayInSandbox: processes of a command may outlive it until the terminal is released.
func TestTerminal_OrphansStayInSandbox(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	s := openFixture(t, inSandbox("enforce", terminalRules))
	s.prompt()
	s.File(t, ".env", "SECRET=1")
	stage := s.NewStage(t)
	var terminal struct {
		ID string `json:"terminalId"`
	}
	s.agent.Request("terminal/create", params("command", fmt.Sprintf("%s hand %s & exit 3", program("attacker"), stage.Path)), &terminal)
	var exit struct {
		Code int `json:"exitCode"`
	}
	s.agent.Request("terminal/wait_for_exit", params("terminalId", terminal.ID), &exit)
	if exit.Code != 3 {
		t.Errorf("the command ended with %d, want 3", exit.Code)
	}
	left := s.awaitHand("what a command has left", stage)
	left.worked("write", s.Path("inside"), "x")
	left.refused("write", s.Path(".env"), "SECRET=2")
	s.agent.Request("terminal/release", params("terminalId", terminal.ID), nil)
	left.expectEnd()
	s.finish()
}

// TestTerminal_EnvironmentDoesNotReachSandbox: the agent sets the environment of a command. The sandbox is a Go
// program, whose runtime reads some variables.
func TestTerminal_EnvironmentDoesNotReachSandbox(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	s := openFixture(t, inSandbox("enforce", terminalRules))
	s.prompt()
	stage := s.NewStage(t)
	created := s.agent.Send("terminal/create", params("command", program("attacker"), "args", []string{"hand", stage.Path},
		"env", []map[string]any{{"name": "GODEBUG", "value": "madvdontneed=1"}, {"name": "GOTRACEBACK", "value": "crash"}}))
	s.Reply(s.Expect("session/request_permission"), map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "allow_once"}})
	created.Result(nil)
	h := s.awaitHand("a command", stage)
	box := parent(h.pid)
	for _, file := range []string{"mem", "fd/3", "environ"} {
		h.refused("write", fmt.Sprintf("/proc/%d/%s", box, file), "x")
		h.refused("read", fmt.Sprintf("/proc/%d/%s", box, file))
	}
	if os.Getuid() == 0 {
		if got, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", box)); err != nil || len(got) > 0 {
			t.Errorf("the sandbox runs with %q, %v; want nothing", got, err)
		}
	}
	if got, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", h.pid)); err != nil || !strings.Contains(string(got), "GOTRACEBACK=crash") {
		t.Errorf("the command runs with %q, %v; want what the agent has set", got, err)
	}
	s.finish()
}

// TestTerminal_LeavesNoProcess kills each of acphost's processes.
func TestTerminal_LeavesNoProcess(t *testing.T) {
	needsSandbox(t)
	for _, killed := range []string{"the sandbox", "termd", "acphost"} {
		t.Run(killed+" is killed", func(t *testing.T) {
			t.Parallel()
			s := openFixture(t, inSandbox("enforce", terminalRules))
			s.prompt()
			h := s.command()
			stray := h.spawn("stray")
			family, err := proc.Descendants(s.PID())
			if err != nil {
				t.Fatal(err)
			}
			switch killed {
			case "the sandbox":
				s.kill(parent(h.pid))
				h.expectEnd()
				stray.refused("write", s.Path("after"), "x") // nobody decides any more
				s.finish()
				stray.expectEnd()
				return
			case "termd":
				s.kill(s.own()["termd"])
			case "acphost":
				s.kill(s.PID())
				<-s.Done()
			}
			h.expectEnd()
			stray.expectEnd()
			if killed == "acphost" {
				s.ExpectNobody(t, family)
				return
			}
			s.finish()
		})
	}
}

// TestTerminal_DeniedWithoutAnswer: a policy that is stopped does not answer.
func TestTerminal_DeniedWithoutAnswer(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	s := openFixture(t, inSandbox("enforce", terminalRules))
	s.prompt()
	h := s.command()
	permd := s.own()["permd"]
	testkit.Freeze(t, permd)
	h.refused("write", s.Path("inside"), "x")
	if err := syscall.Kill(permd, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	h.worked("write", s.Path("inside"), "x")
	s.finish()
}
