package headless_test

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/prototext"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
)

func TestMeta_ReachesAgentOnOpen(t *testing.T) {
	t.Parallel()
	const (
		options = `{"claudeCode":{"options":{"settingSources":["user"],"number":1.50}}}`
		trace   = `{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`
	)
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	agent := s.Start(p.Demo())
	id := agent.GetId()
	expect := func(what, session, opened, prompted string) {
		t.Helper()
		if o, p := metas(s, session, prompted); o != opened || prompted != "" && p != prompted || prompted == "" && p != "null" {
			t.Errorf("%s: the session was opened with %s and prompted with %s, want %s and %s", what, o, p, opened, prompted)
		}
	}
	plain := s.Open(id).GetSessionId()
	expect("without one", plain, "null", "")

	n, err := s.Sessions.NewSession(s.Ctx, &supervisorv1.NewSessionRequest{AgentId: id, Cwd: p.Work, Meta: options})
	if err != nil {
		t.Fatal(e2e.Explain(err))
	}
	session := n.GetSession().GetSessionId()
	expect("a new one", session, options, trace)
	expect("the next turn", session, options, "")
	f, err := s.Sessions.ForkSession(s.Ctx, &supervisorv1.ForkSessionRequest{SessionId: session, Meta: `{"of":"the fork"}`})
	if err != nil {
		t.Fatal(e2e.Explain(err))
	}
	expect("a fork", f.GetSession().GetSessionId(), `{"of":"the fork"}`, "")
	if f, err = s.Sessions.ForkSession(s.Ctx, &supervisorv1.ForkSessionRequest{SessionId: session}); err != nil {
		t.Fatal(e2e.Explain(err))
	}
	expect("a fork without one", f.GetSession().GetSessionId(), "null", "")

	for _, x := range []string{session, plain} {
		if _, err := s.Sessions.CloseSession(s.Ctx, &supervisorv1.CloseSessionRequest{SessionId: x}); err != nil {
			t.Fatal(e2e.Explain(err))
		}
	}
	if _, err := s.Sessions.LoadSession(s.Ctx, &supervisorv1.LoadSessionRequest{AgentId: id, SessionId: session, Cwd: p.Work, Meta: `{"of":"the load"}`}); err != nil {
		t.Fatal(e2e.Explain(err))
	}
	expect("loaded", session, `{"of":"the load"}`, "")
	if _, err := s.Sessions.ResumeSession(s.Ctx, &supervisorv1.ResumeSessionRequest{AgentId: id, SessionId: plain, Cwd: p.Work, Meta: `{"of":"the resume"}`}); err != nil {
		t.Fatal(e2e.Explain(err))
	}
	expect("resumed", plain, `{"of":"the resume"}`, trace)

	// The next process receives the same for each session.
	if err := syscall.Kill(int(agent.GetPid()), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.Running(id, 1)
	expect("after a crash", session, `{"of":"the load"}`, "")
	expect("after a crash", plain, `{"of":"the resume"}`, "")

	_, err = s.Sessions.NewSession(s.Ctx, &supervisorv1.NewSessionRequest{AgentId: id, Cwd: p.Work, Meta: `{"a":1,"\u0061":2}`})
	e2e.ExpectError(t, err, codes.InvalidArgument, supervisorv1.ErrorKind_ERROR_KIND_UNSPECIFIED, "meta", "duplicate")
	s.Finish()
}

func TestMeta_KeysReachOnlyAgent(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	agent, actor := s.Plays("keeper")
	const meta = `{"x.y/o":{"apiKey":"hush-key","env":{"A":"hush-variable"},"model":"m"}}`
	opened := make(chan error, 1)
	go func() {
		_, err := s.Sessions.NewSession(s.Ctx, &supervisorv1.NewSessionRequest{AgentId: agent.GetId(), Cwd: p.Work, Meta: meta})
		opened <- err
	}()
	asked := actor.Expect("session/new")
	if !strings.Contains(string(asked.Params), `"_meta":`+meta) {
		t.Errorf("the agent got %s", asked.Params)
	}
	actor.Reply(asked, map[string]any{"sessionId": "s"})
	if err := <-opened; err != nil {
		t.Fatal(e2e.Explain(err))
	}
	turn := s.PromptWith(s.Ctx, &supervisorv1.PromptRequest{SessionId: "s", Prompt: []*supervisorv1.ContentBlock{e2e.Text("Go.")}, Meta: meta})
	prompted := actor.Expect("session/prompt")
	if !strings.Contains(string(prompted.Params), `"_meta":`+meta) {
		t.Errorf("the agent got %s", prompted.Params)
	}
	actor.Reply(prompted, map[string]any{"stopReason": "end_turn"})
	turn.Stopped("end_turn")
	all := s.Watch(&supervisorv1.WatchSessionRequest{SessionId: "s"})
	all.Until("the turn's end", func(e *supervisorv1.Event) bool { return e.GetTurnEnded() != nil })
	for _, e := range append(turn.Seen, all.Seen...) {
		if strings.Contains(prototext.Format(e), "hush") {
			t.Errorf("got %v", prototext.Format(e))
		}
	}
	s.Finish()
	kept := p.Journaled(t)
	if strings.Contains(kept, "hush") || strings.Count(kept, `{"x.y/o":{"apiKey":"[redacted]","env":{"A":"[redacted]"},"model":"m"}}`) != 2 {
		t.Errorf("the journal has\n%s", kept)
	}
}

func TestPrompt_OpensSessionWithMeta(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "options.json", "{\n  \"x.y/o\": {\"list\": [\"user\"]}\n}\n")
	for _, flag := range []string{"@options.json", `{"x.y/o":{"list":["user"]}}`} {
		status, out, errs := p.Cli(t, e2e.DemoCommand("meta", "--meta", flag)...)
		if want := `{"opened":{"x.y/o":{"list":["user"]}},"prompted":null}`; status != 0 || !strings.Contains(strings.ReplaceAll(out, "\n", ""), want) {
			t.Errorf("--meta %s: %d, %q, %q; want %s", flag, status, out, errs, want)
		}
	}
	if status, _, errs := p.Cli(t, e2e.DemoCommand("meta", "--meta", "{}}")...); status != 2 || !strings.Contains(errs, "--meta") {
		t.Errorf("invalid JSON: %d, %q", status, errs)
	}
}

// metas asks the demo agent for the _meta of the session's opening, and for that of the prompt: this one.
func metas(s *e2e.Server, session, meta string) (opened, prompted string) {
	s.T.Helper()
	turn := s.PromptWith(s.Ctx, &supervisorv1.PromptRequest{SessionId: session, Prompt: []*supervisorv1.ContentBlock{e2e.Text("meta")}, Meta: meta})
	turn.Stopped("end_turn")
	var received struct{ Opened, Prompted json.RawMessage }
	if err := json.Unmarshal([]byte(turn.Said()), &received); err != nil {
		s.T.Fatalf("the agent sent %q: %v", turn.Said(), err)
	}
	return string(received.Opened), string(received.Prompted)
}
