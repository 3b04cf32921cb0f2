package transcript

import (
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
	"github.com/acphost/acphost/services/supervisor/internal/events/journal"
	"github.com/acphost/acphost/services/supervisor/internal/tui/render"
)

// bare is a tool call without what follows from its content and its locations.
func bare(c *supervisorv1.ToolCall) *supervisorv1.ToolCall {
	c = proto.CloneOf(c)
	c.TerminalIds, c.Paths = nil, nil
	return c
}

func TestToolCall_LiveAndRecordedAgree(t *testing.T) {
	const update, announced = `{"sessionUpdate":"tool_call_update","toolCallId":"t",`, `{"sessionUpdate":"tool_call","toolCallId":"t",`
	reports := []string{
		announced + `"title":"Edit","kind":"edit","status":"pending"}`,
		announced + `"title":"Edit","locations":[],"content":[]}`,
		update + `"title":"","kind":"","name":"edit_file"}`,
		update + `"title":null,"kind":null,"name":"","status":null}`,
		update + `"status":"in_progress","title":"Edit a"}`,
		update + `"status":"completed"}`,
		update + `"status":"failed","rawOutput":{}}`,
		update + `"content":[{"type":"diff","path":"/a","newText":"x"}],"locations":[{"path":"/a","line":2}]}`,
		update + `"content":[{"type":"content","content":{"type":"text","text":"y"}}]}`,
		update + `"content":null,"locations":null,"rawInput":null,"rawOutput":null}`,
		update + `"content":[]}`,
		update + `"locations":[]}`,
		update + `"locations":[{"path":"/b"}],"rawInput":{"p":1}}`,
		update + `"rawInput":{},"rawOutput":"x"}`,
		update + `"kind":"execute","rawOutput":{"output":"printed","exit_code":1}}`,
		update + `"_meta":{"terminal_output":{"terminal_id":"T","data":"` + strings.Repeat("ab\\u00e9", 4_000) + `"}}}`,
		update + `"_meta":{"terminal_exit":{"terminal_id":"T","exit_code":3,"signal":null}}}`,
	}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0))
		recorded := NewReader()
		s := newStory("/", PageOptions{}, func(*item) error { return nil })
		screen := render.New(render.Options{Brief: seed%2 == 0})
		live, state := event.NewDecoder(frame.Agent{ID: "a"}, nil), event.NewFold()
		var updates []string
		for n := range uint64(12) {
			report := reports[r.IntN(len(reports))]
			updates = append(updates, report)
			line := []byte(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":` + report + "}}\n")
			for _, e := range recorded.Read(&journal.Entry{N: n + 1, Time: began, Dir: frame.AgentToClient.String(), Frame: line[:len(line)-1]}) {
				if err := s.addEntry(e); err != nil {
					t.Fatal(err)
				}
			}
			f := frame.Frame{Seq: n + 1, Time: began, Direction: frame.AgentToClient, Line: line}
			var scan jsonrpc.Scanner
			var m jsonrpc.Message
			if err := scan.Scan(line, &m); err != nil {
				t.Fatal(err)
			}
			f.Scanned, f.Method, f.SessionID = true, m.Method, m.SessionID
			for _, e := range live.Frame(f) {
				state.Apply(e)
				screen.Event(e)
			}
			shown := &supervisorv1.Session{SessionId: "s"}
			state.Show("a", shown)
			want := bare(shown.GetToolCalls()[0])
			compare := func(name string, got *supervisorv1.ToolCall) {
				if got = bare(got); !proto.Equal(got, want) {
					t.Fatalf("seed %d, after\n%s\n%s %s\nthe state is   %s", seed, strings.Join(updates, "\n"), name, protojson.Format(got), protojson.Format(want))
				}
			}
			compare("the record has", s.tools.At("t").tool)
			want.RawInput, want.RawOutput = "", ""
			compare("the screen has", screen.Report(&supervisorv1.ToolCallReport{ToolCallId: "t"}, false))
		}
	}
}
