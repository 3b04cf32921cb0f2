package journal

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/frame"
)

// BenchmarkFrame hands over frames of 300 bytes: what a frame costs whoever passes it on.
func BenchmarkFrame(b *testing.B) {
	const head = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"`
	line := []byte(head + strings.Repeat("x", 150) + `"}}}}` + "\n")
	f := frame.Frame{Direction: frame.AgentToFront, Scanned: true, Method: []byte("session/update"), SessionID: []byte("s"), Line: line, Time: time.Now()}
	for _, limit := range []int{1 << 40, 1 << 20} {
		b.Run(fmt.Sprintf("queue of %d MiB", limit>>20), func(b *testing.B) {
			j, err := Open(Options{Dir: b.TempDir() + "/j", Content: true, MaxQueued: limit, MaxSessionBytes: 1 << 40})
			if err != nil {
				b.Fatal(err)
			}
			openSession(j, "1", "s")
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				j.Frame(f)
			}
			b.ReportMetric(float64(j.Dropped())/float64(b.N), "lost/op")
			_ = j.Close()
		})
	}
}
