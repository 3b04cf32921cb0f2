package server

import (
	"context"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"

	"github.com/acphost/acphost/services/permd/internal/policy"
)

// Check checks a rule file that the caller has read.
func (tools) Check(_ context.Context, req *permissionv1.CheckRequest) (*permissionv1.CheckResponse, error) {
	return policy.Check(req.GetFile().GetName(), req.GetFile().GetContent(), surroundings(nil)), nil
}
