package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
)

// WatchOutput implements admin.State. It watches the terminal at its handler, which keeps a terminal for 30 s after its
// release.
func (h *host) WatchOutput(ctx context.Context, terminalID string, send func(*supervisorv1.WatchOutputResponse) error) error {
	if h.opts.Mode == ModeObserve {
		return fault.New(fault.NotFound, "no terminal %q is here: this supervisor only watches", terminalID)
	}
	client, scope, err := h.findTerminal(ctx, terminalID)
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

// findTerminal finds the terminal handler that has the terminal.
func (h *host) findTerminal(ctx context.Context, terminalID string) (client terminalv1.TerminalServiceClient, scope string, err error) {
	var failed error
	for _, name := range h.terminalHandlers() {
		conn, err := h.handlers.conn(name)
		if err != nil {
			failed = cmp.Or(failed, status.Errorf(codes.Unavailable, "watch terminal %s: %v", terminalID, err))
			continue
		}
		client := terminalv1.NewTerminalServiceClient(conn)
		terminals, err := h.ownTerminals(ctx, name, client)
		if err != nil {
			failed = cmp.Or(failed, fmt.Errorf("look for terminal %s: %w", terminalID, err))
			continue
		}
		for t := range terminals {
			if t.GetTerminalId() == terminalID {
				return client, t.GetScope(), nil
			}
		}
	}
	if failed != nil {
		return nil, "", failed
	}
	return nil, "", fault.New(fault.NotFound, "no terminal %q is here; it can be watched until 30 s after its release", terminalID)
}

// relayOutput forwards a terminal's output from its handler until its end.
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
			missed += e.DroppedBytes // reported with the next output
			continue
		case *terminalv1.WatchResponse_Data:
			out.Data = e.Data
		case *terminalv1.WatchResponse_Exit:
			out.Ended, out.ExitCode, out.Signal = true, e.Exit.ExitCode, e.Exit.GetSignal()
		default:
			continue // an event that only newer handlers send
		}
		if err := send(out); err != nil || out.Ended {
			return err
		}
		missed = 0
	}
}
