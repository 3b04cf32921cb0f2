package event

import (
	"bytes"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
)

// answer is how a request ended.
type answer struct {
	result, fault []byte
	handler       string
	direction     frame.Direction
	brief         bool
}

// raw is what came.
func (a *answer) raw() string {
	if a.fault != nil {
		return raw(a.fault)
	}
	return raw(a.result)
}

// ours reports whether acphost itself answered, and not whom it stands between.
func (a *answer) ours() bool {
	return a.direction == frame.OursToClient || a.direction == frame.OursToAgent
}

// inFlight is how acphost refuses a request whose id another has that is open. The refusal bears that id too, and is not
// the answer to the one that is open.
var inFlight = []byte("is in flight already")

// repeated reports whether an error refuses a request for its id, so that the one that has the id is still open.
func (a *answer) repeated() bool {
	if !a.ours() {
		return false
	}
	code, _ := acp.Int(acp.Get(a.fault, "code"), 32)
	msg, _ := acp.String(acp.Get(a.fault, "message"))
	return code == jsonrpc.CodeInvalidRequest && bytes.HasSuffix([]byte(msg), inFlight)
}
