package link

import (
	"context"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
	"github.com/acphost/acphost/services/supervisor/internal/intent"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
)

// reported has the gate look at a tool call that the agent reports as ended: what was done without asking cannot be
// prevented any more, but it can be told. History is not judged. The report itself is written first, so that what is told
// of it comes behind it.
func (p *agentPump) reported(sessionID string, tc acp.ToolCall) error {
	if tc.Status != "completed" && tc.Status != "failed" {
		return nil
	}
	cc, judged := p.judged(sessionID)
	if !judged {
		return nil
	}
	if err := p.out.flush(); err != nil {
		return err
	}
	ok := p.queue.add(job{weight: int64(tc.Size()), waits: true, run: func(ctx context.Context) {
		action := intent.Question(p.scene(ctx, sessionID, cc), tc)
		r := p.decisionRequest(sessionID, action)
		for _, item := range acp.ContentItems(tc.Content) {
			if item.TerminalID != "" {
				r.Terminals = append(r.Terminals, item.TerminalID)
			}
		}
		rep, err := p.opts.Gate.Reported(ctx, r, tc.Status == "completed")
		if err != nil || rep.Decision == nil {
			return
		}
		p.tellReport(sessionID, rep, intent.Summary(action))
	}})
	if !ok {
		p.log.Warn("too much is waiting: what an agent reports as done was not looked at", "session", sessionID, "tool_call", tc.ID)
	}
	return nil
}

// judged tells whether anybody judges what an agent reports of a session.
func (l *Link) judged(sessionID string) (*acpv1.CallContext, bool) {
	cc, err := l.opts.Book.Context(sessionID)
	return cc, err == nil && !l.opts.Book.Replaying(sessionID) && l.opts.Gate.Active(rootPaths(cc))
}

func (l *Link) tellReport(sessionID string, rep gate.Report, what string) {
	switch {
	case rep.Violation:
		l.tell(sessionID, "The agent did what it was refused", what+": "+rep.Denial())
	case rep.Verdict == gate.Deny:
		l.tell(sessionID, "The agent did what the policy denies, without asking", what+": "+rep.Denial())
	default:
		return // a policy that would have asked: it is counted and recorded
	}
	if l.opts.CancelUnasked && rep.Verdict == gate.Deny {
		l.cancelTurn(sessionID)
	}
}

// cancelTurn ends a turn as the front would.
func (l *Link) cancelTurn(sessionID string) {
	l.log.Warn("the turn is cancelled: the agent did what the policy denies (permission.on_unasked)", "session", sessionID)
	l.sessionCancelled(sessionID)
	params := append(jsonrpc.AppendString([]byte(`{"sessionId":`), sessionID), '}')
	l.postAgent(jsonrpc.AppendNotification(nil, acp.MethodSessionCancel, params))
}
