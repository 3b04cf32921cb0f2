package event

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func TestEncoder_JoinsAdjacentEvents(t *testing.T) {
	var e Encoder
	var all []*supervisorv1.Event
	var pieces [][]byte
	var apart []byte
	for i := range 300 { // more than a block, one of them larger than a block
		ev := &supervisorv1.Event{Cursor: strings.Repeat("x", 1+i*7)}
		if i == 100 {
			ev.Cursor = strings.Repeat("y", 2*blockSize)
		}
		got := e.Encode(ev)
		var alone supervisorv1.WatchEventsResponse
		if err := proto.Unmarshal(slices.Concat(Single(got.Field)...), &alone); err != nil || !proto.Equal(alone.GetEvent(), ev) {
			t.Fatalf("event %d alone: %v, %v", i, &alone, err)
		}
		all = append(all, ev)
		pieces = Join(pieces, got.Field)
		apart = append(apart, got.Field...)
		if i%50 == 0 { // one from elsewhere
			field, err := Encode(ev)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, ev)
			pieces = Join(pieces, field)
			apart = append(apart, field...)
		}
	}
	joined := slices.Concat(pieces...)
	var r supervisorv1.WatchEventsResponse
	if err := proto.Unmarshal(joined, &r); err != nil || !bytes.Equal(joined, apart) || len(r.GetEvents()) != len(all) {
		t.Fatalf("%d events, %v, want %d", len(r.GetEvents()), err, len(all))
	}
	for i, got := range r.GetEvents() {
		if !proto.Equal(got, all[i]) {
			t.Fatalf("event %d is %v", i, got)
		}
	}
	if len(pieces) > 30 {
		t.Errorf("%d events in %d pieces", len(all), len(pieces))
	}
}

func TestEncoder_InvalidEventHasNoField(t *testing.T) {
	var e Encoder
	bad := &supervisorv1.Event{Cursor: "\xff"}
	if got := e.Encode(bad); got.Field != nil || got.Event != bad {
		t.Errorf("got %v", got)
	}
	if _, err := Encode(bad); err == nil {
		t.Error("it is encoded")
	}
	good := e.Encode(&supervisorv1.Event{Cursor: "a"})
	var r supervisorv1.WatchEventsResponse
	if err := proto.Unmarshal(good.Field, &r); err != nil || r.GetEvents()[0].GetCursor() != "a" {
		t.Errorf("the next one: %v, %v", &r, err)
	}
}
