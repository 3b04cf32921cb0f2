package client

import (
	"context"
	"errors"
	"io"
	"iter"
	"math"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// WatchEvents returns the events of all sessions of all agents after the event with a cursor; "": from now on. When
// WatchEvents returns, the request was sent. The sequence can be iterated once, and ends with an error. The code
// ResourceExhausted means that the caller was too slow: it can begin again after the last cursor. If the code is
// OutOfRange then, that event is no longer kept.
func (c *Client) WatchEvents(ctx context.Context, cursor string) (iter.Seq2[*supervisorv1.Event, error], error) {
	stream, err := c.State.WatchEvents(ctx, &supervisorv1.WatchEventsRequest{Cursor: cursor, MaxBatch: math.MaxInt32})
	if err != nil {
		return nil, err
	}
	all := messages(stream.Recv, func(r *supervisorv1.WatchEventsResponse) *supervisorv1.WatchEventsResponse { return r })
	return func(yield func(*supervisorv1.Event, error) bool) {
		for r, err := range all {
			events := r.GetEvents()
			if err != nil || r.GetEvent() != nil { // a supervisor without batches sends one event at a time
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

// WatchApprovals returns the questions to people, of all agents: those that wait now, then CaughtUp, then each new
// question and each answer from any source. While the call is active, the supervisor assumes that a person is present
// to answer, unless the request has OnlyLook. When WatchApprovals returns, the request was sent. The sequence can be
// iterated once, and ends with an error.
func (c *Client) WatchApprovals(ctx context.Context, req *supervisorv1.WatchApprovalsRequest) (iter.Seq2[*supervisorv1.WatchApprovalsResponse, error], error) {
	stream, err := c.Approvals.WatchApprovals(ctx, req)
	if err != nil {
		return nil, err
	}
	return messages(stream.Recv, func(r *supervisorv1.WatchApprovalsResponse) *supervisorv1.WatchApprovalsResponse { return r }), nil
}

// WatchFiles returns the files that agents work with: all of them, then the changes. When WatchFiles returns, the
// request was sent. The sequence can be iterated once, and ends with an error.
func (c *Client) WatchFiles(ctx context.Context, req *supervisorv1.WatchFilesRequest) (iter.Seq2[*supervisorv1.WatchFilesResponse, error], error) {
	stream, err := c.State.WatchFiles(ctx, req)
	if err != nil {
		return nil, err
	}
	return messages(stream.Recv, func(r *supervisorv1.WatchFilesResponse) *supervisorv1.WatchFilesResponse { return r }), nil
}

// WatchOutput returns the output of a terminal, from the byte at offset on, and finally how its command ended. The
// output is raw, with escape sequences. Missed counts the bytes from offset on that are no longer kept. When
// WatchOutput returns, the request was sent. The sequence can be iterated once.
func (c *Client) WatchOutput(ctx context.Context, terminalID string, offset uint64) (iter.Seq2[*supervisorv1.WatchOutputResponse, error], error) {
	stream, err := c.State.WatchOutput(ctx, &supervisorv1.WatchOutputRequest{TerminalId: terminalID})
	if err != nil {
		return nil, err
	}
	all := messages(stream.Recv, func(r *supervisorv1.WatchOutputResponse) *supervisorv1.WatchOutputResponse { return r })
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

// messages returns the messages of a stream, each converted by take, until the stream's end.
func messages[R, T any](recv func() (*R, error), take func(*R) T) iter.Seq2[T, error] {
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
