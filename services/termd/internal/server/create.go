package server

import (
	"context"

	"google.golang.org/protobuf/proto"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"

	"github.com/acphost/acphost/services/termd/internal/command"
	"github.com/acphost/acphost/services/termd/internal/terminal"
)

// Create answers terminal/create.
func (s *Server) Create(_ context.Context, req *terminalv1.CreateRequest) (*terminalv1.CreateResponse, error) {
	t, err := s.create(req, req.OutputByteLimit)
	if err != nil {
		return nil, err
	}
	return &terminalv1.CreateResponse{TerminalId: t.ID()}, nil
}

// commandRequest is the common interface of requests that name a command.
type commandRequest interface {
	GetContext() *acpv1.CallContext
	GetCommand() string
	GetArgs() []string
	GetEnv() []*terminalv1.EnvVariable
	GetCwd() string
}

// create starts the command of a request. A limit of 0 keeps no output; nil means the default.
func (s *Server) create(req commandRequest, limit *uint64) (*terminal.Terminal, error) {
	scope, err := scopeOf(req.GetContext())
	if err != nil {
		return nil, err
	}
	plan, err := s.plan(req)
	if err != nil {
		return nil, err
	}
	if id := req.GetContext().GetConfinement(); id != "" {
		box, err := s.confinements.assign(id)
		if err != nil {
			return nil, err
		}
		defer box.Decisions.Close()
		plan.Confine(box)
	}
	if limit == nil {
		limit = proto.Uint64(terminal.DefaultOutput)
	}
	t, err := s.terminals.Create(scope, plan, *limit)
	if err != nil {
		return nil, statusOf(err)
	}
	return t, nil
}

// plan resolves the command of a request.
func (s *Server) plan(req commandRequest) (command.Plan, error) {
	c := req.GetContext()
	r := command.Request{Command: req.GetCommand(), Args: req.GetArgs(), Cwd: req.GetCwd()}
	for _, v := range req.GetEnv() {
		r.Env = append(r.Env, command.Variable{Name: v.GetName(), Value: v.GetValue()})
	}
	for _, root := range c.GetRoots() {
		r.Roots = append(r.Roots, root.GetPath())
	}
	if decided := c.GetResolvedCommand(); decided != nil {
		r.Decided = &command.Argv{Args: decided.GetArgv(), Shell: decided.GetShell(), Program: decided.GetProgram(), Missing: decided.GetMissing()}
		if d := decided.GetDirectory(); d != nil {
			r.Decided.Folder = &command.Folder{Path: d.GetPath(), Device: d.GetDevice(), Inode: d.GetInode()}
		}
	}
	r.RuleAllowed = c.GetUnasked()
	plan, err := command.Resolve(*s.config.Load(), r)
	if err != nil {
		return command.Plan{}, statusOf(err)
	}
	return plan, nil
}
