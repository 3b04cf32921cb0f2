package event

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"google.golang.org/protobuf/proto"
)

// kindOf names an event's type: "turn_started".
func kindOf(e *supervisorv1.Event) string {
	r := e.ProtoReflect()
	return string(r.WhichOneof(r.Descriptor().Oneofs().ByName("event")).Name())
}

func play(t *testing.T) (events []*supervisorv1.Event, fold *Fold) {
	w := newWire(t)
	w.d.cursor = func(seq uint64) string { return fmt.Sprint("i-", seq) }
	fold = NewFold()
	for _, l := range stream {
		for _, e := range w.pass(frame.Direction(l[0][0]-'0'), l[1], l[2]) {
			events = append(events, e)
			fold.Apply(e)
		}
	}
	return events, fold
}

func TestStream_WholeSession(t *testing.T) {
	events, fold := play(t)
	var got []string
	for _, e := range events {
		k := strings.TrimPrefix(e.GetCursor(), "i-") + " " + kindOf(e)
		if e.GetHistory() {
			k += ", history"
		}
		got = append(got, k)
	}
	want := []string{
		"4 session_opened", "6 user_message, history", "7 session_opened", "8 turn_started", "9 tool_call", "10 call_started", "11 call_ended",
		"13 question_asked", "14 question_answered", "15 question_asked", "16 question_answered", "19 question_asked", "20 question_answered", "21 turn_ended",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for _, e := range events {
		if e.GetSessionId() != "s" {
			t.Errorf("%s is of session %q", kindOf(e), e.GetSessionId())
		}
	}
	s := &supervisorv1.Session{SessionId: "s"}
	fold.Show("a-1", s)
	if s.GetMode() != "m" || len(s.GetToolCalls()) != 1 || len(s.GetFiles()) != 1 || s.GetPendingRequests() != nil || s.GetCursor() != "i-21" {
		t.Errorf("in the end it is %s", shown(s))
	}
}

func TestStream_IsDeterministic(t *testing.T) {
	a, _ := play(t)
	b, _ := play(t)
	if !slices.EqualFunc(a, b, func(x, y *supervisorv1.Event) bool { return proto.Equal(x, y) }) {
		t.Errorf("first %s\nthen %s", shownAll(a), shownAll(b))
	}
}
