// Package sandbox starts a program in such a way that the kernel asks before the program, or anything that it starts,
// changes files by their names, executes another program or connects a socket. It is for agents that do not use their client: they open
// files and start commands themselves, and no message of theirs can be decided on.
//
// The sandbox is a process of its own, the parent of what it confines. System calls reach it by seccomp user
// notification. It reads a call's arguments once, resolves the path, and asks a Decider. An allowed change it carries
// out itself, and hands the open file over: the memory that it has read can be changed meanwhile, and the kernel must
// not read it again. A program cannot be started for another process, so the kernel does that, and the sandbox looks
// at the new program before its first instruction.
//
// If the sandbox ends, the calls that it answers do not exist any more (ENOSYS) for what it has confined.
//
// The package knows the kernel. It must not know policies, agents or ACP. It needs no privileges, and works on Linux
// 6.12 and later, on amd64 and arm64.
package sandbox

import (
	"errors"
	"net/netip"
	"os"
	"path"
	"strings"
	"time"

	"github.com/acphost/acphost/internal/proc"
)

// Command is the argument that makes a program a sandbox, if its main package calls Main. The command is hidden.
const Command = "sandbox"

// ErrUnsupported is wrapped where this system cannot confine a program.
var ErrUnsupported = errors.New("not supported here")

// Operation is what a process is about to do.
type Operation string

// The operations.
const (
	// Write opens a file for writing, creates, removes or links it, or changes its size, its mode, its owner, its times or
	// its attributes.
	Write Operation = "write"
	// Move gives another name to a file, or to a folder with all that is in it. There is an event for each of the two
	// names, which says the other.
	Move Operation = "move"
	// Execute starts a program in place of the process.
	Execute Operation = "execute"
	// Read opens a file only for reading, or a folder. There are such events only with Options.Reads.
	Read Operation = "read"
	// Connect connects a socket, or sends to an address without connecting. Path is that of a unix socket, if it has one.
	Connect Operation = "connect"
)

// Event is one thing that a process is about to do.
type Event struct {
	Operation Operation
	// PID is the process, as /proc shows it here.
	PID int
	// Path is absolute and without symbolic links: the file, or the program to execute. If the last name does not exist
	// yet, its folder does. The path of a program in memory begins with "/memfd:".
	Path string
	// Args are a program's arguments with its name, as the process gave them. Only for Execute, as are Dir and Env.
	Args []string
	// Dir is the working directory of the process.
	Dir string
	// Env is each "NAME=VALUE" that the program gets and that the command was not started with.
	Env []string
	// Address is where a socket connects to, for Connect.
	Address Address
	// Call numbers the system call. Events of one call have the same number.
	Call uint64
	// Held, for Write and Move, is a descriptor of the folder that the file is in, or of the file itself if Name is
	// empty. It is open as long as the Decider is asked, and leads to what the call changes, whatever the path leads to
	// by then.
	Held int
	Name string
	// Apart, for Execute: the process sees mounts that were made inside. So what libraries and settings the program
	// finds, and what its arguments lead to, is the choice of who has made them.
	Apart bool
	// Others, for Move, are the paths of the other name. For Execute, it is the name by which a script is started, if that
	// may lead its interpreter to another one: with "..", and a folder that is moved meanwhile.
	Others []string
	// Start, for Execute: it is the program that the sandbox was told to start, and nothing runs in the sandbox yet.
	Start bool
}

// Address is the address of a socket.
type Address struct {
	// Network is "tcp", "udp", "ip" for other internet protocols, "unix", or "family N".
	Network string
	// Host is an internet address in text, and Port its port. A unix socket with a path has neither; if it has a name that
	// is no path, Host is "@" and the name.
	Host string
	Port uint16
}

// Internet reports whether the address is that of a machine.
func (a Address) Internet() bool {
	return a.Network == "tcp" || a.Network == "udp" || a.Network == "ip"
}

// Loopback reports whether the address is a TCP port on the loopback interface of this machine.
func (a Address) Loopback() bool {
	host, err := netip.ParseAddr(a.Host)
	return err == nil && a.Network == "tcp" && host.Unmap().IsLoopback()
}

// Options say how a program is confined. The zero value decides on everything but reads.
type Options struct {
	// Observe: the kernel makes every call itself, whatever the Decider says, and no call is refused. What the Decider is
	// told is what the call was about when the sandbox looked.
	Observe bool
	// Reads has the Decider asked before files are opened for reading, too.
	Reads bool
	// Streams: of the sockets of the internet, only those of TCP can be made. The others can send to an address that the
	// sandbox does not see (sendmsg). Sockets other than of the internet, of unix and of the kernel's settings of the network
	// cannot be made either.
	Streams bool
	// Environ is the environment that the command starts with, to which Event.Env is compared. nil: the sandbox's own.
	Environ []string
	// Timeout is how long a call waits for the Decider in all. The call is then refused (EACCES), and what the Decider says
	// later changes nothing. To observe, the kernel makes the call then. 0 or less: DefaultTimeout.
	Timeout time.Duration
}

// Confinement says how a sandbox that asks by DecisionsFD confines.
type Confinement struct {
	// Observe: nothing is refused.
	Observe bool
	// Reads: files that are opened for reading are decided on, too.
	Reads bool
	// Closed: processes connect to no machine but to Proxy, an address of IPv4 with its port, if that is not empty.
	Closed bool
	Proxy  string
}

// Flags are the arguments of a sandbox, before its command.
func (c Confinement) Flags() []string {
	flags := []string{"--decisions"}
	if c.Observe {
		flags = append(flags, "--observe")
	}
	if c.Reads {
		flags = append(flags, "--reads")
	}
	switch {
	case c.Closed && c.Proxy != "":
		flags = append(flags, "--proxy", c.Proxy)
	case c.Closed:
		flags = append(flags, "--no-internet")
	}
	return flags
}

// DefaultTimeout is more than a policy may take, and less than people take for a program that hangs.
const DefaultTimeout = 10 * time.Second

// Decider decides on events. It is called from several goroutines at once, and holds up the calling process meanwhile.
// It must not wait for a person: after Options.Timeout the call is refused. If a Decider does not return even then, the
// sandbox leaves it behind, and after 64 of these refuses without asking until one of them returns.
type Decider interface {
	Allows(Event) bool
	// Refused tells that the sandbox itself has refused a call, whatever a policy says, because it could not decide on what
	// the process does after it. What is in words: "another root folder, or a mount". To observe, it tells of a call that
	// would have been refused, as the sandbox could not find out which file it is about.
	Refused(pid int, what string)
}

// Reporter is a Decider that is told how the start went, once. It must not wait.
type Reporter interface {
	// Began tells the process of the command and the walls around it, or why there is none: an error wraps ErrUnsupported if
	// nothing can be confined here.
	Began(pid int, walls proc.Walls, err error)
}

// Watcher is a Decider that is told when a program begins to run.
type Watcher interface {
	// Started tells that the program of an Execute event that was allowed is in place, before its first instruction, and
	// that nothing is below the process. It may never be told: the kernel can refuse the program all the same, and the
	// process then goes on as it was; or the process has started others before. Nobody is told with Options.Observe. It
	// must not wait.
	Started(Event)
}

// Mounter is a Decider that may allow more to processes that prepare the mounts of their own namespace.
type Mounter interface {
	// AllowsMountPoint is asked before an empty file or folder is made on which something may be mounted, with an event
	// of Write. True: it is made, and no more, for it could not be made otherwise. False: the change is decided on as
	// any other.
	AllowsMountPoint(Event) bool
}

// Lists decides by literal paths, which have to be absolute and without symbolic links. What no list names is refused
// for Write and Move, and allowed for the other operations.
type Lists struct {
	// Write are files and folders below which everything may be changed.
	Write []string
	// DenyWrite are files and folders that may not be changed, and for which no folder above may get another name.
	DenyWrite []string
	// DenyExecute are programs, and folders of programs, that may not be started.
	DenyExecute []string
	// DenyRead are files and folders below which nothing may be opened, not even for reading; with Options.Reads.
	DenyRead []string
	// DenyConnect are unix sockets, and folders of such, that may not be connected to.
	DenyConnect []string
	// NoInternet: no sockets but those of unix may be connected.
	NoInternet bool
}

// Through has another Decider decide on all but machines. Of these only two can be connected to, over TCP: a proxy, which decides on
// the machines behind it, and a port on the loopback interface at which only processes in this sandbox listen. The other Decider is
// told of the rest, which is refused whatever it says. It needs Options.Streams.
type Through struct {
	Decider
	// Host and Port are the proxy's. Host is as in Address; empty: there is no proxy.
	Host string
	Port uint16
}

// Allows implements Decider.
func (t Through) Allows(e Event) bool {
	if e.Operation == Connect && e.Address.Network != "unix" {
		if t.Host != "" && e.Address == (Address{Network: "tcp", Host: t.Host, Port: t.Port}) {
			return true
		}
		if e.Address.Loopback() {
			if own, err := proc.ListensAlone(os.Getpid(), e.Address.Port); own && err == nil {
				return true
			}
		}
		t.Decider.Allows(e) // it is to know
		return false
	}
	return t.Decider.Allows(e)
}

// Started implements Watcher.
func (t Through) Started(e Event) {
	if w, ok := t.Decider.(Watcher); ok {
		w.Started(e)
	}
}

// AllowsMountPoint implements Mounter.
func (t Through) AllowsMountPoint(e Event) bool {
	m, ok := t.Decider.(Mounter)
	return ok && m.AllowsMountPoint(e)
}

// Began implements Reporter.
func (t Through) Began(pid int, walls proc.Walls, err error) {
	if r, ok := t.Decider.(Reporter); ok {
		r.Began(pid, walls, err)
	}
}

// of is another Decider behind the proxy. A nil Through changes nothing.
func (t *Through) of(d Decider) Decider {
	if t == nil {
		return d
	}
	t.Decider = d
	return *t
}

// devices may be written to by everybody and keep nothing, or are a terminal that is open already.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/dev/pts"}

// Device reports whether everybody may write to a path: to it nothing can be done that is to be decided on.
func Device(path string) bool { return within(path, devices) }

// Allows implements Decider.
func (l Lists) Allows(e Event) bool {
	switch e.Operation {
	case Execute:
		return !within(e.Path, l.DenyExecute)
	case Read:
		return !within(e.Path, l.DenyRead)
	case Connect:
		return !(l.NoInternet && e.Address.Network != "unix") && !(e.Path != "" && within(e.Path, l.DenyConnect))
	}
	if within(e.Path, l.DenyWrite) {
		return false
	}
	if e.Operation == Move {
		for _, denied := range l.DenyWrite {
			if below(denied, e.Path) {
				return false
			}
		}
	}
	return within(e.Path, l.Write) || Device(e.Path)
}

// Refused implements Decider. Nobody is told.
func (l Lists) Refused(int, string) {}

func within(file string, folders []string) bool {
	for _, folder := range folders {
		if below(file, folder) {
			return true
		}
	}
	return false
}

// below says whether a file is the folder or lies somewhere in it. Both paths are absolute.
func below(file, folder string) bool {
	folder = path.Clean(folder)
	return folder == "/" || file == folder || strings.HasPrefix(file, folder) && file[len(folder)] == '/'
}
