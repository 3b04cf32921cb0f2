package client

import (
	"context"
	"errors"
	"io"
	"iter"
	"math"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// WatchEvents tells what happens in all sessions of all agents, behind the event with a cursor; "": from now on. The call is
// on its way when WatchEvents returns. The sequence can be ranged over once, and ends with an error. One with the code
// ResourceExhausted says that the caller was too slow: it can begin again behind the last cursor, unless the code is
// OutOfRange then, since that event is not kept any more.
func (c *Client) WatchEvents(ctx context.Context, cursor string) (iter.Seq2[*supervisorv1.Event, error], error) {
	stream, err := c.State.WatchEvents(ctx, &supervisorv1.WatchEventsRequest{Cursor: cursor, MaxBatch: math.MaxInt32})
	if err != nil {
		return nil, err
	}
	all := received(stream.Recv, func(r *supervisorv1.WatchEventsResponse) *supervisorv1.WatchEventsResponse { return r })
	return func(yield func(*supervisorv1.Event, error) bool) {
		for r, err := range all {
			events := r.GetEvents()
			if err != nil || r.GetEvent() != nil { // a supervisor that knows no batches sends one event at a time
				events = []*supervisorv1.Event{r.GetEvent()}
			}
			for _, e := range events {
				if !yield(e, err) {
					return
				}
			}
		}
	}, nil
}

// WatchApprovals tells the questions that wait for a person, of all agents: those that are there, then CaughtUp, then each
// that is asked and each that is answered, by whomever. While the caller is told them, somebody counts as there to answer,
// but not with OnlyLook. The call is on its way when WatchApprovals returns. The sequence can be ranged over once, and ends
// with an error.
func (c *Client) WatchApprovals(ctx context.Context, req *supervisorv1.WatchApprovalsRequest) (iter.Seq2[*supervisorv1.WatchApprovalsResponse, error], error) {
	stream, err := c.Approvals.WatchApprovals(ctx, req)
	if err != nil {
		return nil, err
	}
	return received(stream.Recv, func(r *supervisorv1.WatchApprovalsResponse) *supervisorv1.WatchApprovalsResponse { return r }), nil
}

// WatchFiles tells which files agents work with: all of them, then what has changed. The call is on its way when WatchFiles
// returns. The sequence can be ranged over once, and ends with an error.
func (c *Client) WatchFiles(ctx context.Context, req *supervisorv1.WatchFilesRequest) (iter.Seq2[*supervisorv1.WatchFilesResponse, error], error) {
	stream, err := c.State.WatchFiles(ctx, req)
	if err != nil {
		return nil, err
	}
	return received(stream.Recv, func(r *supervisorv1.WatchFilesResponse) *supervisorv1.WatchFilesResponse { return r }), nil
}

// WatchOutput tells what a terminal writes, from the byte at offset on, and at last how its command ended. Output is raw:
// escape sequences and all. What is not kept any more is counted in Missed, from offset on. The call is on its way when
// WatchOutput returns. The sequence can be ranged over once.
func (c *Client) WatchOutput(ctx context.Context, terminalID string, offset uint64) (iter.Seq2[*supervisorv1.WatchOutputResponse, error], error) {
	stream, err := c.State.WatchOutput(ctx, &supervisorv1.WatchOutputRequest{TerminalId: terminalID})
	if err != nil {
		return nil, err
	}
	all := received(stream.Recv, func(r *supervisorv1.WatchOutputResponse) *supervisorv1.WatchOutputResponse { return r })
	if offset == 0 {
		return all, nil
	}
	return func(yield func(*supervisorv1.WatchOutputResponse, error) bool) {
		at := uint64(0) // of the piece
		for piece, err := range all {
			if err == nil {
				missing := min(piece.GetMissed(), offset-min(at, offset))
				at += piece.GetMissed()
				piece.Missed -= missing
				n := min(uint64(len(piece.GetData())), offset-min(at, offset))
				at += uint64(len(piece.GetData()))
				piece.Data = piece.GetData()[n:]
				if len(piece.GetData()) == 0 && piece.GetMissed() == 0 && !piece.GetEnded() {
					continue
				}
			}
			if !yield(piece, err) {
				return
			}
		}
	}, nil
}

// received are the messages of a stream, each as take has it, to the stream's end.
func received[R, T any](recv func() (*R, error), take func(*R) T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for {
			r, err := recv()
			switch {
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				var none T
				yield(none, err)
				return
			case !yield(take(r), nil):
				return
			}
		}
	}
}
