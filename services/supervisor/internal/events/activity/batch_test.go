package activity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
	"github.com/acphost/acphost/services/supervisor/internal/events/replay"
)

// batches starts a call of WatchEvents that receives batches of events.
func (p *place) batches(wg *sync.WaitGroup, result *error, limit int, send func([]event.Encoded) error) {
	before := p.watchedBy()
	wg.Go(func() { *result = p.WatchEvents(context.Background(), "", limit, send) })
	p.joined(before + 1)
}

func TestBatch_HasEventsOnceInOrder(t *testing.T) {
	p := open(t, "", "here", Options{MaxQueued: 1 << 30})
	l := p.link("agent-1")
	const all, together = 5000, 500
	limits := []int{1, 7, 1 << 30}
	var wg sync.WaitGroup
	results := make([]error, len(limits)+1)
	shared := make([]map[string]event.Encoded, len(limits))
	received := make(chan struct{}, len(limits)+1)
	var single int
	p.watching(t.Context(), &wg, &results[len(limits)], func(ev *supervisorv1.Event) error {
		if text(ev) != fmt.Sprint(single) {
			t.Errorf("one at a time: got %q, want %d", text(ev), single)
		}
		if single++; single%together == 0 {
			received <- struct{}{}
		}
		if single == all {
			return errEnough
		}
		return nil
	})
	for i, limit := range limits {
		shared[i] = map[string]event.Encoded{}
		next, largest := 0, 0
		p.batches(&wg, &results[i], limit, func(batch []event.Encoded) error {
			if len(batch) == 0 || len(batch) > min(limit, maxBatch) {
				t.Errorf("a batch of %d events, limit %d", len(batch), limit)
			}
			largest = max(largest, len(batch))
			for _, e := range batch {
				if text(e.Event) != fmt.Sprint(next) {
					t.Errorf("limit %d: got %q, want %d", limit, text(e.Event), next)
				}
				shared[i][e.Event.GetCursor()] = e
				if next++; next%together == 0 {
					received <- struct{}{}
				}
			}
			if next < all {
				return nil
			}
			if limit > 1 && largest == 1 {
				t.Errorf("limit %d: no batch had two events", limit)
			}
			return errEnough
		})
	}
	for i := range all {
		l.chunk("s", fmt.Sprint(i))
		if (i+1)%together == 0 { // so that all keep up
			for range cap(received) {
				<-received
			}
		}
	}
	wg.Wait()
	for i, err := range results {
		if !errors.Is(err, errEnough) {
			t.Errorf("watcher %d: %v", i, err)
		}
	}
	for cursor, e := range shared[0] {
		for _, other := range shared[1:] {
			if unsafe.SliceData(other[cursor].Field) != unsafe.SliceData(e.Field) {
				t.Fatalf("the event %s is not encoded once for all", cursor)
			}
		}
		var got supervisorv1.WatchEventsResponse
		if err := proto.Unmarshal(e.Field, &got); err != nil || len(got.GetEvents()) != 1 || !proto.Equal(got.GetEvents()[0], e.Event) {
			t.Fatalf("the event %s is encoded as %v (%v)", cursor, &got, err)
		}
	}
	if n := p.watchedBy(); n != 0 || len(p.feed.kept()) != 0 {
		t.Errorf("%d are counted as watching, and %d events are held for them", n, len(p.feed.kept()))
	}
}

func TestBatch_CutsOffSlowWatcher(t *testing.T) {
	p := open(t, "", "here", Options{MaxQueued: 1 << 30})
	l := p.link("agent-1")
	stuck := make(chan struct{})
	began := make(chan struct{}, 2)
	var wg sync.WaitGroup
	var slow error
	var last string
	p.batches(&wg, &slow, maxBatch, func(batch []event.Encoded) error {
		last = batch[len(batch)-1].Event.GetCursor()
		began <- struct{}{}
		<-stuck
		return nil
	})
	l.chunk("s", "first")
	<-began
	for range maxFeed + 1 {
		l.chunk("s", "more")
	}
	if err := p.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(stuck)
	wg.Wait()
	wantClass(t, slow, fault.Exhausted)
	if last == "" || !strings.Contains(slow.Error(), fmt.Sprintf("%q", last)) {
		t.Errorf("%v: does not name the last cursor, %s", slow, last)
	}
	if n := len(p.feed.kept()); n != 0 {
		t.Errorf("%d events are held without a watcher", n)
	}
}

func TestBatch_ResumesInMiddle(t *testing.T) {
	p := open(t, "", "here", Options{})
	l := p.link("agent-1")
	var wg sync.WaitGroup
	var result error
	var cursors []string
	enough := func(to *[]string) func([]event.Encoded) error {
		return func(batch []event.Encoded) error {
			for _, e := range batch {
				if *to = append(*to, e.Event.GetCursor()); e.Event.GetTurnEnded() != nil {
					return errEnough
				}
			}
			return nil
		}
	}
	p.batches(&wg, &result, maxBatch, enough(&cursors))
	l.open("s")
	l.turn("s", "work")
	wg.Wait()
	for i, cursor := range cursors[:len(cursors)-1] {
		var got []string
		if err := p.WatchEvents(t.Context(), cursor, maxBatch, enough(&got)); !errors.Is(err, errEnough) || !slices.Equal(got, cursors[i+1:]) {
			t.Errorf("behind %s: got %v, %v, want %v", cursor, got, err, cursors[i+1:])
		}
	}
}

func position(t *testing.T, cursor string) replay.Position {
	t.Helper()
	at, ok := replay.Parse(cursor)
	if !ok {
		t.Fatalf("%q is not a cursor", cursor)
	}
	return at
}

func TestBatch_LimitsBytes(t *testing.T) {
	p := open(t, "", "here", Options{MaxRecent: 64 << 20, MaxQueued: 64 << 20})
	l := p.link("agent-1")
	l.open("s")
	cursor := p.allOf(t, "s", "")[0].GetCursor()
	r, err := p.joinAll(position(t, cursor))
	if err != nil {
		t.Fatal(err)
	}
	defer p.leaveAll(r)
	const size, all = 200 << 10, 20
	for range all {
		l.chunk("s", strings.Repeat("x", size))
	}
	if err := p.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got int
	for got < all {
		batch, err := p.feed.take(t.Context(), r, nil, maxBatch)
		if err != nil {
			t.Fatal(err)
		}
		if got += len(batch); len(batch)*size > maxBatchBytes {
			t.Fatalf("a batch of %d events of %d bytes", len(batch), size)
		}
	}
}

func TestBatch_LimitsEventsWithGap(t *testing.T) {
	p := open(t, "", "here", Options{})
	l := p.link("agent-1")
	l.open("s")
	cursor := p.allOf(t, "s", "")[0].GetCursor()
	l.chunk("s", "unwatched")
	l.turn("s", "work")
	var got []string
	err := p.WatchEvents(t.Context(), cursor, 1, func(batch []event.Encoded) error {
		if len(batch) != 1 {
			t.Errorf("a batch of %d events", len(batch))
		}
		for _, e := range batch {
			if g := e.Event.GetGap(); g != nil {
				got = append(got, fmt.Sprint(g.GetFrames()))
			}
			if e.Event.GetTurnEnded() != nil {
				return errEnough
			}
		}
		return nil
	})
	if want := []string{"1", "1"}; !errors.Is(err, errEnough) || !slices.Equal(got, want) {
		t.Errorf("gaps of %q frames, %v, want %q", got, err, want)
	}
}

func TestFeed_WakesReaderForFirstEventAndFullBatch(t *testing.T) {
	f := newFeed()
	r := f.join(view{}, nil)
	add := func(n, cost int) {
		for range n {
			f.add(entry{event: &supervisorv1.Event{}, seq: 1, cost: cost})
		}
	}
	woken := func() bool {
		select {
		case <-r.ready:
			return true
		default:
			return false
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if add(1, 1); woken() {
		t.Error("woken, though it waits for nothing")
	}
	if batch, err := f.take(t.Context(), r, nil, maxBatch); len(batch) != 1 || err != nil {
		t.Fatal(batch, err)
	}
	for name, c := range map[string]struct{ events, cost int }{"events": {10, 1}, "bytes": {2, maxBatchBytes / 2}} {
		if err := f.gather(ended, r, 10, nil); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if add(c.events-1, c.cost); woken() {
			t.Errorf("%s: woken before the batch is full", name)
		}
		if add(1, c.cost); !woken() {
			t.Errorf("%s: not woken when the batch is full", name)
		}
		if batch, err := f.take(t.Context(), r, nil, maxBatch); len(batch) != c.events || err != nil {
			t.Fatal(len(batch), err)
		}
		if n := len(f.kept()); n != 0 {
			t.Errorf("%s: %d events are held that were taken", name, n)
		}
	}
}

func TestBatch_WaitsUntilFullOrTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(Options{Instance: "here"})
		p := &place{Hub: h}
		l := p.link("agent-1")
		began := time.Now()
		const limit = 10
		var got []string
		var wg sync.WaitGroup
		var result error
		p.batches(&wg, &result, limit, func(batch []event.Encoded) error {
			got = append(got, fmt.Sprintf("%d at %v", len(batch), time.Since(began)))
			return nil
		})
		for _, n := range []int{1, 3, limit - 3, 2} {
			for range n {
				l.chunk("s", "more")
			}
			synctest.Wait()
		}
		time.Sleep(3 * gatherFor)
		l.chunk("s", "more")
		synctest.Wait()
		want := []string{"1 at 0s", "10 at 0s", fmt.Sprintf("2 at %v", gatherFor), fmt.Sprintf("1 at %v", 3*gatherFor)}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		h.Close()
		wg.Wait()
		wantClass(t, result, fault.Stopping)
	})
}

func BenchmarkBatches(b *testing.B) {
	for _, watchers := range []int{1, 50} {
		for _, batched := range []bool{false, true} {
			b.Run(fmt.Sprintf("watchers=%d/batched=%v", watchers, batched), func(b *testing.B) {
				h := New(Options{Instance: "here"})
				defer h.Close()
				l := (&place{Hub: h}).link("agent-1")
				f := chunk("s", strings.Repeat("x", 150))
				var wg sync.WaitGroup
				received := make(chan int, watchers)
				for range watchers {
					n := 0
					count := func(events int) error {
						before := n / 1000
						if n += events; n/1000 != before {
							received <- n
						}
						return nil
					}
					wg.Go(func() {
						limit := 0
						if batched {
							limit = maxBatch
						}
						_ = h.WatchEvents(b.Context(), "", limit, func(batch []event.Encoded) error { return count(len(batch)) })
					})
				}
				(&place{Hub: h}).joined(watchers)
				b.ReportAllocs()
				for b.Loop() {
					for range 1000 {
						l.Frame(f)
					}
					for range watchers {
						<-received
					}
				}
				h.Close()
				wg.Wait()
			})
		}
	}
}
