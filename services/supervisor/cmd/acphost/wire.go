package main

import (
	"context"
	"os"

	"github.com/acphost/acphost/services/supervisor/internal/agent"
	"github.com/acphost/acphost/services/supervisor/internal/demo"
	"github.com/acphost/acphost/services/supervisor/internal/host"
)

// programs are what the commands set in motion; tests put others in their place.
type programs struct {
	host  func(context.Context, host.Options) int
	demo  func(context.Context, demo.Options) int
	guard func(args []string) int
	// exec becomes the command, or returns why it cannot.
	exec func(command []string) (status int, err error)
	// terminal reports whether a file is a terminal.
	terminal func(*os.File) bool
}

func realPrograms() programs {
	return programs{host: host.Run, demo: demo.Run, guard: agent.Guard, exec: execInPlace, terminal: isTerminal}
}
