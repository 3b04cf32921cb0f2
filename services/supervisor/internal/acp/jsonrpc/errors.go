package jsonrpc

import (
	"errors"
	"fmt"
)

// Error codes: those of JSON-RPC 2.0, and those that ACP adds.
const (
	// CodeParse means that a line is not JSON.
	CodeParse = -32700
	// CodeInvalidRequest means that a message is JSON, but not a valid and unambiguous JSON-RPC message.
	CodeInvalidRequest = -32600
	// CodeMethodNotFound means that the method is unknown.
	CodeMethodNotFound = -32601
	// CodeInvalidParams means that the params do not fit the method.
	CodeInvalidParams = -32602
	// CodeInternal is every other failure.
	CodeInternal = -32603
	// CodeCancelled is the code of ACP and LSP for a request that was cancelled.
	CodeCancelled = -32800
	// CodeResourceNotFound is ACP's code for a missing file or terminal.
	CodeResourceNotFound = -32002
)

var (
	// ErrOverflow means that the queue of a Writer has no room for the frame. The frame was not queued.
	ErrOverflow = errors.New("jsonrpc: too many bytes are waiting to be written")
	// ErrClosed means that a Writer was closed. Nothing was written.
	ErrClosed = errors.New("jsonrpc: writer is closed")
)

// Error is a JSON-RPC error object.
type Error struct {
	// Code is the error code.
	Code int
	// Message is one sentence for users and agents.
	Message string
	// Data is the data member, one JSON value, or nil.
	Data []byte
}

// Error returns the code and the message.
func (e *Error) Error() string {
	return fmt.Sprintf("jsonrpc error %d: %s", e.Code, e.Message)
}

// TooLong is the error for a line over a Reader's limit. The line was discarded. The Reader continues with the next
// line.
type TooLong struct {
	// Size is the length of the line in bytes, without its line feed.
	Size int64
	// Max is the limit in bytes.
	Max int
	// ID is the raw id of the message, at any position in the line. It is nil if there was none, if there were several,
	// or if it is longer than 1 KiB.
	ID []byte
	// Method is the method, unescaped. It is nil in the same cases as ID.
	Method []byte
}

// Error returns a message with the size and the limit.
func (e *TooLong) Error() string {
	return fmt.Sprintf("jsonrpc: a message of %d bytes is over the limit of %d", e.Size, e.Max)
}
