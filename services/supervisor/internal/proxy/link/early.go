package link

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
)

const (
	// maxEarly and maxEarlyBytes limit the updates that are held until their session is open.
	maxEarly, maxEarlyBytes = 1024, 4 << 20
)

// openings are the client's open requests that open a session. Until they are answered, a client drops updates of the session, or fails on
// them. session/load is not included, because ACP sends its history before the answer.
type openings struct {
	count atomic.Int32

	mu    sync.Mutex
	calls map[*clientCall]bool
}

func (o *openings) add(c *clientCall) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.calls == nil {
		o.calls = map[*clientCall]bool{}
	}
	o.calls[c], c.opens = true, true
	o.count.Store(int32(len(o.calls)))
}

// remove removes a request that is no longer open.
func (o *openings) remove(c *clientCall) {
	if o.count.Load() == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.calls, c)
	o.count.Store(int32(len(o.calls)))
}

// await reports whether the answer that opens a session is still expected. known reports whether the session is open.
func (o *openings) await(session []byte, known func() bool) bool {
	if o.count.Load() == 0 || len(session) == 0 {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	unnamed := false
	for c := range o.calls {
		switch {
		case c.sessionID == string(session) && c.method == acp.MethodSessionResume:
			return true
		case c.method == acp.MethodSessionNew || c.method == acp.MethodSessionFork:
			unnamed = true
		}
	}
	return unnamed && !known()
}

// holdsUpdates reports whether updates of the session that a request opens are held until its answer.
func holdsUpdates(method string, params []byte) bool {
	switch method {
	case acp.MethodSessionNew, acp.MethodSessionFork:
		return true
	case acp.MethodSessionResume: // with replayFrom the history precedes the answer, as with session/load
		return acp.Get(params, "replayFrom") == nil
	}
	return false
}

// isOpen reports whether a session is open. Sessions.Context would assign an unknown id to the session that is being opened.
func (l *Link) isOpen(session string) bool { return slices.Contains(l.opts.Sessions.Open(), session) }

// earlyUpdate is an update of a session that is not open yet.
type earlyUpdate struct {
	session string
	line    []byte
}

// holdEarly holds an update of a session that is being opened; false: the update is forwarded now.
func (p *agentPump) holdEarly(m *jsonrpc.Message) bool {
	if !p.openings.await(m.SessionID, func() bool { return p.isOpen(string(m.SessionID)) }) {
		return false
	}
	if len(p.early) >= maxEarly || p.earlyBytes+len(m.Raw) > maxEarlyBytes {
		if !p.earlyFull {
			p.earlyFull = true
			p.log.Warn("the agent sent too many updates before its answer that opens their session; further ones are passed on before the answer",
				"session", excerpt(m.SessionID))
		}
		return false
	}
	p.early = append(p.early, earlyUpdate{string(m.SessionID), slices.Clone(m.Raw)})
	p.earlyBytes += len(m.Raw)
	return true
}

// forwardOpening forwards the answer that opens a session, and then the held updates of the session. An empty answer was already sent. All
// lines share one slice, so observers see them before the client can act on the answer.
func (p *agentPump) forwardOpening(answer []byte) error {
	if len(p.early) == 0 {
		return p.out.add(answer)
	}
	all := slices.Clone(answer)
	var ends []int
	var rest []earlyUpdate
	p.earlyBytes = 0
	for _, u := range p.early {
		known := func() bool { return p.isOpen(u.session) }
		if p.openings.await([]byte(u.session), known) {
			rest = append(rest, u)
			p.earlyBytes += len(u.line)
			continue
		}
		all = append(all, u.line...)
		ends = append(ends, len(all))
	}
	p.early, p.earlyFull = rest, false
	if err := p.out.flush(); err != nil {
		return err
	}
	if len(answer) > 0 {
		if err := p.out.add(all[:len(answer)]); err != nil {
			return err
		}
	}
	for from, i := len(answer), 0; i < len(ends); i++ {
		line := all[from:ends[i]]
		from = ends[i]
		m := &p.msg
		if jerr := p.scan.Scan(line, m); jerr != nil {
			return p.malformed(line, m, jerr)
		}
		if err := p.update(m); err != nil {
			return err
		}
	}
	return p.out.flush()
}
