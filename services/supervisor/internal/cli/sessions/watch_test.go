package sessions

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/commandtest"
	"github.com/acphost/acphost/services/supervisor/internal/events/activity"
	"github.com/acphost/acphost/services/supervisor/internal/events/journal"
)

// watchable is a supervisor with a record, whose agent has one session.
type watchable struct {
	commandtest.State
	hub      *activity.Hub
	observer frame.Observer
	session  string
}

func (w *watchable) ListSessions(context.Context, *supervisorv1.ListSessionsRequest) (*supervisorv1.ListSessionsResponse, error) {
	return &supervisorv1.ListSessionsResponse{Sessions: []*supervisorv1.Session{{SessionId: w.session, AgentId: "gemini-1"}}}, nil
}

func (w *watchable) say(d frame.Direction, line string) {
	w.observer.Frame(frame.Frame{Direction: d, Line: []byte(line + "\n")})
}

func (w *watchable) message(text string) {
	quoted, _ := json.Marshal(text)
	w.say(frame.AgentToClient, fmt.Sprintf(`{"method":"session/update","params":{"sessionId":%q,"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":%s}}}}`, w.session, quoted))
}

// watched starts one in an environment.
func watched(t *testing.T, env map[string]string, instance, session string) *watchable {
	t.Helper()
	j, err := journal.Open(journal.Options{Dir: filepath.Join(env["XDG_STATE_HOME"], "acphost", "journal"), Instance: instance, Content: true})
	if err != nil {
		t.Fatal(err)
	}
	w := &watchable{hub: activity.New(activity.Options{Instance: instance, Journal: j}), session: session}
	w.observer = w.hub.Observer(&frame.Agent{ID: "gemini-1", Name: "gemini"})
	server, err := admin.Start(admin.Options{State: w, Events: w.hub, Env: func(name string) string { return env[name] }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Stop()
		w.hub.Close()
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	w.say(frame.ClientToAgent, `{"id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}`)
	w.say(frame.AgentToClient, fmt.Sprintf(`{"id":1,"result":{"sessionId":%q}}`, session))
	w.say(frame.ClientToAgent, fmt.Sprintf(`{"id":2,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":"Fix it"}]}}`, session))
	w.message("I will. ")
	w.message("See: " + hostile + "\n")
	w.say(frame.AgentToClient, fmt.Sprintf(`{"method":"session/update","params":{"sessionId":%q,"update":{"sessionUpdate":"tool_call","toolCallId":"t1","kind":"edit","status":"completed","title":"Edit a.txt","content":[{"type":"diff","path":"/w/a.txt","oldText":"one\n","newText":"two\n"}]}}}`, session))
	w.say(frame.AgentToClient, `{"id":2,"result":{"stopReason":"end_turn"}}`)
	return w
}

func watchEnv(t *testing.T) map[string]string {
	t.Helper()
	dir := testkit.ShortDir(t)
	state := t.TempDir()
	return map[string]string{"XDG_RUNTIME_DIR": dir, "TMPDIR": dir, "XDG_STATE_HOME": state, "XDG_CONFIG_HOME": state}
}

func TestSessionsWatch_PrintsPastSession(t *testing.T) {
	env := watchEnv(t)
	watched(t, env, "one", "alpha-1")
	status, stdout, stderr := (&commandtest.Call{Env: env}).Run(t, New, "sessions", "watch", "alpha", "--no-follow")
	if status != 0 || stderr != "" {
		t.Fatalf("status %d, %q", status, stderr)
	}
	for _, bad := range []string{"\x1b", "\u202e"} {
		if strings.Contains(stdout, bad) {
			t.Errorf("%q is in it", bad)
		}
	}
	testkit.Golden(t, "sessions_watch.txt", stdout)
}

func TestSessionsWatch_JSONMatchesRecordedEvents(t *testing.T) {
	env := watchEnv(t)
	watched(t, env, "one", "alpha-1")
	status, live, stderr := (&commandtest.Call{Env: env}).Run(t, New, "sessions", "watch", "alpha-1", "--json", "--no-follow")
	if status != 0 || stderr != "" {
		t.Fatalf("status %d, %q", status, stderr)
	}
	lines := strings.Split(strings.TrimSpace(live), "\n")
	var first struct{ Cursor, AgentID, SessionID string }
	if err := json.Unmarshal([]byte(lines[0]), &first); err != nil || first.Cursor == "" || len(lines) != 6 {
		t.Fatalf("%v: %d lines: %s", err, len(lines), live)
	}
	noSocket := map[string]string{"XDG_STATE_HOME": env["XDG_STATE_HOME"], "XDG_CONFIG_HOME": env["XDG_CONFIG_HOME"]}
	for _, cursor := range []string{"", first.Cursor} {
		for how, env := range map[string]map[string]string{"by a supervisor": env, "without one": noSocket} {
			status, got, stderr := (&commandtest.Call{Env: env}).Run(t, New, "sessions", "watch", "alpha", "--json", "--no-follow", "--cursor", cursor)
			want := live
			if cursor != "" {
				want = strings.Join(lines[1:], "\n") + "\n"
			}
			if status != 0 || stderr != "" || got != want {
				t.Errorf("%s: status %d, %q, got\n%s\nwant\n%s", how, status, stderr, got, want)
			}
		}
	}
}

func TestSessionsWatch_RejectsAmbiguousSession(t *testing.T) {
	env := watchEnv(t)
	watched(t, env, "one", "alpha-1")
	watched(t, env, "two", "alpha-2")
	for want, args := range map[string][]string{
		"alpha may be any of 2 sessions": {"alpha"},
		`no session "beta"`:              {"beta"},
		`"nonsense" is not a cursor`:     {"alpha-1", "--cursor", "nonsense"},
		"no supervisor runs as process":  {"alpha-1", "--pid", "1"},
	} {
		if status, _, stderr := (&commandtest.Call{Env: env}).Run(t, New, append([]string{"sessions", "watch"}, args...)...); status != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%q: status %d, %q; want %q", args, status, stderr, want)
		}
	}
}

// following is a call whose output is read while it runs.
type following struct {
	stdout *os.File
	cancel context.CancelFunc
	wg     sync.WaitGroup
	status int
}

func follow(t *testing.T, env map[string]string, args ...string) *following {
	t.Helper()
	f := &following{}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	f.stdout = read
	var ctx context.Context
	ctx, f.cancel = context.WithCancel(t.Context())
	call := &command.Call{
		Stdin: os.Stdin, Stdout: write, Stderr: os.Stderr, Env: func(name string) string { return env[name] },
		Terminal: func(*os.File) bool { return false }, Sockets: commandtest.Sockets,
	}
	f.wg.Go(func() {
		f.status = commandtest.Execute(ctx, call, New, args)
		_ = write.Close()
	})
	t.Cleanup(func() {
		f.cancel()
		_ = read.Close()
		f.wg.Wait()
	})
	return f
}

// until reads until a text was printed.
func (f *following) until(t *testing.T, text string) {
	t.Helper()
	if err := f.stdout.SetReadDeadline(time.Now().Add(testkit.Timeout())); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(got.String(), text) {
		n, err := f.stdout.Read(buf)
		got.Write(buf[:n])
		if err != nil {
			t.Fatalf("%v; %q is not in %q", err, text, got.String())
		}
	}
}

func TestSessionsWatch_PrintsEventsAtOnce(t *testing.T) {
	env := watchEnv(t)
	w := watched(t, env, "one", "alpha-1")
	for _, args := range [][]string{
		{"watch", "alpha"}, {"watch", "alpha", "--json"}, {"show", "alpha", "--follow"}, {"show", "alpha", "--follow", "--json"},
	} {
		if err := w.hub.WatchSession(t.Context(), &supervisorv1.WatchSessionRequest{SessionId: "alpha-1", NoFollow: true}, func(*supervisorv1.Event) error { return nil }); err != nil {
			t.Fatal(err) // the message is in the file now
		}
		f := follow(t, env, append([]string{"sessions"}, args...)...)
		f.until(t, "Edit a.txt")
		news := "news for " + strings.Join(args, " ")
		w.message(news + "\n")
		f.until(t, news)
		f.cancel()
		f.wg.Wait()
		if f.status != command.StatusInterrupted {
			t.Errorf("%q: status %d", args, f.status)
		}
	}
}
