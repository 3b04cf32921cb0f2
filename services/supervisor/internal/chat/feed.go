package chat

import (
	"context"
)

// feedSize is how many messages of a stream wait for the screen; the stream waits when it is full.
const feedSize = 256

// feed is a stream that is read by a goroutine, so that what came is shown at once and not message by message.
type feed[T any] struct {
	messages chan T
	err      error // after messages is closed
}

// open begins to read. What drop wants is not kept.
func open[T any](s *supervisor, recv func() (T, error), drop func(T) bool) *feed[T] {
	f := &feed[T]{messages: make(chan T, feedSize)}
	if !s.enter() {
		f.err = context.Canceled
		close(f.messages)
		return f
	}
	go func() {
		defer s.wg.Done()
		defer close(f.messages)
		for {
			m, err := recv()
			if err != nil {
				f.err = err
				return
			}
			if drop != nil && drop(m) {
				continue
			}
			select {
			case f.messages <- m:
			case <-s.ctx.Done():
				f.err = s.ctx.Err()
				return
			}
		}
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
