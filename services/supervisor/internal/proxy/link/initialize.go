package link

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
)

// initialize holds the request until the handlers are ready, adds their capabilities to it, and forwards it.
func (p *clientPump) initialize(c *clientCall, m *jsonrpc.Message) error {
	line := m.Raw
	if !p.opts.Observe {
		ctx, cancel := context.WithTimeout(p.ctx, readyTimeout)
		table, err := p.opts.Ready(ctx)
		cancel()
		if err != nil {
			if p.ctx.Err() != nil {
				return errHandled // the agent has ended, and the request was answered
			}
			p.endAfter(NotReady, err, func() {
				if c, ok := p.removeClientCall(c.id); ok {
					p.refuseClient(c.id, jsonrpc.CodeInternal, err.Error())
				}
			})
			return errHandled
		}
		p.table.Store(table)
		p.routesOn.Store(true)
		init := acp.ParseInitialize(m.Params)
		p.notices.Store(init.Notices)
		elicitation := acp.Get(m.Params, "clientCapabilities", "elicitation")
		if elicitation == nil && init.ProtocolVersion >= 2 {
			elicitation = acp.Get(m.Params, "capabilities", "elicitation")
		}
		p.elicits.Store(len(elicitation) > 0 && elicitation[0] == '{')
		if p.display != nil {
			p.display.Client(init.TerminalOutput)
		}
		// An editor that asks for version 2 may get the answer 1, and its agent then needs the capabilities. acphost itself asks for
		// version 2 only if the agent has rejected version 1, and version 2 has no methods for files and terminals.
		if !p.opts.Program || init.ProtocolVersion < 2 {
			line, err = acp.RewriteInitialize(line, table.Capabilities(), table.CapabilityMeta())
		}
		if err != nil {
			if c, ok := p.removeClientCall(c.id); ok {
				p.refuseClient(c.id, jsonrpc.CodeInvalidParams, fmt.Sprintf("initialize: %v", err))
			}
			return nil
		}
	}
	id := c.id
	timeout := p.opts.InitializeTimeout
	c.timer.Store(time.AfterFunc(timeout, func() {
		defer panics.Recover(p.log, "ending an agent that does not answer initialize", p.broken)
		if c, ok := p.clientCalls.Remove(id); ok {
			late := fmt.Sprintf("the agent did not answer initialize within %v", timeout)
			why := p.Dropped() + p.RefusedAtStart()
			p.endAfter(NoInitialize, errors.New(late+why), func() {
				p.refuseClient(c.id, jsonrpc.CodeInternal,
					late+" (agent.initialize_timeout_seconds): is it an ACP agent, and was it started with the flag "+
						"that makes it speak ACP?"+why)
			})
		}
	}))
	if &line[0] == &m.Raw[0] {
		return p.out.add(line)
	}
	if err := p.out.flush(); err != nil {
		return err
	}
	p.see(frame.ClientToAgent, "", line)
	return p.toAgent.Forward(line)
}

// Dropped returns the first line of the agent that was dropped because it is no message, as the end of an error, "; …". It is empty if no
// line was dropped. Safe for concurrent use.
func (l *Link) Dropped() string {
	first := l.dropped.Load()
	if first == nil {
		return ""
	}
	return jsonrpc.DroppedNote(*first)
}

// RefusedAtStart returns the first actions of the agent that the sandbox refused while no session was open, as the end
// of an error, "; …". It is empty if there was none. Safe for concurrent use.
func (l *Link) RefusedAtStart() string {
	if l.opts.Containment == nil {
		return ""
	}
	return l.opts.Containment.RefusedAtStart()
}
