package transcode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
)

// codeAuthenticate asks a client to authenticate with its agent. A handler cannot mean that.
const codeAuthenticate = -32000

// maxData limits the data member of an error of a handler, in bytes.
const maxData = 64 << 10

// resourceNotFound begins the message for a missing file or terminal. Agents compare these words.
const resourceNotFound = "Resource not found"

// ErrorFrom returns the error that an agent gets for a failed call of the handler. Only this function converts a gRPC
// status to a JSON-RPC error:
//
//	InvalidArgument, OutOfRange  -32602
//	NotFound                     -32002 "Resource not found: …"
//	Unimplemented                -32601
//	Canceled                     -32800
//	all others                   -32603 with data {"code": …, "handler": …}
//
// The message is the message of the status. A detail of type acphost.acp.v1.ErrorDetail overrides code and data. An
// *jsonrpc.Error in err's chain is returned unchanged. A nil err returns nil.
func ErrorFrom(err error, handler string) *jsonrpc.Error {
	if err == nil {
		return nil
	}
	if ready, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return ready
	}
	s, ok := status.FromError(err)
	if !ok {
		code := codes.Internal
		switch {
		case errors.Is(err, context.Canceled):
			code = codes.Canceled
		case errors.Is(err, context.DeadlineExceeded):
			code = codes.DeadlineExceeded
		}
		s = status.New(code, err.Error())
	}
	e := &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: s.Message()}
	switch s.Code() {
	case codes.InvalidArgument, codes.OutOfRange:
		e.Code = jsonrpc.CodeInvalidParams
	case codes.NotFound:
		e.Code = jsonrpc.CodeResourceNotFound
		if !strings.HasPrefix(e.Message, resourceNotFound) {
			e.Message = strings.TrimSuffix(resourceNotFound+": "+e.Message, ": ")
		}
	case codes.Unimplemented:
		e.Code = jsonrpc.CodeMethodNotFound
	case codes.Canceled:
		e.Code = jsonrpc.CodeCancelled
	}
	if e.Message == "" {
		e.Message = fmt.Sprintf("handler %s answered with %s", handler, s.Code())
	}
	if e.Code == jsonrpc.CodeInternal {
		e.Data = append(e.Data, `{"code":`...)
		e.Data = jsonrpc.AppendString(e.Data, CodeName(s.Code()))
		e.Data = append(e.Data, `,"handler":`...)
		e.Data = jsonrpc.AppendString(e.Data, handler)
		e.Data = append(e.Data, '}')
	}
	override(e, s)
	return e
}

// override applies the first ErrorDetail of the status, within its limits.
func override(e *jsonrpc.Error, s *status.Status) {
	for _, any := range s.Proto().GetDetails() {
		var detail acpv1.ErrorDetail
		if !any.MessageIs(&detail) || any.UnmarshalTo(&detail) != nil {
			continue
		}
		if c := detail.GetCode(); c != 0 && c != codeAuthenticate && c >= -32768 && c <= 32767 {
			if int(c) != e.Code {
				e.Data = nil
			}
			e.Code = int(c)
		}
		if data, ok := oneLine(detail.GetData()); ok {
			e.Data = data
		}
		return
	}
}

// oneLine returns a handler's JSON value without line feeds. It returns false if the value is invalid or too large.
func oneLine(data string) ([]byte, bool) {
	if data == "" || len(data) > maxData {
		return nil, false
	}
	var d decoder
	err := d.raw([]byte(data))
	return bytes.Join(cut(nil, d.out, d.refs), nil), err == nil
}

// CodeName returns the name of a status code in the gRPC specification.
func CodeName(c codes.Code) string {
	names := [...]string{
		codes.OK: "OK", codes.Canceled: "CANCELLED", codes.Unknown: "UNKNOWN", codes.InvalidArgument: "INVALID_ARGUMENT",
		codes.DeadlineExceeded: "DEADLINE_EXCEEDED", codes.NotFound: "NOT_FOUND", codes.AlreadyExists: "ALREADY_EXISTS",
		codes.PermissionDenied: "PERMISSION_DENIED", codes.ResourceExhausted: "RESOURCE_EXHAUSTED",
		codes.FailedPrecondition: "FAILED_PRECONDITION", codes.Aborted: "ABORTED", codes.OutOfRange: "OUT_OF_RANGE",
		codes.Unimplemented: "UNIMPLEMENTED", codes.Internal: "INTERNAL", codes.Unavailable: "UNAVAILABLE",
		codes.DataLoss: "DATA_LOSS", codes.Unauthenticated: "UNAUTHENTICATED",
	}
	if int(c) < len(names) {
		return names[c]
	}
	return "UNKNOWN"
}
