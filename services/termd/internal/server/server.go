// Package server serves package terminal as acphost.terminal.v1.TerminalService. It translates messages to calls and
// errors to gRPC status, and makes no decisions.
package server

import (
	"log/slog"
	"os"
	"sync"
	"sync/atomic"

	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
	"google.golang.org/grpc"

	"github.com/acphost/acphost/services/termd/internal/command"
	"github.com/acphost/acphost/services/termd/internal/guard"
	"github.com/acphost/acphost/services/termd/internal/terminal"
)

// Server is the service. It is safe for concurrent use.
type Server struct {
	terminalv1.UnimplementedTerminalServiceServer

	log          *slog.Logger
	dedicated    bool
	startOnce    sync.Once    // done by the first of Register and Configure
	guard        *guard.Guard // nil: none
	terminals    *terminal.Terminals
	config       atomic.Pointer[command.Config]
	confinements confinements
}

// New returns a server; it starts nothing before Register or Configure is called. dedicated: the process belongs to
// this handler only: the server then adopts the orphans of its commands, and starts a guard that ends the commands if
// the process is killed.
func New(log *slog.Logger, dedicated bool) *Server {
	return &Server{log: log, dedicated: dedicated}
}

// Register adds the service to a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	s.startOnce.Do(s.start)
	terminalv1.RegisterTerminalServiceServer(r, s)
}

// ReleaseScope releases the terminals of a session, and returns when all their processes are dead.
func (s *Server) ReleaseScope(scope string) { s.terminals.ReleaseScope(scope) }

// Close ends all commands. No terminal can be created afterwards.
func (s *Server) Close() {
	s.startOnce.Do(s.start)
	s.terminals.Close()
	if s.guard != nil {
		s.guard.Close()
	}
}

// start starts the guard and the terminals.
func (s *Server) start() {
	mark := command.NewMark(command.Mark)
	o := terminal.Options{Log: s.log, Mark: mark, Adopt: s.dedicated}
	if s.dedicated {
		setCloseOnExec()
		var err error
		if s.guard, err = guard.Start(mark, s.log); err != nil {
			s.log.Error("there is no guard: commands will live on if this process is killed", "error", err)
		} else {
			o.Guard = s.guard
			o.Exclude = func() []int { return []int{s.guard.PID()} }
		}
	}
	s.terminals = terminal.New(o)
	s.config.Store(&command.Config{Environ: command.Inherit(os.Environ(), command.Filter{})})
}
