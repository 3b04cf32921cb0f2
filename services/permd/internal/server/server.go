// Package server serves package policy as acphost.permission.v1.PermissionService. It holds the current policy and
// translates messages to calls; it makes no decisions.
package server

import (
	"log/slog"
	"sync/atomic"

	"google.golang.org/grpc"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"

	"github.com/acphost/acphost/services/permd/internal/layers"
	"github.com/acphost/acphost/services/permd/internal/policy"
)

// Server is the service. It is safe for concurrent use.
type Server struct {
	permissionv1.UnimplementedPermissionServiceServer

	files atomic.Pointer[layers.Files]
	log   *slog.Logger
}

// New returns a server without a policy: until Configure sets one, a person is asked about every permission request of
// an agent, and calls are allowed.
func New(log *slog.Logger) *Server {
	s := &Server{log: log}
	files, err := layers.Load(&permissionv1.Settings{}, nil, policy.Surroundings{}, log)
	if err != nil { // without settings there is nothing that could fail
		panic(err)
	}
	s.files.Store(files)
	return s
}

// Register adds the permission service and the policy service, for people who write rules, to a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	permissionv1.RegisterPermissionServiceServer(r, s)
	permissionv1.RegisterPolicyServiceServer(r, tools{server: s, parsed: newParsed()})
}

// Keep returns the data that the supervisor passes back if it has to restart permd. It implements handler.Handler.Keep.
func (s *Server) Keep() []byte {
	state, _ := s.files.Load().State()
	return state
}
