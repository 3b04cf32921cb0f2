package client

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Error is the error of a failed call. Error() is the supervisor's sentence: the operation that failed, and the next
// step. An agent may have chosen some of its words: escape them before a terminal shows them.
//
// errors.Is finds context.Canceled and context.DeadlineExceeded if the call ended for such a reason, and
// status.FromError finds the gRPC status.
type Error struct {
	// Code is the gRPC code, such as PermissionDenied if this caller may not make the call.
	Code codes.Code
	// Message is the supervisor's sentence.
	Message string
	// Agent describes the agent if the agent caused the error; else nil.
	Agent *supervisorv1.AgentError
	// Answer is the result of a question, if the error is that it was answered already; else nil.
	Answer *supervisorv1.ApprovalAnswer

	status *status.Status
}

// ErrorOf returns the error of a call as an *Error, also if another client made the call. It returns nil if err is not
// the error of a call.
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

// Is reports whether the call ended for the reason target: context.Canceled or context.DeadlineExceeded.
func (e *Error) Is(target error) bool {
	return target == context.Canceled && e.Code == codes.Canceled ||
		target == context.DeadlineExceeded && e.Code == codes.DeadlineExceeded
}

// GRPCStatus returns the status that the error was made from. Package status calls it.
func (e *Error) GRPCStatus() *status.Status {
	if e.status == nil {
		return status.New(e.Code, e.Message)
	}
	return e.status
}
