package activity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acphost/acphost/internal/fault"
)

func TestSubscription_BlocksAgentInsteadOfLosingEvents(t *testing.T) {
	p := open(t, "", "here", Options{MaxQueued: 256 << 10})
	l := p.link("agent-1")
	sub := p.Subscribe("agent-1", "s")
	defer sub.Close()
	const events = 20_000
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range events {
			if err := p.WaitRoom(t.Context(), "agent-1"); err != nil {
				t.Error(err)
				return
			}
			l.chunk("s", fmt.Sprint(i))
			l.chunk("another", "not this")
		}
	})
	for i := range events {
		ev, err := sub.Next(t.Context())
		if err != nil || text(ev) != fmt.Sprint(i) {
			t.Fatalf("event %d: %v, %v", i, ev, err)
		}
		sub.watcher.out.mu.Lock()
		if n := len(sub.watcher.out.entries); n > 2*subscribedEvents+2000 {
			t.Fatalf("%d events are held", n)
		}
		sub.watcher.out.mu.Unlock()
	}
	wg.Wait()
}

func TestSubscription_UnreadIsCutOffAfterTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Instance: "here"})
		defer p.Close()
		place := &place{Hub: p}
		l, other := place.link("agent-1"), place.link("other-1")
		sub := p.Subscribe("agent-1", "s")
		defer sub.Close()
		began := time.Now()
		sent := 0
		for time.Since(began) == 0 { // until it has to wait
			if sent++; sent > 2*subscribedEvents {
				t.Fatal("nothing holds the agent back")
			}
			l.chunk("s", fmt.Sprint(sent))
			synctest.Wait()
			if err := p.WaitRoom(t.Context(), "other-1"); err != nil || time.Since(began) != 0 {
				t.Fatal("another agent has to wait:", err)
			}
			other.chunk("s", "not held back")
			if err := p.WaitRoom(t.Context(), "agent-1"); err != nil {
				t.Fatal(err)
			}
		}
		if waited := time.Since(began); waited != DefaultUnreadTimeout {
			t.Errorf("the agent waited for %v", waited)
		}
		_, err := sub.Next(t.Context())
		wantClass(t, err, fault.Exhausted)
	})
}

func TestSubscription_SlowReaderIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Instance: "here"})
		defer p.Close()
		l := (&place{Hub: p}).link("agent-1")
		sub := p.Subscribe("agent-1", "s")
		defer sub.Close()
		for i := range subscribedEvents + 10 {
			l.chunk("s", fmt.Sprint(i))
		}
		synctest.Wait()
		for i := range subscribedEvents + 10 {
			if i < 20 {
				time.Sleep(DefaultUnreadTimeout - time.Second)
			}
			ev, err := sub.Next(t.Context())
			if err != nil || text(ev) != fmt.Sprint(i) {
				t.Fatalf("event %d: %v, %v", i, ev, err)
			}
		}
		if err := p.WaitRoom(t.Context(), "agent-1"); err != nil {
			t.Error(err)
		}
	})
}

func TestSubscription_WaitForRoomEndsWithContextOrClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Instance: "here"})
		defer p.Close()
		l := (&place{Hub: p}).link("agent-1")
		sub := p.Subscribe("agent-1", "")
		for range subscribedEvents {
			l.chunk("s", "x")
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.WaitRoom(ctx, "agent-1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		began := time.Now()
		time.AfterFunc(time.Second, sub.Close)
		if err := p.WaitRoom(t.Context(), "agent-1"); err != nil || time.Since(began) != time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

func TestSubscription_LimitsMemoryIfAgentDoesNotWait(t *testing.T) {
	p := open(t, "", "here", Options{MaxQueued: 1 << 20})
	l := p.link("agent-1")
	sub := p.Subscribe("agent-1", "s")
	defer sub.Close()
	big := strings.Repeat("x", 100<<10)
	for range 50 {
		l.chunk("s", big)
		if err := p.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	_, err := sub.Next(t.Context())
	wantClass(t, err, fault.Exhausted)
}

func TestSubscription_CutOffOnLostEvent(t *testing.T) {
	p := open(t, "", "here", Options{MaxQueued: 8 << 10})
	l := p.link("agent-1")
	sub, other := p.Subscribe("agent-1", "s"), p.Subscribe("other-1", "s")
	defer sub.Close()
	defer other.Close()
	p.stateMu.Lock() // the goroutine gets no further
	for p.lossOf("agent-1") == 0 {
		l.chunk("s", "more")
	}
	p.stateMu.Unlock()
	if err := p.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := sub.Next(t.Context())
	wantClass(t, err, fault.Exhausted)
	p.link("other-1").chunk("s", "all is well")
	if ev, err := other.Next(t.Context()); err != nil || text(ev) != "all is well" {
		t.Errorf("got %v, %v", ev, err)
	}
}

func TestSubscription_CloseEndsIt(t *testing.T) {
	p := open(t, "", "here", Options{})
	l := p.link("agent-1")
	sub := p.Subscribe("agent-1", "s")
	l.chunk("s", "read")
	if err := p.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	sub.Close()
	l.chunk("s", "not sent any more")
	if ev, err := sub.Next(t.Context()); err != nil || text(ev) != "read" {
		t.Errorf("got %v, %v", ev, err)
	}
	if _, err := sub.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
	sub.Close()
}
