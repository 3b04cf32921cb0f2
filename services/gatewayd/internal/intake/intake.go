// Package intake reads messages of clients, so that slow and incomplete messages use bounded memory and do not keep
// other messages from being read.
//
// It knows sizes and times. It must not know the transport of a message, nor its meaning.
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
	// smallMessage is the size up to which a message needs no place, in bytes.
	smallMessage = 64 << 10
	// maxLarge is the number of places for larger messages, maxLargePerOwner that of one owner.
	maxLarge, maxLargePerOwner = 32, 4
	// Timeout is how long a client may take to send a message after its first byte.
	Timeout = time.Minute
)

// ErrTooLong means that a message is too long.
var ErrTooLong = errors.New("the message is too long")

// Intake reads messages. Safe for concurrent use.
type Intake struct {
	maxSize int64

	mu      sync.Mutex // guards the fields below
	all     int
	of      map[string]int
	changed chan struct{} // closed when a place is free
}

// New returns an Intake for messages of at most maxSize bytes.
func New(maxSize int64) *Intake {
	return &Intake{maxSize: maxSize, of: map[string]int{}, changed: make(chan struct{})}
}

// MaxSize returns the maximum size of a message in bytes.
func (i *Intake) MaxSize() int64 { return i.maxSize }

// Read reads a message of an owner to its end. A message of more than 64 KiB needs one of 32 places, of which an owner
// may have 4; Read waits for a place without reading further. With ErrLong it returns the start of the message, and
// leaves the rest in r. The caller bounds the time by ctx, and makes r fail when ctx ends.
func (i *Intake) Read(ctx context.Context, owner string, r io.Reader) ([]byte, error) {
	head, err := io.ReadAll(io.LimitReader(r, smallMessage+1))
	if err != nil || len(head) <= smallMessage {
		return head, err
	}
	if err := i.acquire(ctx, owner); err != nil {
		return nil, err
	}
	defer i.release(owner)
	rest, err := io.ReadAll(io.LimitReader(r, i.maxSize-int64(len(head))+1))
	if err != nil {
		return nil, err
	}
	whole := append(head, rest...)
	if int64(len(whole)) > i.maxSize {
		return whole, ErrTooLong
	}
	return whole, nil
}

func (i *Intake) acquire(ctx context.Context, owner string) error {
	for {
		i.mu.Lock()
		if i.all < maxLarge && i.of[owner] < maxLargePerOwner {
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

func (i *Intake) release(owner string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.all--
	if i.of[owner]--; i.of[owner] == 0 {
		delete(i.of, owner)
	}
	close(i.changed)
	i.changed = make(chan struct{})
}
