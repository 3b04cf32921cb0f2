package intake_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/acphost/acphost/services/gatewayd/internal/intake"
)

func TestRead_WholeMessage(t *testing.T) {
	const maxSize = 1 << 20
	in := intake.New(maxSize)
	for _, size := range []int{0, 1, 64 << 10, 64<<10 + 1, maxSize - 1, maxSize} {
		want := bytes.Repeat([]byte("x"), size)
		if got, err := in.Read(t.Context(), "a", bytes.NewReader(want)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("of %d bytes: %d, %v", size, len(got), err)
		}
	}
	if _, err := in.Read(t.Context(), "a", strings.NewReader(strings.Repeat("x", maxSize+1))); !errors.Is(err, intake.ErrTooLong) {
		t.Errorf("a message that is too long: %v", err)
	}
}

// TestRead_UnfinishedMessagesDoNotBlockOthers: a client that sends many long messages without finishing one gets its
// share of the places, and messages of others are read.
func TestRead_UnfinishedMessagesDoNotBlockOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := intake.New(1 << 20)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		const many = 40
		var writers []*io.PipeWriter
		begun := make(chan int, 2*many)
		for i := range many {
			r, w := io.Pipe()
			writers = append(writers, w)
			go func() {
				_, err := in.Read(ctx, "greedy", r)
				ended <- err
			}()
			go func() {
				_, _ = w.Write(make([]byte, 64<<10+1))
				begun <- i
				_, _ = w.Write([]byte("more")) // taken by who has a place
				begun <- i
			}()
		}
		synctest.Wait()
		if got := len(begun); got != many+4 {
			t.Errorf("%d long messages of one owner are read at once, want 4", got-many)
		}
		long := strings.Repeat("y", 1<<20)
		if got, err := in.Read(t.Context(), "honest", strings.NewReader(long)); err != nil || string(got) != long {
			t.Errorf("another owner's long message: %d bytes, %v", len(got), err)
		}
		if got, err := in.Read(t.Context(), "greedy", strings.NewReader("short")); err != nil || string(got) != "short" {
			t.Errorf("a short message of the same owner: %q, %v", got, err)
		}
		cancel()
		for _, w := range writers {
			_ = w.CloseWithError(errors.New("cut"))
		}
		for range many {
			if err := <-ended; err == nil {
				t.Error("a message that was never whole was read")
			}
		}
	})
}
