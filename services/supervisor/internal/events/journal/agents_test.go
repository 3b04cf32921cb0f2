package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
)

// sender sends the frames of an agent, numbered.
type sender struct {
	*Journal
	agent *frame.Agent
	seq   *uint64
}

func (s sender) say(d frame.Direction, line string) {
	*s.seq++
	s.Frame(frame.Frame{Agent: s.agent, Seq: *s.seq, Direction: d, Line: []byte(line + "\n")})
}

// piece is an update as a link hands it over.
func (s sender) piece(session, line string) {
	*s.seq++
	s.Frame(frame.Frame{
		Agent: s.agent, Seq: *s.seq, Direction: frame.AgentToClient, Scanned: true, Method: []byte("session/update"), SessionID: []byte(session),
		Line: []byte(line), Rest: [][]byte{[]byte(" \r\n")},
	})
}

func (s sender) open(id, session string) {
	s.say(frame.ClientToAgent, fmt.Sprintf(`{"id":%s,"method":"session/new","params":{"cwd":"/%s"}}`, id, s.agent.ID))
	s.say(frame.AgentToClient, fmt.Sprintf(`{"id":%s,"result":{"sessionId":%q}}`, id, session))
}

func numbered(entries []*Entry) string {
	var all []string
	for _, e := range entries {
		if e.Journal == nil {
			all = append(all, fmt.Sprint(e.N, " ", e.Method, e.Answers))
		}
	}
	return strings.Join(all, ", ")
}

func TestJournal_SeparatesAgents(t *testing.T) {
	j := opened(t, Options{Content: true, Instance: "here"})
	var seq uint64
	a, b := sender{j, &frame.Agent{ID: "x-1", Name: "x"}, &seq}, sender{j, &frame.Agent{ID: "x-2", Name: "x"}, &seq}
	a.say(frame.ClientToAgent, `{"id":1,"method":"session/new","params":{"cwd":"/a"}}`) // 1
	b.say(frame.ClientToAgent, `{"id":1,"method":"session/new","params":{"cwd":"/b"}}`) // 2
	b.piece("s", update("s", "early, of b"))                                            // 3
	b.say(frame.AgentToClient, `{"id":1,"result":{"sessionId":"s"}}`)                   // 4
	a.say(frame.AgentToClient, `{"id":1,"result":{"sessionId":"s"}}`)                   // 5
	a.piece("s", update("s", "of a"))                                                   // 6
	b.piece("s", update("s", "of b"))                                                   // 7
	a.say(frame.AgentToClient, update("s", "not scanned"))                              // 8
	b.say(frame.AgentToHandler, `{"id":1,"method":"fs/x","params":{"sessionId":"s"}}`)  // 9
	a.say(frame.HandlerToAgent, `{"id":1,"result":"to nothing"}`)                       // 10
	b.say(frame.HandlerToAgent, `{"id":1,"result":"to b"}`)                             // 11
	closed(t, j)
	parts, err := Parts(j.Dir(), "s")
	if err != nil || len(parts) != 2 {
		t.Fatalf("%v, %v", parts, err)
	}
	want := map[string]string{
		"x-1": "1 session/new, 5 session/new, 6 session/update, 8 session/update",
		"x-2": "2 session/new, 3 session/update, 4 session/new, 7 session/update, 9 fs/x, 11 fs/x",
	}
	for _, part := range parts {
		var all []*Entry
		for e, err := range Read(part.Path) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, e)
		}
		h := part.Header
		if got := numbered(all); got != want[h.AgentID] || h.Agent != "x" || h.Instance != "here" || h.Session != "s" || !part.Started.Equal(all[1].Time) {
			t.Errorf("%+v: %s, want %s", part, got, want[h.AgentID])
		}
		delete(want, h.AgentID)
	}
	if len(want) != 0 {
		t.Errorf("missing: %v", want)
	}
}

func TestJournal_KeepsRunsOfUpdates(t *testing.T) {
	j := opened(t, Options{Content: true})
	var seq uint64
	a := sender{j, &frame.Agent{ID: "x-1", Name: "x"}, &seq}
	a.open("1", "s")
	a.open("2", "other")
	var want []string
	for i := range 3000 { // more than a chunk
		line := update("s", fmt.Sprint(i))
		switch i % 500 {
		case 1:
			line = "{\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"x\":\"\xff,\\\"frame\\\":\"}}"
		case 2:
			line = update("s", strings.Repeat("x", chunkSize))
		case 3:
			a.piece("other", update("other", "in between"))
		case 4:
			a.say(frame.ClientToAgent, `{"method":"session/cancel","params":{"sessionId":"s"}}`)
			want = append(want, `{"method":"session/cancel","params":{"sessionId":"s"}}`)
		}
		a.piece("s", line)
		want = append(want, line)
		if i%700 == 0 {
			if err := j.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	closed(t, j)
	all := entries(t, j.Dir(), "s")[3:]
	if len(all) != len(want) {
		t.Fatalf("%d lines, want %d", len(all), len(want))
	}
	var last uint64
	for i, e := range all {
		if string(e.Message()) != want[i] || e.N <= last {
			t.Fatalf("line %d is %d after %d: %.200s, want %.200s", i, e.N, last, e.Raw, want[i])
		}
		last = e.N
	}
	if n := len(entries(t, j.Dir(), "other")); n != 3+6 {
		t.Errorf("the other session has %d lines", n)
	}
}

func TestFlush_WaitsForWrites(t *testing.T) {
	j := opened(t, Options{Content: true})
	var seq uint64
	a := sender{j, &frame.Agent{ID: "x-1"}, &seq}
	a.open("1", "s")
	var wg sync.WaitGroup
	for i := range 20 {
		a.piece("s", update("s", fmt.Sprint(i)))
		wg.Go(func() {
			if err := j.Flush(t.Context()); err != nil {
				t.Error(err)
			}
		})
		if err := j.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if all := entries(t, j.Dir(), "s"); len(all) != 3+i+1 {
			t.Fatalf("after %d: %d lines", i, len(all))
		}
	}
	wg.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := j.Flush(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	closed(t, j)
	if err := j.Flush(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestReader_ContinuesWithNewLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.ndjson")
	write := func(text string) {
		t.Helper()
		f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.WriteString(text)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	long := strings.Repeat("x", 1<<20)
	write(`{"note":"1"}` + "\nrubbish\n" + `{"note":"` + long)
	r, err := OpenReader(file, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	note := func(want string) {
		t.Helper()
		if e, err := r.Next(); err != nil || e.Note != want {
			t.Fatalf("got %v, %v, want %.20q", e, err, want)
		}
	}
	none := func() {
		t.Helper()
		if e, err := r.Next(); !errors.Is(err, io.EOF) {
			t.Fatalf("got %v, %v", e, err)
		}
	}
	note("1")
	if _, err := r.Next(); func() bool { _, ok := errors.AsType[*LineError](err); return !ok }() {
		t.Fatalf("got %v", err)
	}
	none()
	write(long)
	none()
	write(`"}` + "\n" + `{"note":"2"}` + "\n")
	note(long + long)
	write(`{"note":"3"}` + "\n") // what was read with the last one ended before it
	note("2")
	note("3")
	none()
	write(`{"note":"4"}` + "\n")
	note("4")
	none()
	none()
}

func TestQueue_PrefersRequestsToChunks(t *testing.T) {
	q := newQueue(64<<10, true)
	put := func(f frame.Frame) bool {
		before := q.dropped
		q.put(&f, time.Now)
		return q.dropped == before
	}
	line := []byte(update("s", strings.Repeat("x", 200)))
	piece := frame.Frame{Direction: frame.AgentToClient, Scanned: true, Method: []byte("session/update"), SessionID: []byte("s"), Line: line}
	for put(piece) {
	}
	answer := frame.Frame{Direction: frame.AgentToClient, Scanned: true, ID: []byte("1"), Line: []byte(`{"id":1,"result":{}}`)}
	n := 0
	for put(answer) {
		n++
	}
	if n < 50 || q.held > 64<<10+16<<10 {
		t.Errorf("%d answers find room; %d bytes are held", n, q.held)
	}
}

func TestJournal_CancellationIsInFileOfRequest(t *testing.T) {
	j := opened(t, Options{Content: true})
	var seq uint64
	a := sender{j, &frame.Agent{ID: "x-1"}, &seq}
	a.open("1", "s")
	a.say(frame.AgentToClient, `{"id":"q","method":"session/request_permission","params":{"sessionId":"s"}}`)
	a.say(frame.AgentToClient, `{"method":"$/cancel_request","params":{"requestId":"q"}}`)
	a.say(frame.OursToClient, `{"method":"$/cancel_request","params":{"requestId":"q"}}`)
	a.say(frame.AgentToClient, `{"method":"$/cancel_request","params":{"requestId":"unknown"}}`)
	closed(t, j)
	if got, want := numbered(entries(t, j.Dir(), "s")), "1 session/new, 2 session/new, 3 session/request_permission, 4 $/cancel_request, 5 $/cancel_request"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestJournal_ReconnectIsNotedInOpenSessions(t *testing.T) {
	j := opened(t, Options{Content: true})
	var seq uint64
	a, b := sender{j, &frame.Agent{ID: "x-1"}, &seq}, sender{j, &frame.Agent{ID: "y-1"}, &seq}
	for i, s := range []sender{a, a, b} {
		s.open(fmt.Sprint(i), fmt.Sprint("s", i))
	}
	a.say(frame.ClientToAgent, `{"id":9,"method":"session/prompt","params":{"sessionId":"s1"}}`)
	b.say(frame.ClientToAgent, `{"id":9,"method":"session/prompt","params":{"sessionId":"s2"}}`)
	a.say(frame.ClientToAgent, `{"id":8,"method":"session/new","params":{}}`)
	a.say(frame.ClientToAgent, `{"id":9,"method":"initialize","params":{}}`)
	a.say(frame.AgentToClient, `{"id":9,"result":{}}`)
	closed(t, j)
	for session, want := range map[string]string{
		"s0": "1 session/new, 2 session/new",
		"s1": "3 session/new, 4 session/new, 7 session/prompt, 10 initialize",
		"s2": "5 session/new, 6 session/new, 8 session/prompt",
		"":   "9 session/new, 10 initialize, 11 initialize",
	} {
		if got := numbered(entries(t, j.Dir(), session)); got != want {
			t.Errorf("%q: got %s, want %s", session, got, want)
		}
	}
}

func TestReader_ReadsFilesWithoutNumbers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "2026-01-01")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	const old = `{"t":"2026-01-01T00:00:00.000000001Z","journal":{"version":1,"session":"s","agent":"a","cwd":"/w","acphost":"v0","instance":"i","pid":1,"content":true}}
{"t":"2026-01-01T00:00:00.000000002Z","dir":"agent-to-front","method":"session/update","frame":{"method":"session/update","params":{"sessionId":"s"}}}
{"t":"2026-01-01T00:00:00.000000003Z","dropped":2,"bytes":7,"from":"2026-01-01T00:00:00Z","to":"2026-01-01T00:00:00Z","why":"w"}
`
	if err := os.WriteFile(filepath.Join(dir, "s-s-0123.ndjson"), []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	parts, err := Parts(filepath.Dir(dir), "s")
	if err != nil || len(parts) != 1 || parts[0].Header.Instance != "i" || parts[0].Header.AgentID != "" {
		t.Fatalf("%v, %v", parts, err)
	}
	all := slices.Collect(func(yield func(*Entry) bool) {
		for e, err := range Read(parts[0].Path) {
			if err != nil || !yield(e) {
				return
			}
		}
	})
	if len(all) != 3 || all[1].N != 0 || all[1].Method != "session/update" || !bytes.Contains(all[1].Frame, []byte(`"sessionId":"s"`)) || all[2].Dropped != 2 {
		t.Errorf("got %v", all)
	}
}
