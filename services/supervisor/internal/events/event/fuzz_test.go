package event

import (
	"bytes"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// stream is a session as it passes: each line is a direction, as a digit, a handler, and the message.
var stream = [][3]string{
	{"2", "", asks("0", "initialize", `{"protocolVersion":1}`)},
	{"1", "", answers("0", `{"protocolVersion":1}`)},
	{"2", "", asks("1", "session/new", `{"cwd":"/w","mcpServers":[]}`)},
	{"1", "", answers("1", `{"sessionId":"s","modes":{"currentModeId":"m","availableModes":[{"id":"m","name":"M"}]}}`)},
	{"2", "", asks("2", "session/load", `{"sessionId":"s","cwd":"/w"}`)},
	{"1", "", updateLine(`{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"x"}}`)},
	{"1", "", answers("2", `null`)},
	{"2", "", asks("3", "session/prompt", `{"sessionId":"s","prompt":[{"type":"text","text":"x"}]}`)},
	{"1", "", updateLine(`{"sessionUpdate":"tool_call","toolCallId":"t","title":"T","kind":"edit","status":"pending"}`)},
	{"3", "fs", asks("1", "fs/read_text_file", `{"sessionId":"s","path":"/a"}`)},
	{"4", "fs", answers("1", `{"content":"x"}`)},
	{"3", "gate", asks(`"q"`, "session/request_permission", askParams)},
	{"1", "", asks(`"q"`, "session/request_permission", askParams)},
	{"2", "", answers(`"q"`, `{"outcome":{"outcome":"selected","optionId":"y"}}`)},
	{"5", "", asks(`"OWN"`, "session/request_permission", askParams)},
	{"5", "", cancel(`"OWN"`)},
	{"7", "cli", answers(`"OWN"`, `{"outcome":{"outcome":"cancelled"}}`)},
	{"1", "", cancel("1")},
	{"1", "", asks("5", "elicitation/create", `{"requestId":3,"mode":"url","message":"m"}`)},
	{"6", "nobody", answers("5", `{"action":"cancel"}`)},
	{"5", "", fails("3", crash)},
	{"1", "", `[]`},
}

func FuzzDecode(f *testing.F) {
	var whole bytes.Buffer
	for _, l := range stream {
		whole.WriteString(l[0] + l[2] + "\n")
	}
	f.Add(whole.Bytes())
	for _, tt := range updates {
		f.Add([]byte("1" + updateLine(tt.update)))
	}
	for _, tt := range prompts {
		f.Add([]byte("2" + asks("1", "session/prompt", `{"sessionId":"s","prompt":[`+tt.want+`]}`)))
	}
	f.Add([]byte("1{\"method\":\"session/update\",\"params\":{\"sessionId\":\"\xff\",\"sessionUpdate\":\"\\ud800\"}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		agent := frame.Agent{ID: "a"}
		quick, slow, fold := NewDecoder(agent, nil), NewDecoder(agent, nil), NewFold()
		var seq uint64
		for line := range bytes.Lines(data) {
			d := frame.Direction(line[0] & 7)
			line = bytes.Clone(line[1:])
			seq++
			fr := frame.Frame{Seq: seq, Time: noon, Direction: d, Line: line}
			if line2 := bytes.TrimRight(line, "\n"); len(line2)%3 == 0 {
				fr.Handler = "gate"
			}
			before := slow.Frame(fr)
			var s jsonrpc.Scanner
			var m jsonrpc.Message
			bad := s.Scan(line, &m) != nil
			if !bad && m.Kind != jsonrpc.KindBatch {
				fr.Scanned, fr.Method, fr.ID, fr.SessionID = true, m.Method, m.ID, m.SessionID
			}
			Needed(&fr)
			got := quick.Frame(fr)
			if len(got) != len(before) {
				t.Fatalf("%q: scanned it made %s\nunscanned %s", line, shownAll(got), shownAll(before))
			}
			for i, e := range got {
				if !proto.Equal(e, before[i]) {
					t.Fatalf("%q: scanned it made %s\nunscanned %s", line, shown(e), shown(before[i]))
				}
				if e.GetEvent() == nil || e.GetAgentId() != "a" || e.GetTime() == nil {
					t.Fatalf("%q made %s", line, shown(e))
				}
				if _, err := proto.Marshal(e); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				if _, err := protojson.Marshal(e); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				fold.Apply(e)
			}
			if bad || m.Kind == jsonrpc.KindBatch || m.Kind == jsonrpc.KindInvalid {
				if len(got) > 0 {
					t.Fatalf("%q made %s", line, shownAll(got))
				}
				continue
			}
			if d == frame.AgentToClient && m.Kind == jsonrpc.KindNotification && string(m.Method) == acp.MethodSessionUpdate {
				if len(got) != 1 || got[0].GetRaw() == "" && acp.Get(m.Params, "update") != nil || got[0].GetEvent() == nil {
					t.Fatalf("%q made %s, want one event with raw", line, shownAll(got))
				}
			}
			if len(got) > 0 {
				show := &supervisorv1.Session{SessionId: got[0].GetSessionId()}
				fold.Show("a", show)
				if _, err := proto.Marshal(show); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
			}
		}
	})
}

func FuzzAppendPrompt_RoundTrip(f *testing.F) {
	for _, tt := range prompts {
		f.Add([]byte(tt.want))
	}
	f.Fuzz(func(t *testing.T, v []byte) {
		var s jsonrpc.Scanner
		var m jsonrpc.Message
		line := append(append([]byte(`{"method":"x","params":`), v...), '}')
		if s.Scan(line, &m) != nil || m.Params == nil {
			t.Skip("no JSON")
		}
		b := block(m.Params, noLimit)
		out, err := AppendPrompt(nil, []*supervisorv1.ContentBlock{b})
		if err != nil {
			t.Skip("nothing that a prompt may have")
		}
		if bytes.ContainsAny(out, "\n\r") {
			t.Fatalf("%q has a line break", out)
		}
		again := blocks(out, noLimit)
		if len(again) != 1 {
			t.Fatalf("%s is read as %d blocks", out, len(again))
		}
		twice, err := AppendPrompt(nil, again)
		if err != nil || !bytes.Equal(out, twice) {
			t.Fatalf("%s became %s, %v", out, twice, err)
		}
	})
}
