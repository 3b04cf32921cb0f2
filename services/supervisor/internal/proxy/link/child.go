package link

import (
	"bytes"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
)

// assignChild assigns a message of a child session to its parent: m.SessionID becomes the parent's id, and the line keeps the child's own
// id. p.child reports whether the message is from a child session. An unknown session without a certain parent remains unknown.
func (p *agentPump) assignChild(m *jsonrpc.Message) {
	p.child = false
	if m.Method == nil || len(m.SessionID) == 0 || !acp.OfSession(m.Method) {
		return
	}
	parent, known := p.opts.Sessions.Parent(m.SessionID)
	switch {
	case known && parent == "":
		p.addIntroducedChild(m)
		return
	case !known:
		if parent, known = p.opts.Sessions.AddChild(string(m.SessionID), acp.ParentSession(m.Params)); !known {
			return
		}
		p.log.Info("a session that the agent opened by itself belongs to another one", "session", excerpt(m.SessionID), "parent", excerpt([]byte(parent)))
	}
	m.SessionID, p.child = []byte(parent), true
}

// addIntroducedChild adds the child session that an update of its parent names.
func (p *agentPump) addIntroducedChild(m *jsonrpc.Message) {
	if string(m.Method) != acp.MethodSessionUpdate || !bytes.Contains(m.Raw, []byte("ession")) || plainText(m.Update) {
		return
	}
	if id := acp.ChildSession(m.Params); id != "" {
		_, _ = p.opts.Sessions.AddChild(id, string(m.SessionID)) // a session of the client remains one
	}
}

// plainText reports whether a kind of update is one of the frequent ones, which name no session.
func plainText(kind []byte) bool {
	return string(kind) == "agent_message_chunk" || string(kind) == "agent_thought_chunk"
}

// assignParent assigns an unscanned frame of a child session to its parent, for observers.
func (l *Link) assignParent(f *frame.Frame) {
	if len(f.Rest) > 0 || !l.opts.Sessions.HasChildren() {
		return
	}
	var scan acp.Scanner
	var m jsonrpc.Message
	if scan.Scan(f.Line, &m) != nil || len(m.SessionID) == 0 {
		return
	}
	if parent, _ := l.opts.Sessions.Parent(m.SessionID); parent != "" {
		m.SessionID = []byte(parent)
		fill(f, &m)
	}
}
