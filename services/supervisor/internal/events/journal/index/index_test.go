package index

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/events/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func opened(t *testing.T, o journal.Options) *journal.Journal {
	t.Helper()
	j, err := journal.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func closed(t *testing.T, j *journal.Journal) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}

func send(j *journal.Journal, d frame.Direction, line string) {
	j.Frame(frame.Frame{Direction: d, Line: []byte(line + "\n")})
}

// openSession has a client open a session.
func openSession(j *journal.Journal, session string) {
	send(j, frame.ClientToAgent, `{"id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}`)
	send(j, frame.AgentToClient, fmt.Sprintf(`{"id":1,"result":{"sessionId":%q}}`, session))
}

func update(session, text string) string {
	return fmt.Sprintf(`{"method":"session/update","params":{"sessionId":%q,"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":%q}}}}`, session, text)
}

func prompt(session, text string) string {
	return fmt.Sprintf(`{"id":"p","method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":%q}]}}`, session, text)
}

// indexed is a folder with three sessions, the last of another agent.
func indexed(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "journal")
	for i, agent := range []string{"one", "one", "two"} {
		j := opened(t, journal.Options{Dir: dir, Agent: agent, Content: true})
		id := fmt.Sprint("session-", i)
		openSession(j, id)
		send(j, frame.ClientToAgent, prompt(id, fmt.Sprintf("Do %d%% of\nthe work", i)))
		send(j, frame.AgentToClient, update(id, "I will w"))
		send(j, frame.AgentToClient, update(id, fmt.Sprint("rite poem_", i)))
		closed(t, j)
	}
	return dir
}

func listed(t *testing.T, x *Index, q Query) string {
	t.Helper()
	if err := x.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := x.List(q)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, s := range all {
		ids = append(ids, strings.TrimPrefix(s.Session, "session-"))
	}
	return strings.Join(ids, " ")
}

func openedIndex(t *testing.T, dir string) *Index {
	t.Helper()
	x, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	return x
}

func TestList_FindsSessions(t *testing.T) {
	x := openedIndex(t, indexed(t))
	for _, tt := range []struct {
		q    Query
		want string
	}{
		{Query{}, "0 1 2"},
		{Query{Agent: "one"}, "0 1"},
		{Query{Cwd: "/w"}, "0 1 2"},
		{Query{Cwd: "/"}, "0 1 2"},
		{Query{Cwd: "/wo"}, ""},
		{Query{Text: "WRITE POEM_1"}, "1"},
		{Query{Text: "poem-1"}, ""}, // nothing in it is a wildcard
		{Query{Text: "2% of"}, "2"},
		{Query{Session: "session-1"}, "1"},
		{Query{Session: "sess"}, "0 1 2"},
		{Query{Session: "sess_on"}, ""},
		{Query{Text: "write", Agent: "two"}, "2"},
	} {
		if got := listed(t, x, tt.q); got != tt.want {
			t.Errorf("%+v: got %q, want %q", tt.q, got, tt.want)
		}
	}
	all, err := x.List(Query{Session: "session-2"})
	if err != nil {
		t.Fatal(err)
	}
	if s := all[0]; s.Title != "Do 2% of" || s.Turns != 1 || s.Frames != 5 || s.Cwd != "/w" || s.Agent != "two" || s.Live || s.Ended.Before(s.Started) || s.Bytes == 0 {
		t.Errorf("%+v", s)
	}
}

func TestOpen_RebuildsUnusableIndex(t *testing.T) {
	dir := indexed(t)
	x := openedIndex(t, dir)
	listed(t, x, Query{})
	if _, err := x.db.Exec("PRAGMA user_version = 77"); err != nil {
		t.Fatal(err)
	}
	_ = x.Close()
	file := filepath.Join(dir, indexName)
	for name, damage := range map[string]func() error{
		"another version": func() error { return nil },
		"missing":         func() error { return os.Remove(file) },
		"garbage":         func() error { return os.WriteFile(file, []byte(strings.Repeat("garbage", 1000)), 0o600) },
		"cut":             func() error { return os.Truncate(file, 5000) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := damage(); err != nil {
				t.Fatal(err)
			}
			x, err := Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			if got := listed(t, x, Query{}); got != "0 1 2" {
				t.Errorf("got %q", got)
			}
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
		})
	}
}

func TestList_WorksWithoutWritableIndex(t *testing.T) {
	dir := indexed(t)
	if err := os.Mkdir(filepath.Join(dir, indexName), 0o700); err != nil { // as bad a place for a file as a full disk
		t.Fatal(err)
	}
	if x, err := Open(dir); err == nil {
		_ = x.Close()
		t.Fatal("the index could be written")
	}
	for range 2 {
		all, err := List(dir, Query{})
		if err != nil || len(all) != 3 {
			t.Errorf("got %v, %v", all, err)
		}
	}
	if err := os.Chmod(dir, 0o722); err != nil { // this is what is refused
		t.Fatal(err)
	}
	if _, err := List(dir, Query{}); err == nil {
		t.Error("a folder that others can write to was read")
	}
}

func TestIndex_FollowsFiles(t *testing.T) {
	dir := indexed(t)
	x := openedIndex(t, dir)
	listed(t, x, Query{})
	j := opened(t, journal.Options{Dir: dir, Agent: "three", Content: true})
	openSession(j, "session-3")
	closed(t, j)
	if got := listed(t, x, Query{}); got != "0 1 2 3" {
		t.Errorf("got %q", got)
	}
	all, err := x.List(Query{Session: "session-3"})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(all[0].File, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"t":"2026-01-01T00:00:00Z","dir":"front-to-agent","method":"session/prompt","frame":` + prompt("session-3", "later") + "}\n" + `{"torn`); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	if got := listed(t, x, Query{Text: "later"}); got != "3" {
		t.Errorf("got %q", got)
	}
	if err := os.Remove(all[0].File); err != nil {
		t.Fatal(err)
	}
	if got := listed(t, x, Query{}); got != "0 1 2" {
		t.Errorf("got %q", got)
	}
}

func TestIndex_ReadsFilesBeingWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	for _, agent := range []string{"one", "two"} {
		j := opened(t, journal.Options{Dir: dir, Agent: agent, Content: true})
		openSession(j, "shared")
		for i := range 100 {
			send(j, frame.AgentToClient, update("shared", fmt.Sprint(i)))
			if i == 50 {
				if err := j.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
				if all, err := List(dir, Query{Agent: agent}); err != nil || len(all) != 1 || all[0].Frames != 53 || !all[0].Live {
					t.Errorf("while %s is written: %+v, %v", agent, all, err)
				}
			}
		}
		closed(t, j)
	}
	all, err := List(dir, Query{Session: "shared"})
	if err != nil || len(all) != 2 {
		t.Fatalf("%d sessions, %v", len(all), err)
	}
	for _, s := range all {
		if s.Frames != 102 || s.Live {
			t.Errorf("%s: %+v", s.Agent, s)
		}
	}
}

func FuzzReadFile(f *testing.F) {
	f.Add([]byte(`{"t":"2026-01-01T00:00:00Z","dir":"agent-to-front","method":"session/update","frame":{}}` + "\n"))
	f.Add([]byte("garbage\n\n{}\n[]\n\"\"\n{\"frame\":\"x\"}\n{\"base64\":\"!\"}\n{\"torn"))
	f.Add([]byte(`{"t":"2026-01-01T00:00:00Z","dir":"front-to-agent","method":"session/prompt","frame":{"params":{"prompt":[{"text":"x"},1,null]}}}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file := filepath.Join(t.TempDir(), "f.ndjson")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		lines := 0
		var s summary
		for e, err := range journal.Read(file) {
			lines++
			if err == nil {
				_ = e.Message()
				s.fold(e)
			}
		}
		if want := strings.Count(string(data), "\n"); lines != want {
			t.Errorf("%d of %d lines", lines, want)
		}
	})
}

func TestIndex_EmptyFileHasNoTime(t *testing.T) {
	dir := indexed(t)
	files, err := journal.Files(dir, false)
	if err != nil || len(files) == 0 {
		t.Fatalf("%q, %v", files, err)
	}
	for name, content := range map[string]string{"s-empty-0123456789ab.ndjson": "", "s-torn-0123456789ac.ndjson": `{"t":"2026`} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(files[0]), name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // as it is read, and as it is indexed
		all, err := List(dir, Query{})
		if err != nil || len(all) != 5 {
			t.Fatalf("%d sessions, %v", len(all), err)
		}
		for i, s := range all {
			if unknown := s.Started.IsZero() && s.Ended.IsZero(); unknown != (i < 2) || !unknown && s.Started.Year() < 2000 {
				t.Errorf("%s: from %v to %v", filepath.Base(s.File), s.Started, s.Ended)
			}
		}
	}
}
