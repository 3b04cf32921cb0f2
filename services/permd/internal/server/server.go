// Package server serves package policy as acphost.permission.v1.PermissionService. It holds which policy is in force and
// turns messages into calls; it decides nothing.
package server

import (
	"log/slog"
	"sync/atomic"

	"google.golang.org/grpc"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"

	"github.com/acphost/acphost/services/permd/internal/layers"
	"github.com/acphost/acphost/services/permd/internal/policy"
)

// ServiceName is the full name of the gRPC service.
const ServiceName = "acphost.permission.v1.PermissionService"

// Server is the service. It is safe for concurrent use.
type Server struct {
	permissionv1.UnimplementedPermissionServiceServer

	files atomic.Pointer[layers.Files]
	log   *slog.Logger
}

// New makes a server without a policy: until Configure gives it one, a person is asked about everything that an agent
// asks, and calls pass.
func New(log *slog.Logger) *Server {
	s := &Server{log: log}
	files, err := layers.Load(&permissionv1.Settings{}, policy.Surroundings{}, log)
	if err != nil { // without settings there is nothing that could fail
		panic(err)
	}
	s.files.Store(files)
	return s
}

// Register adds the service, and that for people who write rules, to a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	permissionv1.RegisterPermissionServiceServer(r, s)
	permissionv1.RegisterPolicyServiceServer(r, newTools(s.explain))
}

// explain explains what Decide would say of an action.
func (s *Server) explain(a *permissionv1.Action) *permissionv1.ExplainResponse {
	return s.files.Load().Explain(a)
}
