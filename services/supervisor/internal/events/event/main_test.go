package event

import (
	"testing"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noon is when every frame of a test passes.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// wire makes frames for a decoder.
type wire struct {
	t   testing.TB
	d   *Decoder
	seq uint64
}

func newWire(t testing.TB) *wire {
	return &wire{t: t, d: NewDecoder(frame.Agent{ID: "a-1", Name: "a"}, func(seq uint64) string { return "i-" + string('0'+rune(seq%10)) })}
}

// pass passes a line, scanned where the link would have scanned it, and returns what it makes.
func (w *wire) pass(d frame.Direction, handler, line string) []*supervisorv1.Event {
	w.t.Helper()
	w.seq++
	buf := []byte(line + "\n")
	f := frame.Frame{Seq: w.seq, Time: noon, Direction: d, Handler: handler, Line: buf}
	if d == frame.AgentToClient || d == frame.ClientToAgent || d == frame.AgentToHandler {
		var s acp.Scanner
		var m jsonrpc.Message
		if s.Scan(buf, &m) == nil && m.Kind != jsonrpc.KindBatch {
			f.Scanned, f.Method, f.ID, f.SessionID = true, m.Method, m.ID, m.SessionID
		}
	}
	events := w.d.Frame(f)
	for i := range buf { // what was lent is taken back
		buf[i] = 'x'
	}
	return events
}

// quiet passes a line that must produce no event.
func (w *wire) quiet(d frame.Direction, handler, line string) {
	w.t.Helper()
	if got := w.pass(d, handler, line); len(got) > 0 {
		w.t.Errorf("%s %s\nmade %s\nwant nothing", d, line, shownAll(got))
	}
}

// expect passes a line and compares what it makes, but for raw where the expected event has none.
func (w *wire) expect(d frame.Direction, handler, line string, want ...string) {
	w.t.Helper()
	got := w.pass(d, handler, line)
	if len(got) != len(want) {
		w.t.Errorf("%s %s\nmade %s\nwant %d events", d, line, shownAll(got), len(want))
		return
	}
	for i := range want {
		compare(w.t, got[i], want[i])
	}
}

// compare compares an event with JSON. want may omit agent, time, cursor and raw.
func compare(t testing.TB, got *supervisorv1.Event, want string) {
	t.Helper()
	e := &supervisorv1.Event{}
	if err := protojson.Unmarshal([]byte(want), e); err != nil {
		t.Fatalf("%s: %v", want, err)
	}
	if got.GetAgentId() != "a-1" || !got.GetTime().AsTime().Equal(noon) || got.GetCursor() == "" {
		t.Errorf("agent %q, time %v, cursor %q", got.GetAgentId(), got.GetTime(), got.GetCursor())
	}
	c := proto.CloneOf(got)
	c.AgentId, c.Time = "", nil
	if e.Cursor == "" {
		c.Cursor = ""
	}
	if e.Raw == "" {
		c.Raw = ""
	}
	if q := c.GetQuestionAsked(); q != nil {
		q.Time, q.Raw = nil, ""
	}
	if q := c.GetQuestionAnswered(); q != nil {
		q.Time = nil
	}
	if !proto.Equal(c, e) {
		t.Errorf("got  %s\nwant %s", shown(c), shown(e))
	}
}

func shown(m proto.Message) string { return protojson.MarshalOptions{}.Format(m) }

func shownAll(events []*supervisorv1.Event) string {
	s := ""
	for _, e := range events {
		s += "\n  " + shown(e)
	}
	return s
}

func updateLine(update string) string {
	return `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":` + update + `}}`
}
