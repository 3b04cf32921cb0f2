package journal

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
)

// BenchmarkFrame passes frames of 300 bytes: it measures the cost for the goroutine that forwards them.
func BenchmarkFrame(b *testing.B) {
	const head = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"`
	line := []byte(head + strings.Repeat("x", 150) + `"}}}}` + "\n")
	f := frame.Frame{Direction: frame.AgentToClient, Scanned: true, Method: []byte("session/update"), SessionID: []byte("s"), Line: line, Time: time.Now()}
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

// BenchmarkKept passes as many frames as can be written, and reports the processor time of each: in the forwarding
// goroutine, in the writer and in the system.
func BenchmarkKept(b *testing.B) {
	const head = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"`
	line := []byte(head + strings.Repeat("x", 150) + `"}}}}` + "\n")
	for _, content := range []bool{true, false} {
		b.Run(fmt.Sprintf("content %v", content), func(b *testing.B) {
			j, err := Open(Options{Dir: b.TempDir() + "/j", Content: content, MaxSessionBytes: 1 << 40})
			if err != nil {
				b.Fatal(err)
			}
			openSession(j, "1", "s")
			var seq uint64
			var before, after syscall.Rusage
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
			for b.Loop() {
				seq++
				j.Frame(frame.Frame{
					Direction: frame.AgentToClient, Scanned: true, Method: []byte("session/update"), SessionID: []byte("s"), Line: line,
					Seq: seq, Time: time.Now(),
				})
				if seq%16384 == 0 {
					_ = j.Flush(context.Background())
				}
			}
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
			spent := func(a, b syscall.Timeval) float64 { return float64(b.Nano() - a.Nano()) }
			b.ReportMetric(spent(before.Utime, after.Utime)/float64(b.N), "user-ns/op")
			b.ReportMetric(spent(before.Stime, after.Stime)/float64(b.N), "system-ns/op")
			b.ReportMetric(float64(j.Dropped())/float64(b.N), "lost/op")
			_ = j.Close()
		})
	}
}
