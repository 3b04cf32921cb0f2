package peer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/proc"
)

// FromAgent reports whether a process, or one of those above it, is an agent's guard, a handler or a supervisor: then it
// does what an agent says, not what a person says. The process itself may be acphost, as long as it runs no agent. An
// error says that it cannot be told, as on systems without /proc; who guards something should then refuse.
//
// An agent is told by what stands above it, which it cannot change: its guard adopts whatever it detaches. What somebody
// else starts for it, such as a running terminal multiplexer, is not.
func FromAgent(pid int) (bool, error) {
	why, err := Descent(pid, os.Getpid())
	if err != nil {
		return false, fmt.Errorf("tell whether an agent started process %d: %w", pid, err)
	}
	return why != "", nil
}

// Descent says what above a process, or the process itself, makes it an agent's or a handler's; empty: nothing. self is
// the supervisor that asks: all that it started is an agent's or a handler's.
func Descent(pid, self int) (why string, err error) {
	// A supervisor or handler that is not below us cannot be asked. Each of these marks is set by acphost before an
	// agent has a say, and lies in a process that agents can neither trace nor write to. An agent that imitates one
	// above itself only shuts itself out.
	err = proc.Ancestry(pid, func(at int) (bool, error) {
		why = ""
		if at == self && at != pid {
			why = "this supervisor started it"
			return true, nil
		}
		mark, err := markOf(at)
		if err != nil {
			return false, err
		}
		why = said(at, pid, mark)
		return why != "", nil
	})
	return why, err
}

// ServedBelow says what above a process that serves a socket, or the process itself, makes it an agent's or a handler's;
// empty: nothing. That it is a supervisor is as it should be. So is that self, the process that asks, has started it: a
// program that starts a supervisor may have a name and a command like acphost's. And so is the first process of a container
// right above a supervisor: there, acphost starts itself again. Below that supervisor, whatever an agent starts is found out.
func ServedBelow(pid, self int) (why string, err error) {
	below := 0
	err = proc.Ancestry(pid, func(at int) (bool, error) {
		why = ""
		first := at == 1 && below == pid
		below = at
		mark, err := markOf(at)
		if err == nil && first && mark == aSupervisor {
			return false, nil
		}
		if err == nil && (at == pid || at == self) && mark == aSupervisor {
			mark = startedAs(at)
		}
		if err != nil || mark == "" {
			return false, err
		}
		why = said(at, pid, mark)
		return true, nil
	})
	return why, err
}

// said says of the process at, which has a mark, what it is to the process that is asked about; empty: there is no mark.
func said(at, pid int, mark string) string {
	switch {
	case mark == "":
		return ""
	case at == pid:
		return "it is " + mark
	}
	return fmt.Sprintf("process %d above it is %s", at, mark)
}

const aSupervisor = "a supervisor"

// HandlerCookie is the environment variable that marks a handler that acphost starts.
const HandlerCookie = "ACPHOST_HANDLER_COOKIE"

// environmentMarks are what acphost sets in the environment of what it starts. A process can start others without them,
// and some environments cannot be read: they tell only where they are there.
var environmentMarks = []string{"ACPHOST_AGENT_", "ACPHOST_TERM_", HandlerCookie + "="}

// markOf says what kind of acphost's own a process is; empty: none.
func markOf(pid int) (string, error) {
	argv, err := proc.CommandLine(pid)
	if err != nil {
		return "", err
	}
	if len(argv) == 0 {
		return "", nil // the kernel's, or its remains
	}
	program := filepath.Base(argv[0])
	switch {
	case len(argv) == 2 && filepath.IsAbs(argv[0]) && argv[1] == "guard":
		return "the guard of an agent", nil
	case supervises(argv):
		return aSupervisor, nil
	case slices.Contains(handlerPrograms(), program):
		return "a handler", nil // a sidecar too, which carries no cookie
	}
	if file, err := proc.Executable(pid); err == nil && slices.Contains(handlerPrograms(), filepath.Base(file)) {
		return "a handler", nil
	}
	return startedAs(pid), nil
}

// supervises reports whether a command line is that of a supervisor. "acphost chat --attach" is none: it joins a session, and runs
// no agent. It is told by what stands right behind "chat" alone, which cannot be another flag's value.
func supervises(argv []string) bool {
	if len(argv) < 2 || !slices.Contains(supervisorPrograms(), filepath.Base(argv[0])) || !slices.Contains(supervisorCommands(), argv[1]) {
		return false
	}
	return argv[1] != "chat" || len(argv) < 3 || !JoinsSession(argv[2])
}

// JoinsSession reports whether an argument is the flag by which a chat joins a session, in the place of running an agent.
func JoinsSession(argument string) bool {
	return argument == "--attach" || strings.HasPrefix(argument, "--attach=")
}

// startedAs says by its environment whose a process is; empty: that tells nothing.
func startedAs(pid int) string {
	if marked, err := proc.StartedWith(pid, environmentMarks...); err == nil && marked {
		return "an agent's or a handler's"
	}
	return ""
}

// supervisorPrograms are the names of acphost's program: the usual one, and its name here.
func supervisorPrograms() []string {
	names := []string{"acphost"}
	if exe, err := os.Executable(); err == nil {
		names = append(names, filepath.Base(exe))
	}
	return names
}

// supervisorCommands are the commands of acphost's that run agents.
func supervisorCommands() []string { return []string{"run", "demo", "serve", "prompt", "chat"} }

// handlerPrograms are the names of acphost's own handlers.
func handlerPrograms() []string { return []string{"fsd", "termd", "permd"} }

// Filters counts the seccomp filters of a process and of self, the one that asks; 0 and 0 where the kernel does not count
// them. What an agent starts has one more than its supervisor, and no process gets rid of one.
func Filters(pid, self int) (has, own int, err error) {
	own, err = proc.Filters(self)
	if errors.Is(err, proc.ErrUnsupported) {
		return 0, 0, nil
	}
	if err == nil {
		has, err = proc.Filters(pid)
	}
	return has, own, err
}
