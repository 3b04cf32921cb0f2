package link

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/session"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
)

// BenchmarkForwarding reads 300-byte updates from an agent and writes them to a client, both in memory: it measures the cost of the link
// itself. docs/performance.md has the figures of the whole system.
func BenchmarkForwarding(b *testing.B) {
	const head = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"`
	const tail = `"}}}}` + "\n"
	line := head + strings.Repeat("x", 300-len(head)-len(tail)) + tail
	chunk := bytes.Repeat([]byte(line), 200)
	r, w := io.Pipe()
	defer func() { _ = w.Close() }()
	agent := pipes{&repeat{chunk: chunk, left: b.N}, w}
	client := Client{In: r, Out: discard{}}
	log := slog.New(slog.DiscardHandler)
	l := New(Options{
		Client: client, Agent: agent,
		Sessions: session.New(session.Options{}),
		Gate:     gate.New(gate.Options{Logger: log}),
		Logger:   log,
	})
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	b.ResetTimer()
	if reason, err := l.Run(context.Background()); reason != AgentGone || err != nil {
		b.Fatal(reason, err)
	}
}

// BenchmarkPassGate makes small reads at a handler without a policy.
func BenchmarkPassGate(b *testing.B) {
	dir := b.TempDir()
	own := []string{"/etc/acphost", dir + "/config", dir + "/state/audit.jsonl"}
	for i := range 20 {
		own = append(own, dir+"/state/audit.jsonl."+strconv.Itoa(i))
	}
	log := slog.New(slog.DiscardHandler)
	r, w := io.Pipe()
	defer func() { _ = w.Close() }()
	l := New(Options{
		Client: Client{In: r, Out: discard{}}, Agent: pipes{r, w},
		Sessions: session.New(session.Options{}), Logger: log,
		Gate: gate.New(gate.Options{Logger: log, Protected: own}),
	})
	file := dir + "/ws/file.go"
	if err := errors.Join(os.Mkdir(dir+"/ws", 0o700), os.WriteFile(file, nil, 0o600)); err != nil {
		b.Fatal(err)
	}
	to := &route.Route{Target: route.Handler, Action: "fs.read"}
	c := &agentCall{method: "fs/read_text_file", sessionID: "s"}
	cc := &acpv1.CallContext{Roots: []*acpv1.Root{{Path: dir + "/ws"}}}
	params := []byte(`{"sessionId":"s","path":"` + file + `"}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := l.passGate(to, c, cc, params, true); err != nil {
			b.Fatal(err)
		}
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) Close() error                { return nil }

// repeat gives so many lines, many a read.
type repeat struct {
	chunk []byte
	left  int
}

func (r *repeat) Read(b []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n := min(len(r.chunk)/300, len(b)/300, r.left)
	r.left -= n
	return copy(b, r.chunk[:n*300]), nil
}
