// Package jsonrpc reads and writes JSON-RPC 2.0 as one message a line. It splits a byte stream into lines, finds in a line
// what routing needs without decoding the rest, writes the frames of many goroutines without mixing them, and keeps the table
// of requests that are open.
//
// It knows the envelope, and two members inside params by which messages are sorted: sessionId and update.sessionUpdate. It
// must not know gRPC, capabilities, or what a method means.
package jsonrpc

// Kind says what a message is.
type Kind uint8

// The kinds of messages.
const (
	// KindInvalid is no message at all.
	KindInvalid Kind = iota
	// KindRequest has a method and an id; the id may be null.
	KindRequest
	// KindNotification has a method and no id.
	KindNotification
	// KindResponse has no method: an answer to a request, or an error that could not be tied to one (no id).
	KindResponse
	// KindBatch is a JSON array; its entries are not looked at.
	KindBatch
)

// String names the kind.
func (k Kind) String() string {
	return [...]string{"invalid", "request", "notification", "response", "batch"}[k]
}

// Message is what a Scanner found in one line. Its slices alias the line, or are fresh copies where a string had to be
// unescaped; they live as long as the line does.
type Message struct {
	// Raw is the whole line as it was given, line feed included.
	Raw []byte
	// Kind says what the message is. It is also set, as far as it can be told, where Scan reports CodeInvalidRequest.
	Kind Kind
	// ID is the id as it is spelled: a number, a string with its quotes, or null. Nil: there is none.
	ID []byte
	// Method is the method, unescaped.
	Method []byte
	// Params, Result and Error are raw JSON values. Nil: absent. A response with a result and an error of null has a
	// nil Error. One with a result and a true error has both: what it means is up to its receiver.
	Params, Result, Error []byte
	// SessionID is params.sessionId, unescaped, if that is a string; else nil.
	SessionID []byte
	// Update is params.update.sessionUpdate, unescaped, if that is a string; else nil.
	Update []byte
}
