package containment

import (
	"github.com/acphost/acphost/internal/hosts"
	"github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/sandbox/decisions"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
)

// event is one action that a process is about to do.
type event struct {
	decisions.Asked
	// line is the line of the allowed command that the process belongs to; nil: the process belongs to none.
	line *line
	// covered: the answer about the line covers the action: it changes no file, or one that the line names.
	covered bool
	// kept: the process changes a file in which the agent keeps its state.
	kept bool
	// movesAlong: the file belongs to a repository whose own folder lies in a folder that is renamed.
	movesAlong bool
	// below are the old and new names of all files in a folder that is renamed.
	below    []movedName
	sessions []string
	// command is the allowed command of a terminal that the process belongs to; nil: the process belongs to the agent.
	command *command
	// seen caches the look-ups of paths for this request.
	seen *paths.Cache
	// to is the machine that acphost's proxy is to connect to; nil: the action is a process's own.
	to *hosts.Endpoint
}

// connectsOut reports whether a process connects to a machine directly, or to a name service of this machine. A look-up
// can leak data to others in the name.
func (e *event) connectsOut() bool {
	return e.to == nil && e.Operation == sandbox.Connect && (e.Address.Internet() || sandbox.NameService(e.Path))
}

// coveredBy reports whether the answer about a line covers an operation on a file by a process of the command.
func (e *event) coveredBy(l *line, op sandbox.Operation, path string) bool {
	return l != nil && (!changes(op) || l.names(path, e.Leaves))
}

func changes(op sandbox.Operation) bool { return op == sandbox.Write || op == sandbox.Move }

// enterCommand marks the process as part of a command once its program is in place, if an answer or a rule allowed the
// command by its line. The process stays part of the agent if the agent may have chosen what the program finds: by
// mounts, by another script under the same name, or because the program is the agent's own file. So do programs that
// start before a session is open, because the agent itself is one of them. It reports whether the sandbox has to notify
// the Decider of the start (Started).
func (e *event) enterCommand(d *Decider, t Try) (tell bool) {
	observed := d.observes() && t.Decision.Verdict != gate.Allow
	if e.Operation != sandbox.Execute || e.line != nil || len(e.sessions) == 0 || e.Apart || len(e.Others) > 0 || d.isOwn(e.Path) ||
		!observed && !t.Decision.AllowsCommand() {
		return false
	}
	l := d.lineOf(t.Line)
	if d.observes() { // the sandbox sends no notification in observe mode
		d.commands.Add(e.PID, l)
		return false
	}
	d.commands.Expect(e.PID, e.Call, l)
	return true
}

// Started implements decisions.Judge.
func (d *Decider) Started(pid int, call uint64) { d.commands.Started(pid, call) }
