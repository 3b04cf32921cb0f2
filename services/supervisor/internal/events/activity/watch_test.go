package activity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acphost/acphost/internal/fault"
	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
	"github.com/acphost/acphost/services/supervisor/internal/events/replay"
)

func TestWatch_KeepsOrderOfConcurrentSenders(t *testing.T) {
	p := open(t, recordDir(t), "here", Options{})
	const agents, each = 4, 1000
	next := map[string]int{}
	var last uint64
	var wg sync.WaitGroup
	var result error
	got := 0
	p.watching(t.Context(), &wg, &result, func(ev *supervisorv1.Event) error {
		at, ok := replay.Parse(ev.GetCursor())
		if !ok || at.Seq <= last || at.Instance != "here" {
			t.Errorf("the cursor %q arrived after number %d", ev.GetCursor(), last)
		}
		last = at.Seq
		if want := fmt.Sprint(next[ev.GetAgentId()]); text(ev) != want {
			t.Errorf("%s: got %q, want %q", ev.GetAgentId(), text(ev), want)
		}
		next[ev.GetAgentId()]++
		if got++; got == agents*each {
			return errEnough
		}
		return nil
	})
	var senders sync.WaitGroup
	for a := range agents {
		l := p.link(fmt.Sprint("agent-", a))
		senders.Go(func() {
			for i := range each {
				l.chunk("s", fmt.Sprint(i))
			}
		})
	}
	senders.Wait()
	wg.Wait()
	if !errors.Is(result, errEnough) {
		t.Errorf("got %d events, then %v", got, result)
	}
}

func TestWatch_CutsOffSlowWatcherOnly(t *testing.T) {
	p := open(t, "", "here", Options{MaxQueued: 1 << 30})
	l := p.link("agent-1")
	stuck := make(chan struct{})
	var wg sync.WaitGroup
	var slow, quick error
	p.watching(t.Context(), &wg, &slow, func(*supervisorv1.Event) error {
		<-stuck
		return nil
	})
	const all = maxFeed + 2000
	next := 0
	sent := make(chan int)
	p.watching(t.Context(), &wg, &quick, func(ev *supervisorv1.Event) error {
		if text(ev) != fmt.Sprint(next) {
			t.Errorf("got %q, want %d", text(ev), next)
		}
		next++
		if next%1000 == 0 && next < all {
			sent <- next
		}
		if next == all {
			return errEnough
		}
		return nil
	})
	for i := range all {
		l.chunk("s", fmt.Sprint(i))
		if (i+1)%1000 == 0 && i+1 < all {
			<-sent // so that the quick one keeps up
		}
	}
	close(stuck)
	wg.Wait()
	wantClass(t, slow, fault.Exhausted)
	if !errors.Is(quick, errEnough) {
		t.Errorf("the quick one: %v", quick)
	}
}

func TestWatch_ResumesFromMemory(t *testing.T) {
	p := open(t, "", "here", Options{})
	l := p.link("agent-1")
	var cursors []string
	var wg sync.WaitGroup
	var result error
	p.watching(t.Context(), &wg, &result, func(ev *supervisorv1.Event) error {
		if cursors = append(cursors, ev.GetCursor()); ev.GetTurnEnded() != nil {
			return errEnough
		}
		return nil
	})
	l.open("s")
	l.turn("s", "work")
	wg.Wait()
	for i, cursor := range cursors[:len(cursors)-1] {
		var got []string
		err := p.watch(t.Context(), cursor, func(ev *supervisorv1.Event) error {
			if got = append(got, ev.GetCursor()); ev.GetTurnEnded() != nil {
				return errEnough
			}
			return nil
		})
		if want := cursors[i+1:]; !errors.Is(err, errEnough) || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("behind %s: got %v, %v, want %v", cursor, got, err, want)
		}
	}
}

func TestWatch_UnwatchedChunksAreGap(t *testing.T) {
	p := open(t, "", "here", Options{})
	l := p.link("agent-1")
	l.open("s")
	cursor := p.allOf(t, "s", "")[0].GetCursor()
	l.chunk("s", "unwatched")
	l.chunk("s", "nor this")
	l.turn("s", "work") // with one more
	if err := p.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	var gaps []uint64
	err := p.watch(t.Context(), cursor, func(ev *supervisorv1.Event) error {
		if g := ev.GetGap(); g != nil {
			gaps = append(gaps, g.GetFrames())
		}
		if ev.GetTurnEnded() != nil {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) || fmt.Sprint(gaps) != "[2 1]" {
		t.Errorf("gaps of %v frames, %v", gaps, err)
	}
}

func TestWatch_RejectsUnusableCursor(t *testing.T) {
	p := open(t, "", "here", Options{MaxRecent: 8 << 10})
	l := p.link("agent-1")
	l.open("s")
	first := p.allOf(t, "s", "")[0].GetCursor()
	for i := range 100 {
		l.turn("s", fmt.Sprint(i))
	}
	if err := p.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	for cursor, class := range map[string]fault.Class{
		first: fault.TooOld, "there-1": fault.TooOld, "here-999999": fault.Invalid, "here": fault.Invalid, "here-x": fault.Invalid,
		"here-1.x": fault.Invalid, "-1": fault.Invalid, "here-0": fault.Invalid,
	} {
		wantClass(t, p.watch(t.Context(), cursor, func(*supervisorv1.Event) error { return errEnough }), class)
	}
}

func TestWatch_OverflowIsGapForAllWatchers(t *testing.T) {
	p := open(t, "", "here", Options{MaxQueued: 16 << 10})
	l, other := p.link("agent-1"), p.link("other-1")
	l.open("s")
	other.open("o")
	if err := p.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var result error
	var got []string
	p.watching(t.Context(), &wg, &result, func(ev *supervisorv1.Event) error {
		if g := ev.GetGap(); g != nil {
			got = append(got, fmt.Sprintf("%s lacks %d", ev.GetAgentId(), g.GetFrames()))
		}
		if text(ev) == "the end" {
			return errEnough
		}
		return nil
	})
	p.stateMu.Lock() // the goroutine gets no further
	lost := 0
	for p.lossOf("agent-1") < 5 {
		l.chunk("s", "more")
		lost++
		if lost > 1000 {
			t.Fatal("the queue has no bound")
		}
	}
	p.stateMu.Unlock()
	if err := p.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.chunk("s", "the end")
	wg.Wait()
	if !errors.Is(result, errEnough) || fmt.Sprint(got) != "[agent-1 lacks 5]" {
		t.Errorf("got %v, %v", got, result)
	}
	for id, session := range map[string]string{"agent-1": "s", "other-1": "o"} {
		s := &supervisorv1.Session{SessionId: session}
		p.Show(id, s)
		if s.GetIncomplete() != (id == "agent-1") {
			t.Errorf("%s is incomplete: %v", id, s.GetIncomplete())
		}
	}
}

func (p *place) lossOf(agent string) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.losses {
		if l.port.id == agent {
			return l.frames
		}
	}
	return 0
}

func TestQueue_AcceptsAnyFrameWhenEmpty(t *testing.T) {
	p := open(t, "", "here", Options{MaxQueued: 1 << 10})
	l := p.link("agent-1")
	var wg sync.WaitGroup
	var result error
	p.watching(t.Context(), &wg, &result, func(ev *supervisorv1.Event) error {
		if len(text(ev)) != 1<<20 {
			t.Errorf("got %v", ev)
		}
		return errEnough
	})
	l.chunk("s", strings.Repeat("x", 1<<20))
	wg.Wait()
	if !errors.Is(result, errEnough) {
		t.Error(result)
	}
}

func TestWatch_UnwatchedChunksAllocateNothing(t *testing.T) {
	p := open(t, "", "here", Options{})
	l := p.link("agent-1")
	l.open("s")
	f := chunk("s", "piece")
	if n := testing.AllocsPerRun(100, func() { l.Frame(f) }); n != 0 {
		t.Errorf("%v allocations a piece", n)
	}
	// The same for a watcher of another session.
	w := (&watched{hub: p.Hub, port: p.ports["agent-1"], session: "another"}).joinLive()
	defer p.leave(w)
	if n := testing.AllocsPerRun(100, func() { l.Frame(f) }); n != 0 {
		t.Errorf("%v allocations a piece of a session that is not watched", n)
	}
}

func TestPublish_KeepsOrderWithFrames(t *testing.T) {
	p := open(t, "", "here", Options{})
	l := p.link("agent-1")
	var wg sync.WaitGroup
	var result error
	var got []string
	p.watching(t.Context(), &wg, &result, func(ev *supervisorv1.Event) error {
		if got = append(got, ev.GetCursor()); ev.GetTime() == nil {
			t.Error("an event has no time")
		}
		if len(got) == 3 {
			return errEnough
		}
		return nil
	})
	l.chunk("s", "before")
	p.Publish(&supervisorv1.Event{AgentId: "agent-1", Event: &supervisorv1.Event_Agent{Agent: &supervisorv1.Agent{Id: "agent-1"}}})
	l.chunk("s", "behind")
	wg.Wait()
	if fmt.Sprint(got) != "[here-1 here-2 here-3]" {
		t.Errorf("got %v, %v", got, result)
	}
}

func TestClose_EndsWatchers(t *testing.T) {
	p := open(t, recordDir(t), "here", Options{})
	l := p.link("agent-1")
	l.open("s")
	var wg sync.WaitGroup
	results := make([]error, 2)
	p.watching(context.Background(), &wg, &results[0], func(*supervisorv1.Event) error { return nil })
	wg.Go(func() {
		results[1] = p.WatchSession(context.Background(), &supervisorv1.WatchSessionRequest{SessionId: "s"}, func(*supervisorv1.Event) error { return nil })
	})
	p.joined(2)
	sub := p.Subscribe("agent-1", "s")
	defer sub.Close()
	p.shut(t)
	wg.Wait()
	for _, err := range results[:2] {
		wantClass(t, err, fault.Stopping)
	}
	if _, err := sub.Next(context.Background()); err == nil {
		t.Error("a subscription continues")
	}
	wantClass(t, p.watch(context.Background(), "", func(*supervisorv1.Event) error { return nil }), fault.Stopping)
	l.chunk("s", "too late")
	p.Publish(&supervisorv1.Event{})
}

func TestDrain_WaitsForSlowWatchers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(Options{Instance: "here"})
		reads, received := make(chan struct{}), 0
		var watching sync.WaitGroup
		watching.Go(func() {
			wantClass(t, h.WatchEvents(t.Context(), "", 0, func(events []event.Encoded) error {
				<-reads
				received += len(events)
				return nil
			}), fault.Stopping)
		})
		synctest.Wait()
		const events = 5
		for range events {
			h.Publish(&supervisorv1.Event{AgentId: "agent-1"})
		}
		h.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		h.Drain(ctx)
		if took := time.Since(begun); took != time.Second {
			t.Errorf("Drain returned after %v, want %v: nothing was read", took, time.Second)
		}
		close(reads)
		h.Drain(t.Context())
		watching.Wait()
		if received != events {
			t.Errorf("the watcher received %d events, want %d", received, events)
		}
		h.Drain(t.Context()) // there is no watcher
	})
}

func TestPlainChunk_RejectsNeededFrames(t *testing.T) {
	const plain = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}}}}`
	scan := func(line string) (f frame.Frame, ok bool) {
		var s jsonrpc.Scanner
		var m jsonrpc.Message
		if s.Scan([]byte(line), &m) != nil || m.Kind == jsonrpc.KindBatch {
			return f, false
		}
		return frame.Frame{Direction: frame.AgentToClient, Scanned: true, Method: m.Method, ID: m.ID, SessionID: m.SessionID, Line: []byte(line)}, true
	}
	if f, ok := scan(plain); !ok || !plainChunk(&f) {
		t.Error("the usual messages of agents are not recognized as plain")
	}
	for i := range plain {
		for _, with := range []string{"", "x", `,"id":1`, `"`, `\\`, "}", `,"update":{},`, `plan`, " "} {
			for _, line := range []string{plain[:i] + with + plain[i+1:], plain[:i] + with + plain[i:]} {
				if f, ok := scan(line); ok && plainChunk(&f) && event.Needed(&f) {
					t.Errorf("it is needed: %s", line)
				}
			}
		}
	}
}

func TestForget_RemovesAgent(t *testing.T) {
	p := open(t, recordDir(t), "here", Options{})
	l := p.link("agent-1")
	for i := range 10 {
		l.open(fmt.Sprint("s", i))
		l.turn(fmt.Sprint("s", i), "work")
	}
	sub := p.Subscribe("agent-1", "s1")
	want := p.allOf(t, "s1", "")
	p.Forget("agent-1")
	if p.ports["agent-1"] == nil {
		t.Error("a watched agent is removed")
	}
	sub.Close()
	p.Forget("agent-1")
	if len(p.ports) != 0 || len(p.sessions) != 0 {
		t.Errorf("%v, %v", p.ports, p.sessions)
	}
	s := &supervisorv1.Session{SessionId: "s1"}
	if p.Show("agent-1", s); s.GetCursor() != "" {
		t.Errorf("got %v", s)
	}
	same(t, "what is recorded", p.allOf(t, "s1", ""), want)
	l.chunk("s1", "from a link that closes late")
	p.link("agent-1").open("s1")
	if got := p.allOf(t, "s1", ""); len(got) != len(want)+2 {
		t.Errorf("%d events, want %d", len(got), len(want)+2)
	}
}

func TestWatch_ShowsForwardedFrames(t *testing.T) {
	p := open(t, "", "here", Options{})
	l := p.link("agent-1")
	l.open("s")
	l.turn("s", "work")
	l.say(frame.AgentToClient, `{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"session_info_update","title":"A title"}}}`)
	if err := p.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := &supervisorv1.Session{SessionId: "s"}
	p.Show("agent-1", s)
	if s.GetTitle() != "A title" || s.GetCursor() != "here-11" || s.GetIncomplete() || s.GetToolKinds()["edit"] != 1 {
		t.Errorf("got %v", s)
	}
}

func TestUsage_IsCountedWithoutWatchers(t *testing.T) {
	p := open(t, "", "here", Options{})
	l := p.link("agent-1")
	l.open("s")
	l.say(frame.ClientToAgent, `{"id":7,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}`)
	took := chunk("s", "")
	took.Line = bytes.Replace(took.Line, []byte(`"text":""}`), []byte(`"text":""},"_meta":{"usage":{"totalTokens":3,"inputTokens":1,"outputTokens":2}}`), 1)
	l.Frame(took)
	l.say(frame.AgentToClient, `{"id":7,"result":{"stopReason":"end_turn"}}`)
	if err := p.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := &supervisorv1.Session{SessionId: "s"}
	if p.Show("agent-1", s); s.GetTokens().GetTotal() != 3 {
		t.Errorf("got %v, want 3 tokens", s)
	}
}

// read passes a call of a read and its answer.
func (l *link) read(id int, content string) {
	l.Frame(frame.Frame{
		Direction: frame.AgentToHandler, Handler: "fs", Scanned: true, Method: []byte("fs/read_text_file"), ID: fmt.Append(nil, id), SessionID: []byte("s"),
		Line: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/w/f"}}`+"\n", id),
	})
	l.Frame(frame.Frame{Direction: frame.HandlerToAgent, Handler: "fs",
		Line: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":{"content":%q}}`+"\n", id, content)})
}

func TestWatch_UnwatchedCallsWakeNoReader(t *testing.T) {
	p := open(t, "", "here", Options{})
	l := p.link("agent-1")
	l.open("s")
	if err := p.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	came := p.cursor(p.last())
	queued := func() (int, bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.queue), p.resting
	}
	l.read(1, "short")
	l.read(2, strings.Repeat("x", 4<<10))
	if n, resting := queued(); n != 4 || !resting {
		t.Errorf("%d frames are queued, resting: %v", n, resting)
	}
	// A watcher that reconnects receives the missed events at once, and large updates abbreviated.
	var events []*supervisorv1.Event
	err := p.watch(t.Context(), came, func(ev *supervisorv1.Event) error {
		if events = append(events, ev); len(events) == 4 {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		t.Fatalf("got %v, then %v", events, err)
	}
	if events[0].GetCallStarted().GetPath() != "/w/f" || events[1].GetRaw() != `{"content":"short"}` || events[3].GetCallEnded() == nil || events[3].GetRaw() != "" {
		t.Errorf("got %v", events)
	}
	// The same for a request for the current state.
	l.read(3, "")
	if err := p.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := &supervisorv1.Session{SessionId: "s"}
	p.Show("agent-1", s)
	if len(s.GetFiles()) != 1 || s.GetFiles()[0].GetReads() != 3 {
		t.Errorf("the session shows %v", s.GetFiles())
	}
	// And many are not kept waiting.
	for i := range restAt {
		l.read(4+i, "")
	}
	testkit.Eventually(t, "the queue is worked on", func() bool { n, _ := queued(); return n < restAt })
}
