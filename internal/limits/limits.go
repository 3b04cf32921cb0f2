// Package limits has the limits of messages, in bytes, that several parts of acphost must agree on. docs/limits.md
// lists them in a table.
package limits

const (
	// Message is the default of limits.max_message_bytes: the longest line between an agent and its client.
	Message = 100 << 20

	// Whole is the largest message that every stream passes complete: events, watchers, callers of Prompt, and clients
	// of the gateway. For a larger message of an agent, events contain the small members, and a Gap with its size. The
	// gateway answers a larger request of a client with an error.
	Whole = 16 << 20

	// Behind is the limit of unread bytes of a reader of events, which is then disconnected. The event of a message of
	// Whole bytes has twice as many bytes, because it contains the message as text and as JSON.
	Behind = 4 * Whole

	// Waiting is the limit of bytes in the queue for a slow reader: an agent, its client, or a client of the gateway. A
	// single message may exceed it.
	Waiting = 4 * Whole

	// Request is the largest request of a program to a supervisor's services. A prompt may contain images.
	Request = 4 * Whole

	// Skipped is the largest oversized message over a WebSocket that is read to its end and discarded. A larger one
	// ends the connection.
	Skipped = 256 << 20
)
