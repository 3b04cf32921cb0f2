package client

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Error is why a call failed. Error() is the supervisor's own sentence, which says what was tried and what to do next. An
// agent may have chosen some of its words: escape them before a terminal shows them.
//
// errors.Is finds context.Canceled and context.DeadlineExceeded where the call ended for such a reason, and
// status.FromError finds the gRPC status.
type Error struct {
	// Code is gRPC's: PermissionDenied, say, if this caller may not make the call.
	Code codes.Code
	// Message is the supervisor's sentence.
	Message string
	// Agent is what is known of the agent, if the error is its doing; else nil.
	Agent *supervisorv1.AgentError
	// Answer is how a question ended, if the error is that it was answered already; else nil.
	Answer *supervisorv1.ApprovalAnswer

	status *status.Status
}

// ErrorOf returns the error of a call as an *Error, also where another client has made the call; nil: err is not of a call.
func ErrorOf(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	s, ok := status.FromError(err)
	if err == nil || !ok {
		return nil
	}
	e := &Error{Code: s.Code(), Message: s.Message(), status: s}
	for _, detail := range s.Details() {
		switch d := detail.(type) {
		case *supervisorv1.AgentError:
			e.Agent = d
		case *supervisorv1.ApprovalAnswer:
			e.Answer = d
		}
	}
	return e
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Is reports whether the call ended as a context that ends with target does.
func (e *Error) Is(target error) bool {
	return target == context.Canceled && e.Code == codes.Canceled ||
		target == context.DeadlineExceeded && e.Code == codes.DeadlineExceeded
}

// GRPCStatus returns the status that the error was made of. It is for package status.
func (e *Error) GRPCStatus() *status.Status {
	if e.status == nil {
		return status.New(e.Code, e.Message)
	}
	return e.status
}
