package admin

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/connlimit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Decisions reads the record of decisions. Its methods are called concurrently, with validated requests, and return
// when their context ends. Errors are those of package fault.
type Decisions interface {
	// WatchDecisions sends the newest recorded decisions, then each new one. It returns an error of send unchanged.
	WatchDecisions(ctx context.Context, req *supervisorv1.WatchDecisionsRequest, send func(*supervisorv1.WatchDecisionsResponse) error) error
	// ReplayPolicy applies a rule file to recorded actions.
	ReplayPolicy(ctx context.Context, req *supervisorv1.ReplayPolicyRequest) (*supervisorv1.ReplayPolicyResponse, error)
}

const (
	// maxPolicy is the maximum size of a rule file in a request, in bytes: that of a rule file on disk.
	maxPolicy = 1 << 20
	// maxReplays is the limit of concurrent replays. Each caller may have one.
	maxReplays = 4
	// maxWatches limits concurrent watches, maxWatchesEach those of one caller: each watch reads the record's file ten
	// times a second.
	maxWatches, maxWatchesEach = 128, 16
)

// decisionService serves Decisions.
type decisionService struct {
	supervisorv1.UnsafeDecisionServiceServer
	decisions Decisions
	replays   *connlimit.Limiter // shared by both servers
	watches   *connlimit.Limiter // shared by both servers
}

// callerOf returns a key that identifies a caller, including callers that a gateway calls for.
func callerOf(id identity) string {
	if id.caller != nil {
		return "for " + id.caller.name
	}
	return id.origin()
}

func (s *decisionService) WatchDecisions(req *supervisorv1.WatchDecisionsRequest, stream grpc.ServerStreamingServer[supervisorv1.WatchDecisionsResponse]) error {
	id := identityOf(stream.Context())
	if !id.certificate && !id.self && id.caller == nil && !id.person() {
		// Unlike other state, decisions show an agent how to approach the limits of the policy.
		return status.Error(codes.PermissionDenied, "decisions are not shown to agents, handlers and what they start")
	}
	leave, ok := s.watches.Admit(callerOf(id), nil)
	if !ok {
		return status.Error(codes.ResourceExhausted, "too many watch decisions: try again later")
	}
	defer leave()
	return s.decisions.WatchDecisions(stream.Context(), req, stream.Send)
}

func (s *decisionService) ReplayPolicy(ctx context.Context, req *supervisorv1.ReplayPolicyRequest) (*supervisorv1.ReplayPolicyResponse, error) {
	leave, ok := s.replays.Admit(callerOf(identityOf(ctx)), nil)
	if !ok {
		return nil, status.Error(codes.ResourceExhausted, "a replay of this caller is under way, or too many of others are: try again when it has ended")
	}
	defer leave()
	return s.decisions.ReplayPolicy(ctx, req)
}

func replayed(r *supervisorv1.ReplayPolicyRequest) error {
	switch {
	case len(r.GetPolicy()) == 0:
		return errors.New("policy: the rule file is empty")
	case len(r.GetPolicy()) > maxPolicy:
		return fmt.Errorf("policy: the rule file has %d bytes; it may have %d", len(r.GetPolicy()), maxPolicy)
	case r.GetSince() != nil && !r.GetSince().IsValid():
		return errors.New("since: it is no time")
	}
	return nil
}
