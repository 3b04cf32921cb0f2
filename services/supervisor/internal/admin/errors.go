package admin

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// gRPC sends an error in HTTP/2 trailers, and many clients accept 8 KiB of these, base64 included. In bytes.
const (
	maxPlainMessage = 5000 // without details
	maxErrorMessage = 1000 // with details, which repeat the message
	maxErrorDetails = 3500
)

// errStopping ends the streams of a server that stops.
var errStopping = errors.New("the supervisor is stopping")

// asStatus is the one table from errors to gRPC codes. An unknown error is FAILED_PRECONDITION: nothing was changed,
// for a reason that a person can resolve.
func asStatus(err error) error {
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return detailed(codeOf(f), err.Error(), f)
	}
	code, message := codes.FailedPrecondition, err.Error()
	switch st, ok := status.FromError(err); {
	case errors.Is(err, errStopping):
		code = codes.Unavailable
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	case ok && st.Code() == codes.Unauthenticated: // from a server that the supervisor called: this caller is authenticated
		message = st.Message()
	case ok:
		code, message = st.Code(), st.Message()
	}
	return status.Error(code, cut(message, maxPlainMessage))
}

// classCodes and kindCodes map errors to codes other than UNKNOWN.
var (
	classCodes = map[fault.Class]codes.Code{
		fault.Precondition: codes.FailedPrecondition,
		fault.NotFound:     codes.NotFound,
		fault.Invalid:      codes.InvalidArgument,
		fault.TooOld:       codes.OutOfRange,
		fault.Exhausted:    codes.ResourceExhausted,
		fault.Unsupported:  codes.Unimplemented,
		fault.Stopping:     codes.Unavailable,
	}
	kindCodes = map[supervisorv1.ErrorKind]codes.Code{
		supervisorv1.ErrorKind_ERROR_KIND_SPAWN_FAILED:      codes.FailedPrecondition,
		supervisorv1.ErrorKind_ERROR_KIND_COMMAND_NOT_FOUND: codes.NotFound,
		supervisorv1.ErrorKind_ERROR_KIND_SESSION_NOT_FOUND: codes.NotFound,
		supervisorv1.ErrorKind_ERROR_KIND_HANDSHAKE_TIMEOUT: codes.DeadlineExceeded,
		supervisorv1.ErrorKind_ERROR_KIND_CRASHED:           codes.Aborted,
		supervisorv1.ErrorKind_ERROR_KIND_STOPPED:           codes.Aborted,
		supervisorv1.ErrorKind_ERROR_KIND_AUTH_REQUIRED:     codes.FailedPrecondition,
		supervisorv1.ErrorKind_ERROR_KIND_NOT_SUPPORTED:     codes.Unimplemented,
	}
)

func codeOf(f *fault.Error) codes.Code {
	kind := f.Agent.GetKind()
	switch {
	case f.Class != fault.OfAgent:
		return cmp.Or(classCodes[f.Class], codes.Unknown)
	case kind == supervisorv1.ErrorKind_ERROR_KIND_AGENT_ERROR && f.Agent.GetCode() == jsonrpc.CodeInvalidParams:
		return codes.InvalidArgument
	case kind == supervisorv1.ErrorKind_ERROR_KIND_AGENT_ERROR && f.Agent.GetCode() == jsonrpc.CodeCancelled:
		return codes.Canceled
	}
	return cmp.Or(kindCodes[kind], codes.Unknown)
}

// detailed returns a status with the details of a fault.
func detailed(code codes.Code, message string, f *fault.Error) error {
	if f.Answer == nil && f.Agent == nil {
		return status.Error(code, cut(message, maxPlainMessage))
	}
	st := status.New(code, cut(message, maxErrorMessage))
	var details []protoadapt.MessageV1
	if f.Answer != nil {
		details = append(details, protoadapt.MessageV1Of(f.Answer))
	}
	if f.Agent != nil {
		details = append(details, protoadapt.MessageV1Of(fitting(f.Agent)))
	}
	if with, err := st.WithDetails(details...); err == nil {
		st = with
	}
	return st.Err()
}

// fitting returns an error cut to a size that clients accept: it drops the oldest lines of standard error first, then
// the data.
func fitting(e *supervisorv1.AgentError) *supervisorv1.AgentError {
	e = proto.CloneOf(e)
	e.Message, e.Signal = cut(e.GetMessage(), maxErrorMessage), cut(e.GetSignal(), maxErrorMessage)
	e.Data = strings.ToValidUTF8(e.GetData(), "\uFFFD")
	for i, line := range e.GetStderrTail() {
		e.StderrTail[i] = cut(line, maxErrorMessage)
	}
	for len(e.GetStderrTail()) > 1 && proto.Size(e) > maxErrorDetails {
		e.StderrTail = e.GetStderrTail()[1:]
	}
	if proto.Size(e) > maxErrorDetails {
		e.Data = ""
	}
	return e
}

// cut returns text as valid UTF-8 of at most maxBytes bytes, with "…" where text is missing.
func cut(text string, maxBytes int) string {
	return safetext.Cut(strings.ToValidUTF8(text, "\uFFFD"), maxBytes)
}
