package launch_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
)

// sink collects log records.
type sink struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data.Write(p)
}

func (s *sink) records(t *testing.T) []map[string]any {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []map[string]any
	for line := range strings.Lines(s.data.String()) {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("a record is broken: %v in %q", err, line)
		}
		all = append(all, r)
	}
	return all
}

func (s *sink) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(s, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// find returns the first record where key holds value.
func find(records []map[string]any, key, value string) map[string]any {
	for _, r := range records {
		if text, ok := r[key].(string); ok && strings.HasPrefix(text, value) {
			return r
		}
	}
	return nil
}

func TestRelay_LogsStderrAtItsLevel(t *testing.T) {
	lines := []string{
		`{"@message": 1}`,
		`{"time":"2026-01-02T03:04:05Z","level":"WARN","msg":"low disk","handler":"forged","free":12,"in":{"mount":"/"}}`,
		`{"@level":"error","@message":"from hclog","@timestamp":"x","n":1}`,
		`{"level":"INFO","msg":"two objects"} {"level":"ERROR"}`,
		`{"level":"NONSENSE","msg":"no such level"}`,
		`{"level":"INFO","msg":{"not":"text"}}`,
		`{"level":"INFO","msg":"` + strings.Repeat("x", 40<<10) + `"}`,
		strings.Repeat(`{"a":`, 7000),
		"plain \x1b[31mtext\x00 \xff\xfe",
		`null`, `{`, `{"level":null,"msg":null}`, `{"level":"INFO"}`,
		"panic: out of ideas",
		"goroutine 1 [running]:",
	}
	log := &sink{}
	s := spec("noisy", "LINES="+strings.ReplaceAll(strings.Join(lines, "\n"), "\x00", ""))
	s.Logger = log.logger()
	i := start(t, s)
	if _, err := callEcho(t.Context(), i, "x"); err != nil {
		t.Fatalf("Echo: %v", err)
	}
	if err := i.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	records := log.records(t)

	low := find(records, "msg", "low disk")
	if low == nil || low["level"] != "WARN" || low["handler"] != "test" || low["free"] != 12.0 {
		t.Errorf("a line of slog's is %v", low)
	}
	if group, _ := low["in"].(map[string]any); group["mount"] != "/" {
		t.Errorf("its group is %v", low["in"])
	}
	if r := find(records, "msg", "from hclog"); r == nil || r["level"] != "ERROR" {
		t.Errorf("a line of hclog's is %v", r)
	}
	for _, raw := range []string{`{"@message": 1}`, `{"level":"INFO","msg":"two`, `{"level":"NONSENSE"`,
		`{"level":"INFO","msg":{"not"`, `{"level":"INFO","msg":"xxx`, `{"a":{"a":`, "plain", "null", `{"level":null`} {
		r := find(records, "line", raw)
		if r == nil {
			t.Errorf("no raw record begins with %q", raw)
			continue
		}
		if r["level"] != "WARN" || r["handler"] != "test" {
			t.Errorf("%q is %v at %v", raw, r["handler"], r["level"])
		}
		if size := len(r["line"].(string)); size > 32<<10 {
			t.Errorf("%q has %d bytes", raw, size)
		}
	}
	if r := find(records, "line", "goroutine 1"); r == nil || r["level"] != "ERROR" {
		t.Errorf("a panic's trace is %v", r)
	}
	if tail := i.StderrTail(); len(tail) == 0 || len(tail) > 20 {
		t.Errorf("StderrTail has %d lines", len(tail))
	}
}

func TestRelay_StdoutIsLoggedWithoutBlocking(t *testing.T) {
	log := &sink{}
	s := spec("handler")
	s.Logger = log.logger()
	i := start(t, s)
	// More than a pipe holds: the handler would hang here if the output was not read.
	configure(t, i, map[string]any{"print": strings.Repeat(strings.Repeat("printed ", 100)+"\n", 400)})
	if _, err := callEcho(t.Context(), i, "x"); err != nil {
		t.Fatalf("Echo: %v", err)
	}
	testkit.Eventually(t, "what was printed to stdout is in the log", func() bool { return find(log.records(t), "line", "printed ") != nil })
	if r := find(log.records(t), "line", "a stray print"); r == nil {
		t.Error("output before the handshake is not in the log")
	}
}
