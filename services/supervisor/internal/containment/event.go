package containment

import (
	"github.com/acphost/acphost/internal/hosts"
	"github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/sandbox/decisions"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// event is one action that a process is about to do.
type event struct {
	decisions.Asked
	// line is the line of the allowed command that the process belongs to; nil: the process belongs to none.
	line *line
	// covered: the answer about the line covers the action: it changes no file, or one that the line names.
	covered bool
	// lenient: the action is refused only if it is denied.
	lenient bool
	// asAgent: the process starts a part of the agent, or a program that the agent is known to start for itself.
	asAgent bool
	// kept: the process changes a file in which the agent keeps its state.
	kept bool
	// movesAlong: the file belongs to a repository whose own folder lies in a folder that is renamed.
	movesAlong bool
	// below are the old and new names of all files in a folder that is renamed.
	below    []movedName
	sessions []string
	// command is the allowed command of a terminal that the process belongs to; nil: the process belongs to the agent.
	command *command
	// wrapped: the process starts a shell with the agent's words around an allowed line, a program whose files the
	// agent may have mounted, or a script by a name that the agent can change to point to another script. The process
	// then remains part of the agent, so that its starts and changes are decided.
	wrapped bool
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

// enterCommand marks the process as part of an allowed command once its program is in place. It reports whether the
// sandbox has to notify the
// Decider of that (Started).
func (e *event) enterCommand(d *Decider, allowed *permissionv1.Action) (tell bool) {
	switch {
	case e.Operation != sandbox.Execute || e.line != nil || e.lenient || e.wrapped:
		return false
	case d.observes(): // the sandbox sends no notification in observe mode
		d.commands.Add(e.PID, d.lineOf(allowed))
		return false
	default:
		d.commands.Expect(e.PID, e.Call, d.lineOf(allowed))
		return true
	}
}

// Started implements decisions.Judge.
func (d *Decider) Started(pid int, call uint64) { d.commands.Started(pid, call) }
