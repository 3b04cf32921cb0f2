package intent

import (
	"strings"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// Call returns the action of a method call by an agent. kind is the method's kind of action; a question to a person
// is always an elicitation. params are the parameters as the agent sent them.
func Call(s Session, method, kind string, params []byte) *permissionv1.Action {
	a := s.called(method, kind)
	if err := acp.Members(params, func(string, []byte) bool { return true }); err != nil {
		unparsed(a, "the params cannot be read in one way only")
	}
	s.names(a, params)
	return a
}

// Names is Call without the check that the params are unambiguous.
func Names(s Session, method, kind string, params []byte) *permissionv1.Action {
	a := s.called(method, kind)
	s.names(a, params)
	return a
}

// called returns the action of a method call.
func (s Session) called(method, kind string) *permissionv1.Action {
	a := s.action(permissionv1.Door_DOOR_CALL)
	a.Kind = cut(kind, maxTitle)
	if strings.HasPrefix(method, "elicitation/") {
		a.Kind = "elicitation"
	}
	a.Method = cut(method, maxTitle)
	return a
}

// names adds the paths, the command or the text that a call names.
func (s Session) names(a *permissionv1.Action, params []byte) {
	paths := newPaths(s, a)
	switch a.GetKind() {
	case "fs.read", "fs.list": // only the path matters: the written content is not copied into the action
		paths.param(params, permissionv1.Access_ACCESS_READ)
	case "fs.write":
		paths.param(params, permissionv1.Access_ACCESS_WRITE)
	case "terminal.create":
		s.create(a, params, paths)
	default:
		if len(params) > maxRawInput {
			unparsed(a, "the params are over 1 MiB")
		} else {
			rawInput(a, params)
		}
	}
}

// param adds the path parameter of ACP's file methods, which must be absolute and not a URL.
func (p *paths) param(params []byte, access permissionv1.Access) {
	file, ok := acp.Exact(acp.Get(params, "path"))
	if !ok || file == "" {
		unparsed(p.action, "the call does not say which path")
		return
	}
	if file[0] != '/' {
		unparsed(p.action, "the path is not absolute")
	}
	p.place(file, access)
}

// create reads the parameters of terminal/create. A command with arguments is executed directly, without a shell.
func (s Session) create(a *permissionv1.Action, params []byte, p *paths) {
	w := claim{source: "the call"}
	var ok bool
	w.line, ok = acp.Exact(acp.Get(params, "command"))
	w.expect(ok && w.line != "", "command")
	if raw := optional(params, "args"); raw != nil {
		args, ok := acp.Strings(raw)
		w.expect(ok, "args")
		if ok && len(args) > 0 {
			w.argv, w.line = append([]string{w.line}, args...), ""
		}
	}
	if raw := optional(params, "env"); raw != nil {
		w.env, ok = variables(raw)
		w.expect(ok, "env")
		w.env = s.ownVariables(w.env)
	}
	if raw := optional(params, "cwd"); raw != nil {
		dir, ok := acp.Exact(raw)
		w.expect(ok, "cwd")
		if ok && dir != "" {
			w.cwd = []string{dir}
		}
	}
	s.command(a, w, p)
	for _, why := range w.unclear {
		unparsed(a, why)
	}
}

// optional returns a member, nil if it is absent or null.
func optional(params []byte, name string) []byte {
	if raw := acp.Get(params, name); string(raw) != "null" {
		return raw
	}
	return nil
}
