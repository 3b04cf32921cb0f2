package intent

import (
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/acphost/acphost/internal/hosts"
	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// What the kernel asks about (door three) needs no reading: a path is where it leads, and a program is what runs.

// ChangedFile is that a process changes a file, or reads it.
func ChangedFile(s Session, file string, access permissionv1.Access) *permissionv1.Action {
	a := s.action(permissionv1.Door_DOOR_KERNEL)
	a.Kind = "fs.write"
	if access == permissionv1.Access_ACCESS_READ {
		a.Kind = "fs.read"
	}
	newPaths(s, a).place(file, access)
	return a
}

// Replaced is the change to the file that a process writes anew by another name beside it, as it is known of the
// agent; nil: it is not such a name.
func Replaced(s Session, file string) *permissionv1.Action {
	dir, name := path.Split(file)
	for _, pattern := range s.dialect().Temporary {
		begin, _, _ := strings.Cut(pattern, "*")
		at := strings.LastIndex(name, begin)
		if at <= 0 || begin == "" {
			continue
		}
		if ok, err := path.Match(pattern, name[at:]); err == nil && ok {
			return ChangedFile(s, dir+name[:at], permissionv1.Access_ACCESS_WRITE)
		}
	}
	return nil
}

// ProgramStart is a program that a process starts.
type ProgramStart struct {
	// Args are the program and its arguments. The program is a name only if the name leads to the program.
	Args []string
	// Dir is absolute.
	Dir string
	// Env is each "NAME=VALUE" that the agent itself was not started with.
	Env []string
	// Cut: arguments or environment are not complete.
	Cut bool
	// Another is a name by which the program is started that is another's; empty: it is its own.
	Another string
}

// Started returns the action of a process that starts a program: the program with its arguments, without the commands
// that it may start itself. For a shell and the like, line is the same start with the commands of its line; nil: the
// program is not known to start others. Policies decide about a, because each of the commands is decided when it
// starts. An answer of the user about the line is an answer about a.
func Started(s Session, e ProgramStart) (a, line *permissionv1.Action) {
	a = s.started(e, true)
	if len(e.Args) > 0 && shell.StartsOthers(e.Args[0]) {
		line = s.started(e, false)
	}
	return a, line
}

// started implements Started. alone: without the commands that the program may start.
func (s Session) started(e ProgramStart, alone bool) *permissionv1.Action {
	a := s.action(permissionv1.Door_DOOR_KERNEL)
	a.Kind = "terminal.create"
	w := claim{source: "the process", cwd: []string{e.Dir}, alone: alone}
	if e.Cut {
		w.unclear = append(w.unclear, "the arguments and the environment are longer than acphost reads")
	}
	if e.Another != "" {
		w.unclear = append(w.unclear, "it is started by the name "+text(e.Another)+", which may make it another program")
	}
	valid := func(list []string) []string {
		if slices.ContainsFunc(list, func(s string) bool { return !utf8.ValidString(s) }) {
			w.unclear = append(w.unclear, "an argument or a variable is not UTF-8")
		}
		out := make([]string, len(list))
		for i, s := range list {
			out[i] = text(s)
		}
		return out
	}
	w.argv, w.env = valid(e.Args), s.told(valid(e.Env))
	s.command(a, w, newPaths(s, a))
	for _, why := range w.unclear {
		unparsed(a, why)
	}
	return a
}

// Connected is that a process connects a socket: to an address of the internet, or to the unix socket at a path. A unix socket
// without a path has a name as its host.
func Connected(s Session, network, host string, port uint16, path string) *permissionv1.Action {
	a := s.action(permissionv1.Door_DOOR_KERNEL)
	a.Kind = "net.connect"
	raw, err := json.Marshal(struct {
		Network string `json:"network"`
		Host    string `json:"host,omitempty"`
		Port    uint16 `json:"port,omitempty"`
	}{network, text(host), port})
	if err == nil {
		a.RawInput = string(raw)
	}
	switch at, err := hosts.Parse(host); {
	case path != "":
		newPaths(s, a).place(path, permissionv1.Access_ACCESS_WRITE)
	case network != "unix" && port > 0 && err == nil && at.Address.IsValid():
		a.Endpoint = &permissionv1.Endpoint{Host: at.String(), Port: uint32(port), Addresses: []string{at.String()}}
	}
	return a
}

// Reached is that a process wants acphost's proxy to connect it to a machine. There are no addresses before a name is looked up.
func Reached(s Session, to hosts.Endpoint) *permissionv1.Action {
	a := s.action(permissionv1.Door_DOOR_KERNEL)
	a.Kind = "net.connect"
	a.Endpoint = &permissionv1.Endpoint{Host: to.Host.String(), Port: uint32(to.Port)}
	for _, address := range to.Addresses {
		a.Endpoint.Addresses = append(a.Endpoint.Addresses, address.String())
	}
	return a
}

// refusedKind is the kind of what the sandbox refuses by itself. No policy is asked about it.
const refusedKind = "sandbox.refused"

// Refused is that the sandbox has refused a process something without asking, in words.
func Refused(s Session, what string) *permissionv1.Action {
	a := s.action(permissionv1.Door_DOOR_KERNEL)
	a.Kind = refusedKind
	a.Title = text(what)
	return a
}
