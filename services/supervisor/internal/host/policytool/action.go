package policytool

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/acphost/acphost/internal/hosts"
	"github.com/acphost/acphost/internal/paths"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
)

// Question describes an action as a user of "acphost policy" enters it.
type Question struct {
	// Command is a command line. Path is a file or folder, absolute or relative to Dir. Exactly one of Command, Path
	// and Host is set.
	Command, Path string
	// Argv is a program that a process starts, with its arguments, for the kind "process.start". In place of a command
	// or a path.
	Argv []string
	// Walls are the walls around the processes. Nil: all for the kinds "process.…", and none for others.
	Walls []permissionv1.Wall
	// Host is a machine, with or without a port (443), and Addresses are those of it that are known. In place of a
	// command or a path.
	Host      string
	Addresses []string
	// Kind is the kind of the action. Empty means "terminal.create" for a command and "fs.read" for a path.
	Kind string
	// Dir is the working directory and the only root of the session, an absolute path.
	Dir string
	// Agent is the agent's name, Mode the session's mode, Tool the agent's name of its tool.
	Agent, Mode, Tool string
	// Gate knows acphost's own files and folders.
	Gate *gate.Gate
}

// Action returns the action that a policy would receive if an agent did this on this machine: an action of the gate or,
// for the kinds "tool.…", a permission request of the agent.
func (q Question) Action() (*permissionv1.Action, error) {
	if (q.Command == "") == (q.Path == "") && q.Host == "" && len(q.Argv) == 0 {
		return nil, errors.New("expected either a command or a path")
	}
	session := intent.Session{
		Agent: q.Agent, Mode: q.Mode, SessionID: "policy-why", Local: true,
		Roots:         []string{q.Dir},
		ResolvedRoots: []string{paths.Real(q.Dir)}, Walls: q.Walls,
	}
	if q.Host != "" {
		return q.connects(session)
	}
	session.Place = func(path string) intent.Place { return placeIn(q.Gate, session.Roots, session.ResolvedRoots, path) }
	file := q.Path
	if file != "" && !filepath.IsAbs(file) {
		file = filepath.Join(q.Dir, file)
	}
	if q.ofProcess() {
		return q.processAction(session, file)
	}
	kind := q.Kind
	switch {
	case kind == "" && q.Command != "":
		kind = "terminal.create"
	case kind == "":
		kind = "fs.read"
	}
	if tool, ok := strings.CutPrefix(kind, "tool."); ok {
		return resolveCommand(q.Gate, intent.Question(session, q.toolCall(tool, file))), nil
	}
	params := map[string]string{"sessionId": session.SessionID}
	if kind == "terminal.create" {
		params["command"] = q.Command
	} else {
		params["path"] = file
	}
	method := methods[kind]
	if method == "" {
		return nil, fmt.Errorf("the kind %q does not define a command or a path; "+
			"expected terminal.create, fs.read, fs.write, fs.list, tool.KIND, process.KIND or net.connect, or an action as JSON", kind)
	}
	if (q.Command != "") != (kind == "terminal.create") {
		return nil, fmt.Errorf("an action of the kind %q has no %s", kind, map[bool]string{true: "command", false: "path"}[q.Command != ""])
	}
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	return resolveCommand(q.Gate, intent.Call(session, method, kind, raw)), nil
}

// connects returns the action of a process that connects to a machine.
func (q Question) connects(s intent.Session) (*permissionv1.Action, error) {
	host, port, err := hosts.Split(q.Host)
	if err != nil {
		if host, err = hosts.Parse(q.Host); err != nil {
			return nil, fmt.Errorf("expected a machine like api.example.com or 192.0.2.1:443, got %q: %w", q.Host, err)
		}
		port = 443
	}
	if q.Kind != "" && q.Kind != kindConnect {
		return nil, fmt.Errorf("an action of the kind %q connects to no machine; the kind is net.connect", q.Kind)
	}
	for _, text := range q.Addresses {
		if address, err := hosts.Parse(text); err != nil || !address.Address.IsValid() {
			return nil, fmt.Errorf("expected an address like 192.0.2.1, got %q", text)
		}
	}
	to, _ := hosts.NewEndpoint(host.String(), uint32(port), q.Addresses)
	return intent.Reached(s, to), nil
}

// methods maps the kinds of actions to the methods of agents.
var methods = map[string]string{
	"terminal.create": "terminal/create",
	"fs.read":         "fs/read_text_file",
	"fs.write":        "fs/write_text_file",
	"fs.list":         "fs/list_directory",
}

// toolCall returns the tool call of an agent's permission request.
func (q Question) toolCall(kind, file string) acp.ToolCall {
	tc := acp.ToolCall{ID: "policy-why", Kind: kind, Name: q.Tool}
	if q.Command != "" {
		tc.RawInput, _ = json.Marshal(map[string]string{"command": q.Command})
		return tc
	}
	tc.RawInput, _ = json.Marshal(map[string]string{"path": file})
	tc.Locations, _ = json.Marshal([]map[string]string{{"path": file}})
	return tc
}

// ParseAction parses an action in JSON.
func ParseAction(name string, data []byte) (*permissionv1.Action, error) {
	a := &permissionv1.Action{}
	if err := protojson.Unmarshal(data, a); err != nil {
		// protojson deliberately varies the space after its own name.
		return nil, fmt.Errorf("%s: expected an action as JSON: %s", name, strings.TrimLeft(strings.TrimPrefix(err.Error(), "proto:"), " \u00a0"))
	}
	if a.GetKind() == "" {
		return nil, fmt.Errorf(`%s: expected an action as JSON, with "kind" at least`, name)
	}
	return a, nil
}
