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

// FromAgent reports whether a process, or one of its ancestors, is an agent's guard, a handler or a supervisor: then an
// agent, not a person, controls it. The process itself may be acphost, as long as it runs no agent. It returns an error
// if the ancestry is unknown, as on systems without /proc; access checks should then reject the process.
//
// An agent's processes are recognized by their ancestors, which they cannot change: the agent's guard adopts detached
// processes. Processes that another program starts for the agent, such as a running terminal multiplexer, are not
// recognized.
func FromAgent(pid int) (bool, error) {
	why, err := Descent(pid, os.Getpid())
	if err != nil {
		return false, fmt.Errorf("determine whether an agent started process %d: %w", pid, err)
	}
	return why != "", nil
}

// Descent returns the reason why a process belongs to an agent or a handler: a mark of the process itself or of an
// ancestor. Empty if it does not. self is the supervisor that asks: all its descendants belong to an agent or a
// handler.
func Descent(pid, self int) (why string, err error) {
	// A supervisor or handler that is not below this process cannot be queried. acphost sets each of these marks before
	// the agent's code runs, in processes that agents can neither trace nor write to. An agent that imitates one above
	// itself only locks itself out.
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
		why = describeMark(at, pid, mark)
		return why != "", nil
	})
	return why, err
}

// ServedBelow returns the reason why a process that serves a socket belongs to an agent or a handler: a mark of the
// process itself or of an ancestor. Empty if it does not. The serving process may be a supervisor. self, the process
// that asks, may be its ancestor: a program that starts a supervisor may have a name and a command like acphost's. The
// first process of a container right above a supervisor is accepted, too: there, acphost starts itself again. Processes
// that an agent starts below that supervisor are still recognized.
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
		why = describeMark(at, pid, mark)
		return true, nil
	})
	return why, err
}

// describeMark describes the mark of the process at in relation to the process pid; empty: there is no mark.
func describeMark(at, pid int, mark string) string {
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

// environmentMarks begin variables that acphost sets in the environment of the processes that it starts. A process can
// start others without them, and some environments cannot be read, so only their presence is evidence.
var environmentMarks = []string{"ACPHOST_AGENT_", "ACPHOST_TERM_", HandlerCookie + "="}

// markOf returns the kind of acphost's process that a process is; empty: it is another program.
func markOf(pid int) (string, error) {
	argv, err := proc.CommandLine(pid)
	if err != nil {
		return "", err
	}
	if len(argv) == 0 {
		return "", nil // a kernel thread or a zombie
	}
	program := filepath.Base(argv[0])
	switch {
	case len(argv) == 2 && filepath.IsAbs(argv[0]) && argv[1] == "guard":
		return "the guard of an agent", nil
	case supervises(argv):
		return aSupervisor, nil
	case slices.Contains(handlerPrograms(), program):
		return "a handler", nil // also a sidecar, which has no cookie
	}
	if file, err := proc.Executable(pid); err == nil && slices.Contains(handlerPrograms(), filepath.Base(file)) {
		return "a handler", nil
	}
	return startedAs(pid), nil
}

// supervises reports whether a command line is that of a supervisor. "acphost chat --attach" is not: it joins a
// session, and runs no agent. Only the argument right after "chat" counts, because it cannot be the value of another
// flag.
func supervises(argv []string) bool {
	if len(argv) < 2 || !slices.Contains(supervisorPrograms(), filepath.Base(argv[0])) || !slices.Contains(supervisorCommands(), argv[1]) {
		return false
	}
	return argv[1] != "chat" || len(argv) < 3 || !JoinsSession(argv[2])
}

// JoinsSession reports whether an argument is the flag with which a chat joins a session instead of running an agent.
func JoinsSession(argument string) bool {
	return argument == "--attach" || strings.HasPrefix(argument, "--attach=")
}

// startedAs returns the kind of a process by its environment; empty: unknown.
func startedAs(pid int) string {
	if marked, err := proc.StartedWith(pid, environmentMarks...); err == nil && marked {
		return "an agent's or a handler's"
	}
	return ""
}

// supervisorPrograms are the names of acphost's program: the usual name, and the name of this executable.
func supervisorPrograms() []string {
	names := []string{"acphost"}
	if exe, err := os.Executable(); err == nil {
		names = append(names, filepath.Base(exe))
	}
	return names
}

// supervisorCommands are the commands of acphost that run agents.
func supervisorCommands() []string { return []string{"run", "demo", "serve", "prompt", "chat"} }

// handlerPrograms are the names of acphost's own handlers.
func handlerPrograms() []string { return []string{"fsd", "termd", "permd"} }

// Filters counts the seccomp filters of a process and of self, the process that asks; 0 and 0 if the kernel does not
// count them. Processes of an agent have one more than their supervisor, and no process can remove a filter.
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
