package handlers_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

// TestFlood_400LargeReadsAreBounded: the bytes of pending answers are limited, however many requests wait, and an agent
// that writes all requests before it reads an answer does not deadlock.
func TestFlood_400LargeReadsAreBounded(t *testing.T) {
	const (
		count = 400
		size  = 10 << 20
		bound = 600 << 20
	)
	p := e2e.NewPlace(t)
	p.File(t, "big", strings.Repeat("0123456789abcde ", size/16))
	st := p.Stage(t)
	h := p.Start(t, nil, st.Command)
	conn, in, _ := st.Accept(t) // bare: what is read here is too much to be taken apart
	if err := conn.SetDeadline(time.Now().Add(2 * testkit.Timeout())); err != nil {
		t.Fatal(err)
	}
	write := func(format string, args ...any) {
		if _, err := fmt.Fprintf(conn, format+"\n", args...); err != nil {
			t.Fatal(err)
		}
	}
	answer := func(method, result string) {
		line, err := in.ReadBytes('\n')
		var m wire.Message
		if err = errors.Join(err, json.Unmarshal(line, &m)); err != nil || m.Method != method {
			t.Fatalf("expected %s, got %s: %v", method, line, err)
		}
		write(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}
	initialized := h.Initialize(`{}`)
	answer("initialize", `{"protocolVersion":1}`)
	initialized.Result(nil)
	opened := h.Send("session/new", map[string]any{"cwd": p.Work, "mcpServers": []any{}})
	answer("session/new", `{"sessionId":"s1"}`)
	opened.Result(nil)

	for i := range count {
		write(`{"jsonrpc":"2.0","id":"r%d","method":"fs/read_text_file","params":{"sessionId":"s1","path":%q}}`, i, p.Path("big"))
	}
	write(`{"jsonrpc":"2.0","method":"_all/sent","params":{}}`)
	h.Expect("_all/sent")
	answered := map[string]bool{}
	for range count {
		id, n, begins, err := skim(in)
		if err != nil {
			t.Fatalf("after %d answers: %v", len(answered), err)
		}
		if n < size || answered[id] {
			t.Fatalf("%d bytes arrived for %q, want more than %d, once: %s", n, id, size, begins)
		}
		answered[id] = true
	}
	for name, pid := range map[string]int{"acphost": h.PID(), "fsd": h.Daemon("fsd")} {
		if peak := peakMemory(t, pid); peak > bound {
			t.Errorf("%s took %d MiB, want at most %d", name, peak>>20, bound>>20)
		} else {
			t.Logf("%s took %d MiB at the most", name, peak>>20)
		}
	}
	h.Finish()
}

// skim reads an answer from acphost, and returns its id, its length and its first bytes.
func skim(in *bufio.Reader) (id string, length int, begins string, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if length == 0 {
			begins = string(part[:min(300, len(part))])
			_, rest, _ := bytes.Cut(part[:min(100, len(part))], []byte(`"id":"`))
			before, _, _ := bytes.Cut(rest, []byte(`"`))
			id = string(before)
		}
		length += len(part)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return id, length, begins, err
		}
	}
}

// peakMemory is the most that a process has had in memory, in bytes.
func peakMemory(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatalf("no peak memory in %s: %v", text, err)
	}
	return kib << 10
}
