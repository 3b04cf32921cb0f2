// Package refusal is the one table of how /acp refuses: what a client gets by HTTP, by JSON-RPC and as the end of a
// WebSocket for each kind of reason, whatever the transport and the method.
//
// It knows the errors of the packages that refuse. It must not know who is refused, nor what was asked for.
package refusal

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
	// HTTP is the status of a request.
	HTTP int
	// RPC is the code of JSON-RPC's error.
	RPC int
	// Close is the code with which a WebSocket ends, where it ends.
	Close websocket.StatusCode
}

// The table, as docs/gateway.md has it. The codes NotFound and NotAllowed are those of ACP's proposal (RFD 533).
var (
	// NotSignedIn: nobody that is known here, or not any more.
	NotSignedIn = Kind{401, -32002, websocket.StatusPolicyViolation}
	// NotAllowed: the role is too small.
	NotAllowed = Kind{403, -32002, websocket.StatusPolicyViolation}
	// NotFound: there is no such session, connection or agent, or it is not the caller's.
	NotFound = Kind{404, -32001, websocket.StatusPolicyViolation}
	// NotJSON: what came is no JSON.
	NotJSON = Kind{400, -32700, websocket.StatusProtocolError}
	// Invalid: it is no message, or none that can come here.
	Invalid = Kind{400, -32600, websocket.StatusProtocolError}
	// BadParams: a message lacks something, or has what cannot be.
	BadParams = Kind{400, -32602, websocket.StatusProtocolError}
	// Unsupported: there is no such method for this.
	Unsupported = Kind{501, -32601, websocket.StatusPolicyViolation}
	// Conflict: not as things are, such as a prompt while another turn is under way.
	Conflict = Kind{409, -32600, websocket.StatusPolicyViolation}
	// TooMany: a limit is reached. Later there may be room.
	TooMany = Kind{429, -32005, websocket.StatusTryAgainLater}
	// TooLong: a message is longer than they may be.
	TooLong = Kind{413, -32600, websocket.StatusMessageTooBig}
	// Unavailable: the gateway is stopping, or does not reach the supervisor.
	Unavailable = Kind{503, -32006, websocket.StatusGoingAway}
	// Failed: the agent failed, or something else that is not the client's doing.
	Failed = Kind{500, -32603, websocket.StatusInternalError}
)

// ofCodes are the kinds of errors of the supervisor's; of others it is Failed.
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

// Of is the kind of an error of relay or of a call to the supervisor, and its words for the client. ctx is that of
// the call.
func Of(ctx context.Context, err error) (kind Kind, words string) {
	var problem relay.Problem
	var excess relay.Excess
	switch {
	case errors.As(err, &problem):
		return Invalid, err.Error()
	case errors.As(err, &excess), errors.Is(err, relay.ErrFull):
		return TooMany, err.Error()
	case errors.Is(err, relay.ErrTaken), errors.Is(err, relay.ErrTooOld):
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

// ofAgent reports whether an agent failed: what of the agent's is not found, or cannot be done, is not the client's
// doing.
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

// Unread is the answer to what is no message, for an error of relay.Read.
func Unread(err error) (Kind, []byte) {
	if errors.Is(err, relay.ErrBatch) || errors.Is(err, relay.ErrNoObject) {
		return Invalid, relay.Failure(nil, Invalid.RPC, "Invalid request", "Invalid JSON-RPC message: "+err.Error())
	}
	return NotJSON, relay.Failure(nil, NotJSON.RPC, "Parse error", "Invalid JSON")
}

// Initialize is the answer to an initialize that came to nothing.
func (k Kind) Initialize(id []byte, words string) []byte {
	return relay.Failure(id, k.RPC, "Initialize failed", words)
}
