package main

import (
	"context"
	"log/slog"
	"os"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
	"github.com/acphost/acphost/services/supervisor/internal/agent"
	"github.com/acphost/acphost/services/supervisor/internal/demo"
	"github.com/acphost/acphost/services/supervisor/internal/host"
)

// programs are what the commands set in motion; tests put others in their place.
type programs struct {
	host func(context.Context, host.Options) int
	// headless starts a supervisor without an editor.
	headless func(context.Context, host.Options) (*host.Supervisor, error)
	demo     func(context.Context, demo.Options) int
	guard    func(args []string) int
	// permd starts acphost's own permd for a command of its tools.
	permd func(context.Context, *slog.Logger) (permissionv1.PolicyServiceClient, func(context.Context) error, error)
	// fromAgent reports whether a process does what an agent or a handler says.
	fromAgent func(pid int) (bool, error)
	// exec becomes the command, with an environment, or returns why it cannot.
	exec func(command, env []string) (status int, err error)
	// terminal reports whether a file is a terminal.
	terminal func(*os.File) bool
	// sockets are the folders in which supervisors of this user may have their sockets, by an environment.
	sockets func(env func(string) string) []string
}

func realPrograms() programs {
	return programs{
		host: host.Run, headless: host.Start, demo: demo.Run, guard: agent.Guard, permd: startPermd, fromAgent: admin.FromAgent, exec: execInPlace,
		terminal: isTerminal, sockets: admin.Dirs,
	}
}
