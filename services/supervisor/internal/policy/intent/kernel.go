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

// Actions observed by the sandbox need no parsing: their paths are resolved, and their programs are the ones that
// run.

// ChangedFile returns the action of a process that changes or reads a file.
func ChangedFile(s Session, file string, access permissionv1.Access) *permissionv1.Action {
	a := s.action(permissionv1.Door_DOOR_KERNEL)
	a.Kind = "fs.write"
	if access == permissionv1.Access_ACCESS_READ {
		a.Kind = "fs.read"
	}
	newPaths(s, a).place(file, access)
	return a
}

// Replaced returns the change of the file that a process replaces by writing a temporary file beside it, as the
// agent's dialect names such files; nil: file is not such a temporary file.
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
	// Args are the program and its arguments. Args[0] is a name only if the name resolves to the program.
	Args []string
	// Dir is absolute.
	Dir string
	// Env is each "NAME=VALUE" that was not in the agent's own start environment.
	Env []string
	// Cut: the arguments or the environment are incomplete.
	Cut bool
	// Another is the name by which the program is started if it is the name of another program; else empty.
	Another string
}

// Started returns the action of a process that starts a program: the program and its arguments, without the commands
// that it may start itself. For a shell and similar programs, line is the same start with the commands of its line;
// nil for other programs. Policies decide a, because each of the commands is decided when it starts. A user's answer
// about line is an answer about a.
func Started(s Session, e ProgramStart) (a, line *permissionv1.Action) {
	a = s.started(e, true)
	if len(e.Args) > 0 && shell.StartsOthers(e.Args[0]) {
		line = s.started(e, false)
	}
	return a, line
}

// started implements Started. alone: leave out the commands that the program may start.
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
	w.argv, w.env = valid(e.Args), s.ownVariables(valid(e.Env))
	s.command(a, w, newPaths(s, a))
	for _, why := range w.unclear {
		unparsed(a, why)
	}
	return a
}

// Connected returns the action of a process that connects a socket: to an address of the internet, or to the unix
// socket at a path. The host of a unix socket without a path is its abstract name.
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

// Reached returns the action of a process that asks acphost's proxy for a connection. It has no addresses, because
// the name is not resolved yet.
func Reached(s Session, to hosts.Endpoint) *permissionv1.Action {
	a := s.action(permissionv1.Door_DOOR_KERNEL)
	a.Kind = "net.connect"
	a.Endpoint = &permissionv1.Endpoint{Host: to.Host.String(), Port: uint32(to.Port)}
	for _, address := range to.Addresses {
		a.Endpoint.Addresses = append(a.Endpoint.Addresses, address.String())
	}
	return a
}

// refusedKind is the kind of actions that the sandbox rejects without asking a policy.
const refusedKind = "sandbox.refused"

// Refused returns the action of a process that the sandbox rejected without asking a policy. what describes it.
func Refused(s Session, what string) *permissionv1.Action {
	a := s.action(permissionv1.Door_DOOR_KERNEL)
	a.Kind = refusedKind
	a.Title = text(what)
	return a
}
