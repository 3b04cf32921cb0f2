// Package frame has the types of an observed message: a Frame says which bytes passed, between whom, and when. The link shows
// frames to observers, which number, record and decode them.
//
// The package holds types and knows nothing else.
package frame

import "time"

// Direction says where a frame came from and where it goes.
type Direction uint8

// The directions. "Ours" is acphost itself: what it says in its own name, and the answers to its own questions.
const (
	AgentToClient Direction = iota + 1
	ClientToAgent
	AgentToHandler
	HandlerToAgent
	OursToClient
	OursToAgent
	ClientToOurs
)

var directions = [...]string{
	AgentToClient:  "agent-to-front",
	ClientToAgent:  "front-to-agent",
	AgentToHandler: "agent-to-handler",
	HandlerToAgent: "handler-to-agent",
	OursToClient:   "ours-to-front",
	OursToAgent:    "ours-to-agent",
	ClientToOurs:   "front-to-ours",
}

// String is the direction's name: "agent-to-front". Empty for none.
func (d Direction) String() string {
	if int(d) < len(directions) {
		return directions[d]
	}
	return ""
}

// ParseDirection is the direction of a name; 0 for none.
func ParseDirection(name string) Direction {
	for d, n := range directions {
		if n == name && n != "" {
			return Direction(d)
		}
	}
	return 0
}

// MethodSessionClosed is the notification by which acphost says that a session is not there any more, where no answer
// of the agent's says it. No agent can: it counts only from acphost itself.
const MethodSessionClosed = "_acphost/session_closed"

// MethodTurnEnded is the notification by which acphost records that a session has been quiet since the agent answered its
// prompt: the turn has no more late updates. No client is sent it, and no agent can send it.
const MethodTurnEnded = "_acphost/turn_ended"

// The ends that have requests of their own: ids of one never meet those of another.
const (
	OfAgent  byte = 'a'
	OfClient byte = 'f'
	Ours     byte = 'o'
)

// whose is whose request a frame of a direction is, and whose it answers.
var whose = [...]struct{ request, response byte }{
	AgentToClient:  {OfAgent, OfClient},
	ClientToAgent:  {OfClient, OfAgent},
	AgentToHandler: {OfAgent, OfAgent},
	HandlerToAgent: {OfAgent, OfAgent},
	OursToClient:   {Ours, OfClient},
	OursToAgent:    {OfAgent, OfAgent},
	ClientToOurs:   {Ours, Ours},
}

// Whose tells whose request a frame is, or answers. 0: it cannot be told.
func (d Direction) Whose(response bool) byte {
	switch {
	case int(d) >= len(whose):
		return 0
	case response:
		return whose[d].response
	}
	return whose[d].request
}

// Agent is whose link a frame passes.
type Agent struct {
	// ID is its id in this supervisor, Name the one that policies see.
	ID, Name string
}

// Frame is one message that passes. Its bytes are lent for the call that hands it over.
type Frame struct {
	// Agent is whose link it passes. Nil: the only one's.
	Agent *Agent
	// Seq numbers the frames of a supervisor in the order in which they are told; 0: it has no number yet.
	Seq uint64
	// Time is when it was taken up; zero: now.
	Time      time.Time
	Direction Direction
	// Handler is whom a request goes to, or an answer comes from, where that is neither the agent nor the client.
	Handler string
	// Scanned: Line is known to be JSON, and what follows is what it has of it: Method and SessionID unescaped, ID spelled
	// as it came. Nil: it has none.
	Scanned               bool
	Method, ID, SessionID []byte
	// Line is the frame, with its line feed or without; Rest are further pieces of it, or whole lines that go with it.
	Line []byte
	Rest [][]byte
	// Brief: Line stands for a frame that is larger: it has what is told of that, and not the rest.
	Brief bool
	// Omitted is the size in bytes of the whole message, if Line has its small members alone; else 0.
	Omitted int
}

// Observer sees what passes: every frame once where it is taken up and goes on unchanged, and once for each part of its way
// where it does not. A frame is seen before it is written, those of one sender in the order in which they came.
type Observer interface {
	// Frame is called by whoever passes the frame on, concurrently, so it must not wait for anything.
	Frame(f Frame)
}
