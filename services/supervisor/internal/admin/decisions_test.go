package admin

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/acphost/acphost/internal/certs"
	"github.com/acphost/acphost/internal/connlimit"
	"github.com/acphost/acphost/internal/peer"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// watching is the stream of a caller.
type watching struct {
	grpc.ServerStreamingServer[supervisorv1.WatchDecisionsResponse]
	ctx context.Context
}

func (w watching) Context() context.Context { return w.ctx }

func as(ctx context.Context, id identity) context.Context {
	return context.WithValue(ctx, actingKey{}, id)
}

func TestDecisions_AreShownToPeopleOnly(t *testing.T) {
	for name, c := range map[string]struct {
		who  identity
		want codes.Code
	}{
		"nobody":                      {identity{}, codes.PermissionDenied},
		"a process without proof":     {identity{process: peer.Peer{Known: true, PID: 1}}, codes.PermissionDenied},
		"a process that has ended":    {identity{process: peer.Peer{Known: true, PID: 1, Process: hasEnded{}}}, codes.PermissionDenied},
		"a viewer's certificate":      {identity{certificate: true, name: "v", role: certs.Viewer}, codes.OK},
		"a caller of a gateway":       {identity{certificate: true, role: certs.Gateway, caller: &caller{name: "ann", role: certs.Viewer}}, codes.OK},
		"the supervisor's own editor": {identity{self: true}, codes.OK},
	} {
		s := &decisionService{decisions: nothing{asked: make(chan any, 1)}, watches: connlimit.New(1, 1, connlimit.RejectNew)}
		err := s.WatchDecisions(&supervisorv1.WatchDecisionsRequest{}, watching{ctx: as(t.Context(), c.who)})
		if status.Code(err) != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// busy replays until its context ends.
type busy struct {
	nothing
	begun, end chan struct{}
}

func (b busy) ReplayPolicy(context.Context, *supervisorv1.ReplayPolicyRequest) (*supervisorv1.ReplayPolicyResponse, error) {
	b.begun <- struct{}{}
	<-b.end
	return &supervisorv1.ReplayPolicyResponse{}, nil
}

func TestReplayPolicy_LimitsConcurrentReplays(t *testing.T) {
	b := busy{begun: make(chan struct{}), end: make(chan struct{})}
	s := &decisionService{decisions: b, replays: connlimit.New(2, 1, connlimit.RejectNew)}
	replay := func(who string) <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := s.ReplayPolicy(as(t.Context(), identity{caller: &caller{name: who, role: certs.Operator}}), &supervisorv1.ReplayPolicyRequest{})
			done <- err
		}()
		return done
	}
	ann := replay("ann")
	<-b.begun
	if err := <-replay("ann"); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "try again") {
		t.Errorf("a second one of hers: %v", err)
	}
	bob := replay("bob")
	<-b.begun
	if err := <-replay("cid"); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("more than there may be: %v", err)
	}
	close(b.end)
	if err1, err2 := <-ann, <-bob; err1 != nil || err2 != nil {
		t.Errorf("%v, %v", err1, err2)
	}
	again := replay("ann")
	<-b.begun
	if err := <-again; err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestReplayPolicy_LimitsRuleFile(t *testing.T) {
	for name, c := range map[string]struct {
		req  *supervisorv1.ReplayPolicyRequest
		want string
	}{
		"none":          {&supervisorv1.ReplayPolicyRequest{}, "is empty"},
		"a large one":   {&supervisorv1.ReplayPolicyRequest{Policy: make([]byte, maxPolicy+1)}, "it may have 1048576"},
		"no time":       {&supervisorv1.ReplayPolicyRequest{Policy: []byte("x"), Since: &timestamppb.Timestamp{Nanos: -1}}, "no time"},
		"one that fits": {&supervisorv1.ReplayPolicyRequest{Policy: make([]byte, maxPolicy)}, ""},
	} {
		err := checkRequest(c.req)
		if c.want == "" && err != nil || c.want != "" && (status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
