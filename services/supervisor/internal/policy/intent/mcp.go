package intent

import (
	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// KindMCPStart is the kind of the action that starts an MCP server which a client names for a session.
const KindMCPStart = "mcp.start"

// StartsMCP returns the action of a client that has the agent start an MCP server: its name, its command with the
// arguments, and the names of its environment variables. The values are left out, because they may be secrets.
func StartsMCP(s Session, method, name string, argv, envNames []string) *permissionv1.Action {
	a := s.action(permissionv1.Door_DOOR_CALL)
	a.Kind, a.Method, a.Title = KindMCPStart, method, text(name)
	c := &permissionv1.Command{Text: text(shell.Quote(argv))}
	for _, word := range argv {
		c.Argv = append(c.Argv, text(word))
	}
	c.SubCommands, c.Unparsed = shell.FromArgv(c.Argv)
	if len(s.Roots) > 0 {
		c.Cwd = s.Roots[0]
	}
	for _, name := range envNames {
		c.Env = append(c.Env, text(name)+"=")
	}
	a.Command = c
	return a
}
