package link

import (
	"bytes"
	"slices"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/display"
)

// tally adds the messages and bytes read since its last call to the counters.
func (p *agentPump) tally() {
	p.counters.agentMessages.Add(p.messages)
	p.counters.agentBytes.Add(p.size)
	p.messages, p.size = 0, 0
	p.counted()
}

// count counts an update. Consecutive updates usually belong to one session.
func (p *agentPump) count(session []byte) {
	if !bytes.Equal(session, p.session) {
		p.counted()
		p.session = append(p.session[:0], session...)
	}
	p.updates++
}

func (p *agentPump) counted() {
	if p.updates > 0 {
		p.opts.Sessions.Updated(p.session, p.updates)
		p.updates = 0
	}
}

// update records and forwards a session/update.
func (p *agentPump) update(m *jsonrpc.Message) error {
	if p.holdEarly(m) {
		return nil
	}
	kind, report := p.read(m)
	switch {
	case acp.OfToolCall(kind):
		id := string(m.SessionID)
		tc := p.opts.Sessions.ToolCall(id, report)
		p.count(m.SessionID)
		p.callChanged(id, tc)
		if err := p.forwardCall(m, id, report, tc); err != nil {
			return err
		}
		return p.reported(id, tc)
	default:
		p.state(m, kind, report)
	}
	p.count(m.SessionID)
	return p.forward(m.SessionID, m)
}

// read returns the kind of a session/update. For kinds that are recorded, it also returns the update in ACP's current form.
func (p *agentPump) read(m *jsonrpc.Message) (kind string, update []byte) {
	if m.Update == nil { // an older form
		update = acp.UpdateOf(m.Params)
		name, _ := acp.String(acp.Get(update, "sessionUpdate"))
		return acp.UpdateKind([]byte(name)), update
	}
	if kind = acp.UpdateKind(m.Update); kind != "" {
		update = acp.Get(m.Params, "update")
	}
	return kind, update
}

// state records an update that may change the session's mode, or that ends a turn.
func (p *agentPump) state(m *jsonrpc.Message, kind string, update []byte) {
	switch {
	case kind == "" || p.child: // a child has its own mode and turn
		return
	case kind == acp.UpdateState:
		if acp.Idle(update) {
			stop, _ := acp.String(acp.Get(update, "stopReason"))
			p.opts.Sessions.Idle(string(m.SessionID), stop)
			p.turnsEnded(string(m.SessionID), stop, true)
			p.reviewTurn(string(m.SessionID))
		}
		return
	}
	mode, ok := acp.ModeOf(update)
	if !ok {
		mode = acp.OptionMode(update)
	}
	p.opts.Sessions.Mode(string(m.SessionID), mode)
}

// forwardCall forwards a report of a tool call. If the report shows terminals of acphost, the client is notified of them first.
func (p *agentPump) forwardCall(m *jsonrpc.Message, sessionID string, report []byte, tc acp.ToolCall) error {
	if p.display == nil || m.Update == nil || !display.Mentions(report) {
		return p.forward(m.SessionID, m)
	}
	if p.order.holds(m.SessionID) {
		line := slices.Clone(m.Raw)
		return p.inOrder(m.SessionID, len(line)+tc.Size(), func() error {
			return p.display.Forward(sessionID, line, tc, p.sendClient, "params", "update")
		})
	}
	return p.display.Forward(sessionID, m.Raw, tc, func(bufs ...[]byte) error {
		if len(bufs) == 1 && &bufs[0][0] == &m.Raw[0] {
			return p.out.add(bufs[0])
		}
		return p.inject(bufs...)
	}, "params", "update")
}

// inject writes a frame of acphost in order.
func (p *agentPump) inject(bufs ...[]byte) error {
	if err := p.out.flush(); err != nil {
		return err
	}
	return p.sendClient(bufs...)
}
