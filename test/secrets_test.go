package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// journaled is all that the journal has, as text.
func (p *place) journaled(t testing.TB) string {
	t.Helper()
	var all strings.Builder
	files := 0
	err := filepath.WalkDir(p.home, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".ndjson" {
			return err
		}
		data, err := os.ReadFile(path)
		all.Write(data)
		files++
		return err
	})
	if err != nil || files == 0 {
		t.Fatalf("the journal has %d files (%v)", files, err)
	}
	return all.String()
}

func TestKeysAreGivenToAgentsAndNeitherRecordedNorTold(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, nil)
	changes, err := s.approvals.WatchApprovals(s.ctx, &supervisorv1.WatchApprovalsRequest{}) // somebody is there
	if err != nil {
		t.Fatal(err)
	}
	if _, err := changes.Recv(); err != nil {
		t.Fatal(err)
	}
	agent, actor := s.plays("keeper")
	type result struct {
		session *supervisorv1.Session
		err     error
	}
	opened := make(chan result, 1)
	go func() {
		resp, err := s.sessions.NewSession(s.ctx, &supervisorv1.NewSessionRequest{AgentId: agent.GetId(), Cwd: p.work, McpServers: []*supervisorv1.McpServer{
			{Name: "local", Transport: &supervisorv1.McpServer_Stdio{Stdio: &supervisorv1.McpStdio{
				Command: "/bin/mcp", Args: []string{"--plain"}, Env: map[string]string{"MODE": "hush-mode", "A_TOKEN": "hush-token"},
			}}},
		}})
		opened <- result{resp.GetSession(), err}
	}()
	asked := actor.Expect("session/new")
	for _, secret := range []string{"hush-mode", "hush-token"} {
		if !strings.Contains(string(asked.Params), secret) {
			t.Errorf("the agent did not get %s: %s", secret, asked.Params)
		}
	}
	actor.Reply(asked, map[string]any{"sessionId": "s"})
	if r := <-opened; r.err != nil {
		t.Fatal(explain(r.err))
	}
	turn := s.prompts(agent, "s")
	prompted := actor.Expect("session/prompt")

	var made struct{ TerminalID string }
	actor.Request("terminal/create", map[string]any{"sessionId": "s", "command": "sh", "args": []string{"-c", `test ${#A_TOKEN} = 12 && test "$PLAIN" = plain-value`},
		"env": []map[string]string{{"name": "A_TOKEN", "value": "hush-command"}, {"name": "PLAIN", "value": "plain-value"}}}, &made)
	var exit struct{ ExitCode *int }
	actor.Request("terminal/wait_for_exit", map[string]any{"sessionId": "s", "terminalId": made.TerminalID}, &exit)
	if exit.ExitCode == nil || *exit.ExitCode != 0 {
		t.Errorf("the command ended with %v: it did not get its variables", exit.ExitCode)
	}

	form := actor.Send("elicitation/create", map[string]any{"sessionId": "s", "mode": "form", "message": "Log in", "requestedSchema": json.RawMessage(
		`{"type":"object","properties":{"user":{"type":"string"},"word":{"type":"string","format":"password"}}}`)})
	q := turn.question()
	if _, err := s.approvals.AnswerApproval(s.ctx, &supervisorv1.AnswerApprovalRequest{
		Id: q.GetId(), Answer: &supervisorv1.AnswerApprovalRequest_Accept{Accept: `{"user":"plain-user","word":"hush-word"}`},
	}); err != nil {
		t.Fatal(explain(err))
	}
	var given struct{ Content map[string]string }
	if form.Result(&given); given.Content["word"] != "hush-word" {
		t.Errorf("the agent was answered %v", given)
	}
	actor.Reply(prompted, map[string]any{"stopReason": "end_turn"})
	turn.stopped("end_turn")

	replayed := s.watch(&supervisorv1.WatchSessionRequest{AgentId: agent.GetId(), SessionId: "s"})
	replayed.until("the turn's end", func(e *supervisorv1.Event) bool { return e.GetTurnEnded() != nil })
	again := replayed.seen[max(0, len(replayed.seen)-len(turn.seen)):]
	for i, e := range turn.seen {
		if strings.Contains(prototext.Format(e), "hush") {
			t.Errorf("told is %v", prototext.Format(e))
		}
		if i >= len(again) || !proto.Equal(again[i], e) {
			t.Errorf("event %d was told live as %v, and is not told again like that", i, e)
		}
	}
	s.finish()
	kept := p.journaled(t)
	if strings.Contains(kept, "hush") {
		t.Errorf("a secret is in the journal:\n%s", kept)
	}
	for _, want := range []string{
		`{"name":"MODE","value":"[redacted]"}`, `{"name":"A_TOKEN","value":"[redacted]"}`, `"args":["--plain"]`,
		`"value":"plain-value"`, `"user":"plain-user"`, `"word":"[redacted]"`,
	} {
		if !strings.Contains(kept, want) {
			t.Errorf("the journal has no %s:\n%s", want, kept)
		}
	}
}

func TestAKeyFileThatACallNamesIsKeptFromAllAgents(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string]func(p *place) []string{
		"without a policy": func(*place) []string { return nil },
		"with one that allows everything": func(p *place) []string {
			return p.policy(t, "version: 1\nrules: [{id: all, effect: allow, on: [fs.read, fs.write, terminal.create]}]\n", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			key := p.file(t, "keys/a.key", "hush\n")
			if err := os.Symlink(key, p.path("link")); err != nil {
				t.Fatal(err)
			}
			s := p.serve(t, flags(p))
			before := s.start(p.demo())
			session := s.open(before.GetId()).GetSessionId()
			reads := func(words string) string {
				turn := s.prompt(session, words)
				turn.stopped("end_turn")
				return turn.said()
			}
			if got := reads("/read " + key); !strings.Contains(got, "hush") {
				t.Fatalf("before it is named it is read with %q", got)
			}
			req := p.demo()
			req.Name, req.Separate = "keyed", true
			req.Env["SOME_KEY"] = &supervisorv1.EnvValue{Source: &supervisorv1.EnvValue_File{File: key}}
			keyed := s.start(req)
			expectRefused := func(when string) {
				t.Helper()
				for _, words := range []string{"/read " + key, "/read " + p.path("link"), "/run cat " + key, "/run cat keys/a.key", "/run cat link", "/write " + key + " other"} {
					if got := reads(words); strings.Contains(got, "hush") || strings.Contains(got, "done") || got == "" {
						t.Errorf("%s: %s is answered with %q", when, words, got)
					}
				}
				if data, err := os.ReadFile(key); err == nil && string(data) != "hush\n" {
					t.Errorf("%s: the key is %q", when, data)
				}
			}
			expectRefused("while its agent runs")
			if _, err := s.agents.StopAgent(s.ctx, &supervisorv1.StopAgentRequest{AgentId: keyed.GetId()}); err != nil {
				t.Fatal(explain(err))
			}
			expectRefused("when its agent is gone")
			if err := os.Rename(p.path("keys"), p.path("moved")); err != nil {
				t.Fatal(err)
			}
			if got := reads("/read " + p.path("moved/a.key")); strings.Contains(got, "hush") {
				t.Errorf("under another name of its folder it is read with %q", got)
			}
			if got := reads("/run echo it runs"); !strings.Contains(got, "it runs") {
				t.Errorf("another command is answered with %q", got)
			}
			s.finish()
		})
	}
}
