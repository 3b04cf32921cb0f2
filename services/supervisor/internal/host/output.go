package host

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
	"github.com/acphost/acphost/services/supervisor/internal/fault"
	"github.com/acphost/acphost/services/supervisor/internal/route"
)

// WatchOutput implements admin.State. It follows the terminal at the terminal handler, which keeps it for 30 s after its
// release.
func (h *host) WatchOutput(ctx context.Context, terminalID string, send func(*supervisorv1.WatchOutputResponse) error) error {
	if h.opts.Mode == ModeObserve {
		return fault.New(fault.NotFound, "no terminal %q is here: this supervisor only watches", terminalID)
	}
	conn, err := h.handlers.conn(route.KindTerminal)
	if err != nil {
		return status.Errorf(codes.Unavailable, "watch terminal %s: %v", terminalID, err)
	}
	client := terminalv1.NewTerminalServiceClient(conn)
	scope, err := h.scopeOf(ctx, client, terminalID)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream
	stream, err := client.Watch(ctx, &terminalv1.WatchRequest{Scope: scope, TerminalId: terminalID})
	if err != nil {
		return fmt.Errorf("watch terminal %s: %w", terminalID, err)
	}
	return relayOutput(terminalID, stream.Recv, send)
}

// scopeOf asks the terminal handler whose a terminal is.
func (h *host) scopeOf(ctx context.Context, client terminalv1.TerminalServiceClient, terminalID string) (string, error) {
	terminals, err := h.ownTerminals(ctx, client)
	if err != nil {
		return "", fmt.Errorf("look for terminal %s: %w", terminalID, err)
	}
	for t := range terminals {
		if t.GetTerminalId() == terminalID {
			return t.GetScope(), nil
		}
	}
	return "", fault.New(fault.NotFound, "no terminal %q is here; it can be watched until 30 s after its release", terminalID)
}

// relayOutput sends what the terminal handler tells of a terminal, up to its end.
func relayOutput(terminalID string, recv func() (*terminalv1.WatchResponse, error), send func(*supervisorv1.WatchOutputResponse) error) error {
	var missed uint64
	for {
		res, err := recv()
		switch {
		case errors.Is(err, io.EOF):
			return status.Errorf(codes.Unavailable, "watch terminal %s: its output broke off", terminalID)
		case err != nil:
			return fmt.Errorf("watch terminal %s: %w", terminalID, err)
		}
		out := &supervisorv1.WatchOutputResponse{Missed: missed}
		switch e := res.GetEvent().(type) {
		case *terminalv1.WatchResponse_DroppedBytes:
			missed += e.DroppedBytes // told with what comes behind it
			continue
		case *terminalv1.WatchResponse_Data:
			out.Data = e.Data
		case *terminalv1.WatchResponse_Exit:
			out.Ended, out.ExitCode, out.Signal = true, e.Exit.ExitCode, e.Exit.GetSignal()
		default:
			continue // of a newer handler
		}
		if err := send(out); err != nil || out.Ended {
			return err
		}
		missed = 0
	}
}
