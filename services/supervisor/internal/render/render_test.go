package render

import (
	"fmt"
	"strings"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// recorded is a turn with every kind of event.
const recorded = `
{"agentId":"demo-1","sessionId":"s1","agent":{"id":"demo-1","state":"AGENT_STATE_RUNNING"}}
{"agentId":"demo-1","sessionId":"s1","sessionOpened":{"method":"session/new","roots":["/work/app"],"modeId":"ask","options":[{"id":"model","name":"Model","value":"small","choices":[{"value":"small","name":"Small"},{"value":"big","name":"Big"}]}]}}
{"sessionId":"s1","history":true,"agentMessage":{"content":{"text":{"text":"told before"}}}}
{"sessionId":"s1","turnStarted":{"prompt":[{"text":{"text":"Fix the bug.\nPlease."}},{"resourceLink":{"uri":"file:///work/app/notes.txt","name":"notes.txt"}}]}}
{"sessionId":"s1","userMessage":{"content":{"text":{"text":"(an echo)"}}}}
{"sessionId":"s1","availableCommands":{"commands":[{"name":"plan","description":"plans"},{"name":"web"}]}}
{"sessionId":"s1","agentThought":{"content":{"text":{"text":"**Looking**\n\nThe user wants "}}}}
{"sessionId":"s1","agentThought":{"content":{"text":{"text":"a bug fixed."}}}}
{"sessionId":"s1","plan":{"entries":[{"content":"Read the code","priority":"high","status":"in_progress"},{"content":"Fix it","priority":"medium","status":"pending"}]}}
{"sessionId":"s1","agentMessage":{"messageId":"m1","content":{"text":{"text":"I'll **look** at "}}}}
{"sessionId":"s1","agentMessage":{"messageId":"m1","content":{"text":{"text":"` + "`main.go`" + ` first:\n\n- read\n- fix\n\n"}}}}
{"sessionId":"s1","agentMessage":{"messageId":"m1","content":{"image":{"mimeType":"image/png","data":"AAAA"}}}}
{"sessionId":"s1","agentMessage":{"messageId":"m2","content":{"text":{"text":"Another message."}}}}
{"sessionId":"s1","toolCall":{"toolCallId":"t1","title":"Read main.go","kind":"read","status":"pending","locations":[{"path":"/work/app/main.go","line":3},{"path":"/elsewhere/x.go"}],"locationsSet":true}}
{"agentId":"demo-1","sessionId":"s1","callStarted":{"id":"4","method":"fs/read_text_file","to":"fs","path":"/work/app/main.go"}}
{"agentId":"demo-1","sessionId":"s1","callEnded":{"id":"4","method":"fs/read_text_file"}}
{"sessionId":"s1","toolCallUpdate":{"toolCallId":"t1","status":"in_progress"}}
{"sessionId":"s1","toolCallUpdate":{"toolCallId":"t1","status":"completed","content":[{"content":{"text":{"text":"package main\n\nfunc main() {\n\tprintln(1)\n}\n6\n7\n8\n9\n10\n"}}}],"contentSet":true}}
{"sessionId":"s1","toolCallUpdate":{"toolCallId":"t1","status":"completed"}}
{"sessionId":"s1","plan":{"entries":[{"content":"Read the code","priority":"high","status":"in_progress"},{"content":"Fix it","priority":"medium","status":"pending"}]}}
{"sessionId":"s1","plan":{"entries":[{"content":"Read the code","priority":"high","status":"completed"},{"content":"Fix it","priority":"medium","status":"in_progress"}]}}
{"sessionId":"s1","toolCall":{"toolCallId":"t2","title":"Edit main.go","kind":"edit","status":"pending","content":[{"diff":{"path":"/work/app/main.go","oldText":"package main\n\nfunc main() {\n\tprintln(1)\n}\n","newText":"package main\n\nfunc main() {\n\tprintln(2)\n}\n"}},{"diff":{"path":"/work/app/new.txt","newText":"hello"}}],"contentSet":true}}
{"agentId":"demo-1","sessionId":"s1","questionAsked":{"id":"demo-1/7","agentId":"demo-1","permission":{"toolCallId":"t2","title":"Edit main.go","kind":"edit","reason":"edits are asked about","content":[{"diff":{"path":"/work/app/main.go","oldText":"package main\n\nfunc main() {\n\tprintln(1)\n}\n","newText":"package main\n\nfunc main() {\n\tprintln(2)\n}\n"}}],"options":[{"optionId":"ok","kind":"allow_once","name":"Allow once"}]}}}
{"sessionId":"s1","questionAnswered":{"id":"demo-1/7","outcome":"allowed","optionId":"ok","answeredBy":"cli"}}
{"sessionId":"s1","questionAsked":{"id":"demo-1/8","permission":{"toolCallId":"t9","title":"go test ./...","fromAcphost":true,"rawInput":"{\"command\":\"go test ./...\"}","options":[]}}}
{"sessionId":"s1","questionAnswered":{"id":"demo-1/8","outcome":"denied","answeredBy":"policy"}}
{"sessionId":"s1","questionAsked":{"id":"demo-1/9","elicitation":{"mode":"url","message":"Log in, please.\nIt takes a minute.","url":"https://example.com/login"}}}
{"sessionId":"s1","questionAnswered":{"id":"demo-1/9","outcome":"expired","answeredBy":"nobody"}}
{"agentId":"demo-1","sessionId":"s1","callStarted":{"id":"5","method":"fs/write_text_file","to":"fs","path":"/etc/passwd"}}
{"agentId":"demo-1","sessionId":"s1","callEnded":{"id":"5","method":"fs/write_text_file","error":"outside the roots","errorCode":-32602}}
{"sessionId":"s1","toolCallUpdate":{"toolCallId":"t2","status":"failed","content":[{"content":{"text":{"text":"no space left"}}},{"other":"{}"}],"contentSet":true}}
{"sessionId":"s1","currentMode":{"modeId":"code"}}
{"sessionId":"s1","configOptions":{"options":[{"id":"model","name":"Model","value":"big","choices":[{"value":"small","name":"Small"},{"value":"big","name":"Big"}]},{"id":"web","name":"Web","enabled":true}]}}
{"sessionId":"s1","sessionInfo":{"title":"Fixing a bug"}}
{"sessionId":"s1","notice":{"severity":"warning","title":"Slow today","description":"The model is busy."}}
{"sessionId":"s1","notice":{"severity":"info","title":"A large file","fromAcphost":true}}
{"sessionId":"s1","compaction":{"compactionId":"c1","status":"in_progress"}}
{"sessionId":"s1","compactionSummary":{"compactionId":"c1","content":{"text":{"text":"We fixed a bug."}}}}
{"sessionId":"s1","compaction":{"compactionId":"c1","status":"completed"}}
{"sessionId":"s1","otherUpdate":{"kind":"hologram"},"raw":"{}"}
{"handler":{"name":"fs","state":"backoff","error":"exit status 2"}}
{"handler":{"name":"fs","state":"ready","restarts":"1"}}
{"gap":{"frames":"3","reason":"the watcher did not keep up"}}
{"sessionId":"s1","usage":{"used":"24000","size":"200000","cost":0.125,"currency":"USD"}}
{"sessionId":"s1","agentMessage":{"messageId":"m3","content":{"text":{"text":"Done."}}}}
{"sessionId":"s1","turnEnded":{"stopReason":"end_turn","usage":{"total":"1204","input":"1000","output":"204","thought":"20","cachedRead":"900"}}}
{"sessionId":"s1","turnStarted":{"prompt":[{"text":{"text":"Go on."}}]}}
{"agentId":"demo-1","agent":{"id":"demo-1","state":"AGENT_STATE_BACKOFF","error":{"kind":"ERROR_KIND_CRASHED","message":"it ended"}}}
{"sessionId":"s1","turnEnded":{"error":{"kind":"ERROR_KIND_CRASHED","message":"the agent demo ended in the middle of the turn; run it again","signal":"SIGKILL","stderrTail":["panic: boom","goroutine 1"]}}}
{"sessionId":"s1","turnEnded":{"stopReason":"max_tokens"}}
{"sessionId":"s1","sessionClosed":{"reason":"session/close"}}
`

func events(t *testing.T) []*supervisorv1.Event {
	t.Helper()
	var list []*supervisorv1.Event
	for line := range strings.Lines(strings.TrimSpace(recorded)) {
		ev := &supervisorv1.Event{}
		if err := protojson.Unmarshal([]byte(line), ev); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		list = append(list, ev)
	}
	return list
}

func TestTheRecordedTurnHasEveryKindOfEvent(t *testing.T) {
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

func TestARecordedTurnAsPeopleSeeIt(t *testing.T) {
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
		golden(t, name, b.String())
	}
}

func TestWhatEndsAStreamBeginsOnALineOfItsOwn(t *testing.T) {
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

func TestALongDiffIsCutAndSaysSo(t *testing.T) {
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

func TestADiffThatIsTooLargeIsOnlyCounted(t *testing.T) {
	got := Diff(Options{}, &supervisorv1.Diff{Path: "/a", OldText: proto.String("x\n"), NewText: strings.Repeat("y\n", maxDiffText)})
	if want := "/a 1 lines before, 1048576 after: too much to compare here\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestADiffTellsWhatHasNoEnd(t *testing.T) {
	golden(t, "diff.txt", Diff(Options{Cwd: "/w"}, &supervisorv1.Diff{Path: "/w/a/b.txt",
		OldText: proto.String("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n"), NewText: "1\n2\n3\n4\nfive\n6\n7\n8\n9\n10\n11\n12\n13\n14"})+
		Diff(Options{}, &supervisorv1.Diff{Path: "/same", OldText: proto.String("a"), NewText: "a"}))
}

func TestOutputShowsTheBeginningAndTheEnd(t *testing.T) {
	r := New(Options{})
	var got strings.Builder
	for i := range 100 {
		got.WriteString(r.Output("t1", &supervisorv1.WatchOutputResponse{Data: fmt.Appendf(nil, "line %d\r\n", i)}))
	}
	if live := strings.Count(got.String(), "\n"); live != headLines {
		t.Errorf("%d lines were shown as they came", live)
	}
	got.WriteString(r.Output("t2", &supervisorv1.WatchOutputResponse{Data: []byte("other\n"), Missed: 7}))
	got.WriteString(r.Output("t1", &supervisorv1.WatchOutputResponse{Data: []byte("10%\r50%\r100% done"), Ended: true, ExitCode: proto.Uint32(2)}))
	got.WriteString(r.Output("t1", &supervisorv1.WatchOutputResponse{Data: []byte("after its end\n")}))
	got.WriteString(r.Output("t2", &supervisorv1.WatchOutputResponse{Ended: true, Signal: "SIGKILL"}))
	golden(t, "output.txt", got.String())
}

func TestUsageSaysWhatIsKnown(t *testing.T) {
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

func TestWhatIsRememberedIsBounded(t *testing.T) {
	r := New(Options{})
	for i := range 3 * maxKept {
		r.Event(&supervisorv1.Event{Event: &supervisorv1.Event_ToolCall{ToolCall: &supervisorv1.ToolCallReport{ToolCallId: fmt.Sprint(i)}}})
		r.Event(&supervisorv1.Event{Event: &supervisorv1.Event_CallStarted{CallStarted: &supervisorv1.CallStarted{Id: fmt.Sprint(i)}}})
		r.Event(&supervisorv1.Event{Event: &supervisorv1.Event_CallEnded{CallEnded: &supervisorv1.CallEnded{Id: fmt.Sprint(i)}}})
	}
	if r.tools.len() > maxKept || len(r.tools.order) > 2*maxKept || r.calls.len() > 0 || len(r.calls.order) > 2*maxKept {
		t.Errorf("%d tool calls, %d calls in order", r.tools.len(), len(r.calls.order))
	}
}
