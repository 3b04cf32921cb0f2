// Package sandbox confines a program: the kernel asks before the program, or any process that it starts, changes files
// by their names, executes another program or connects a socket. It is for agents that do not use their client: they
// open files and start commands themselves, and send no message that could be decided on.
//
// The sandbox is a separate process, the parent of the confined processes. It receives their system calls by seccomp
// user notification. It reads a call's arguments once, resolves the path, and asks a Decider. It carries out an allowed
// change itself, and hands the open file over: the process can change its memory meanwhile, so the kernel must not read
// the arguments again. A program cannot be started for another process, so the kernel starts it, and the sandbox
// verifies the new program before its first instruction.
//
// If the sandbox ends, the calls that it answers fail with ENOSYS for the confined processes.
//
// The package knows the kernel. It must not know policies, agents or ACP. It needs no privileges, and works on Linux
// 6.12 and later, on amd64 and arm64.
package sandbox

import (
	"errors"
	"net/netip"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/acphost/acphost/internal/listeners"
	"github.com/acphost/acphost/internal/proc"
)

// Command is the hidden first argument that makes a program run as a sandbox, if its main package calls Main.
const Command = "sandbox"

// ErrUnsupported is wrapped by errors that say that this system cannot confine a program.
var ErrUnsupported = errors.New("not supported here")

// Operation is the kind of an Event.
type Operation string

// The operations.
const (
	// Write opens a file for writing, creates, removes or links it, or changes its size, mode, owner, times or
	// attributes.
	Write Operation = "write"
	// Move renames a file, or a folder with everything in it. There is an event for each of the two names, which
	// contains the other.
	Move Operation = "move"
	// Execute replaces the process's program.
	Execute Operation = "execute"
	// Read opens a file only for reading, or a folder. Such events occur only with Options.Reads.
	Read Operation = "read"
	// Connect connects a socket, or sends to an address without connecting. Path is the path of a unix socket, if it
	// has one.
	Connect Operation = "connect"
)

// Event is an operation that a process is about to perform.
type Event struct {
	Operation Operation
	// PID is the process, as /proc shows it here.
	PID int
	// Path is the file, or the program to execute. It is absolute and without symbolic links. If the last name does not
	// exist yet, its folder does. The path of a program in memory begins with "/memfd:".
	Path string
	// Args are a program's arguments, with its name, as the process passed them. Args, Dir and Env are set only for
	// Execute.
	Args []string
	// Dir is the working directory of the process.
	Dir string
	// Env contains each "NAME=VALUE" of the program that the command was not started with.
	Env []string
	// Address is the address that a socket connects to, for Connect.
	Address Address
	// Call numbers the system call. Events of one call have the same number.
	Call uint64
	// Held, for Write, Move and Read, is a descriptor of the file's folder, or of the file itself if Name is empty. It
	// is open while the Decider is asked, and leads to the file that the call changes or reads, even if the path leads
	// elsewhere by then.
	Held int
	Name string
	// File, for Read, identifies the file that the process gets. The zero value: it is not known.
	File FileID
	// Apart, for Execute: the process has mounts that confined processes made. So those processes choose which
	// libraries and settings the program finds, and which files its arguments name.
	Apart bool
	// Others, for Move, are the paths of the other name. For Execute, Others is the name by which a script is started,
	// if its interpreter may resolve it to another file: the name contains "..", and a folder may be moved meanwhile.
	Others []string
	// Start, for Execute: this is the program that the sandbox was started with, and no program runs in the sandbox
	// yet.
	Start bool
	// Leaves, for Write, says what the call leaves at Path; for Move, LeavesLink if Path becomes a symbolic link.
	Leaves Leaves
	// Placed, for Move: a regular file gets the name Path, and Content is the whole content that it will have, whatever
	// processes write to the renamed file meanwhile. Only for paths of a Placer. For Write: the same of a staged file
	// (see Stager). Without Placed, the content is not known.
	Placed  bool
	Content []byte
	// Inspected, for Read: Content is the beginning of the file that the process gets, as long as an Inspector wants it.
	// The process gets this file even if another one has the name meanwhile.
	Inspected bool
	// Made: the change has been made, and is decided on once more. If it is rejected, it is undone. See Rechecker.
	Made bool
}

// FileID identifies a file.
type FileID struct{ Device, Inode uint64 }

// Leaves says what a call leaves at a path, as far as the sandbox knows.
type Leaves string

const (
	// LeavesAny means: a file or another name, which may be new or changed.
	LeavesAny Leaves = ""
	// LeavesFolder means: a folder is made, which is empty.
	LeavesFolder Leaves = "folder"
	// LeavesNothing means: the name is removed. A folder that is removed is empty.
	LeavesNothing Leaves = "nothing"
	// LeavesLink means: a symbolic link is made, or moved there.
	LeavesLink Leaves = "link"
	// LeavesContent means: what was there, with its content. Its mode, owner, times or attributes change.
	LeavesContent Leaves = "content"
	// LeavesLinked means: what was there, which gets another name beside: it can be changed by that name from then on.
	LeavesLinked Leaves = "linked"
)

const (
	// MaxContent is the maximum size in bytes of a content that is sent to a supervisor.
	MaxContent = 4 << 20
	// MaxPlaced is the maximum size of Event.Content in bytes. A larger file is decided on without its content. Indexes
	// of git have some 100 bytes for each file of a repository.
	MaxPlaced = 64 << 20
)

// ReservedPrefix begins the names of files that the sandbox makes for itself, in folders of confined processes. These
// processes can do nothing with such names.
const ReservedPrefix = ".acphost-placed-"

// Address is the address of a socket.
type Address struct {
	// Network is "tcp", "udp", "ip" for other internet protocols, "unix", or "family N".
	Network string
	// Host is an internet address as text, and Port its port. A unix socket with a path has neither. For an abstract
	// unix socket, Host is "@" and the name.
	Host string
	Port uint16
}

// Internet reports whether the address is an internet address.
func (a Address) Internet() bool {
	return a.Network == "tcp" || a.Network == "udp" || a.Network == "ip"
}

// Loopback reports whether the address is a TCP port on the loopback interface of this machine.
func (a Address) Loopback() bool {
	host, err := netip.ParseAddr(a.Host)
	return err == nil && a.Network == "tcp" && host.Unmap().IsLoopback()
}

// Options say how a program is confined. The zero value decides on everything except reads.
type Options struct {
	// Observe: the kernel makes every call itself, regardless of the Decider's decision, and no call is rejected.
	// Events describe the call as it was when the sandbox read it.
	Observe bool
	// Reads: the Decider is also asked before files are opened for reading.
	Reads bool
	// Streams: of internet sockets, only TCP sockets can be made. Others can send to an address that the sandbox does
	// not see (sendmsg). Sockets of other families, except those of unix and of the kernel's network settings, cannot
	// be made either.
	Streams bool
	// Environ is the environment that the command starts with, to which Event.Env is compared. nil: the sandbox's own.
	Environ []string
	// MaxProcesses is the maximum number of confined processes. The sandbox checks it once a second. If there are more,
	// it notifies the Decider (Refused) and ends all of them. 0: no maximum.
	MaxProcesses int
	// Timeout limits the time that a call waits for the Decider. The call is then rejected (EACCES), and a later
	// decision is ignored. With Observe, the kernel makes the call then. 0 or less: DefaultTimeout.
	Timeout time.Duration
}

// Confinement configures a sandbox that asks for decisions on DecisionsFD.
type Confinement struct {
	// Observe: no call is rejected.
	Observe bool
	// Reads: opens for reading are decided on, too.
	Reads bool
	// Closed: processes connect only to Proxy, an IPv4 address with a port. If Proxy is empty, they connect to no
	// machine.
	Closed bool
	Proxy  string
	// MaxProcesses is as in Options.
	MaxProcesses int
}

// Flags returns the arguments of a sandbox that precede its command.
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
	if c.MaxProcesses > 0 {
		flags = append(flags, "--max-processes", strconv.Itoa(c.MaxProcesses))
	}
	return flags
}

// DefaultTimeout is longer than a policy may take, and shorter than people wait before they consider a program hung.
const DefaultTimeout = 10 * time.Second

// Decider decides on events. It is called from several goroutines at once, and the calling process waits meanwhile. It
// must not wait for a person: after Options.Timeout the call is rejected. If 64 calls of a Decider have not returned
// even then, the sandbox rejects calls without asking until one of them returns.
type Decider interface {
	Allows(Event) bool
	// Refused notifies the Decider that the sandbox itself has rejected a call, regardless of the policy: it could not
	// decide on later calls of the process, or the call gives the process's rights to other users. what describes the
	// call: "another root folder, or a mount". It is also called if there are more processes than Options.MaxProcesses,
	// with the reason why the sandbox ends them. With Observe, it notifies of a call that would have been rejected for
	// this reason, or because the sandbox could not determine its file.
	Refused(pid int, what string)
}

// Quick is a Decider that can allow some events without waiting for anybody.
type Quick interface {
	// AllowsAtOnce reports whether Allows would return true for an event. If it returns false, Allows is asked.
	// Event.Call is not set, nor is Event.PID for Read. It must not block.
	AllowsAtOnce(Event) bool
}

// Reporter is a Decider that is notified once how the start went. It must not block.
type Reporter interface {
	// Began reports the process of the command and its confinement, or why it was not started: an error wraps
	// ErrUnsupported if this system cannot confine programs.
	Began(pid int, walls proc.Restrictions, err error)
}

// Watcher is a Decider that is notified when a program begins to run.
type Watcher interface {
	// Started reports that the program of an allowed Execute event is in place, before its first instruction, and that
	// the process has no descendants. The notification may be missing: the kernel may reject the program, and the
	// process then continues as before; or the process has started others before. It is never sent with
	// Options.Observe. Started must not block.
	Started(Event)
}

// Mounter is a Decider that may allow more to processes that prepare the mounts of their own namespace.
type Mounter interface {
	// AllowsMountPoint is asked, with a Write event, before an empty file or folder is made as a mount point. It
	// returns true only if the change would not be allowed otherwise: the empty file or folder is then made. If it
	// returns false, the change is decided on as any other.
	AllowsMountPoint(Event) bool
}

// Placer is a Decider that decides on the content of some files. If a process renames a regular file of at most
// MaxPlaced bytes to a path of a Placer, and does not exchange it for another one, the event has the content
// (Event.Placed). If the event is allowed, the path gets a new file with these bytes, the renamed file's permissions
// without set-user-ID, set-group-ID and write permission for others, and the sandbox's owner. The renamed file is
// removed. So a process that has the renamed file open, or has another name for it, cannot change the new one. If the
// call fails, both names are as before. With Options.Observe the kernel renames the file itself.
type Placer interface {
	// Places reports whether the Decider wants the content of the file that gets a name. path is as in Event. It must
	// not block.
	Places(path string) bool
	// Content returns the content that the file gets in place of the content that a process wrote. The event then has
	// this content. path is one for which Places holds. It must not block.
	Content(path string, written []byte) []byte
}

// Inspector is a Decider that decides on reads of some files by their content. If a process opens a regular file only
// for reading, the sandbox opens it before it asks, and the event has the content (Event.Inspected). With
// Options.Observe the kernel opens the file itself, and the content is not known.
type Inspector interface {
	// Inspects returns the number of bytes that the Decider wants of a file; 0: none. path is as in Event. It must not
	// block.
	Inspects(path string) int
}

// Stager is a Decider that can decide on a file when a process has written it. The process then writes an unnamed file.
// When the process has closed it, the sandbox asks Allows about the Write event again, with the content (Event.Placed).
// If the content is allowed, the name gets a new file with these bytes, as with a Placer. If not, the name stays as it
// was.
type Stager interface {
	// AllowsStaged is Allows for a Write event of a call that makes a file or replaces its whole content. staged:
	// Allows is asked about the content instead, and allowed does not count.
	AllowsStaged(Event) (allowed, staged bool)
}

// Rechecker is a Decider whose decision on a new name depends on names that may be made at the same time.
type Rechecker interface {
	// Rechecks reports whether the Decider decides on a new name twice: before the name is made, and after it
	// (Event.Made), when names made meanwhile are there. If the second decision rejects, the name is removed again, or
	// the rename is reversed. A file that the rename has replaced is lost then. Renames of folders are decided twice
	// whatever Rechecks reports. path is as in Event. Rechecks must not block.
	Rechecks(path string) bool
}

// Tunneler is a Decider that has TCP sockets connected through a proxy, by the method CONNECT of HTTP. The socket is
// connected to the proxy, and the process gets it when the proxy has connected it to the target: the program needs no
// support for proxies. The proxy decides on the target, and Allows is not called.
type Tunneler interface {
	// Tunnel returns the tunnel for a Connect event; false: the socket is connected directly, if Allows allows it. It
	// must not block.
	Tunnel(Event) (Tunnel, bool)
	// TunnelRefused notifies the Decider that the proxy has refused a connection of a process. why is the proxy's
	// reason, for the user.
	TunnelRefused(pid int, why string)
}

// Tunnel describes a connection through a proxy.
type Tunnel struct {
	// Proxy is the proxy's IPv4 address.
	Proxy Address
	// Request is the request to the proxy, with its header.
	Request string
}

// Lists is a Decider with literal paths, which must be absolute and without symbolic links. Paths on no list are
// rejected for Write and Move, and allowed for other operations.
type Lists struct {
	// Write are files, and folders below which everything may be changed.
	Write []string
	// DenyWrite are files and folders that may not be changed, and above which no folder may be renamed.
	DenyWrite []string
	// DenyExecute are programs, and folders of programs, that may not be started.
	DenyExecute []string
	// DenyRead are files and folders below which no file may be opened, not even for reading. It needs Options.Reads.
	DenyRead []string
	// DenyConnect are unix sockets, and folders of unix sockets, that may not be connected to.
	DenyConnect []string
	// NoInternet: only unix sockets may be connected.
	NoInternet bool
}

// Through passes all decisions to another Decider, except those on internet addresses. Processes can connect to only
// two kinds of them, over TCP: a proxy, which decides on the machines behind it, and a port on the loopback interface
// if only processes of this sandbox listen on it. With Credentials, other TCP connections lead through the proxy.
// Without, the other Decider is asked about all other addresses too, so that it is notified, but they are rejected
// regardless of its answer. Through needs Options.Streams.
type Through struct {
	Decider
	// Host and Port are the proxy's. Host is as in Address; empty: there is no proxy.
	Host string
	Port uint16
	// Credentials is the value of the header Proxy-Authorization for the proxy.
	Credentials string
}

// ownAddress reports whether processes may connect directly to an address.
func (t Through) ownAddress(to Address) bool {
	if t.Host != "" && to == (Address{Network: "tcp", Host: t.Host, Port: t.Port}) {
		return true
	}
	if !to.Loopback() {
		return false
	}
	own, err := listeners.Belong(to.Port, os.Getpid())
	return own && err == nil
}

// Tunnel implements Tunneler.
func (t Through) Tunnel(e Event) (Tunnel, bool) {
	if t.Host == "" || t.Credentials == "" || e.Address.Network != "tcp" || t.ownAddress(e.Address) {
		return Tunnel{}, false
	}
	host := e.Address.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	host += ":" + strconv.Itoa(int(e.Address.Port))
	return Tunnel{
		Proxy:   Address{Network: "tcp", Host: t.Host, Port: t.Port},
		Request: "CONNECT " + host + " HTTP/1.1\r\nHost: " + host + "\r\nProxy-Authorization: " + t.Credentials + "\r\n\r\n",
	}, true
}

// TunnelRefused implements Tunneler.
func (t Through) TunnelRefused(pid int, why string) {
	if r, ok := t.Decider.(interface{ TunnelRefused(pid int, why string) }); ok {
		r.TunnelRefused(pid, why)
	}
}

// Allows implements Decider.
func (t Through) Allows(e Event) bool {
	if e.Operation == Connect && e.Address.Network != "unix" {
		if t.ownAddress(e.Address) {
			return true
		}
		t.Decider.Allows(e) // only to notify it
		return false
	}
	if e.Operation == Connect && t.Credentials != "" && NameService(e.Path) {
		return false
	}
	return t.Decider.Allows(e)
}

// nameServices are the sockets, and the folders of sockets, of services that look up names for programs:
// systemd-resolved, nscd (on several systems) and Avahi.
var nameServices = []string{
	"/run/systemd/resolve", "/run/systemd/resolve.hook", "/run/nscd", "/var/run/nscd", "/var/db/nscd", "/run/avahi-daemon",
}

// NameService reports whether a unix socket belongs to a service of this machine that looks up names. A look-up carries
// the name to others before anything is decided about it. The C library does without these services: it then asks a
// name server.
func NameService(socket string) bool { return socket != "" && within(socket, nameServices) }

// Started implements Watcher.
func (t Through) Started(e Event) {
	if w, ok := t.Decider.(Watcher); ok {
		w.Started(e)
	}
}

// AllowsAtOnce implements Quick.
func (t Through) AllowsAtOnce(e Event) bool {
	q, ok := t.Decider.(Quick)
	return ok && e.Operation != Connect && q.AllowsAtOnce(e)
}

// AllowsMountPoint implements Mounter.
func (t Through) AllowsMountPoint(e Event) bool {
	m, ok := t.Decider.(Mounter)
	return ok && m.AllowsMountPoint(e)
}

// Places implements Placer.
func (t Through) Places(path string) bool {
	p, ok := t.Decider.(Placer)
	return ok && p.Places(path)
}

// Inspects implements Inspector.
func (t Through) Inspects(path string) int {
	if i, ok := t.Decider.(Inspector); ok {
		return i.Inspects(path)
	}
	return 0
}

// Content implements Placer.
func (t Through) Content(path string, written []byte) []byte {
	if p, ok := t.Decider.(Placer); ok {
		return p.Content(path, written)
	}
	return written
}

// AllowsStaged implements Stager.
func (t Through) AllowsStaged(e Event) (allowed, staged bool) {
	if s, ok := t.Decider.(Stager); ok {
		return s.AllowsStaged(e)
	}
	return t.Decider.Allows(e), false
}

// Rechecks implements Rechecker.
func (t Through) Rechecks(path string) bool {
	r, ok := t.Decider.(Rechecker)
	return ok && r.Rechecks(path)
}

// Began implements Reporter.
func (t Through) Began(pid int, walls proc.Restrictions, err error) {
	if r, ok := t.Decider.(Reporter); ok {
		r.Began(pid, walls, err)
	}
}

// of returns d behind the proxy. A nil Through returns d itself.
func (t *Through) of(d Decider) Decider {
	if t == nil {
		return d
	}
	t.Decider = d
	return *t
}

// devices are files that every process may write to and that store nothing, or a terminal that is open already.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/dev/pts"}

// OpensDevice reports whether a process opens a device to which every process may write, so that no decision is needed.
// Other changes need one: root could replace /dev/null by a file.
func OpensDevice(e Event) bool {
	return e.Operation == Write && e.Leaves == LeavesAny && within(e.Path, devices)
}

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
	return within(e.Path, l.Write) || OpensDevice(e)
}

// Refused implements Decider. It does nothing.
func (l Lists) Refused(int, string) {}

func within(file string, folders []string) bool {
	for _, folder := range folders {
		if below(file, folder) {
			return true
		}
	}
	return false
}

// below reports whether file is folder or lies in it. Both paths are absolute.
func below(file, folder string) bool {
	folder = path.Clean(folder)
	return folder == "/" || file == folder || strings.HasPrefix(file, folder) && file[len(folder)] == '/'
}
