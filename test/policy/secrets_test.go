package policy_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
)

func TestSecrets_AgentKeysAreNotRecorded(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	changes, err := s.Approvals.WatchApprovals(s.Ctx, &supervisorv1.WatchApprovalsRequest{}) // somebody is there
	if err != nil {
		t.Fatal(err)
	}
	if _, err := changes.Recv(); err != nil {
		t.Fatal(err)
	}
	agent, actor := s.Plays("keeper")
	type result struct {
		session *supervisorv1.Session
		err     error
	}
	opened := make(chan result, 1)
	go func() {
		resp, err := s.Sessions.NewSession(s.Ctx, &supervisorv1.NewSessionRequest{AgentId: agent.GetId(), Cwd: p.Work, McpServers: []*supervisorv1.McpServer{
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
		t.Fatal(e2e.Explain(r.err))
	}
	turn := s.Prompts(agent, "s")
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
	q := turn.Question()
	if _, err := s.Approvals.AnswerApproval(s.Ctx, &supervisorv1.AnswerApprovalRequest{
		Id: q.GetId(), Answer: &supervisorv1.AnswerApprovalRequest_Accept{Accept: `{"user":"plain-user","word":"hush-word"}`},
	}); err != nil {
		t.Fatal(e2e.Explain(err))
	}
	var given struct{ Content map[string]string }
	if form.Result(&given); given.Content["word"] != "hush-word" {
		t.Errorf("the agent was answered %v", given)
	}
	actor.Reply(prompted, map[string]any{"stopReason": "end_turn"})
	turn.Stopped("end_turn")

	replayed := s.Watch(&supervisorv1.WatchSessionRequest{AgentId: agent.GetId(), SessionId: "s"})
	replayed.Until("the turn's end", func(e *supervisorv1.Event) bool { return e.GetTurnEnded() != nil })
	again := replayed.Seen[max(0, len(replayed.Seen)-len(turn.Seen)):]
	for i, e := range turn.Seen {
		if strings.Contains(prototext.Format(e), "hush") {
			t.Errorf("got %v", prototext.Format(e))
		}
		if i >= len(again) || !proto.Equal(again[i], e) {
			t.Errorf("event %d was sent live as %v, and is replayed differently", i, e)
		}
	}
	s.Finish()
	kept := p.Journaled(t)
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

func TestSecrets_RequestedKeyFileIsProtected(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string]func(p *e2e.Place) []string{
		"without a policy": func(*e2e.Place) []string { return nil },
		"with one that allows everything": func(p *e2e.Place) []string {
			return p.Policy(t, "version: 1\nrules: [{id: all, effect: allow, on: [fs.read, fs.write, terminal.create]}]\n", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			key := p.File(t, "keys/a.key", "hush\n")
			if err := os.Symlink(key, p.Path("link")); err != nil {
				t.Fatal(err)
			}
			s := p.Serve(t, flags(p))
			before := s.Start(p.Demo())
			session := s.Open(before.GetId()).GetSessionId()
			reads := func(words string) string {
				turn := s.Prompt(session, words)
				turn.Stopped("end_turn")
				return turn.Said()
			}
			if got := reads("/read " + key); !strings.Contains(got, "hush") {
				t.Fatalf("before it is named it is read with %q", got)
			}
			req := p.Demo()
			req.Name, req.Separate = "keyed", true
			req.Env["SOME_KEY"] = &supervisorv1.EnvValue{Source: &supervisorv1.EnvValue_File{File: key}}
			keyed := s.Start(req)
			expectRefused := func(when string) {
				t.Helper()
				for _, words := range []string{"/read " + key, "/read " + p.Path("link"), "/run cat " + key, "/run cat keys/a.key", "/run cat link", "/write " + key + " other"} {
					if got := reads(words); strings.Contains(got, "hush") || strings.Contains(got, "done") || got == "" {
						t.Errorf("%s: %s is answered with %q", when, words, got)
					}
				}
				if data, err := os.ReadFile(key); err == nil && string(data) != "hush\n" {
					t.Errorf("%s: the key is %q", when, data)
				}
			}
			expectRefused("while its agent runs")
			if _, err := s.Agents.StopAgent(s.Ctx, &supervisorv1.StopAgentRequest{AgentId: keyed.GetId()}); err != nil {
				t.Fatal(e2e.Explain(err))
			}
			expectRefused("when its agent is gone")
			if err := os.Rename(p.Path("keys"), p.Path("moved")); err != nil {
				t.Fatal(err)
			}
			if got := reads("/read " + p.Path("moved/a.key")); strings.Contains(got, "hush") {
				t.Errorf("under another name of its folder it is read with %q", got)
			}
			if got := reads("/run echo it runs"); !strings.Contains(got, "it runs") {
				t.Errorf("another command is answered with %q", got)
			}
			s.Finish()
		})
	}
}
