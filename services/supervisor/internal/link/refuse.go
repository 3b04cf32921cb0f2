package link

import (
	"errors"
	"time"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
)

// refuseTimeout is how long a client may take for its first request, where there is no agent to send it to.
const refuseTimeout = 2 * time.Second

// Refuse answers the first request of a client that has no agent with an error, so that it is told and need not guess
// from an exit status. It returns when that is done, when the client is gone, or after two seconds; a read that is under
// way then stays behind.
func Refuse(f Client, message string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer panics.Recover(nil, "refusing a client")
		r := jsonrpc.NewReader(f.In, defaultMaxMessage)
		w := jsonrpc.NewWriter(f.Out, maxRefusals)
		defer func() { _ = w.Close() }()
		var scan jsonrpc.Scanner
		var m jsonrpc.Message
		for {
			line, err := r.Next()
			if _, ok := errors.AsType[*jsonrpc.TooLong](err); ok {
				continue
			}
			if err != nil {
				return
			}
			if scan.Scan(line, &m) == nil && m.Kind == jsonrpc.KindRequest {
				_ = w.Send(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: message}))
				return
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(refuseTimeout):
	}
}
