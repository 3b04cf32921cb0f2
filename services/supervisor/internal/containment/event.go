package containment

import (
	"slices"

	"github.com/acphost/acphost/internal/hosts"
	"github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/sandbox/decisions"
)

// event is one thing that a process is about to do.
type event struct {
	decisions.Asked
	// within: the process belongs to a command that was allowed.
	within bool
	// lenient: only what is denied is refused.
	lenient bool
	// asAgent: it starts a part of the agent, or a program that the agent is known to start for itself.
	asAgent bool
	// kept: it changes a file in which the agent keeps what it remembers.
	kept bool
	// below are the names by which all is reached that lies in a folder that gets another name.
	below    []string
	sessions []string
	// command is that of a terminal, which was allowed, and to which the process belongs; nil: the process is of the
	// agent's own.
	command *command
	// wrapped: a shell is started with words of the agent's around a line that is allowed, or a program where the agent
	// may have mounted what it finds, or a script by a name that the agent can have lead to another one. It stays the
	// agent, so that what it starts and changes is decided.
	wrapped bool
	// seen is what has been seen of the disk for this question.
	seen *paths.Seen
	// to is the machine to which acphost's proxy is to connect; nil: a process does something itself.
	to *hosts.Endpoint
}

// leadsOut reports whether a process connects to a machine by itself, or to a service of this one that looks names up: a look-up tells
// others the name.
func (e *event) leadsOut() bool {
	return e.to == nil && e.Operation == sandbox.Connect && (e.Address.Internet() || slices.Contains(nameServices, e.Path))
}

// nameServices are the sockets by which libraries have names looked up: systemd-resolved's, nscd's (of several systems) and Avahi's.
var nameServices = []string{
	"/run/systemd/resolve/io.systemd.Resolve", "/run/systemd/resolve.hook/io.systemd.Resolve",
	"/run/nscd/socket", "/var/run/nscd/socket", "/var/db/nscd/socket", "/run/avahi-daemon/socket",
}

func changes(op sandbox.Operation) bool { return op == sandbox.Write || op == sandbox.Move }

// entered notes that the process becomes that of a command, once its program is in place. It reports whether that has
// to be told.
func (e *event) entered(d *Decider) (tell bool) {
	switch {
	case e.Operation != sandbox.Execute || e.within || e.lenient || e.wrapped:
		return false
	case d.observes(): // nobody says when
		d.commands.Add(e.PID)
		return false
	default:
		d.commands.Expect(e.PID, e.Call)
		return true
	}
}

// Started implements decisions.Judge.
func (d *Decider) Started(pid int, call uint64) { d.commands.Started(pid, call) }
