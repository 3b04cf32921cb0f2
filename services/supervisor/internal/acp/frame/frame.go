// Package frame provides the types of an observed message: a Frame holds its bytes, direction and time. The link passes
// frames to observers, which number, record and decode them.
//
// The package has types only, and imports no other package of acphost.
package frame

import "time"

// Direction names the sender and the receiver of a frame.
type Direction uint8

// The directions. "Ours" is acphost itself: its own requests and notifications, and the answers to its requests.
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

// String returns the name of the direction, such as "agent-to-front". It is empty for an unknown direction.
func (d Direction) String() string {
	if int(d) < len(directions) {
		return directions[d]
	}
	return ""
}

// ParseDirection returns the direction with a name, and 0 if there is none.
func ParseDirection(name string) Direction {
	for d, n := range directions {
		if n == name && n != "" {
			return Direction(d)
		}
	}
	return 0
}

// MethodSessionClosed is the method of the notification by which acphost records that a session was closed, if no
// answer of the agent reports it. It counts only in a frame of acphost itself, so an agent cannot forge it.
const MethodSessionClosed = "_acphost/session_closed"

// MethodTurnEnded is the method of the notification by which acphost records that a session has been quiet since the
// agent answered its prompt: the turn has no more late updates. It is not sent to clients, and an agent cannot forge
// it.
const MethodTurnEnded = "_acphost/turn_ended"

// The ends that send requests. Each end has its own space of request ids.
const (
	OfAgent  byte = 'a'
	OfClient byte = 'f'
	Ours     byte = 'o'
)

// whose maps a direction to the end that sent a request, and to the end whose request a response answers.
var whose = [...]struct{ request, response byte }{
	AgentToClient:  {OfAgent, OfClient},
	ClientToAgent:  {OfClient, OfAgent},
	AgentToHandler: {OfAgent, OfAgent},
	HandlerToAgent: {OfAgent, OfAgent},
	OursToClient:   {Ours, OfClient},
	OursToAgent:    {OfAgent, OfAgent},
	ClientToOurs:   {Ours, Ours},
}

// Requester returns the end that sent a request, or whose request a response answers. It is 0 for an unknown direction.
func (d Direction) Requester(response bool) byte {
	switch {
	case int(d) >= len(whose):
		return 0
	case response:
		return whose[d].response
	}
	return whose[d].request
}

// Agent identifies the agent of a link.
type Agent struct {
	// ID identifies the agent in this supervisor. Name is its name in policies.
	ID, Name string
}

// Frame is one observed message. Its bytes are valid only during the call that passes it.
type Frame struct {
	// Agent is the agent of the link. Nil means the only agent.
	Agent *Agent
	// Seq numbers the frames of a supervisor in the order in which they are observed. 0 means that the frame has no
	// number yet.
	Seq uint64
	// Time is the time at which the message was received. Zero means now.
	Time      time.Time
	Direction Direction
	// Handler is the receiver of a request, or the sender of an answer, if that is neither the agent nor the client.
	Handler string
	// Scanned says that Line is valid JSON, and that the next fields hold its members: Method and SessionID unescaped,
	// ID as in the message. Nil means that the message has no such member.
	Scanned               bool
	Method, ID, SessionID []byte
	// Line is the message, with or without its line feed. Rest holds further parts of it, or whole lines that belong to
	// it.
	Line []byte
	Rest [][]byte
	// Brief says that Line is a shortened form of a larger message, with the members that observers need.
	Brief bool
	// Omitted is the size in bytes of the whole message if Line holds only its small members, else 0.
	Omitted int
}

// Observer receives the frames of a link: a frame that is forwarded unchanged once, and any other frame once for each
// part of its way. A frame is observed before it is written. Frames of one sender are observed in the order in which
// they arrived.
type Observer interface {
	// Frame receives a frame. It is called concurrently by the goroutines that forward messages, so it must not block.
	Frame(f Frame)
}
