package server

import (
	"context"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
	"github.com/acphost/acphost/sdk/programs"

	"github.com/acphost/acphost/services/termd/internal/command"
)

// ResolveCommand returns how a command would run, before a decision about it.
func (s *Server) ResolveCommand(
	_ context.Context, req *terminalv1.ResolveCommandRequest,
) (*terminalv1.ResolveCommandResponse, error) {
	plan, err := s.plan(req)
	if err != nil {
		return nil, err
	}
	resolver := programs.Resolver{Environ: plan.Env, Quiet: true}
	for _, root := range req.GetContext().GetRoots() {
		resolver.Roots = append(resolver.Roots, root.GetPath())
	}
	found := resolver.Look(req.GetSimpleCommands())
	// The resolver found the folder by its name, which may lead elsewhere by now.
	again, err := s.plan(req)
	if err != nil {
		return nil, err
	}
	if *again.Folder != *plan.Folder {
		return nil, statusOf(command.Replaced(plan.Cwd))
	}
	return &terminalv1.ResolveCommandResponse{
		Found: found,
		Command: &acpv1.ResolvedCommand{Argv: plan.Args, Shell: plan.Shell, Program: plan.Program, Missing: plan.Program == "", Directory: &acpv1.Directory{
			Path: plan.Folder.Path, Device: plan.Folder.Device, Inode: plan.Folder.Inode,
		}},
		Cwd:     plan.Folder.Path,
		Program: plan.Program,
	}, nil
}
