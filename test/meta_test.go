package e2e_test

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/prototext"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// metas asks the demo agent which _meta came when the session was opened, and which with the prompt: with this one.
func (s *server) metas(session, meta string) (opened, prompted string) {
	s.t.Helper()
	turn := s.promptWith(s.ctx, &supervisorv1.PromptRequest{SessionId: session, Prompt: []*supervisorv1.ContentBlock{text("meta")}, Meta: meta})
	turn.stopped("end_turn")
	var told struct{ Opened, Prompted json.RawMessage }
	if err := json.Unmarshal([]byte(turn.said()), &told); err != nil {
		s.t.Fatalf("the agent said %q: %v", turn.said(), err)
	}
	return string(told.Opened), string(told.Prompted)
}

func TestAnAgentGetsTheMetaThatItsSessionIsOpenedWith(t *testing.T) {
	t.Parallel()
	const (
		options = `{"claudeCode":{"options":{"settingSources":["user"],"number":1.50}}}`
		trace   = `{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`
	)
	p := newPlace(t)
	s := p.serve(t, nil)
	agent := s.start(p.demo())
	id := agent.GetId()
	expect := func(what, session, opened, prompted string) {
		t.Helper()
		if o, p := s.metas(session, prompted); o != opened || prompted != "" && p != prompted || prompted == "" && p != "null" {
			t.Errorf("%s: the session was opened with %s and prompted with %s, want %s and %s", what, o, p, opened, prompted)
		}
	}
	plain := s.open(id).GetSessionId()
	expect("without one", plain, "null", "")

	n, err := s.sessions.NewSession(s.ctx, &supervisorv1.NewSessionRequest{AgentId: id, Cwd: p.work, Meta: options})
	if err != nil {
		t.Fatal(explain(err))
	}
	session := n.GetSession().GetSessionId()
	expect("a new one", session, options, trace)
	expect("the next turn", session, options, "")
	f, err := s.sessions.ForkSession(s.ctx, &supervisorv1.ForkSessionRequest{SessionId: session, Meta: `{"of":"the fork"}`})
	if err != nil {
		t.Fatal(explain(err))
	}
	expect("a fork", f.GetSession().GetSessionId(), `{"of":"the fork"}`, "")
	if f, err = s.sessions.ForkSession(s.ctx, &supervisorv1.ForkSessionRequest{SessionId: session}); err != nil {
		t.Fatal(explain(err))
	}
	expect("a fork without one", f.GetSession().GetSessionId(), "null", "")

	for _, x := range []string{session, plain} {
		if _, err := s.sessions.CloseSession(s.ctx, &supervisorv1.CloseSessionRequest{SessionId: x}); err != nil {
			t.Fatal(explain(err))
		}
	}
	if _, err := s.sessions.LoadSession(s.ctx, &supervisorv1.LoadSessionRequest{AgentId: id, SessionId: session, Cwd: p.work, Meta: `{"of":"the load"}`}); err != nil {
		t.Fatal(explain(err))
	}
	expect("loaded", session, `{"of":"the load"}`, "")
	if _, err := s.sessions.ResumeSession(s.ctx, &supervisorv1.ResumeSessionRequest{AgentId: id, SessionId: plain, Cwd: p.work, Meta: `{"of":"the resume"}`}); err != nil {
		t.Fatal(explain(err))
	}
	expect("resumed", plain, `{"of":"the resume"}`, trace)

	// The next process is told the same of each.
	if err := syscall.Kill(int(agent.GetPid()), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.running(id, 1)
	expect("after a crash", session, `{"of":"the load"}`, "")
	expect("after a crash", plain, `{"of":"the resume"}`, "")

	_, err = s.sessions.NewSession(s.ctx, &supervisorv1.NewSessionRequest{AgentId: id, Cwd: p.work, Meta: `{"a":1,"\u0061":2}`})
	expectError(t, err, codes.InvalidArgument, supervisorv1.ErrorKind_ERROR_KIND_UNSPECIFIED, "meta", "duplicate")
	s.finish()
}

func TestKeysInAMetaReachTheAgentAndNobodyElse(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, nil)
	agent, actor := s.plays("keeper")
	const meta = `{"x.y/o":{"apiKey":"hush-key","env":{"A":"hush-variable"},"model":"m"}}`
	opened := make(chan error, 1)
	go func() {
		_, err := s.sessions.NewSession(s.ctx, &supervisorv1.NewSessionRequest{AgentId: agent.GetId(), Cwd: p.work, Meta: meta})
		opened <- err
	}()
	asked := actor.Expect("session/new")
	if !strings.Contains(string(asked.Params), `"_meta":`+meta) {
		t.Errorf("the agent got %s", asked.Params)
	}
	actor.Reply(asked, map[string]any{"sessionId": "s"})
	if err := <-opened; err != nil {
		t.Fatal(explain(err))
	}
	turn := s.promptWith(s.ctx, &supervisorv1.PromptRequest{SessionId: "s", Prompt: []*supervisorv1.ContentBlock{text("Go.")}, Meta: meta})
	prompted := actor.Expect("session/prompt")
	if !strings.Contains(string(prompted.Params), `"_meta":`+meta) {
		t.Errorf("the agent got %s", prompted.Params)
	}
	actor.Reply(prompted, map[string]any{"stopReason": "end_turn"})
	turn.stopped("end_turn")
	all := s.watch(&supervisorv1.WatchSessionRequest{SessionId: "s"})
	all.until("the turn's end", func(e *supervisorv1.Event) bool { return e.GetTurnEnded() != nil })
	for _, e := range append(turn.seen, all.seen...) {
		if strings.Contains(prototext.Format(e), "hush") {
			t.Errorf("told is %v", prototext.Format(e))
		}
	}
	s.finish()
	kept := p.journaled(t)
	if strings.Contains(kept, "hush") || strings.Count(kept, `{"x.y/o":{"apiKey":"[redacted]","env":{"A":"[redacted]"},"model":"m"}}`) != 2 {
		t.Errorf("the journal has\n%s", kept)
	}
}

func TestAPromptOpensItsSessionWithTheMetaThatItIsGiven(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.file(t, "options.json", "{\n  \"x.y/o\": {\"list\": [\"user\"]}\n}\n")
	for _, flag := range []string{"@options.json", `{"x.y/o":{"list":["user"]}}`} {
		status, out, errs := p.cli(t, demoCommand("meta", "--meta", flag)...)
		if want := `{"opened":{"x.y/o":{"list":["user"]}},"prompted":null}`; status != 0 || !strings.Contains(strings.ReplaceAll(out, "\n", ""), want) {
			t.Errorf("--meta %s: %d, %q, %q; want %s", flag, status, out, errs, want)
		}
	}
	if status, _, errs := p.cli(t, demoCommand("meta", "--meta", "{}}")...); status != 2 || !strings.Contains(errs, "--meta") {
		t.Errorf("what is no JSON: %d, %q", status, errs)
	}
}
