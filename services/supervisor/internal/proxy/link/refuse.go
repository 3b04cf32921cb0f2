package link

import (
	"errors"
	"time"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
)

// refuseTimeout is how long a client may take to send its first request, if there is no agent.
const refuseTimeout = 2 * time.Second

// Refuse answers the first request of a client without an agent with an error, so that the client gets the reason and not only an exit
// status. It returns when that is done, when the client is gone, or after two seconds. A read in progress then remains.
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
