package journal

import "time"

// Direction says where a frame came from and where it went.
type Direction uint8

// The directions. "Ours" is acphost itself: what it says in its own name, and the answers to its own questions.
const (
	AgentToFront Direction = iota + 1
	FrontToAgent
	AgentToHandler
	HandlerToAgent
	OursToFront
	OursToAgent
	FrontToOurs
)

var directions = [...]string{
	AgentToFront:   "agent-to-front",
	FrontToAgent:   "front-to-agent",
	AgentToHandler: "agent-to-handler",
	HandlerToAgent: "handler-to-agent",
	OursToFront:    "ours-to-front",
	OursToAgent:    "ours-to-agent",
	FrontToOurs:    "front-to-ours",
}

// String is the direction as it stands in the journal.
func (d Direction) String() string {
	if int(d) < len(directions) {
		return directions[d]
	}
	return ""
}

// whose tells whose request a frame is, or answers: ids of the three do not meet.
func (d Direction) whose(response bool) byte {
	switch d {
	case AgentToHandler, HandlerToAgent, OursToAgent:
		return 'a'
	case FrontToOurs:
		return 'o'
	case OursToFront:
		if response {
			return 'f'
		}
		return 'o'
	case AgentToFront:
		if response {
			return 'f'
		}
		return 'a'
	case FrontToAgent:
		if response {
			return 'a'
		}
		return 'f'
	}
	return 0
}

// Frame is one message that passed. The bytes are copied before Journal.Frame returns.
type Frame struct {
	// Time is when it passed. Zero: now.
	Time      time.Time
	Direction Direction
	// Handler is the handler's name, where one has to do with it.
	Handler string
	// Scanned: Line is known to be JSON, and Method, ID and Session are what it has of them. Else the journal looks
	// itself, in a goroutine of its own.
	Scanned bool
	// Method and Session are unescaped, ID is spelled as in the frame. Nil: the frame has none.
	Method, ID, Session []byte
	// Line is the frame, with its line feed or without. Rest are further pieces of it.
	Line []byte
	Rest [][]byte
}
