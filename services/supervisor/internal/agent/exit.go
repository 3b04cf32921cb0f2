package agent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/proc"
)

// Reason is the kind of an agent's end.
type Reason string

// The reasons. Their text is stable: it shows in logs and states.
const (
	// Running: it has not ended.
	Running Reason = "running"
	// NotFound: the command does not exist, or it ended with 127, by which shells and wrappers say the same of what
	// they were to run.
	NotFound Reason = "command not found"
	// StartFailed: the command exists and could not be started.
	StartFailed Reason = "failed to start"
	// Exited: it ended by itself, with Code.
	Exited Reason = "exited"
	// Signalled: Signal ended it.
	Signalled Reason = "ended by a signal"
	// Lost: its guard was killed, and the agent with it; how it ended is not known.
	Lost Reason = "lost with its guard"
)

// Exit is how an agent ended, or why it never ran.
type Exit struct {
	// Name is the agent's configured name.
	Name string
	// Reason is the kind of end.
	Reason Reason
	// Code is the exit code; for NotFound 127, for StartFailed 126, and -1 where a signal ended it.
	Code int
	// Signal is the signal's name, "SIGSEGV"; empty: none.
	Signal string
	// Number is the signal's number; 0: none.
	Number int
	// Detail says why a start failed, in words.
	Detail string
	// Stopped: the supervisor had asked for the end.
	Stopped bool
	// Tail is the end of its stderr, as StderrTail gives it.
	Tail []string
}

// Status is the exit status that a shell would show for it: the code, 128 and the signal's number, 127 for a command
// that was not found, 126 for one that could not be started.
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

// String says it in one line, without the name: "exited with status 3; its last error output: cannot connect".
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

// refusal returns the last line by which the sandbox reported that it refused something, which may be why the agent
// ended; empty: there is none.
func (e Exit) refusal() string {
	for _, line := range slices.Backward(e.Tail) {
		if strings.HasPrefix(line, "acphost: refused: ") {
			return line
		}
	}
	return ""
}

// Error makes an Exit an error that names the agent.
func (e Exit) Error() string { return fmt.Sprintf("agent %q %s", e.Name, e.String()) }

// exitOf puts an end into words; a nil end is one that nobody saw.
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
