package activity

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
	"github.com/acphost/acphost/services/supervisor/internal/events/journal"
)

// BenchmarkFrame passes pieces of messages of 300 bytes: it measures the cost for the goroutine that forwards them.
func BenchmarkFrame(b *testing.B) {
	f := chunk("s", strings.Repeat("x", 150))
	f.Time = time.Now()
	run := func(b *testing.B, o Options, prepare func(*Hub)) {
		o.Instance = "here"
		h := New(o)
		defer h.Close()
		l := (&place{Hub: h}).link("agent-1")
		l.open("s")
		if prepare != nil {
			prepare(h)
		}
		b.SetBytes(int64(len(f.Line)))
		b.ReportAllocs()
		for b.Loop() {
			l.Frame(f)
		}
	}
	b.Run("without watchers", func(b *testing.B) { run(b, Options{}, nil) })
	b.Run("journal", func(b *testing.B) {
		j, err := journal.Open(journal.Options{Dir: b.TempDir() + "/j", Content: true, MaxSessionBytes: 1 << 40})
		if err != nil {
			b.Fatal(err)
		}
		run(b, Options{Journal: j}, nil)
		b.ReportMetric(float64(j.Dropped())/float64(b.N), "lost/op")
		_ = j.Close()
	})
	b.Run("one watches", func(b *testing.B) {
		run(b, Options{}, func(h *Hub) {
			go func() {
				_ = h.WatchEvents(b.Context(), "", 0, func([]event.Encoded) error { return nil })
			}()
			(&place{Hub: h}).joined(1)
		})
	})
}

// BenchmarkRead measures a small read at a handler: the call and its answer.
func BenchmarkRead(b *testing.B) {
	content := strings.Repeat("a line of text\\n", 256)
	for name, watch := range map[string]bool{"without watchers": false, "one watches": true} {
		b.Run(name, func(b *testing.B) {
			h := New(Options{Instance: "here"})
			defer h.Close()
			l := (&place{Hub: h}).link("agent-1")
			l.open("s")
			if watch {
				sub := h.Subscribe("agent-1", "s")
				defer sub.Close()
				go func() {
					for {
						if _, err := sub.Next(b.Context()); err != nil {
							return
						}
					}
				}()
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				id := []byte(strconv.Itoa(n))
				line := []byte(`{"jsonrpc":"2.0","id":` + string(id) + `,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/ws/file.go"}}` + "\n")
				l.Frame(frame.Frame{Direction: frame.AgentToHandler, Handler: "fs", Line: line, Scanned: true, Method: []byte("fs/read_text_file"), ID: id, SessionID: []byte("s")})
				l.Frame(frame.Frame{Direction: frame.HandlerToAgent, Handler: "fs", Line: []byte(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":{"content":"`),
					Rest: [][]byte{[]byte(content), []byte(`"}}` + "\n")}})
				if n%64 == 0 {
					_ = h.Sync(b.Context())
				}
			}
		})
	}
}

// BenchmarkSubscription sends chunks of messages to a subscriber, as fast as it reads them.
func BenchmarkSubscription(b *testing.B) {
	h := New(Options{Instance: "here"})
	defer h.Close()
	l := (&place{Hub: h}).link("agent-1")
	sub := h.Subscribe("agent-1", "s")
	defer sub.Close()
	f := chunk("s", strings.Repeat("x", 150))
	f.Time = time.Now()
	go func() {
		for range b.N {
			if h.WaitRoom(b.Context(), "agent-1") != nil {
				return
			}
			l.Frame(f)
		}
	}()
	b.ReportAllocs()
	for range b.N {
		if _, err := sub.Next(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
