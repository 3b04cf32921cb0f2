package server

import (
	"bytes"
	"context"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// Decide decides on one action by the rule files in force.
func (s *Server) Decide(ctx context.Context, req *permissionv1.DecideRequest) (*permissionv1.DecideResponse, error) {
	files := s.files.Load()
	decide := files.Decide
	if req.GetReuse() {
		decide = files.DecideToReuse
	}
	decision := decide(req.GetAction())
	if len(req.GetKeptDigest()) > 0 {
		if state, digest := files.State(); !bytes.Equal(digest, req.GetKeptDigest()) {
			decision.Keep = state
		}
	}
	// The action's content is not logged: paths and commands may contain secrets.
	s.log.DebugContext(ctx, "decided", "kind", req.GetAction().GetKind(), "verdict", decision.GetVerdict().String(),
		"rule", decision.GetRule())
	return decision, nil
}
