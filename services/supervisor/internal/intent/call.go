package intent

import (
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// Call normalises a method that an agent calls: kind is the method's action, params are as the agent sent them.
func Call(s Scene, method, kind string, params []byte) *permissionv1.Action {
	a := &permissionv1.Action{
		Kind:      kind,
		Agent:     s.Agent,
		Mode:      s.Mode,
		SessionId: s.SessionID,
		Door:      permissionv1.Door_DOOR_CALL,
		Roots:     s.Roots,
		Method:    method,
	}
	paths := newPaths(s)
	switch kind {
	default:
		if len(params) <= maxRawInput {
			a.RawInput = string(params)
		}
	case "fs.read", "fs.list": // the path says enough
		paths.add(text(params, "path"), permissionv1.Access_ACCESS_READ)
	case "fs.write":
		paths.add(text(params, "path"), permissionv1.Access_ACCESS_WRITE)
	case "terminal.create":
		w := said{cwd: text(params, "cwd"), env: environment(acp.Get(params, "env"))}
		w.line = text(params, "command")
		if args, ok := acp.Strings(acp.Get(params, "args")); ok && len(args) > 0 {
			w.argv, w.line = append([]string{w.line}, args...), ""
		}
		a.Command = s.command(w)
		if a.Command != nil {
			paths.redirections(a.Command)
		}
	}
	a.Paths = paths.list
	return a
}

func text(obj []byte, path ...string) string {
	s, _ := acp.String(acp.Get(obj, path...))
	return s
}

// environment reads ACP's list of environment variables.
func environment(raw []byte) []string {
	if len(raw) < 2 || raw[0] != '[' {
		return nil
	}
	var env []string
	_ = acp.Elements(raw, func(v []byte) bool {
		env = append(env, text(v, "name")+"="+text(v, "value"))
		return true
	})
	return env
}
