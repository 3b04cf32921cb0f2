package admin

import (
	"context"
	"encoding/hex"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// controlService checks requests and hands them to a Control. Who may call was decided before; see access.go.
type controlService struct {
	supervisorv1.UnimplementedSupervisorControlServiceServer
	control Control
}

func (s *controlService) RestartHandler(ctx context.Context, req *supervisorv1.RestartHandlerRequest) (*supervisorv1.RestartHandlerResponse, error) {
	if req.GetName() == "" {
		return nil, errNoName()
	}
	res, err := s.control.RestartHandler(ctx, req)
	return res, asStatus(err)
}

func (s *controlService) SwapHandler(ctx context.Context, req *supervisorv1.SwapHandlerRequest) (*supervisorv1.SwapHandlerResponse, error) {
	switch digest, err := hex.DecodeString(req.GetSha256()); {
	case req.GetName() == "":
		return nil, errNoName()
	case (len(req.GetCommand()) == 0) == (req.GetAddress() == ""):
		return nil, status.Error(codes.InvalidArgument, "command, address: exactly one of them says what takes the handler's place")
	case len(req.GetCommand()) > 0 && req.GetCommand()[0] == "":
		return nil, status.Error(codes.InvalidArgument, "command: its first element, the program, is empty")
	case err != nil || len(digest) != 0 && len(digest) != 32:
		return nil, status.Error(codes.InvalidArgument, "sha256: it takes 64 hexadecimal characters")
	case req.GetAddress() != "" && (req.GetSha256() != "" || req.GetNoTls()):
		return nil, status.Error(codes.InvalidArgument, "sha256, no_tls: they are for a command; an address is reached as the configuration says")
	}
	res, err := s.control.SwapHandler(ctx, req)
	return res, asStatus(err)
}

func (s *controlService) ReloadPolicy(ctx context.Context, req *supervisorv1.ReloadPolicyRequest) (*supervisorv1.ReloadPolicyResponse, error) {
	res, err := s.control.ReloadPolicy(ctx, req)
	return res, asStatus(err)
}

func (s *controlService) RevokeGrants(ctx context.Context, req *supervisorv1.RevokeGrantsRequest) (*supervisorv1.RevokeGrantsResponse, error) {
	if len(req.GetIds()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "ids: name at least one grant")
	}
	res, err := s.control.RevokeGrants(ctx, req)
	return res, asStatus(err)
}

func errNoName() error { return status.Error(codes.InvalidArgument, "name: which handler?") }
