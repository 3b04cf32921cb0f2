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

// Approvals are the questions that wait for a person. Its methods are called concurrently, with requests that keep to the
// contract, and for callers that may. Errors are those of package fault.
type Approvals interface {
	// ListApprovals are the questions that wait, oldest first: of one session, or of all if it is empty. It answers at
	// once.
	ListApprovals(sessionID string) []*supervisorv1.Approval
	// WatchApprovals sends what waits and what becomes of it until ctx ends. An error of send is returned as it is.
	WatchApprovals(ctx context.Context, req *supervisorv1.WatchApprovalsRequest, send func(*supervisorv1.WatchApprovalsResponse) error) error
	// AnswerApproval answers a question. Who answers stands in the request, and is true as far as that can be told.
	AnswerApproval(ctx context.Context, req *supervisorv1.AnswerApprovalRequest) (*supervisorv1.ApprovalAnswer, error)
	// ID is the id by which the question of a handle (event.Handle) is answered; "" for one that is not known.
	ID(handle string) string
}

// maxAnswerer is the longest name of who answers, in characters.
const maxAnswerer = 64

// anyone answers where a caller does not say who it is.
const anyone = "grpc"

// ownWords are answerers that a caller cannot be: acphost says them of itself and of the client.
var ownWords = []string{"policy", "acphost", "nobody", "front", "timeout", "grant"}

// approvalService hands requests to Approvals.
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
	who, err := answerer(identityOf(ctx), req.GetAnsweredBy())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	req = proto.CloneOf(req)
	req.AnsweredBy = who
	answer, err := s.approvals.AnswerApproval(ctx, req)
	return &supervisorv1.AnswerApprovalResponse{Answer: answer}, err
}

// answerer is who a caller is for those who learn who answered. What a certificate or a gateway says counts before what the
// caller says.
func answerer(who identity, says string) (string, error) {
	if who.caller != nil {
		return who.String(), nil
	}
	if who.certificate {
		name := presentable(who.name)
		switch {
		case name == "":
			return anyone, nil
		case isOwnWord(name):
			return presentable("certificate of " + name), nil
		}
		return name, nil
	}
	name := presentable(says)
	switch {
	case len([]rune(says)) > maxAnswerer:
		return "", fmt.Errorf("answered_by: it has more than %d characters", maxAnswerer)
	case isOwnWord(name):
		return "", fmt.Errorf("answered_by: %q is acphost's own word; say who you are, or leave it out", name)
	case name == "":
		return anyone, nil
	}
	return name, nil
}

func isOwnWord(name string) bool { return slices.Contains(ownWords, strings.ToLower(name)) }

// presentable is a name on one line, of characters that can be seen.
func presentable(name string) string { return delegation.Presentable(name, maxAnswerer) }
