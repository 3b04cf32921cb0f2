package acp

import "errors"

// MCPCommand is an MCP server of a session that the agent starts as a command.
type MCPCommand struct {
	// Name is the name of the server.
	Name string
	// Argv is the command with its arguments.
	Argv []string
	// EnvNames are the names of its environment variables. Their values may be secrets.
	EnvNames []string
}

// MCPCommands returns the MCP servers with a command in the params of a request that opens a session. It returns an
// error if the list cannot be parsed.
func MCPCommands(params []byte) (all []MCPCommand, err error) {
	servers := Get(params, "mcpServers")
	if servers == nil || string(servers) == "null" {
		return nil, nil
	}
	unreadable := errors.New("mcpServers: expected an array of servers, each with its command as a string and its arguments as strings")
	if servers[0] != '[' {
		return nil, unreadable
	}
	broken := Elements(servers, func(v []byte) bool {
		command := Get(v, "command")
		if command == nil {
			return true
		}
		var s MCPCommand
		name, ok := Exact(command)
		s.Name, _ = Exact(Get(v, "name"))
		args, argsOK := Strings(Get(v, "args"))
		if !ok || name == "" || !argsOK && Get(v, "args") != nil {
			err = unreadable
			return false
		}
		s.Argv = append([]string{name}, args...)
		_ = Elements(Get(v, "env"), func(e []byte) bool {
			if name, ok := Exact(Get(e, "name")); ok {
				s.EnvNames = append(s.EnvNames, name)
			}
			return true
		})
		all = append(all, s)
		return true
	})
	if err == nil && broken != nil {
		err = unreadable
	}
	return all, err
}
