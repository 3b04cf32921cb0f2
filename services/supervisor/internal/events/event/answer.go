package event

import (
	"bytes"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
)

// answer is the result of a request.
type answer struct {
	result, fault []byte
	handler       string
	direction     frame.Direction
	brief         bool
}

// raw returns the answer as received.
func (a *answer) raw() string {
	if a.fault != nil {
		return raw(a.fault)
	}
	return raw(a.result)
}

// ours reports whether acphost itself answered, not the peer.
func (a *answer) ours() bool {
	return a.direction == frame.OursToClient || a.direction == frame.OursToAgent
}

// inFlight is the error with which acphost rejects a request whose id belongs to an open request. The error has that id
// too, and is not the answer to the open request.
var inFlight = []byte("is in flight already")

// repeated reports whether an error rejects a request for its id, so that the earlier request with the id is still
// open.
func (a *answer) repeated() bool {
	if !a.ours() {
		return false
	}
	code, _ := acp.Int(acp.Get(a.fault, "code"), 32)
	msg, _ := acp.String(acp.Get(a.fault, "message"))
	return code == jsonrpc.CodeInvalidRequest && bytes.HasSuffix([]byte(msg), inFlight)
}
