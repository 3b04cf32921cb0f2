package link

import (
	"context"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
)

// reported asks the gate to check a tool call that the agent reports as ended. An action without a permission request cannot be prevented
// any more, but the user can be notified. History is not checked. The report itself is written first, so that a notice about it follows it.
//
// The check uses the decisions until the report arrived, even if the turn or the session ends meanwhile. It is completed even if the agent
// ends, because many agents end their turn, and some exit, just after a report.
func (p *agentPump) reported(sessionID string, tc acp.ToolCall) error {
	if !acp.ToolCallEnded(tc.Status) {
		return nil
	}
	cc, judged := p.judged(sessionID)
	if !judged {
		return nil
	}
	scope, turn := p.opts.Sessions.Turn(sessionID)
	observedAll := func() bool { return false }
	if p.opts.Containment != nil {
		observedAll = p.opts.Containment.Sees(sessionID)
	}
	r := p.opts.Gate.OfItsTurn(gate.Request{Scope: scope, Turn: turn})
	look := job{weight: int64(tc.Size()), waits: true, run: func(ctx context.Context) {
		ctx = context.WithoutCancel(ctx) // shutdown waits for it, and the gate limits its time
		action := intent.Question(p.judging(ctx, sessionID, cc, nil), tc)
		p.lookFrom(p.opts.AgentEnviron, action)
		p.opts.Gate.Mark(action)
		r.Action = action
		r.Kernel = observedAll()
		for _, item := range acp.ContentItems(tc.Content) {
			if item.TerminalID != "" {
				r.Terminals = append(r.Terminals, item.TerminalID)
			}
		}
		rep, err := p.opts.Gate.Reported(ctx, r, tc.Status == "completed")
		if err != nil || rep.Decision == nil {
			return
		}
		p.tellReport(sessionID, rep)
	}}
	return p.inOrder([]byte(sessionID), tc.Size(), func() error {
		if !p.queue.add(look) {
			p.log.Warn("too much is waiting: what an agent reports as done was not looked at", "session", sessionID, "tool_call", tc.ID)
		}
		return nil
	})
}

// judged reports whether a policy decides about the agent's reports of a session.
func (l *Link) judged(sessionID string) (*acpv1.CallContext, bool) {
	cc, err := l.opts.Sessions.Context(sessionID)
	return cc, err == nil && !l.opts.Sessions.Replaying(sessionID) && l.opts.Gate.Active(rootPaths(cc))
}

// tellReport notifies the user of the policy's decision about a report. Agents also report failed attempts as completed, so the notice says
// what the agent reports, not what it did.
func (l *Link) tellReport(sessionID string, rep gate.Report) {
	switch {
	case rep.Violation:
		l.tellAbout(rep.DenialKey(), sessionID, "The agent reports that it did what it was refused", rep.Denial())
	case rep.Verdict == gate.Deny:
		l.tellAbout(rep.DenialKey(), sessionID, "The agent reports that it did what the policy denies, without asking", rep.Denial())
	default:
		return // a policy would have asked: the action is counted and recorded
	}
	if l.opts.CancelUnasked && rep.Verdict == gate.Deny {
		l.cancelTurn(sessionID)
	}
}

// cancelTurn cancels a turn like the client.
func (l *Link) cancelTurn(sessionID string) {
	l.log.Warn("the turn is cancelled: the agent reports that it did what the policy denies (permission.on_unasked)", "session", sessionID)
	params := append(jsonrpc.AppendString([]byte(`{"sessionId":`), sessionID), '}')
	l.postAgent(jsonrpc.AppendNotification(nil, acp.MethodSessionCancel, params))
	l.sessionCancelled(sessionID)
}
