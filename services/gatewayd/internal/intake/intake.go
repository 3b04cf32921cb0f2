// Package intake reads messages of clients, so that those which come slowly, or never whole, hold bounded memory and do not keep
// others from being read.
//
// It knows sizes and times. It must not know what carries a message, nor what the message means.
package intake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// free is how much of a message is read without a place, in bytes.
	free = 64 << 10
	// places there are for larger messages at once, and of one owner.
	places, placesEach = 32, 4
	// Patience is how long a client may take to send a message, once it has begun to.
	Patience = time.Minute
)

// ErrLong says that a message is longer than it may be.
var ErrLong = errors.New("the message is too long")

// Intake reads messages. Safe for concurrent use.
type Intake struct {
	most int64

	mu      sync.Mutex // guards what follows
	all     int
	of      map[string]int
	changed chan struct{} // closed when a place is free
}

// New returns an Intake for messages of at most so many bytes.
func New(most int64) *Intake {
	return &Intake{most: most, of: map[string]int{}, changed: make(chan struct{})}
}

// Most is how many bytes a message may have.
func (i *Intake) Most() int64 { return i.most }

// Read reads a message of an owner to its end. What is longer than 64 KiB needs one of 32 places, of which an owner has at most 4; it is
// waited for, and nothing is read meanwhile. With ErrLong it returns the beginning of the message, and leaves the rest in r. The caller bounds the time by ctx, and has r end with it.
func (i *Intake) Read(ctx context.Context, owner string, r io.Reader) ([]byte, error) {
	head, err := io.ReadAll(io.LimitReader(r, free+1))
	if err != nil || len(head) <= free {
		return head, err
	}
	if err := i.enter(ctx, owner); err != nil {
		return nil, err
	}
	defer i.leave(owner)
	rest, err := io.ReadAll(io.LimitReader(r, i.most-int64(len(head))+1))
	if err != nil {
		return nil, err
	}
	whole := append(head, rest...)
	if int64(len(whole)) > i.most {
		return whole, ErrLong
	}
	return whole, nil
}

func (i *Intake) enter(ctx context.Context, owner string) error {
	for {
		i.mu.Lock()
		if i.all < places && i.of[owner] < placesEach {
			i.all++
			i.of[owner]++
			i.mu.Unlock()
			return nil
		}
		changed := i.changed
		i.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("too many long messages come at once: %w", ctx.Err())
		}
	}
}

func (i *Intake) leave(owner string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.all--
	if i.of[owner]--; i.of[owner] == 0 {
		delete(i.of, owner)
	}
	close(i.changed)
	i.changed = make(chan struct{})
}
