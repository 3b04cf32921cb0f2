package server

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"

	"github.com/acphost/acphost/services/permd/internal/importer"
	"github.com/acphost/acphost/services/permd/internal/ready"
)

// tools serves acphost.permission.v1.PolicyService. It decides on no agent's action.
type tools struct {
	permissionv1.UnimplementedPolicyServiceServer

	server *Server // whose files are in force
	parsed *parsed
}

// Import converts another program's permissions to a rule file.
func (tools) Import(_ context.Context, req *permissionv1.ImportRequest) (*permissionv1.ImportResponse, error) {
	rules, dropped, format, err := importer.Import(req.GetFormat(), req.GetName(), req.GetContent())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return &permissionv1.ImportResponse{Policy: rules, Dropped: dropped, Format: format}, nil
}

// ListReadyPolicies lists the rule files that permd contains.
func (tools) ListReadyPolicies(
	context.Context, *permissionv1.ListReadyPoliciesRequest,
) (*permissionv1.ListReadyPoliciesResponse, error) {
	return &permissionv1.ListReadyPoliciesResponse{Policies: ready.List()}, nil
}
