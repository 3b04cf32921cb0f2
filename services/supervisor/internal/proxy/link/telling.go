package link

import (
	"sync"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
)

const (
	maxTold       = 4 << 10 // bytes of a single notice
	maxToldScopes = 1024    // sessions whose last notice is remembered
)

// deniedTitle is the title of a notice about a denial.
const deniedTitle = "An action of the agent was denied"

// notice is the last notice about a session, and its turn.
type notice struct {
	turn uint64
	// about distinguishes notices whose shortened texts are equal; empty: the text is complete.
	about, title, text string
}

// lastNotices are the last notices, by the session's scope.
type lastNotices struct {
	mu     sync.Mutex
	scopes map[string]notice
}

// repeats stores a notice, and reports whether it equals the last one.
func (l *lastNotices) repeats(scope string, now notice) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.scopes[scope] == now {
		return true
	}
	if l.scopes == nil || len(l.scopes) >= maxToldScopes {
		l.scopes = map[string]notice{}
	}
	l.scopes[scope] = now
	return false
}

// tell shows the person at the client a text about a session: as a notice if the client shows notices, otherwise as a message of the agent.
// Consecutive equal texts are shown once in a turn.
func (l *Link) tell(sessionID, title, text string) { l.tellAbout("", sessionID, title, text) }

// tellAbout is tell for a text that may be shortened; about is a key of its subject.
func (l *Link) tellAbout(about, sessionID, title, text string) {
	scope, turn := l.opts.Sessions.Turn(sessionID)
	if scope == "" || l.opts.Sessions.Replaying(sessionID) {
		return
	}
	text = shortened(text, maxTold)
	if l.said.repeats(scope, notice{turn: turn, about: about, title: title, text: text}) {
		return
	}
	b := jsonrpc.AppendString([]byte(`{"sessionId":`), sessionID)
	if l.notices.Load() {
		b = jsonrpc.AppendString(append(b, `,"update":{"sessionUpdate":"notice","severity":"warning","title":`...), title)
		b = jsonrpc.AppendString(append(b, `,"description":`...), text)
		b = append(b, "}}"...)
	} else {
		b = append(b, `,"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":`...)
		b = jsonrpc.AppendString(b, "\n\n> "+title+": "+text+"\n\n")
		b = append(b, "}}}"...)
	}
	l.postClient(jsonrpc.AppendNotification(nil, acp.MethodSessionUpdate, b))
}
