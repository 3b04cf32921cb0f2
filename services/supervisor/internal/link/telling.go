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

// deniedTitle is over what is told of a denial.
const deniedTitle = "An action of the agent was denied"

// told is what a session was told last, and in which turn.
type told struct {
	turn uint64
	text string
}

// lastTold is what every session was told last, by scope.
type lastTold struct {
	mu     sync.Mutex
	scopes map[string]told
}

// repeats notes what is told, and tells whether it was the last thing that was.
func (l *lastTold) repeats(scope string, now told) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.scopes[scope] == now {
		return true
	}
	if l.scopes == nil || len(l.scopes) >= maxToldScopes {
		l.scopes = map[string]told{}
	}
	l.scopes[scope] = now
	return false
}

// tell tells the person at the front something about a session: as a notice where the front shows them, else as a
// message among the agent's. The same thing is told once in a turn if nothing else comes between.
func (l *Link) tell(sessionID, title, text string) {
	scope, turn := l.opts.Book.Turn(sessionID)
	if scope == "" || l.opts.Book.Replaying(sessionID) {
		return
	}
	text = shortened(text, maxTold)
	if l.told.repeats(scope, told{turn: turn, text: text}) {
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
	l.postFront(jsonrpc.AppendNotification(nil, acp.MethodSessionUpdate, b))
}
