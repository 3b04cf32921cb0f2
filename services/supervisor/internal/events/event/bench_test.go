package event

import (
	"strconv"
	"strings"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
)

var benchLines = []struct{ name, line string }{
	{"chunk", updateLine(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + strings.Repeat("word ", 12) + `"}}`)},
	{"tool_call", updateLine(`{"sessionUpdate":"tool_call","toolCallId":"t1","title":"Edit a file","kind":"edit","status":"pending","content":[{"type":"diff","path":"/a","oldText":"x","newText":"y"}],"locations":[{"path":"/a","line":3}],"rawInput":{"path":"/a"}}`)},
	{"large", updateLine(`{"sessionUpdate":"tool_call_update","toolCallId":"t1","content":[{"type":"content","content":{"type":"text","text":"` + strings.Repeat("word ", 100_000) + `"}}]}`)},
}

func scannedFrame(b testing.TB, line string) frame.Frame {
	f := frame.Frame{Time: noon, Direction: frame.AgentToClient, Line: []byte(line + "\n")}
	var s jsonrpc.Scanner
	var m jsonrpc.Message
	if err := s.Scan(f.Line, &m); err != nil {
		b.Fatal(err)
	}
	f.Scanned, f.Method, f.ID, f.SessionID = true, m.Method, m.ID, m.SessionID
	return f
}

func BenchmarkDecode(b *testing.B) {
	for _, bb := range benchLines {
		b.Run(bb.name, func(b *testing.B) {
			f := scannedFrame(b, bb.line)
			d := NewDecoder(frame.Agent{ID: "a-1"}, func(seq uint64) string { return "0123456789abcdef-" + strconv.FormatUint(seq, 10) })
			b.SetBytes(int64(len(f.Line)))
			b.ReportAllocs()
			for b.Loop() {
				f.Seq++
				if len(d.Frame(f)) != 1 {
					b.Fatal("want one event")
				}
			}
		})
	}
}

func BenchmarkNeeded(b *testing.B) {
	for _, bb := range benchLines {
		b.Run(bb.name, func(b *testing.B) {
			f := scannedFrame(b, bb.line)
			b.ReportAllocs()
			for b.Loop() {
				Needed(&f)
			}
		})
	}
}

func BenchmarkFold(b *testing.B) {
	for _, bb := range benchLines[:2] {
		b.Run(bb.name, func(b *testing.B) {
			e := NewDecoder(frame.Agent{ID: "a-1"}, nil).Frame(scannedFrame(b, bb.line))[0]
			f := NewFold()
			b.ReportAllocs()
			for b.Loop() {
				f.Apply(e)
			}
		})
	}
}
