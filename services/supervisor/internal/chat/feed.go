package chat

import (
	"context"
	"io"
	"iter"

	tea "charm.land/bubbletea/v2"
)

// feedSize is how many messages of a stream wait for the screen; the stream waits when it is full.
const feedSize = 256

// feed is a stream that is read by a goroutine, so that what came is shown at once and not message by message.
type feed[T any] struct {
	messages chan T
	err      error // after messages is closed
}

// open begins to read.
func open[T any](s *supervisor, messages iter.Seq2[T, error]) *feed[T] {
	f := &feed[T]{messages: make(chan T, feedSize)}
	if !s.enter() {
		f.err = context.Canceled
		close(f.messages)
		return f
	}
	go func() {
		defer s.wg.Done()
		defer close(f.messages)
		for m, err := range messages {
			if err != nil {
				f.err = err
				return
			}
			select {
			case f.messages <- m:
			case <-s.ctx.Done():
				f.err = s.ctx.Err()
				return
			}
		}
		f.err = io.EOF
	}()
	return f
}

// next waits for a message and takes those that came with it. An error comes when all were taken; io.EOF: it was the end.
func (f *feed[T]) next(ctx context.Context) ([]T, error) {
	var all []T
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case m, ok := <-f.messages:
		if !ok {
			return nil, f.err
		}
		all = append(all, m)
	}
	for len(all) < feedSize {
		select {
		case m, ok := <-f.messages:
			if !ok {
				return all, nil // the error comes with the next call
			}
			all = append(all, m)
		default:
			return all, nil
		}
	}
	return all, nil
}

// read is a command that waits for what comes, which message makes a message of.
func read[T any](s *supervisor, f *feed[T], message func(all []T, err error, next tea.Cmd) tea.Msg) tea.Cmd {
	var next tea.Cmd
	next = s.do(func(ctx context.Context) tea.Msg {
		all, err := f.next(ctx)
		return message(all, err, next)
	})
	return next
}
