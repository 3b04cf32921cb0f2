package chat

import (
	"context"
	"io"
	"iter"

	tea "charm.land/bubbletea/v2"

	"github.com/acphost/acphost/internal/panics"
)

// feedSize is the size of the buffer between a stream and the screen. When the buffer is full, the stream is not read.
const feedSize = 256

// follow returns a command that waits for the next messages of a stream. message converts them to a message for the
// model, with the command that waits for more. A goroutine reads the stream, so that all available messages are shown
// at once. The error is passed after all messages; io.EOF means the end of the stream.
func follow[T any](s *supervisor, messages iter.Seq2[T, error], message func(all []T, next tea.Cmd, err error) tea.Msg) tea.Cmd {
	if !s.enter() {
		return func() tea.Msg { return nil }
	}
	came := make(chan T, feedSize)
	end := io.EOF // valid after came is closed
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
