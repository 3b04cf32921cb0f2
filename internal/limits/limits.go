// Package limits has the sizes of messages, in bytes, that several parts of acphost must agree on. docs/limits.md has them as
// a table.
package limits

const (
	// Message is the default of limits.max_message_bytes: the longest line between an agent and its client.
	Message = 100 << 20

	// Whole is the largest message that every stream passes whole: events, watchers, callers of Prompt, and clients of the
	// gateway. Of a larger message of an agent, events have the small members, and a Gap that names its size. The gateway
	// answers a larger request of a client with an error.
	Whole = 16 << 20

	// Behind is how much a reader of events may have to read before it is cut off. The event of a message of Whole bytes has
	// twice as many, since it has the message's text and its JSON.
	Behind = 4 * Whole

	// Waiting is how many bytes of messages may wait for a reader that is slow: an agent, its client, or a client of
	// the gateway. One message alone may have more.
	Waiting = 4 * Whole

	// Request is the largest request of a program to a supervisor's services. A prompt may hold images.
	Request = 4 * Whole

	// Skipped is the largest message over a WebSocket that is read to its end, though it is too large. A larger one
	// ends the connection.
	Skipped = 256 << 20
)
