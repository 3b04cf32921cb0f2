package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		os.Exit(child(role))
	}
	goleak.VerifyTestMain(m)
}

func opened(t *testing.T, o Options) *Journal {
	t.Helper()
	if o.Dir == "" {
		o.Dir = filepath.Join(t.TempDir(), "journal")
	}
	if o.Agent == "" {
		o.Agent = "test"
	}
	j, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// held is how many bytes a queue holds.
func held(q *queue) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.held
}

// written waits until the passed frames are on disk. The writing goroutine has no signal for that.
func written(t *testing.T, j *Journal) {
	t.Helper()
	testkit.Eventually(t, "the queue is empty", func() bool { return held(j.queue) == 0 })
}

// send passes a frame that contains nothing but the line.
func send(j *Journal, d frame.Direction, line string) {
	j.Frame(frame.Frame{Direction: d, Line: []byte(line + "\n")})
}

// openSession has a client open a session.
func openSession(j *Journal, id, session string) {
	send(j, frame.ClientToAgent, fmt.Sprintf(`{"id":%s,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}`, id))
	quoted, _ := json.Marshal(session)
	send(j, frame.AgentToClient, fmt.Sprintf(`{"id":%s,"result":{"sessionId":%s}}`, id, quoted))
}

func update(session, text string) string {
	return fmt.Sprintf(`{"method":"session/update","params":{"sessionId":%q,"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":%q}}}}`, session, text)
}

func closed(t *testing.T, j *Journal) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}

// entries are all that a file of a session holds.
func entries(t *testing.T, dir, session string) []*Entry {
	t.Helper()
	files, err := Files(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		var all []*Entry
		for e, err := range Read(f) {
			if err != nil {
				t.Fatal(err)
			}
			e.Raw, e.Frame = bytes.Clone(e.Raw), bytes.Clone(e.Frame)
			all = append(all, e)
		}
		if len(all) > 0 && all[0].Journal != nil && all[0].Journal.Session == session {
			return all
		}
	}
	t.Fatalf("session %q has no file among %q", session, files)
	return nil
}

func TestJournal_KeepsFramesInOrder(t *testing.T) {
	j := opened(t, Options{Content: true, Version: "v1"})
	send(j, frame.ClientToAgent, `{"id":0,"method":"initialize","params":{}}`)
	send(j, frame.ClientToAgent, `{"id":1,"method":"session/new","params":{"cwd":"/w"}}`)
	send(j, frame.AgentToClient, update("s/1", "early"))
	send(j, frame.AgentToClient, `{"id":1,"result":{"sessionId":"s/1"}}`)
	send(j, frame.ClientToAgent, `{"id":2,"method":"session/prompt","params":{"sessionId":"s/1","prompt":[]}}`)
	j.Frame(frame.Frame{Direction: frame.AgentToHandler, Handler: "fs", Line: []byte(`{"id":2,"method":"fs/read_text_file","params":{"sessionId":"s/1"}}`)})
	j.Frame(frame.Frame{Direction: frame.HandlerToAgent, Handler: "fs", Line: []byte(`{"id":2,"result":`), Rest: [][]byte{[]byte(`{"content":"x"}`), []byte("}\n")}})
	send(j, frame.OursToClient, `{"id":"q","method":"session/request_permission","params":{"sessionId":"s/1"}}`)
	send(j, frame.ClientToOurs, `{"id":"q","result":{"outcome":{"outcome":"cancelled"}}}`)
	send(j, frame.AgentToClient, `{"id":2,"result":{"stopReason":"end_turn"}}`)
	send(j, frame.AgentToClient, `not JSON`)
	closed(t, j)

	var got []string
	all := entries(t, j.opts.Dir, "s/1")
	for _, e := range all[1:] {
		got = append(got, strings.TrimSpace(e.Dir+" "+e.Handler)+" "+e.Method+e.Answers+" "+string(e.Message()))
	}
	want := []string{
		`front-to-agent session/new {"id":1,"method":"session/new","params":{"cwd":"/w"}}`,
		`agent-to-front session/update ` + update("s/1", "early"),
		`agent-to-front session/new {"id":1,"result":{"sessionId":"s/1"}}`,
		`front-to-agent session/prompt {"id":2,"method":"session/prompt","params":{"sessionId":"s/1","prompt":[]}}`,
		`agent-to-handler fs fs/read_text_file {"id":2,"method":"fs/read_text_file","params":{"sessionId":"s/1"}}`,
		`handler-to-agent fs fs/read_text_file {"id":2,"result":{"content":"x"}}`,
		`ours-to-front session/request_permission {"id":"q","method":"session/request_permission","params":{"sessionId":"s/1"}}`,
		`front-to-ours session/request_permission {"id":"q","result":{"outcome":{"outcome":"cancelled"}}}`,
		`agent-to-front session/prompt {"id":2,"result":{"stopReason":"end_turn"}}`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if h := all[0].Journal; h.Agent != "test" || h.Cwd != "/w" || h.Acphost != "v1" || h.PID != os.Getpid() || !h.Content {
		t.Errorf("the header is %+v", h)
	}
	var link []string
	for _, e := range entries(t, j.opts.Dir, "")[1:] {
		link = append(link, string(e.Message()))
	}
	if strings.Join(link, "\n") != "{\"id\":0,\"method\":\"initialize\",\"params\":{}}\nnot JSON" {
		t.Errorf("of no session: %q", link)
	}
	for _, e := range all {
		if !json.Valid(e.Raw) {
			t.Errorf("%s is no JSON", e.Raw)
		}
	}
}

func TestJournal_FilesArePrivateAndNamesSafe(t *testing.T) {
	j := opened(t, Options{Content: true})
	ids := []string{"../../../etc/passwd", "/absolute", "..", strings.Repeat("long", 5000), "nul\u0000", "\u202ebidi", "_link", "a\nb", "s", "S"}
	for i, id := range ids {
		openSession(j, fmt.Sprint(i), id)
	}
	closed(t, j)
	files, err := Files(j.opts.Dir, false)
	if err != nil || len(files) != len(ids) {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f, info.Mode(), err)
		}
	}
	for dir := range map[string]bool{j.opts.Dir: true, filepath.Dir(files[0]): true} {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", dir, info.Mode(), err)
		}
	}
	for _, id := range ids {
		entries(t, j.opts.Dir, id)
	}
}

func TestJournal_AgentCannotMakeFiles(t *testing.T) {
	j := opened(t, Options{Content: true})
	openSession(j, "1", "s")
	for i := range 1000 {
		send(j, frame.AgentToClient, update(fmt.Sprint("invented-", i), "x"))
	}
	closed(t, j)
	if files, _ := Files(j.opts.Dir, true); len(files) != 2 {
		t.Errorf("%d files", len(files))
	}
	if n := len(entries(t, j.opts.Dir, "")); n != 1001 {
		t.Errorf("%d lines of no session", n)
	}
}

func TestJournal_KeepsInvalidUTF8(t *testing.T) {
	j := opened(t, Options{Content: true})
	openSession(j, "1", "s")
	line := "{\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"x\":\"\xff\xfe\"}}"
	send(j, frame.AgentToClient, line)
	closed(t, j)
	all := entries(t, j.opts.Dir, "s")
	if got := string(all[len(all)-1].Message()); got != line {
		t.Errorf("got %q", got)
	}
	for _, e := range all {
		if !json.Valid(e.Raw) {
			t.Errorf("%q is no JSON", e.Raw)
		}
	}
}

func TestJournal_OmitsContentIfDisabled(t *testing.T) {
	j := opened(t, Options{})
	openSession(j, "1", "s")
	send(j, frame.AgentToClient, update("s", "secret"))
	send(j, frame.AgentToClient, `{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"t","kind":"edit","status":"pending","title":"secret","rawInput":{"secret":1}}}}`)
	closed(t, j)
	all := entries(t, j.opts.Dir, "s")
	for _, e := range all {
		if bytes.Contains(e.Raw, []byte("secret")) {
			t.Errorf("%s", e.Raw)
		}
	}
	if e := all[len(all)-1]; e.Tool != "t" || e.Kind != "edit" || e.Status != "pending" || e.Update != "tool_call" || e.Size == 0 || e.Session != "s" {
		t.Errorf("%s", e.Raw)
	}
}

func TestQueue_CountsDroppedFramesInPlace(t *testing.T) {
	q := newQueue(4*(recordCost+10), true)
	frame := func(session string) *frame.Frame {
		return &frame.Frame{Direction: frame.AgentToClient, Scanned: true, SessionID: []byte(session), Line: []byte("0123456")}
	}
	for i := range 10 {
		q.put(frame([]string{"abc", "xyz"}[i%2]), func() time.Time { return time.Unix(0, int64(100+i)) })
	}
	b := q.take(batch{})
	var got []string
	for _, r := range b.blocks[0] {
		if r.gap != nil {
			got = append(got, fmt.Sprintf("%s lacks %d/%d %d-%d", r.session, r.gap.frames, r.gap.bytes, r.gap.from, r.gap.to))
		} else {
			got = append(got, fmt.Sprintf("%s %d", r.session, r.at))
		}
	}
	text := strings.Join(got, ", ")
	if !strings.HasPrefix(text, "abc 100, xyz 101, abc 102, xyz 103, ") || !strings.Contains(text, "abc lacks 3/21 104-108") || !strings.Contains(text, "xyz lacks 3/21 105-109") || len(got) != 6 {
		t.Errorf("got %s", text)
	}
	size := 0
	for _, r := range b.blocks[0] {
		size += r.queued
	}
	q.written(size)
	q.give(b)
	if held(q) != 0 || q.dropped != 6 {
		t.Errorf("%d held, %d dropped", held(q), q.dropped)
	}
}

// TestQueue_KeepsOthersBesideLongFrame queues a frame that is longer than the queue, and others.
func TestQueue_KeepsOthersBesideLongFrame(t *testing.T) {
	const room = 1 << 20
	long, answer := []byte(`{"x":"`+strings.Repeat("x", 2*room)+`"}`), []byte(`{"id":1}`)
	for name, content := range map[string]bool{"a run of updates": true, "a frame": false} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(room, content)
			put := func(id, line []byte) {
				method := []byte(acp.MethodSessionUpdate)
				if id != nil {
					method = nil
				}
				q.put(&frame.Frame{Direction: frame.AgentToClient, Scanned: true, Method: method, ID: id, SessionID: []byte("s"), Line: line}, time.Now)
			}
			put(nil, []byte(`{"x":1}`))
			put(nil, long)
			put(nil, []byte(`{"x":2}`))
			put([]byte("1"), answer)
			if q.dropped != 0 {
				t.Errorf("%d frames beside one of %d bytes are dropped from a queue of %d", q.dropped, len(long), room)
			}
			put(nil, long)
			if q.dropped != 1 {
				t.Errorf("%d frames are dropped, want the second one that is longer than the queue", q.dropped)
			}
			size := 0
			b := q.take(batch{})
			for _, r := range b.blocks[0] {
				size += r.queued
			}
			if q.written(size); held(q) != 0 {
				t.Errorf("%d bytes are held, and nothing is queued", held(q))
			}
		})
	}
}

func TestJournal_KeepsOrCountsFrames(t *testing.T) {
	j := opened(t, Options{Content: true, MaxQueued: 64 << 10})
	openSession(j, "1", "s")
	written(t, j)
	const writers, each = 4, 5000
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				line := []byte(update("s", fmt.Sprintf("%d-%06d", w, i)))
				j.Frame(frame.Frame{Direction: frame.AgentToClient, Scanned: true, Method: []byte("session/update"), SessionID: []byte("s"), Line: line})
			}
		})
	}
	wg.Wait()
	closed(t, j)
	kept, lost := 0, 0
	next := map[string]string{}
	for _, e := range entries(t, j.opts.Dir, "s") {
		if e.Dropped > 0 {
			lost += int(e.Dropped)
			if size := len(update("s", "0-000000")); e.Bytes != e.Dropped*uint64(size) || e.To.Before(e.From) || e.Why == "" {
				t.Errorf("%s", e.Raw)
			}
		}
		if e.Method != "session/update" {
			continue
		}
		kept++
		var u struct {
			Params struct {
				Update struct{ Content struct{ Text string } }
			}
		}
		if err := json.Unmarshal(e.Frame, &u); err != nil {
			t.Fatal(err)
		}
		w, n, _ := strings.Cut(u.Params.Update.Content.Text, "-")
		if n <= next[w] {
			t.Fatalf("%s of %s arrived after %s", n, w, next[w])
		}
		next[w] = n
	}
	if kept+lost != writers*each || uint64(lost) != j.Dropped() {
		t.Errorf("%d kept and %d counted of %d; %d dropped", kept, lost, writers*each, j.Dropped())
	}
	t.Logf("%d kept, %d lost", kept, lost)
}

func TestJournal_LimitsFileSize(t *testing.T) {
	var log bytes.Buffer
	j := opened(t, Options{Content: true, MaxSessionBytes: 4 << 10, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	openSession(j, "1", "s")
	for i := range 100 {
		send(j, frame.AgentToClient, update("s", fmt.Sprintf("%0100d", i)))
		if i%10 == 0 {
			written(t, j)
		}
	}
	closed(t, j)
	kept, lost := 0, 0
	for _, e := range entries(t, j.opts.Dir, "s") {
		lost += int(e.Dropped)
		if e.Method == "session/update" {
			kept++
		}
	}
	if kept == 0 || kept+lost != 100 || strings.Count(log.String(), "as large as it may be") != 1 {
		t.Errorf("%d kept, %d lost; log %s", kept, lost, log.String())
	}
}

func TestJournal_RecreatesRemovedFile(t *testing.T) {
	j := opened(t, Options{Content: true})
	openSession(j, "1", "s")
	written(t, j)
	files, err := Files(j.opts.Dir, false)
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	send(j, frame.AgentToClient, update("s", "after"))
	closed(t, j)
	if all := entries(t, j.opts.Dir, "s"); len(all) != 2 {
		t.Errorf("%d lines", len(all))
	}
}

func TestRepair_TornTail(t *testing.T) {
	j := opened(t, Options{Content: true})
	openSession(j, "1", "s")
	send(j, frame.AgentToClient, update("s", "the last"))
	closed(t, j)
	files, _ := Files(j.opts.Dir, false)
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(whole) {
		if err := os.WriteFile(files[0], whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		count := bytes.Count(whole[:n], []byte("\n"))
		read := func() (lines int, noted bool) {
			for e, err := range Read(files[0]) {
				if err != nil {
					t.Fatalf("%d: %v", n, err)
				}
				lines++
				noted = e.Note != ""
			}
			return lines, noted
		}
		if lines, _ := read(); lines != count {
			t.Fatalf("cut at %d: %d lines of %d are read", n, lines, count)
		}
		torn := n > 0 && whole[n-1] != '\n'
		mended, err := Mend(j.opts.Dir)
		if err != nil || mended != map[bool]int{true: 1}[torn] {
			t.Fatalf("cut at %d: %d mended, %v", n, mended, err)
		}
		if lines, noted := read(); torn && (lines != count+1 || !noted) {
			t.Fatalf("cut at %d: %d lines, noted %v", n, lines, noted)
		}
	}
}

func TestRetention_RemovesOldFilesNotLive(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	now := time.Now()
	var files []string
	for i := range 5 {
		day := now.AddDate(0, 0, -10*i)
		j := opened(t, Options{Dir: dir, Content: true, Now: func() time.Time { return day }})
		openSession(j, "1", fmt.Sprint("s", i))
		closed(t, j)
		all, _ := Files(dir, false)
		for _, f := range all {
			if strings.Contains(f, fmt.Sprint("s-s", i, "-")) {
				files = append(files, f)
				if err := os.Chtimes(f, day, day); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	live, held, err := lockIdle(files[4]) // the oldest
	if err != nil || !held {
		t.Fatal(err)
	}
	defer live.Close()
	exist := func() (s string) {
		for i, f := range files {
			if _, err := os.Stat(f); err == nil {
				s += fmt.Sprint(i)
			} else if !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
		return s
	}
	if err := Retain(dir, 25*24*time.Hour, 1<<30, now); err != nil || exist() != "0124" {
		t.Errorf("after 25 days: %s, %v", exist(), err)
	}
	info, err := os.Stat(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := Retain(dir, 1000*24*time.Hour, 2*info.Size(), now); err != nil || exist() != "04" {
		t.Errorf("of two files' size: %s, %v", exist(), err)
	}
	if _, err := os.Stat(filepath.Dir(files[1])); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the folder of a day without files stayed")
	}
}
