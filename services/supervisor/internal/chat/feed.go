package chat

import (
	"context"
	"io"
	"iter"

	tea "charm.land/bubbletea/v2"

	"github.com/acphost/acphost/internal/panics"
)

// feedSize is how many messages of a stream wait for the screen; the stream waits when it is full.
const feedSize = 256

// follow is a command that waits for the next messages of a stream, which message makes a message of, with the command
// that waits for more. A goroutine reads the stream, so that what came is shown at once and not message by message. An
// error comes when all was taken; io.EOF: it was the end.
func follow[T any](s *supervisor, messages iter.Seq2[T, error], message func(all []T, next tea.Cmd, err error) tea.Msg) tea.Cmd {
	if !s.enter() {
		return func() tea.Msg { return nil }
	}
	came := make(chan T, feedSize)
	end := io.EOF // read once came is closed
	go func() {
		defer s.wg.Done()
		defer close(came)
		defer panics.Recover(nil, "following the supervisor", func(err error) { end = err })
		for m, err := range messages {
			if err != nil {
				end = err
				return
			}
			select {
			case came <- m:
			case <-s.ctx.Done():
				end = s.ctx.Err()
				return
			}
		}
	}()
	var next tea.Cmd
	next = s.do(func(ctx context.Context) tea.Msg {
		var all []T
		select {
		case <-ctx.Done():
			return message(nil, next, ctx.Err())
		case m, ok := <-came:
			if !ok {
				return message(nil, next, end)
			}
			all = append(all, m)
		}
		for len(came) > 0 && len(all) < feedSize {
			all = append(all, <-came)
		}
		return message(all, next, nil)
	})
	return next
}
