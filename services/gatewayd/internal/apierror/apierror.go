// Package apierror is the one table of rejections of /acp: the HTTP status, the JSON-RPC error code and the WebSocket
// close code for each kind of reason, for all transports and methods.
//
// It knows the errors of the packages that reject requests. It must not know the caller, nor the request.
package apierror

import (
	"context"
	"errors"

	"connectrpc.com/connect"
	"github.com/coder/websocket"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/gatewayd/internal/relay"
	"github.com/acphost/acphost/services/gatewayd/internal/services"
)

// Kind is a kind of reason.
type Kind struct {
	// HTTP is the status of the response.
	HTTP int
	// RPC is the code of the JSON-RPC error.
	RPC int
	// Close is the close code of a WebSocket, if the reason closes it.
	Close websocket.StatusCode
}

// The kinds, as docs/gateway-api.md documents them. The codes NotFound and NotAllowed are those of ACP's proposal (RFD
// 533).
var (
	// NotSignedIn: the caller is not authenticated, or not any more.
	NotSignedIn = Kind{401, -32002, websocket.StatusPolicyViolation}
	// NotAllowed: the caller's role is insufficient.
	NotAllowed = Kind{403, -32002, websocket.StatusPolicyViolation}
	// NotFound: the session, connection or agent does not exist, or belongs to another caller.
	NotFound = Kind{404, -32001, websocket.StatusPolicyViolation}
	// NotJSON: the message is not JSON.
	NotJSON = Kind{400, -32700, websocket.StatusProtocolError}
	// Invalid: the message is no JSON-RPC message, or not valid here.
	Invalid = Kind{400, -32600, websocket.StatusProtocolError}
	// BadParams: a message lacks a parameter, or has an invalid one.
	BadParams = Kind{400, -32602, websocket.StatusProtocolError}
	// Unsupported: the method is not available here.
	Unsupported = Kind{501, -32601, websocket.StatusPolicyViolation}
	// Conflict: the state does not permit the request, such as a prompt during another turn.
	Conflict = Kind{409, -32600, websocket.StatusPolicyViolation}
	// TooMany: a limit is reached; a retry may succeed.
	TooMany = Kind{429, -32005, websocket.StatusTryAgainLater}
	// TooLong: a message is too long.
	TooLong = Kind{413, -32600, websocket.StatusMessageTooBig}
	// Unavailable: the gateway is stopping, or cannot reach the supervisor.
	Unavailable = Kind{503, -32006, websocket.StatusGoingAway}
	// Failed: the agent failed, or another error occurred that the client did not cause.
	Failed = Kind{500, -32603, websocket.StatusInternalError}
)

// ofCodes maps codes of the supervisor's errors to kinds; others are Failed.
var ofCodes = map[connect.Code]Kind{
	connect.CodeUnauthenticated:    NotSignedIn,
	connect.CodePermissionDenied:   NotAllowed,
	connect.CodeNotFound:           NotFound,
	connect.CodeInvalidArgument:    BadParams,
	connect.CodeOutOfRange:         BadParams,
	connect.CodeUnimplemented:      Unsupported,
	connect.CodeFailedPrecondition: Conflict,
	connect.CodeAlreadyExists:      Conflict,
	connect.CodeResourceExhausted:  TooMany,
	connect.CodeUnavailable:        Unavailable,
}

// Of returns the kind of an error of relay or of a call to the supervisor, and its text for the client. ctx is that of
// the call.
func Of(ctx context.Context, err error) (kind Kind, text string) {
	var problem relay.InvalidError
	var excess relay.LimitError
	switch {
	case errors.As(err, &problem):
		return Invalid, err.Error()
	case errors.As(err, &excess), errors.Is(err, relay.ErrFull):
		return TooMany, err.Error()
	case errors.Is(err, relay.ErrStreamInUse), errors.Is(err, relay.ErrTooOld):
		return Conflict, err.Error()
	case errors.Is(err, relay.ErrNotAllowed):
		return NotSignedIn, err.Error()
	case errors.Is(err, relay.ErrClosing):
		return Unavailable, err.Error()
	}
	of := services.Failure(ctx, err)
	kind, known := ofCodes[of.Code()]
	if !known || ofAgent(of) {
		kind = Failed
	}
	return kind, of.Message()
}

// ofAgent reports whether the agent caused an error: the client did not, even if the code is NOT_FOUND or
// FAILED_PRECONDITION.
func ofAgent(err *connect.Error) bool {
	for _, d := range err.Details() {
		if m, wrong := d.Value(); wrong == nil {
			if e, ok := m.(*supervisorv1.AgentError); ok {
				return e.GetKind() != supervisorv1.ErrorKind_ERROR_KIND_SESSION_NOT_FOUND
			}
		}
	}
	return false
}

// Unread returns the answer to an invalid message, for an error of relay.Read.
func Unread(err error) (Kind, []byte) {
	if errors.Is(err, relay.ErrBatch) || errors.Is(err, relay.ErrNoObject) {
		return Invalid, relay.Failure(nil, Invalid.RPC, "Invalid request", "Invalid JSON-RPC message: "+err.Error())
	}
	return NotJSON, relay.Failure(nil, NotJSON.RPC, "Parse error", "Invalid JSON")
}

// Initialize returns the answer to a failed initialize.
func (k Kind) Initialize(id []byte, text string) []byte {
	return relay.Failure(id, k.RPC, "Initialize failed", text)
}
