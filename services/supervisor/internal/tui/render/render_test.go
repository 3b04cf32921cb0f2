package render

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// events is a recorded turn with every kind of event.
func events(t *testing.T) []*supervisorv1.Event {
	t.Helper()
	var list []*supervisorv1.Event
	recorded, err := os.ReadFile("testdata/turn.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(recorded)) {
		ev := &supervisorv1.Event{}
		if err := protojson.Unmarshal([]byte(line), ev); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		list = append(list, ev)
	}
	return list
}

func TestTurn_RecordingHasAllEventKinds(t *testing.T) {
	seen := map[string]bool{}
	for _, ev := range events(t) {
		m := ev.ProtoReflect()
		if f := m.WhichOneof(m.Descriptor().Oneofs().ByName("event")); f != nil {
			seen[string(f.Name())] = true
		}
	}
	fields := (&supervisorv1.Event{}).ProtoReflect().Descriptor().Oneofs().ByName("event").Fields()
	for i := range fields.Len() {
		if name := string(fields.Get(i).Name()); !seen[name] {
			t.Errorf("no event of kind %s", name)
		}
	}
}

func TestTurn_MatchesGoldenFiles(t *testing.T) {
	for name, o := range map[string]Options{
		"turn.txt":     {Cwd: "/work/app"},
		"turn_all.txt": {Cwd: "/work/app", Prompts: true, History: true, Verbose: true},
		"turn.ansi":    {Cwd: "/work/app", Width: 72, Color: true, Markdown: true, Prompts: true},
	} {
		r := New(o)
		var b strings.Builder
		for _, ev := range events(t) {
			b.WriteString(r.Event(ev))
		}
		b.WriteString(r.Flush())
		testkit.Golden(t, name, b.String())
	}
}

func TestFlush_EndsLine(t *testing.T) {
	for _, o := range []Options{{}, {Width: 40, Color: true, Markdown: true}} {
		for _, text := range []string{"said", "said\n", "said\n\n\n", "a `span", "| a row", "```\ncode"} {
			r := New(o)
			got := r.Event(&supervisorv1.Event{Event: &supervisorv1.Event_AgentMessage{AgentMessage: &supervisorv1.MessageChunk{
				Content: &supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Text{Text: &supervisorv1.TextContent{Text: text}}}}}})
			got += r.Flush()
			if !strings.HasSuffix(got, "\n") || strings.HasSuffix(got, "\n\n") {
				t.Errorf("%q ends in %q", text, got)
			}
			if again := r.Flush(); again != "" {
				t.Errorf("a second Flush returns %q", again)
			}
		}
	}
}

func TestDiff_ShortensLongDiff(t *testing.T) {
	var old, text strings.Builder
	for i := range 500 {
		fmt.Fprintf(&old, "line %d\n", i)
		fmt.Fprintf(&text, "line %d changed\n", i)
	}
	got := Diff(Options{}, &supervisorv1.Diff{Path: "/a", OldText: proto.String(old.String()), NewText: text.String()})
	if n := strings.Count(got, "\n"); n != maxDiffLines+2 {
		t.Errorf("%d lines", n)
	}
	if !strings.Contains(got, "/a +500 -500\n") || !strings.HasSuffix(got, "… 940 lines more\n") {
		t.Errorf("got %s", got)
	}
}

func TestDiff_CountsTooLargeDiff(t *testing.T) {
	got := Diff(Options{}, &supervisorv1.Diff{Path: "/a", OldText: proto.String("x\n"), NewText: strings.Repeat("y\n", maxDiffText)})
	if want := "/a 1 line before, 1048576 after: too much to compare here\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDiff_MarksMissingFinalNewline(t *testing.T) {
	testkit.Golden(t, "diff.txt", Diff(Options{Cwd: "/w"}, &supervisorv1.Diff{Path: "/w/a/b.txt",
		OldText: proto.String("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n"), NewText: "1\n2\n3\n4\nfive\n6\n7\n8\n9\n10\n11\n12\n13\n14"})+
		Diff(Options{}, &supervisorv1.Diff{Path: "/same", OldText: proto.String("a"), NewText: "a"}))
}

func TestDiff_ShowsLineEndsOnce(t *testing.T) {
	var got strings.Builder
	for _, texts := range [][2]string{
		{"a\r\nb\r\nc\r\n", "a\r\nB\r\nc\r\n"}, {"a\r\nb\r\n", "a\nB\n"}, {"a\r\nb\r\n", "a\nb\n"}, {"a\nb\n", "a\r\nb\r\n"},
		{"a\r\nb\r\n", "a\nb\r\n"}, {"a", "a\r\n"},
	} {
		got.WriteString(Diff(Options{}, &supervisorv1.Diff{Path: "/f", OldText: &texts[0], NewText: texts[1]}))
	}
	testkit.Golden(t, "line-ends.txt", got.String())
}

func TestOutput_ShowsBothEnds(t *testing.T) {
	r := New(Options{})
	var got strings.Builder
	for i := range 100 {
		got.WriteString(r.Output("t1", &supervisorv1.WatchOutputResponse{Data: fmt.Appendf(nil, "line %d\r\n", i)}))
	}
	if live := strings.Count(got.String(), "\n"); live != headLines {
		t.Errorf("%d lines were shown as they arrived", live)
	}
	got.WriteString(r.Output("t2", &supervisorv1.WatchOutputResponse{Data: []byte("other\n"), Missed: 7}))
	got.WriteString(r.Output("t1", &supervisorv1.WatchOutputResponse{Data: []byte("10%\r50%\r100% done"), Ended: true, ExitCode: proto.Uint32(2)}))
	got.WriteString(r.Output("t1", &supervisorv1.WatchOutputResponse{Data: []byte("after its end\n")}))
	got.WriteString(r.Output("t2", &supervisorv1.WatchOutputResponse{Ended: true, Signal: "SIGKILL"}))
	testkit.Golden(t, "output.txt", got.String())
}

func TestUsage_Text(t *testing.T) {
	for _, c := range []struct {
		tokens  *supervisorv1.TokenUsage
		context *supervisorv1.ContextUsage
		want    string
	}{
		{nil, nil, ""},
		{&supervisorv1.TokenUsage{Total: 1234567, Input: 1234000, Output: 567}, nil, "1,234,567 tokens (1,234,000 in, 567 out)"},
		{nil, &supervisorv1.ContextUsage{Used: 50, Size: 200}, "context 25% of 200"},
		{nil, &supervisorv1.ContextUsage{Used: 1_500_000, Size: 1_000_000}, "context 1.5M of 1M"},
		{nil, &supervisorv1.ContextUsage{Used: 1, Size: 100_000, Cost: proto.Float64(0.0123), Currency: "EUR"}, "context 0% of 100k · 0.0123 EUR"},
		{nil, &supervisorv1.ContextUsage{Cost: proto.Float64(2)}, "2.00"},
	} {
		if got := Usage(c.tokens, c.context); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestRenderer_LimitsToolCalls(t *testing.T) {
	r := New(Options{})
	for i := range 3 * maxKept {
		r.Event(&supervisorv1.Event{Event: &supervisorv1.Event_ToolCall{ToolCall: &supervisorv1.ToolCallReport{ToolCallId: fmt.Sprint(i)}}})
		r.Event(&supervisorv1.Event{Event: &supervisorv1.Event_CallStarted{CallStarted: &supervisorv1.CallStarted{Id: fmt.Sprint(i)}}})
		r.Event(&supervisorv1.Event{Event: &supervisorv1.Event_CallEnded{CallEnded: &supervisorv1.CallEnded{Id: fmt.Sprint(i)}}})
	}
	if r.tools.Len() > maxKept || r.calls.Len() > 0 {
		t.Errorf("%d tool calls, %d calls", r.tools.Len(), r.calls.Len())
	}
}

func TestAgentError_PrintsStderrOnce(t *testing.T) {
	got := AgentError(Options{}, &supervisorv1.AgentError{
		Message: "it exited with status 3; its last error output: cannot go on", StderrTail: []string{"starting", "cannot go on"},
	})
	if want := "✗ it exited with status 3\n    starting\n    cannot go on\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := WithoutStderrLine("it exited; its last error output: x", nil), "it exited; its last error output: x"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestEvent_ShowsModelOfUpdate(t *testing.T) {
	for raw, want := range map[string]string{
		`{"sessionUpdate":"current_model_update","currentModelId":"big"}`:             "model: big\n",
		`{"sessionUpdate":"current_model_update","modelId":"big"}`:                    "model: big\n",
		`{"sessionUpdate":"current_model_update","model":"big"}`:                      "model: big\n",
		`{"sessionUpdate":"current_model_update","model":{"modelId":"big","x":[1]}}`:  "model: big\n",
		`{"sessionUpdate":"currentModelUpdate","currentModelId":"b\u001b[31mi\ng"}`:   "model: b\\u{1b}[31mi g\n",
		`{"sessionUpdate":"current_model_update","currentModelId":7,"other":"small"}`: "[update \"current_model_update\", which acphost does not know]\n",
	} {
		kind := "current_model_update"
		if strings.Contains(raw, "currentModelUpdate") {
			kind = "currentModelUpdate"
		}
		ev := &supervisorv1.Event{Raw: raw, Event: &supervisorv1.Event_OtherUpdate{OtherUpdate: &supervisorv1.OtherUpdate{Kind: kind}}}
		if got := New(Options{}).Event(ev); got != want {
			t.Errorf("%s: got %q, want %q", raw, got, want)
		}
	}
}
