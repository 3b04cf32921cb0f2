package admin

import (
	"context"
	"io"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
)

// nothing has all parts of a server, and answers with err and with empty messages. Streams of events stay open until
// their contexts end; asked records requests that tests check.
type nothing struct {
	Agents
	Sessions
	err   error
	asked chan any // nil: nothing is noted
}

func (n nothing) note(req any) error {
	if n.asked != nil {
		n.asked <- req
	}
	return n.err
}

func (n nothing) StartAgent(_ context.Context, req *supervisorv1.StartAgentRequest) (*supervisorv1.StartAgentResponse, error) {
	return &supervisorv1.StartAgentResponse{}, n.note(req)
}

func (n nothing) OpenAgent(_ context.Context, req *supervisorv1.GatewayOpen, _ io.Reader, _ io.Writer, _ func(*supervisorv1.Agent) error) error {
	return n.note(req)
}

func (n nothing) NewSession(_ context.Context, req *supervisorv1.NewSessionRequest) (*supervisorv1.NewSessionResponse, error) {
	return &supervisorv1.NewSessionResponse{}, n.note(req)
}

func (n nothing) Prompt(_ context.Context, req *supervisorv1.PromptRequest, _ func(*supervisorv1.Event) error) error {
	return n.note(req)
}

func (n nothing) SetConfigOption(_ context.Context, req *supervisorv1.SetConfigOptionRequest) (*supervisorv1.SetConfigOptionResponse, error) {
	return &supervisorv1.SetConfigOptionResponse{}, n.note(req)
}

func (n nothing) WatchEvents(ctx context.Context, _ string, _ int, _ func([]event.Encoded) error) error {
	if err := n.note("watching"); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func (n nothing) WatchSession(ctx context.Context, req *supervisorv1.WatchSessionRequest, _ func(*supervisorv1.Event) error) error {
	return n.note(req)
}

func (n nothing) WatchDecisions(_ context.Context, req *supervisorv1.WatchDecisionsRequest, _ func(*supervisorv1.WatchDecisionsResponse) error) error {
	return n.note(req)
}

func (n nothing) ReplayPolicy(_ context.Context, req *supervisorv1.ReplayPolicyRequest) (*supervisorv1.ReplayPolicyResponse, error) {
	return &supervisorv1.ReplayPolicyResponse{}, n.note(req)
}

func (n nothing) ListApprovals(string) []*supervisorv1.Approval { return nil }

func (n nothing) WatchApprovals(ctx context.Context, req *supervisorv1.WatchApprovalsRequest, send func(*supervisorv1.WatchApprovalsResponse) error) error {
	return n.note(req)
}

func (n nothing) ID(string) string { return "" }

func (n nothing) AnswerApproval(_ context.Context, req *supervisorv1.AnswerApprovalRequest) (*supervisorv1.ApprovalAnswer, error) {
	return &supervisorv1.ApprovalAnswer{AnsweredBy: req.GetAnsweredBy()}, n.note(req)
}

// noState is a State that is empty.
type noState struct{ State }

func (noState) GetSession(context.Context, *supervisorv1.GetSessionRequest) (*supervisorv1.GetSessionResponse, error) {
	return &supervisorv1.GetSessionResponse{}, nil
}

func (noState) GetUsage(context.Context, *supervisorv1.GetUsageRequest) (*supervisorv1.GetUsageResponse, error) {
	return nil, errReached
}

func (noState) GetStatus(context.Context, *supervisorv1.GetStatusRequest) (*supervisorv1.GetStatusResponse, error) {
	return &supervisorv1.GetStatusResponse{}, nil
}
