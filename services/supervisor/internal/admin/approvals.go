package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/delegation"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Approvals holds the questions that wait for a person. Its methods are called concurrently, with validated requests of
// authorized callers. Errors are those of package fault.
type Approvals interface {
	// ListApprovals returns the waiting questions of a session, oldest first; of all sessions if sessionID is empty. It
	// does not block.
	ListApprovals(sessionID string) []*supervisorv1.Approval
	// WatchApprovals sends the waiting questions and their changes until ctx ends. It returns an error of send
	// unchanged.
	WatchApprovals(ctx context.Context, req *supervisorv1.WatchApprovalsRequest, send func(*supervisorv1.WatchApprovalsResponse) error) error
	// AnswerApproval answers a question. The request names the answerer, verified as far as possible.
	AnswerApproval(ctx context.Context, req *supervisorv1.AnswerApprovalRequest) (*supervisorv1.ApprovalAnswer, error)
	// ID returns the id with which the question of a handle (event.Handle) is answered; "" if the handle is unknown.
	ID(handle string) string
}

// maxAnswerer is the maximum length of an answerer's name, in characters.
const maxAnswerer = 64

// anyone is the answerer if a caller does not give a name.
const anyone = "grpc"

// ownWords are names that a caller may not use: acphost uses them for itself and for the client.
var ownWords = []string{"policy", "acphost", "nobody", "front", "timeout", "grant"}

// approvalService passes requests to Approvals.
type approvalService struct {
	supervisorv1.UnimplementedApprovalServiceServer
	approvals Approvals
}

func (s *approvalService) ListApprovals(ctx context.Context, req *supervisorv1.ListApprovalsRequest) (*supervisorv1.ListApprovalsResponse, error) {
	approvals := s.approvals.ListApprovals(req.GetSessionId())
	if !mayAnswer(ctx) {
		for i, a := range approvals {
			approvals[i] = withoutID(a)
		}
	}
	return &supervisorv1.ListApprovalsResponse{Approvals: approvals}, nil
}

func (s *approvalService) WatchApprovals(req *supervisorv1.WatchApprovalsRequest, stream grpc.ServerStreamingServer[supervisorv1.WatchApprovalsResponse]) error {
	send := stream.Send
	if req.GetOnlyLook() || !mayAnswer(stream.Context()) {
		send = func(change *supervisorv1.WatchApprovalsResponse) error { return stream.Send(changeWithoutID(change)) }
	}
	return s.approvals.WatchApprovals(stream.Context(), req, send)
}

func (s *approvalService) AnswerApproval(ctx context.Context, req *supervisorv1.AnswerApprovalRequest) (*supervisorv1.AnswerApprovalResponse, error) {
	answeredBy, err := answerer(identityOf(ctx), req.GetAnsweredBy())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	req = proto.CloneOf(req)
	req.AnsweredBy = answeredBy
	answer, err := s.approvals.AnswerApproval(ctx, req)
	return &supervisorv1.AnswerApprovalResponse{Answer: answer}, err
}

// answerer returns the name that is recorded for a caller's answer. A name from a certificate or a gateway has
// precedence over the name in the request.
func answerer(id identity, claimed string) (string, error) {
	if id.caller != nil {
		return id.String(), nil
	}
	if id.certificate {
		name := presentable(id.name)
		switch {
		case name == "":
			return anyone, nil
		case isOwnWord(name):
			return presentable("certificate of " + name), nil
		}
		return name, nil
	}
	name := presentable(claimed)
	switch {
	case len([]rune(claimed)) > maxAnswerer:
		return "", fmt.Errorf("answered_by: it has more than %d characters", maxAnswerer)
	case isOwnWord(name):
		return "", fmt.Errorf("answered_by: %q is acphost's own word; say who you are, or leave it out", name)
	case name == "":
		return anyone, nil
	}
	return name, nil
}

func isOwnWord(name string) bool { return slices.Contains(ownWords, strings.ToLower(name)) }

// presentable returns a name on one line, with visible characters only.
func presentable(name string) string { return delegation.Presentable(name, maxAnswerer) }
