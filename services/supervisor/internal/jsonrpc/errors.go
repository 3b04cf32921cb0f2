package jsonrpc

import (
	"errors"
	"fmt"
)

// Error codes: those of JSON-RPC 2.0, and those that ACP adds.
const (
	// CodeParse says that a line is not JSON.
	CodeParse = -32700
	// CodeInvalidRequest says that a message is JSON but no valid, or no unambiguous, JSON-RPC message.
	CodeInvalidRequest = -32600
	// CodeMethodNotFound says that nobody answers the method.
	CodeMethodNotFound = -32601
	// CodeInvalidParams says that the params do not fit the method.
	CodeInvalidParams = -32602
	// CodeInternal is every other failure.
	CodeInternal = -32603
	// CodeCancelled is ACP's and LSP's answer to a request that was cancelled.
	CodeCancelled = -32800
	// CodeResourceNotFound is ACP's answer for a file or terminal that is not there.
	CodeResourceNotFound = -32002
)

var (
	// ErrOverflow says that more bytes were posted to a Writer than it may queue. The frame was not queued.
	ErrOverflow = errors.New("jsonrpc: too many bytes are waiting to be written")
	// ErrClosed says that a Writer was closed. Nothing was written.
	ErrClosed = errors.New("jsonrpc: writer is closed")
)

// Error is a JSON-RPC error object.
type Error struct {
	// Code is the error code.
	Code int
	// Message is one sentence for people; agents read it too.
	Message string
	// Data is the data member, one JSON value. Nil: none.
	Data []byte
}

// Error says the code and the message.
func (e *Error) Error() string {
	return fmt.Sprintf("jsonrpc error %d: %s", e.Code, e.Message)
}

// TooLong is the error for a line over a Reader's limit. The line was discarded; the Reader goes on with the next one.
type TooLong struct {
	// Size is the line's length in bytes, without its line feed.
	Size int64
	// Max is the limit that it passed, in bytes.
	Max int
	// ID is the message's id as it is spelled, wherever in the line it stood. Nil: none was found, there were several,
	// or it is longer than 1 KiB.
	ID []byte
	// Method is the message's method, unescaped. Nil: as for ID.
	Method []byte
}

// Error says the line's size and the limit.
func (e *TooLong) Error() string {
	return fmt.Sprintf("jsonrpc: a message of %d bytes is over the limit of %d", e.Size, e.Max)
}
