package server

import (
	"context"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// Answered logs a person's answer. Decisions do not depend on it: the supervisor remembers answers.
func (s *Server) Answered(ctx context.Context, req *permissionv1.AnsweredRequest) (*permissionv1.AnsweredResponse, error) {
	s.log.DebugContext(ctx, "answered", "kind", req.GetAction().GetKind(), "rule", req.GetDecision().GetRule(),
		"outcome", req.GetOutcome(), "by", req.GetAnsweredBy())
	return &permissionv1.AnsweredResponse{}, nil
}
