package journal

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
)

// slowly reads a line as any JSON.
func slowly(line []byte) (*Entry, error) {
	e := &Entry{Raw: line}
	return e, json.Unmarshal(line, e, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

func TestReadUpdate_ReadsWrittenUpdates(t *testing.T) {
	var m updateMaker
	for seq, at := range map[uint64]int64{0: 0, 1: 1, 18446744073709551: time.Now().UnixNano(), 99: -1, 7: 4102444800_000000001} {
		line := m.line(nil, &frame.Frame{Seq: seq, Line: []byte(update("s", "a\u2028b") + " \r\n")}, at)
		got, err := parse(line)
		if err != nil {
			t.Fatal(err)
		}
		want, err := slowly(line[:len(line)-1])
		if err != nil {
			t.Fatal(err)
		}
		if !readUpdate(line[:len(line)-1], &Entry{}) {
			t.Errorf("%s is not known again", line)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || !got.Time.Equal(time.Unix(0, at)) || got.N != seq {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

func FuzzReadUpdate(f *testing.F) {
	var m updateMaker
	f.Add(m.line(nil, &frame.Frame{Seq: 12, Line: []byte(update("s", "x"))}, 1))
	f.Add(m.line(nil, &frame.Frame{Line: []byte(update("s", "x"))}, 1))
	f.Add([]byte(`{"t":"2026-13-41T25:61:61.999999999Z","n":99999999999999999999,"dir":"agent-to-front","method":"session/update","frame":{}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		got := &Entry{Raw: line}
		if !readUpdate(line, got) {
			return
		}
		want, err := slowly(line)
		if err != nil {
			return // what the frame holds is not looked at
		}
		if want.Dir != got.Dir || want.Method != got.Method || want.N != got.N || !want.Time.Equal(got.Time) {
			t.Errorf("%s: got %v, want %v", line, got, want)
		}
	})
}
