package agent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/proc"
)

// Reason is the kind of an agent's end.
type Reason string

// The reasons. Their texts appear in logs and states, and must not change.
const (
	// Running: the agent has not ended.
	Running Reason = "running"
	// NotFound: the command does not exist, or it ended with status 127, which shells and wrappers use for a missing
	// command.
	NotFound Reason = "command not found"
	// StartFailed: the command exists but could not be started.
	StartFailed Reason = "failed to start"
	// Exited: the agent exited by itself, with Code.
	Exited Reason = "exited"
	// Signalled: Signal ended the agent.
	Signalled Reason = "ended by a signal"
	// Lost: the guard was killed, and the agent with it; how the agent ended is unknown.
	Lost Reason = "lost with its guard"
)

// Exit describes how an agent ended, or why it did not start.
type Exit struct {
	// Name is the agent's configured name.
	Name string
	// Reason is the kind of the end.
	Reason Reason
	// Code is the exit code; 127 for NotFound, 126 for StartFailed, and -1 if a signal ended the agent.
	Code int
	// Signal is the signal's name, "SIGSEGV". Empty if there was none.
	Signal string
	// Number is the signal's number. 0 if there was none.
	Number int
	// Detail describes the failure of a start.
	Detail string
	// Stopped reports whether the supervisor had requested the end.
	Stopped bool
	// Tail is the end of the agent's stderr, as StderrTail returns it.
	Tail []string
}

// Status returns the exit status that a shell would report: the code, 128 plus the signal's number, 127 for a command
// that was not found, 126 for a command that could not be started.
func (e Exit) Status() int {
	switch {
	case e.Reason == Running:
		return 0
	case e.Reason == Lost:
		return 137
	case e.Number != 0:
		return 128 + e.Number
	}
	return e.Code
}

// String describes the end in one line, without the name: "exited with status 3; its last error output: cannot
// connect".
func (e Exit) String() string {
	var b strings.Builder
	switch e.Reason {
	case Exited:
		fmt.Fprintf(&b, "exited with status %d", e.Code)
	case Signalled:
		b.WriteString("was ended by " + e.Signal)
	case Lost:
		b.WriteString("was killed together with its guard")
	case Running:
		b.WriteString("is running")
	case NotFound:
		b.WriteString("was not started: command not found")
	default:
		b.WriteString("was not started")
	}
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	if n := len(e.Tail); n > 0 && !(e.Reason == Exited && e.Code == 0) {
		if refusal := e.refusal(); refusal != "" && refusal != e.Tail[n-1] {
			b.WriteString("; its error output has: " + refusal)
		}
		b.WriteString("; its last error output: " + e.Tail[n-1])
	}
	return b.String()
}

// refusal returns the last line of the sandbox about a refusal, which may be the reason why the agent ended; empty if
// there is none.
func (e Exit) refusal() string {
	for _, line := range slices.Backward(e.Tail) {
		if strings.HasPrefix(line, "acphost: refused: ") {
			return line
		}
	}
	return ""
}

// Error makes Exit an error. The text contains the agent's name.
func (e Exit) Error() string { return fmt.Sprintf("agent %q %s", e.Name, e.String()) }

// exitOf returns the Exit for an end; a nil end means that the end was not observed.
func exitOf(name string, end *proc.ExitStatus, tail []string, stopped bool) Exit {
	e := Exit{Name: name, Tail: tail, Stopped: stopped}
	switch {
	case end == nil:
		e.Reason, e.Code = Lost, -1
	case end.Signal != "":
		e.Reason, e.Code, e.Signal, e.Number = Signalled, -1, end.Signal, end.Number
	case end.Code == 127:
		e.Reason, e.Code = NotFound, 127
	default:
		e.Reason, e.Code = Exited, end.Code
	}
	return e
}
