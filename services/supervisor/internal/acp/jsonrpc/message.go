// Package jsonrpc reads and writes JSON-RPC 2.0 with one message in a line. It splits a byte stream into lines, finds
// the members of a line that routing needs without decoding the rest, writes the frames of concurrent goroutines one
// after another, and provides the table of unanswered requests.
//
// It knows the envelope, and two members of params by which messages are classified: sessionId and
// update.sessionUpdate. It must not know gRPC, capabilities, or the meaning of a method.
package jsonrpc

// Kind is the kind of a message.
type Kind uint8

// The kinds of messages.
const (
	// KindInvalid is an invalid message.
	KindInvalid Kind = iota
	// KindRequest has a method and an id; the id may be null.
	KindRequest
	// KindNotification has a method and no id.
	KindNotification
	// KindResponse has no method: it is the answer to a request, or an error without an id.
	KindResponse
	// KindBatch is a JSON array. Its entries are not parsed.
	KindBatch
)

// String returns the name of the kind.
func (k Kind) String() string {
	return [...]string{"invalid", "request", "notification", "response", "batch"}[k]
}

// Message is the result of scanning one line. Its slices alias the line, or are copies if a string had to be unescaped.
// They are valid as long as the line is.
type Message struct {
	// Raw is the whole line, with its line feed.
	Raw []byte
	// Kind is the kind of the message. If Scan returns CodeInvalidRequest, Kind is set if it is known.
	Kind Kind
	// ID is the raw id: a number, a string with its quotes, or null. Nil means that none exists.
	ID []byte
	// Method is the method, unescaped.
	Method []byte
	// Params, Result and Error are raw JSON values, or nil if missing. A response with a result and an error of null
	// has a nil Error. A response with a result and another error has both; the receiver decides on its meaning.
	Params, Result, Error []byte
	// SessionID is params.sessionId, unescaped, or nil if that is not a string.
	SessionID []byte
	// Update is params.update.sessionUpdate, unescaped, or nil if that is not a string.
	Update []byte
}
