package rest

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// streamEvent is an event of the stream.
type streamEvent struct{ id, name, data string }

// follow reads a stream of events.
func (r *rig) follow(query, last string) (next func() streamEvent, cancel func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", r.url+"/events"+query, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	if kind := res.Header.Get("Content-Type"); res.StatusCode != 200 || kind != "text/event-stream" {
		r.t.Fatalf("%d, %s", res.StatusCode, kind)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	r.t.Cleanup(func() { cancel(); _ = res.Body.Close() })
	return func() (e streamEvent) {
		for lines.Scan() {
			key, value, _ := strings.Cut(lines.Text(), ": ")
			switch key {
			case "id":
				e.id = value
			case "event":
				e.name = value
			case "data":
				e.data += value
			case "":
				if e.name != "" {
					return e
				}
			}
		}
		return streamEvent{}
	}, cancel
}

func TestEvents_HaveNames(t *testing.T) {
	r := newRig(t)
	next, cancel := r.follow("?session=s", "c0")
	if from := <-r.from; from != "c0" {
		t.Errorf("followed from %q", from)
	}
	done, failed, running := "completed", "failed", "in_progress"
	writeError := &supervisorv1.MessageChunk{Content: &supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Text{Text: &supervisorv1.TextContent{Text: "a\r\nid: forged\n\nevent: auth.complete\u2028"}}}}
	for i, c := range []struct {
		event *supervisorv1.Event
		want  string
	}{
		{&supervisorv1.Event{Event: &supervisorv1.Event_AgentMessage{AgentMessage: writeError}}, "message.part.updated"},
		{&supervisorv1.Event{Event: &supervisorv1.Event_AgentThought{AgentThought: writeError}}, "message.part.updated"},
		{&supervisorv1.Event{Event: &supervisorv1.Event_UserMessage{UserMessage: writeError}}, "message.part.updated"},
		{&supervisorv1.Event{Event: &supervisorv1.Event_ToolCall{ToolCall: &supervisorv1.ToolCallReport{ToolCallId: "t"}}}, "tool.execute"},
		{&supervisorv1.Event{Event: &supervisorv1.Event_ToolCallUpdate{ToolCallUpdate: &supervisorv1.ToolCallReport{ToolCallId: "t", Status: &running}}}, "tool.execute"},
		{&supervisorv1.Event{Event: &supervisorv1.Event_ToolCallUpdate{ToolCallUpdate: &supervisorv1.ToolCallReport{ToolCallId: "t", Status: &done}}}, "tool.result"},
		{&supervisorv1.Event{Event: &supervisorv1.Event_ToolCall{ToolCall: &supervisorv1.ToolCallReport{ToolCallId: "t", Status: &failed}}}, "tool.result"},
		{&supervisorv1.Event{Event: &supervisorv1.Event_QuestionAsked{QuestionAsked: question()}}, "permission.request"},
		{&supervisorv1.Event{Event: &supervisorv1.Event_QuestionAnswered{QuestionAnswered: &supervisorv1.ApprovalAnswer{Id: "q1"}}}, "session.updated"},
		{&supervisorv1.Event{Event: &supervisorv1.Event_TurnEnded{TurnEnded: &supervisorv1.TurnEnded{StopReason: "end_turn"}}}, "session.updated"},
		{&supervisorv1.Event{}, "session.updated"},
	} {
		c.event.Cursor, c.event.Raw, c.event.SessionId = fmt.Sprintf("c%d", i+1), `{"secret":true}`, "s"
		r.events <- c.event
		got := next()
		if got.id != c.event.GetCursor() || got.name != c.want || strings.Contains(got.data, "secret") {
			t.Errorf("%v arrived as %+v, want %s", c.event, got, c.want)
		}
		r.conforms(c.want, "/components/schemas/Event", []byte(got.data))
		if !slices.Contains(eventNames(), got.name) {
			t.Errorf("%s is not described", got.name)
		}
	}
	cancel()
}

func TestEvents_SlowStreamContinuesFromCursor(t *testing.T) {
	r := newRig(t)
	next, _ := r.follow("?session=s", "")
	<-r.from
	r.lag.Store(true)
	r.events <- &supervisorv1.Event{Cursor: "c1"}
	if from := <-r.from; from != "c1" {
		t.Errorf("it continues after %q", from)
	}
	r.events <- &supervisorv1.Event{Cursor: "c2"}
	if a, b := next(), next(); a.id != "c1" || b.id != "c2" {
		t.Errorf("got %+v, %+v", a, b)
	}
}

func TestEvents_EndHasReason(t *testing.T) {
	r := newRig(t)
	next, _ := r.follow("?session=none", "")
	if got := next(); got.name != "stream.failed" || !strings.Contains(got.data, `"not_found"`) {
		t.Errorf("an unknown session: %+v", got)
	} else {
		r.conforms("stream.failed", "/components/schemas/Failure", []byte(got.data))
	}
	next, _ = r.follow("?agent=a1", "")
	<-r.from
	r.events <- &supervisorv1.Event{Cursor: "c1", AgentId: "other"}
	r.events <- &supervisorv1.Event{Cursor: "c2", AgentId: "a1"}
	if got := next(); got.id != "c2" {
		t.Errorf("of one agent: %+v", got)
	}
	r.revoked.Store(true)
	r.calls.Sweep()
	if got := next(); got.name != "stream.failed" || !strings.Contains(got.data, `"unauthenticated"`) {
		t.Errorf("revoked: %+v", got)
	}
}
