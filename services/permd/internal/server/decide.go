package server

import (
	"context"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// Decide judges one action by the rule files in force.
func (s *Server) Decide(ctx context.Context, req *permissionv1.DecideRequest) (*permissionv1.DecideResponse, error) {
	decision := s.files.Load().Decide(req.GetAction())
	// What the action is about stays out of the log: paths and commands may hold secrets.
	s.log.DebugContext(ctx, "decided", "kind", req.GetAction().GetKind(), "verdict", decision.GetVerdict().String(),
		"rule", decision.GetRule())
	return decision, nil
}
