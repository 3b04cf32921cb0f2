package activity

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
	"github.com/acphost/acphost/services/supervisor/internal/events/replay"
)

// same compares events that were received in two ways.
func same(t *testing.T, what string, got, want []*supervisorv1.Event) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Fatalf("%s: %v is missing", what, prototext.Format(want[i]))
		case i >= len(want):
			t.Fatalf("%s: %v is too much", what, prototext.Format(got[i]))
		case !proto.Equal(got[i], want[i]):
			t.Fatalf("%s: event %d is\n%v\nwant\n%v", what, i, prototext.Format(got[i]), prototext.Format(want[i]))
		}
	}
}

// story plays turns of two sessions of an agent and one of another with the same id, all at once.
func story(p *place) {
	a, b := p.link("alpha-1"), p.link("beta-1")
	a.open("s")
	a.open("other")
	b.open("s")
	for i := range 20 {
		a.turn("s", fmt.Sprint("a", i))
		a.turn("other", fmt.Sprint("o", i))
		b.turn("s", fmt.Sprint("b", i))
	}
	a.say(frame.ClientToAgent, `{"id":900,"method":"session/load","params":{"sessionId":"s","cwd":"/w","mcpServers":[]}}`)
	a.chunk("s", "history")
	a.say(frame.AgentToClient, `{"id":900,"result":null}`)
	a.say(frame.ClientToAgent, `{"id":901,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"crash"}]}}`)
	a.say(frame.AgentToHandler, `{"id":901,"method":"terminal/create","params":{"sessionId":"s","command":"x"}}`)
	a.say(frame.ClientToAgent, `{"id":902,"method":"session/prompt","params":{"sessionId":"other","prompt":[{"type":"text","text":"restart"}]}}`)
	a.say(frame.AgentToHandler, `{"id":903,"method":"terminal/create","params":{"sessionId":"other","command":"x"}}`)
	a.say(frame.OursToClient, `{"id":901,"error":{"code":-32603,"message":"the agent crashed","data":{"acphost":{"kind":"crashed","exitCode":3}}}}`)
	a = p.link("alpha-1")
	a.say(frame.ClientToAgent, `{"id":0,"method":"initialize","params":{}}`)
	a.say(frame.AgentToClient, `{"id":0,"result":{"protocolVersion":1}}`)
	a.say(frame.AgentToClient, "{\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"\xff\u2028\"}}}}")
	p.Notify("alpha-1", event.AppendNotice(nil, "s", "error", "The session could not be resumed", "session/resume failed"))
	p.Notify("alpha-1", event.AppendClosed(nil, "s", "session/resume failed"))
	p.Notify("nobody-1", event.AppendClosed(nil, "s", "of an agent that there is not"))
}

func TestSession_RecordedEventsMatchLiveEvents(t *testing.T) {
	dir := recordDir(t)
	p := open(t, dir, "here", Options{})
	live := map[string][]*supervisorv1.Event{}
	var wg sync.WaitGroup
	var result error
	p.watching(t.Context(), &wg, &result, func(ev *supervisorv1.Event) error {
		key := ev.GetAgentId() + "/" + ev.GetSessionId()
		if live[key] = append(live[key], ev); ev.GetHandler() != nil {
			return errEnough
		}
		return nil
	})
	story(p)
	p.Publish(&supervisorv1.Event{Event: &supervisorv1.Event_Handler{Handler: &supervisorv1.HandlerChanged{Name: "the end"}}})
	wg.Wait()
	if !errors.Is(result, errEnough) {
		t.Fatal(result)
	}
	recorded := func(p *place, agent, session, cursor string) (events []*supervisorv1.Event) {
		t.Helper()
		err := p.WatchSession(t.Context(), &supervisorv1.WatchSessionRequest{AgentId: agent, SessionId: session, Cursor: cursor, NoFollow: true},
			func(ev *supervisorv1.Event) error { events = append(events, ev); return nil })
		if err != nil {
			t.Fatal(err)
		}
		return events
	}
	check := func(p *place, how string) {
		for key, events := range live {
			agent, session, _ := strings.Cut(key, "/")
			if session == "" {
				continue
			}
			same(t, how+" "+key, recorded(p, agent, session, ""), events)
			for i := 0; i < len(events); i += 7 {
				same(t, fmt.Sprint(how, " ", key, " behind ", i), recorded(p, agent, session, events[i].GetCursor()), events[i+1:])
			}
		}
	}
	check(p, "while it runs")
	_, err := p.collect("s", "")
	wantClass(t, err, fault.Invalid) // two agents have it
	p.shut(t)
	check(open(t, dir, "later", Options{}), "after a restart")
}

func TestSession_JoinsRecordAndLiveWithoutGaps(t *testing.T) {
	p := open(t, recordDir(t), "here", Options{MaxQueued: 1 << 30})
	l := p.link("agent-1")
	l.open("s")
	const events = 6000
	steps := make(chan struct{}, events)
	var sender, watchers sync.WaitGroup
	sender.Go(func() {
		for i := range events {
			l.chunk("s", fmt.Sprint(i))
			steps <- struct{}{}
		}
	})
	for range 12 {
		for range events / 24 { // each comes somewhere in the middle
			<-steps
		}
		watchers.Go(func() {
			next := 0
			err := p.WatchSession(t.Context(), &supervisorv1.WatchSessionRequest{SessionId: "s"}, func(ev *supervisorv1.Event) error {
				if ev.GetGap() != nil {
					t.Errorf("a gap: %v", ev)
				}
				if ev.GetAgentMessage() == nil {
					return nil
				}
				if text(ev) != fmt.Sprint(next) {
					t.Errorf("got %q, want %d", text(ev), next)
				}
				if next++; next == events {
					return errEnough
				}
				return nil
			})
			if !errors.Is(err, errEnough) {
				t.Errorf("after %d events: %v", next, err)
			}
		})
	}
	sender.Wait()
	watchers.Wait()
}

func TestSession_ReadsFilesOfSeveralSupervisors(t *testing.T) {
	dir := recordDir(t)
	var want []*supervisorv1.Event
	for _, instance := range []string{"one", "two", "three"} {
		p := open(t, dir, instance, Options{})
		l := p.link("agent-1")
		if instance == "one" {
			l.open("s")
		} else {
			l.say(frame.ClientToAgent, `{"id":7,"method":"session/resume","params":{"sessionId":"s","cwd":"/w"}}`)
			l.say(frame.AgentToClient, `{"id":7,"result":{}}`)
		}
		l.turn("s", "in "+instance)
		got := p.allOf(t, "s", "")
		if len(got) <= len(want) {
			t.Fatalf("%s: %d events", instance, len(got))
		}
		same(t, "what was before "+instance, got[:len(want)], want)
		want = got
		p.shut(t)
	}
	p := open(t, dir, "four", Options{})
	same(t, "all", p.allOf(t, "s", ""), want)
	for i := range want {
		same(t, fmt.Sprint("behind ", i), p.allOf(t, "s", want[i].GetCursor()), want[i+1:])
	}
	var got []*supervisorv1.Event
	err := replay.Recorded(t.Context(), dir, &supervisorv1.WatchSessionRequest{SessionId: "s", Cursor: want[3].GetCursor()}, func(ev *supervisorv1.Event) error {
		got = append(got, ev)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "without a supervisor", got, want[4:])
	if err := p.WatchSession(t.Context(), &supervisorv1.WatchSessionRequest{SessionId: "s"}, func(*supervisorv1.Event) error { return nil }); err != nil {
		t.Errorf("a watch of a removed session does not end: %v", err)
	}
	for _, tt := range []struct {
		session, cursor string
		class           fault.Class
	}{
		{"unknown", "", fault.NotFound}, {"unknown", replay.Now, fault.NotFound}, {"", "", fault.Invalid},
		{"s", "five-1", fault.Invalid}, {"s", "nonsense", fault.Invalid},
	} {
		_, err := p.collect(tt.session, tt.cursor)
		wantClass(t, err, tt.class)
	}
}

func TestSession_NowSkipsPastEvents(t *testing.T) {
	p := open(t, recordDir(t), "here", Options{})
	l := p.link("agent-1")
	l.open("s")
	l.turn("s", "before")
	var wg sync.WaitGroup
	wg.Go(func() {
		err := p.WatchSession(t.Context(), &supervisorv1.WatchSessionRequest{SessionId: "s", Cursor: replay.Now}, func(ev *supervisorv1.Event) error {
			if text(ev) != "next" {
				t.Errorf("got %v", ev)
			}
			return errEnough
		})
		if !errors.Is(err, errEnough) {
			t.Error(err)
		}
	})
	p.joined(1)
	l.chunk("another", "not this")
	l.chunk("s", "next")
	wg.Wait()
}

func TestSession_UsesMemoryWithoutRecord(t *testing.T) {
	p := open(t, "", "here", Options{MaxRecent: 64 << 10})
	l := p.link("agent-1")
	l.open("s")
	l.say(frame.AgentToClient, `{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"current_mode_update","currentModeId":"m"}}}`)
	events := p.allOf(t, "s", "")
	if len(events) != 2 || events[0].GetSessionOpened() == nil || events[1].GetCurrentMode() == nil {
		t.Fatalf("got %v", events)
	}
	same(t, "behind the first", p.allOf(t, "s", events[0].GetCursor()), events[1:])
	l.chunk("s", "unwatched")
	l.turn("s", "work")
	if got := p.allOf(t, "s", events[1].GetCursor()); got[0].GetGap() == nil || got[1].GetTurnStarted() == nil {
		t.Errorf("got %v", got)
	}
	for i := range 100 {
		l.turn("s", fmt.Sprint(i))
	}
	for _, cursor := range []string{"", events[0].GetCursor()} {
		if got := p.allOf(t, "s", cursor); got[0].GetGap().GetReason() != whyNoRecord || got[1].GetGap() != nil || got[len(got)-1].GetTurnEnded() == nil {
			t.Errorf("got %v", got[:2])
		}
	}
	var live []*supervisorv1.Event
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = p.WatchSession(t.Context(), &supervisorv1.WatchSessionRequest{SessionId: "s"}, func(ev *supervisorv1.Event) error {
			if live = append(live, ev); text(ev) == "the end" {
				return errEnough
			}
			return nil
		})
	})
	p.joined(1)
	l.chunk("s", "the end")
	wg.Wait()
	if live[0].GetGap() == nil || text(live[len(live)-1]) != "the end" || live[len(live)-2].GetTurnEnded() == nil {
		t.Errorf("got %v", live)
	}
	_, err := p.collect("s", "there-1")
	wantClass(t, err, fault.Invalid)
	_, err = p.collect("unknown", "")
	wantClass(t, err, fault.NotFound)
}

func TestRecord_WriteErrorIsReportedAndStopsNothing(t *testing.T) {
	dir := recordDir(t)
	p := open(t, dir, "here", Options{})
	day := filepath.Join(dir, time.Now().UTC().Format(time.DateOnly))
	if err := os.WriteFile(day, nil, 0o600); err != nil { // no folder can be there
		t.Fatal(err)
	}
	l := p.link("agent-1")
	l.open("s")
	l.turn("s", "work")
	events := p.allOf(t, "s", "")
	if len(events) != 1 || events[0].GetGap().GetFrames() != 10 || events[0].GetGap().GetReason() != whyUnwritten {
		t.Fatalf("got %v", events)
	}
	if err := os.Remove(day); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		first := true
		err := p.WatchSession(t.Context(), &supervisorv1.WatchSessionRequest{SessionId: "s"}, func(ev *supervisorv1.Event) error {
			if first && ev.GetGap().GetReason() != whyUnwritten {
				t.Errorf("got %v", ev)
			}
			first = false
			if text(ev) == "live" {
				return errEnough
			}
			return nil
		})
		if !errors.Is(err, errEnough) {
			t.Error(err)
		}
	})
	p.joined(1)
	l.chunk("s", "live")
	wg.Wait()
	p.Close()
	_ = p.journal.Close() // it may not have been retried yet, and reports that
	if _, err := os.Stat(day); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestSession_MissingFramesAreGap(t *testing.T) {
	dir := recordDir(t)
	p := open(t, dir, "here", Options{})
	l := p.link("agent-1")
	l.open("s")
	l.chunk("s", "one")
	l.chunk("s", "two")
	p.shut(t)
	file := onlyFile(t, dir)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.Collect(strings.Lines(string(data)))
	lost := `{"t":"2026-01-01T00:00:00Z","n":3,"n_first":3,"dropped":1,"bytes":7,"from":"2026-01-01T00:00:00Z","to":"2026-01-01T00:00:00Z","why":"no room"}` + "\n"
	torn := strings.Join(append(slices.Insert(lines, 4, "rubbish\n"), `{"t":"2026`), "")
	torn = strings.Replace(torn, lines[3], lost, 1)
	if err := os.WriteFile(file, []byte(torn), 0o600); err != nil {
		t.Fatal(err)
	}
	p = open(t, dir, "later", Options{})
	var got []string
	for _, ev := range p.allOf(t, "s", "") {
		got = append(got, text(ev)+ev.GetGap().GetReason())
	}
	if want := []string{"", "no room", "a line of the record cannot be read", "two"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := p.allOf(t, "s", "here-3"); len(got) != 1 || text(got[0]) != "two" {
		t.Errorf("behind the gap: %v", got)
	}
}

func onlyFile(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "s-*.ndjson"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	return files[0]
}

func TestSession_CancelledCallEnds(t *testing.T) {
	p := open(t, recordDir(t), "here", Options{})
	p.link("agent-1").open("s")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		err := p.WatchSession(ctx, &supervisorv1.WatchSessionRequest{SessionId: "s"}, func(*supervisorv1.Event) error { return nil })
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	p.joined(1)
	cancel()
	wg.Wait()
	if p.joined(0); len(p.watchers) != 0 || len(p.ports["agent-1"].sessions) != 0 {
		t.Error("the watcher still receives events")
	}
}
