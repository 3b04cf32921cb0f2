package link

import (
	"sync"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
)

const (
	maxTold       = 4 << 10 // bytes that a person is told at once
	maxToldScopes = 1024    // sessions whose last message is known
)

// deniedTitle is the title of a notice about a denial.
const deniedTitle = "An action of the agent was denied"

// notice is what a person was last told about a session, and in which turn.
type notice struct {
	turn uint64
	// about tells notices apart that read the same because their texts are shortened; empty: the text is all of it.
	about, title, text string
}

// lastNotices are the last notices, by the session's scope.
type lastNotices struct {
	mu     sync.Mutex
	scopes map[string]notice
}

// repeats remembers a notice, and reports whether it is the same as the last one.
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

// tell tells the person at the client something about a session: as a notice where the client shows them, else as a
// message among the agent's. The same thing is told once in a turn if nothing else comes between.
func (l *Link) tell(sessionID, title, text string) { l.tellAbout("", sessionID, title, text) }

// tellAbout is tell for a text that is shortened: about is a key of what it is about.
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
