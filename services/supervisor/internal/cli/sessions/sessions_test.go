package sessions

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/commandtest"
	"github.com/acphost/acphost/services/supervisor/internal/events/journal"
)

// hostile is text that a terminal would obey, that turns what follows around, and that is HTML and Markdown.
const hostile = "\x1b[31mred\x1b]0;title\x07 \u202egnp.exe\u202c <script>alert(1)</script> ![x](http://tracker/x.png) ```\n# heading"

// Times are printed as the person's clock shows them. Set before anything runs beside the tests.
func init() { time.Local = time.UTC }

// journalOf is an environment with a journal of two sessions.
func journalOf(t *testing.T) map[string]string {
	t.Helper()
	state := t.TempDir()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { at = at.Add(time.Second); return at }
	j, err := journal.Open(journal.Options{Dir: filepath.Join(state, "acphost", "journal"), Agent: "gemini", Version: "v1", Content: true, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(hostile)
	send := func(d frame.Direction, handler, line string) {
		j.Frame(frame.Frame{Direction: d, Handler: handler, Line: []byte(line + "\n")})
	}
	update := func(s, u string) {
		send(frame.AgentToClient, "", fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%q,"update":%s}}`, s, u))
	}
	for i, s := range []string{"alpha-1", "beta-2"} {
		send(frame.ClientToAgent, "", fmt.Sprintf(`{"id":%d,"method":"session/new","params":{"cwd":"/work/%s","mcpServers":[]}}`, i, s))
		send(frame.AgentToClient, "", fmt.Sprintf(`{"id":%d,"result":{"sessionId":%q}}`, i, s))
	}
	s := "alpha-1"
	send(frame.ClientToAgent, "", `{"id":5,"method":"session/prompt","params":{"sessionId":"alpha-1","prompt":[{"type":"text","text":"Fix the typo"},{"type":"image","mimeType":"image/png","data":"AAAA"}]}}`)
	update(s, `{"sessionUpdate":"plan","entries":[{"content":"read","status":"completed"},{"content":"write","status":"pending"}]}`)
	update(s, `{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"Hmm."}}`)
	update(s, `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"I will "}}`)
	update(s, `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"fix it.\n"}}`)
	update(s, fmt.Sprintf(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":%s}}`, text))
	update(s, fmt.Sprintf(`{"sessionUpdate":"tool_call","toolCallId":"t1","kind":"edit","status":"pending","title":%s}`, text))
	send(frame.AgentToHandler, "gate", `{"id":1,"method":"session/request_permission","params":{"sessionId":"alpha-1","toolCall":{"toolCallId":"t1","title":"Edit a.txt"},"options":[{"optionId":"o1","kind":"allow_once","name":"Yes"}]}}`)
	send(frame.AgentToClient, "", `{"id":1,"method":"session/request_permission","params":{"sessionId":"alpha-1","toolCall":{"toolCallId":"t1","title":"Edit a.txt"},"options":[{"optionId":"o1","kind":"allow_once","name":"Yes"}]}}`)
	send(frame.ClientToAgent, "", `{"id":1,"result":{"outcome":{"outcome":"selected","optionId":"o1"}}}`)
	send(frame.AgentToHandler, "fs", `{"id":2,"method":"fs/write_text_file","params":{"sessionId":"alpha-1","path":"/work/a.txt","content":"x"}}`)
	send(frame.HandlerToAgent, "fs", `{"id":2,"result":{}}`)
	update(s, `{"sessionUpdate":"tool_call_update","toolCallId":"t1","title":"Edit a.txt","status":"completed","content":[{"type":"diff","path":"/work/a.txt","oldText":"one\ntow\nthree\n","newText":"one\ntwo\nthree\n"}]}`)
	send(frame.AgentToHandler, "terminal", `{"id":3,"method":"terminal/create","params":{"sessionId":"alpha-1","command":"go","args":["test","./..."]}}`)
	send(frame.HandlerToAgent, "terminal", `{"id":3,"result":{"terminalId":"T1"}}`)
	send(frame.AgentToHandler, "terminal", `{"id":4,"method":"terminal/output","params":{"sessionId":"alpha-1","terminalId":"T1"}}`)
	output, _ := json.Marshal(strings.Repeat("line\n", 20) + "\x1b[32mok\x1b[0m\n")
	send(frame.HandlerToAgent, "terminal", fmt.Sprintf(`{"id":4,"result":{"output":%s,"truncated":false,"exitStatus":{"exitCode":0}}}`, output))
	send(frame.AgentToClient, "", `{"id":5,"result":{"stopReason":"end_turn"}}`)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"XDG_STATE_HOME": state, "XDG_CONFIG_HOME": state}
}

func TestSessions_ShowAndExportMatchGoldenFiles(t *testing.T) {
	env := journalOf(t)
	for name, args := range map[string][]string{
		"sessions_show.txt":      {"sessions", "show", "alpha"},
		"sessions_export.md":     {"sessions", "export", "alpha-1"},
		"sessions_export.html":   {"sessions", "export", "alpha-1", "--format", "html"},
		"sessions_export.ndjson": {"sessions", "export", "alpha-1", "--format", "ndjson"},
	} {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := (&commandtest.Call{Env: env}).Run(t, New, args...)
			if status != 0 || stderr != "" {
				t.Fatalf("status %d, %q", status, stderr)
			}
			if name != "sessions_export.ndjson" {
				never := map[string]string{"sessions_show.txt": "\x1b", "sessions_export.md": "![x](http", "sessions_export.html": "<script"}[name]
				for _, bad := range []string{"\x1b", "\u202e", never} {
					if strings.Contains(stdout, bad) {
						t.Errorf("%q is in it", bad)
					}
				}
				testkit.Golden(t, name, stdout)
				return
			}
			for i, line := range strings.Split(strings.TrimSpace(stdout), "\n") {
				var e struct{ T time.Time }
				if err := json.Unmarshal([]byte(line), &e); err != nil || e.T.IsZero() {
					t.Errorf("line %d: %v: %s", i, err, line)
				}
			}
			if !strings.Contains(stdout, `"frame":{"id":5,"method":"session/prompt","params":{"sessionId":"alpha-1"`) {
				t.Errorf("the frame is not as it passed:\n%s", stdout)
			}
		})
	}
}

// inJournal puts a session's file into a journal.
func inJournal(t *testing.T, name, file string) map[string]string {
	t.Helper()
	state := t.TempDir()
	day := filepath.Join(state, "acphost", "journal", "2026-03-01")
	if err := os.MkdirAll(day, 0o700); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(day, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"XDG_STATE_HOME": state, "XDG_CONFIG_HOME": state}
}

// The output of show must contain the live output of watch; it may contain more.
func TestSessionsShow_HasAllThatWatchPrints(t *testing.T) {
	env := inJournal(t, "s-demo-1-0123456789ab.ndjson", filepath.Join("..", "..", "tui", "transcript", "testdata", "tour.ndjson"))
	_, watched, _ := (&commandtest.Call{Env: env}).Run(t, New, "sessions", "watch", "demo-1", "--no-follow")
	status, shown, stderr := (&commandtest.Call{Env: env}).Run(t, New, "sessions", "show", "demo-1")
	if status != 0 || !strings.Contains(stderr, "at byte") { // a line of it is damaged
		t.Fatalf("status %d, %q", status, stderr)
	}
	lines, rest := 0, shown
	for line := range strings.Lines(watched) {
		switch {
		case line == "    /work/app/tour.txt\n": // the title names it, once it is relative to the folder
			continue
		case line == "    │ exit code 3\n": // the recording has the terminal's output, and this at its end: before that line of the tool call
			if !strings.Contains(shown, line) {
				t.Errorf("%q is not there", line)
			}
			continue
		case strings.HasPrefix(line, "[at least 3 messages are missing here: "): // show names it
			line = "[at least 3 messages are missing here: 4711 bytes, from 12:00:20 to 12:00:21 UTC: more passed than can be kept]\n"
		case strings.HasPrefix(line, "✗ terminal/create: "): // and what was to be run
			line = "✗ $ rm -rf /: terminal/create: denied by the policy (-32000)\n"
		}
		line = strings.ReplaceAll(line, "/work/app/", "")
		before, after, ok := strings.Cut(strings.ReplaceAll(rest, "/work/app/", ""), line)
		if !ok {
			t.Fatalf("%q is not there, or not behind\n%s", line, before)
		}
		lines, rest = lines+1, after
	}
	if lines < 60 {
		t.Errorf("watch printed only %d lines:\n%s", lines, watched)
	}
}

func TestSessionsShow_Follow(t *testing.T) {
	env := inJournal(t, "s-demo-1-0123456789ab.ndjson", filepath.Join("..", "..", "tui", "transcript", "testdata", "loaded.ndjson"))
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	call := &command.Call{Stdout: in, Stderr: in, Env: func(name string) string { return env[name] }, Terminal: func(*os.File) bool { return false }}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan int, 1)
	go func() {
		defer in.Close()
		done <- commandtest.Execute(ctx, call, New, []string{"sessions", "show", "demo-1", "--follow"})
	}()
	lines := bufio.NewScanner(out)
	await := func(want string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), want) {
				return
			}
		}
		t.Fatalf("%q was not printed: %v", want, lines.Err())
	}
	await("> go on")
	file := filepath.Join(env["XDG_STATE_HOME"], "acphost", "journal", "2026-03-01", "s-demo-1-0123456789ab.ndjson")
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// The file ends within a line, which is written to its end now.
	if _, err := f.WriteString(`00000000Z","n":8,"dir":"agent-to-front","answers":"session/prompt","frame":{"id":2,"result":{"stopReason":"end_turn"}}}` + "\n"); err != nil {
		t.Fatal(err)
	}
	await("turn 1 ended after 3.0 s: end_turn")
	cancel()
	for lines.Scan() {
		t.Errorf("%q was printed", lines.Text())
	}
	if status := <-done; status != command.StatusInterrupted {
		t.Errorf("status %d, want %d", status, command.StatusInterrupted)
	}
}

func TestSessionsList_ListsAndSearches(t *testing.T) {
	env := journalOf(t)
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"alpha-1", "beta-2"}},
		{[]string{"--search", "FIX THE"}, []string{"alpha-1"}},
		{[]string{"--search", "i will fix"}, []string{"alpha-1"}},
		{[]string{"--agent", "nobody"}, nil},
		{[]string{"--cwd", "/work/beta-2"}, []string{"beta-2"}},
	} {
		status, stdout, stderr := (&commandtest.Call{Env: env}).Run(t, New, append([]string{"sessions", "list", "--json"}, tt.args...)...)
		if status != 0 || stderr != "" {
			t.Fatalf("%v: status %d, %q", tt.args, status, stderr)
		}
		var got []string
		for line := range strings.Lines(stdout) {
			var s struct {
				Session, Agent, Title string
				Turns                 int
				Bytes                 int
			}
			if err := json.Unmarshal([]byte(line), &s); err != nil || s.Agent != "gemini" || s.Bytes == 0 {
				t.Fatalf("%s: %v", line, err)
			}
			got = append(got, s.Session)
		}
		if strings.Join(got, " ") != strings.Join(tt.want, " ") {
			t.Errorf("%v: got %q", tt.args, got)
		}
	}
	_, stdout, _ := (&commandtest.Call{Env: env}).Run(t, New, "sessions", "list")
	if lines := strings.Split(strings.TrimSpace(stdout), "\n"); len(lines) != 3 || !strings.Contains(lines[1], "Fix the typo") {
		t.Errorf("got\n%s", stdout)
	}
}

func TestSessions_RejectUnknownSession(t *testing.T) {
	env := journalOf(t)
	for _, tt := range []struct {
		args   []string
		status int
		stderr string
	}{
		{[]string{"sessions", "show", "gamma"}, 1, `no session "gamma"`},
		{[]string{"sessions", "show"}, 2, "takes a session's id"},
		{[]string{"sessions", "export", "alpha-1", "--format", "pdf"}, 2, "ndjson, markdown or html"},
		{[]string{"sessions", "list", "extra"}, 2, "takes no argument"},
	} {
		status, _, stderr := (&commandtest.Call{Env: env}).Run(t, New, tt.args...)
		if status != tt.status || !strings.Contains(stderr, tt.stderr) {
			t.Errorf("%v: status %d, %q", tt.args, status, stderr)
		}
	}
	status, _, stderr := (&commandtest.Call{Env: map[string]string{"XDG_STATE_HOME": t.TempDir()}}).Run(t, New, "sessions", "list")
	if status != 0 || !strings.Contains(stderr, "no session is in the journal") {
		t.Errorf("status %d, %q", status, stderr)
	}
	status, _, stderr = (&commandtest.Call{Env: env}).Run(t, New, "sessions", "list", "--search", "what nobody said")
	if status != 0 || stderr != "no session in the journal is like that\n" {
		t.Errorf("status %d, %q", status, stderr)
	}
}

func TestSessions_OmitEmptyRecord(t *testing.T) {
	env := inJournal(t, "s-x-0123456789ab.ndjson", os.DevNull)
	for _, args := range [][]string{nil, {"--json"}} {
		status, stdout, stderr := (&commandtest.Call{Env: env}).Run(t, New, append([]string{"sessions", "list"}, args...)...)
		if status != 0 || strings.Contains(stdout, "0123456789ab") || !strings.Contains(stderr, "1 record") {
			t.Errorf("%v: status %d, %q, %q", args, status, stdout, stderr)
		}
	}
	for _, args := range [][]string{{"show"}, {"export"}, {"watch", "--no-follow"}} {
		status, _, stderr := (&commandtest.Call{Env: env}).Run(t, New, append([]string{"sessions", args[0], "0123456789ab"}, args[1:]...)...)
		if status != 1 || !strings.Contains(stderr, "nothing is recorded in it") {
			t.Errorf("%s: status %d, %q", args[0], status, stderr)
		}
	}
}

func TestSessionsExport_FileIsPrivate(t *testing.T) {
	env := journalOf(t)
	file := filepath.Join(t.TempDir(), "out.html")
	if status, _, stderr := (&commandtest.Call{Env: env}).Run(t, New, "sessions", "export", "alpha-1", "--format", "html", "--out", file); status != 0 {
		t.Fatal(stderr)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() == 0 {
		t.Errorf("%v, %v", info, err)
	}
}
