// Package fault has errors with a class: the class tells a caller how to act on the error. Package admin makes a gRPC code of
// the class, and sends what else the error carries (an agent's error, an earlier answer) as details.
//
// The package does not know gRPC.
package fault

import (
	"fmt"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Class is how a caller should take an error. Each has one gRPC code; see admin.
type Class int

// The classes.
const (
	// Precondition: not in this state; a person can do something about it. FAILED_PRECONDITION.
	Precondition Class = iota
	// NotFound: what was named is not there. NOT_FOUND.
	NotFound
	// Invalid: the request makes no sense, whatever the state. INVALID_ARGUMENT.
	Invalid
	// TooOld: what was asked for is no longer kept. OUT_OF_RANGE.
	TooOld
	// Exhausted: a bound was reached, or the caller did not keep up. RESOURCE_EXHAUSTED.
	Exhausted
	// Unsupported: it is not offered here. UNIMPLEMENTED.
	Unsupported
	// Stopping: the supervisor ends. UNAVAILABLE.
	Stopping
	// OfAgent: the agent's doing; the kind in Agent says which code.
	OfAgent
)

// Error is an error with a class. Agent and Answer, if set, travel to the caller as details.
type Error struct {
	Class   Class
	Message string
	// Agent says more where an agent has to do with it.
	Agent *supervisorv1.AgentError
	// Answer is the answer that came first, where a question was answered twice.
	Answer *supervisorv1.ApprovalAnswer
	// Err is the cause, if there is one; its text is in Message already.
	Err error
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// New returns an error of a class.
func New(class Class, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Class: class, Message: err.Error(), Err: err}
}

// Agent returns the error that an agent is the cause of.
func Agent(e *supervisorv1.AgentError) *Error {
	return &Error{Class: OfAgent, Message: e.GetMessage(), Agent: e}
}
