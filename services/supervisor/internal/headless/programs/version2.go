package programs

import (
	"bytes"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/headless/acpclient"
)

// Callers of a Registry use ACP v1. This file translates requests for agents that support only v2.

// spoken returns the method and params for the agent: some differ in ACP v2.
func (r *run) spoken(method string, params []byte) (string, []byte) {
	if r.info.GetProtocolVersion() < 2 {
		return method, params
	}
	switch method {
	case methodAuthenticate:
		method = "auth/login"
	case methodLogout:
		method = "auth/logout"
	case methodSetConfigOption:
		if acp.Get(params, "type") == nil {
			params = with(params, `"id"`, "type")
		}
	case acp.MethodSessionLoad:
		method, params = acp.MethodSessionResume, with(stdioTyped(params), `{"type":"start"}`, "replayFrom")
	case acp.MethodSessionNew, acp.MethodSessionResume, acp.MethodSessionFork:
		params = stdioTyped(params)
	}
	return method, params
}

// stdioTyped adds the type "stdio" to MCP servers that are commands.
func stdioTyped(params []byte) []byte {
	servers := []byte{'['}
	_ = acp.Elements(acp.Get(params, "mcpServers"), func(v []byte) bool {
		if acp.Get(v, "type") == nil {
			v = with(v, `"stdio"`, "type")
		}
		if len(servers) > 1 {
			servers = append(servers, ',')
		}
		servers = append(servers, v...)
		return true
	})
	return with(params, string(servers)+"]", "mcpServers")
}

// with returns an object, which this package has encoded, with one more member.
func with(obj []byte, value, name string) []byte {
	out, err := acp.Set(obj, []byte(value), name)
	if err != nil { // not an object
		return obj
	}
	return out
}

// hello2 returns the params of initialize in ACP v2.
func (a *instance) hello2() []byte {
	var b bytes.Buffer
	b.WriteString(`{"protocolVersion":2,"capabilities":{`)
	if a.conf.Attended {
		b.WriteString(`"elicitation":{"form":{},"url":{}}`)
	}
	b.WriteString(`},"info":{"name":"acphost","title":"acphost","version":`)
	b.Write(jsonrpc.AppendString(nil, a.reg.opts.Version))
	b.WriteString(`}}`)
	return b.Bytes()
}

// watchIdle closes the turn's idle once the events of its session report its end, or the turn is not awaited any more.
func (reg *Registry) watchIdle(t *turn) {
	t.idle = make(chan struct{})
	sub := reg.opts.Hub.Subscribe(t.session.agent.identity.ID, t.session.id)
	watch := func() {
		defer close(t.idle)
		defer sub.Close()
		for begun := false; ; {
			e, err := sub.Next(t.ctx)
			if begun = begun || e.GetTurnStarted() != nil; err != nil || begun && e.GetTurnEnded() != nil {
				return
			}
		}
	}
	reg.mu.Lock()
	defer reg.mu.Unlock()
	if !reg.spawn(watch) {
		sub.Close()
		close(t.idle)
	}
}

// awaitIdle waits for the end of a turn whose prompt was accepted.
func (t *turn) awaitIdle() error {
	select {
	case <-t.idle:
		if t.ctx.Err() != nil {
			return errClosedUnder
		}
		return nil
	case <-t.run.ctx.Done():
		return acpclient.ErrClosed
	}
}
