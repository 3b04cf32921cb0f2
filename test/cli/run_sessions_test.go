package cli_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

func TestRun_AnswersQuestionThatEditorCannotShow(t *testing.T) {
	t.Parallel()
	t.Run("the editor has no dialog", func(t *testing.T) {
		t.Parallel()
		s := e2e.NewPlace(t).Fixture(t, nil)
		call, asked := s.Turn("s1")
		question := s.Ask(e2e.Edit(s.Path("a")), e2e.Options)
		s.Refuse(s.Expect("session/request_permission"), &wire.Error{Code: -32601, Message: "no such dialog"})
		if e := question.Refused(-32601); e.Message != "no such dialog" {
			t.Errorf("the agent received %q", e.Message)
		}
		endTurn(s, call, asked)
		s.Finish()
	})
	t.Run("the editor leaves", func(t *testing.T) {
		t.Parallel()
		s := e2e.NewPlace(t).Fixture(t, nil)
		s.Turn("s1")
		s.Ask(e2e.Edit(s.Path("a")), e2e.Options)
		s.Expect("session/request_permission")
		s.Finish() // without a wait for the answer
	})
	t.Run("there is no terminal", func(t *testing.T) {
		t.Parallel()
		status, out, errs := e2e.NewPlace(t).Cli(t, e2e.DemoCommand("ask")...)
		if status != 0 || strings.Contains(out, "ask ok: allow") {
			t.Errorf("the status is %d, and the agent sent %q", status, out)
		}
		e2e.ExpectContains(t, "standard error", out+errs, "no user")
	})
}

func TestUpdateOutsideTurn_ReachesAllObservers(t *testing.T) {
	t.Parallel()
	s := e2e.NewPlace(t).Fixture(t, nil)
	watching := watches(s, "s1")
	expect := func(words string) {
		t.Helper()
		s.Agent.Update("s1", e2e.Chunk(words))
		e2e.ExpectContains(t, "the update", string(s.Expect("session/update").Raw), words)
		watching.Says(words)
	}
	expect("before any turn")
	for n := range 3 {
		call, asked := s.Turn("s1")
		expect(fmt.Sprint("within turn ", n))
		endTurn(s, call, asked)
		watching.Until("the end of a turn", func(e *supervisorv1.Event) bool { return e.GetTurnEnded().GetStopReason() == "end_turn" })
		expect(fmt.Sprint("behind turn ", n))
	}
	if got := e2e.Kinds(watching.Seen); got["turn_started"] != 3 || got["turn_ended"] != 3 || got["agent_message"] != 7 {
		t.Errorf("the watcher received %v, want 3 turns and 7 messages", got)
	}
	s.ExpectQuiet()
	s.Finish()
}

func TestQuestion_DoesNotBlockOtherSessions(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "a.txt", "one\n")
	s := p.Fixture(t, p.Policy(t, e2e.Rules+`  - {id: reading, effect: allow, on: [fs.read], path: ["${root}/**"]}`+"\n", ""))
	s.Open("s2")
	first, waiting := s.Turn("s1")
	question := s.Ask(e2e.Command("git push"), e2e.Options)
	shown := s.Expect("session/request_permission")

	second, asked := s.Turn("s2")
	if got := e2e.Content(s.Reads("s2", p.Path("a.txt"))); got != "one\n" {
		t.Errorf("beside a question the agent read %q", got)
	}
	s.Agent.Update("s2", e2e.Chunk("beside it"))
	s.Expect("session/update")
	other := s.Agent.Send("session/request_permission", map[string]any{"sessionId": "s2", "toolCall": e2e.Command("git push"), "options": e2e.Options})
	beside := s.Expect("session/request_permission")
	s.Reply(beside, map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "no"}})
	if got := e2e.Chosen(t, other); got != "no" {
		t.Errorf("the second question was answered with %q", got)
	}
	endTurn(s, second, asked)

	s.Reply(shown, map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}})
	if got := e2e.Chosen(t, question); got != "yes" {
		t.Errorf("the question was answered with %q", got)
	}
	endTurn(s, first, waiting)
	s.Finish()
}

func TestSessionLoad_FailureOpensNoSession(t *testing.T) {
	t.Parallel()
	t.Run("with an editor", func(t *testing.T) {
		t.Parallel()
		p := e2e.NewPlace(t)
		s := p.Fixture(t, nil)
		call := s.Send("session/load", map[string]any{"sessionId": "old", "cwd": p.Work, "mcpServers": []any{}})
		s.Agent.Refuse(s.Agent.Expect("session/load"), &wire.Error{Code: -32002, Message: "no such session", Data: json.RawMessage(`{"uri":"old"}`)})
		if e := call.Refused(-32002); e.Message != "no such session" || string(e.Data) != `{"uri":"old"}` {
			t.Errorf("the editor received %v %s", e, e.Data)
		}
		s.Reads("old", p.File(t, "a.txt", "a\n")).Refused(-32602)
		s.ExpectQuiet()
		s.Finish()
	})
	t.Run("without", func(t *testing.T) {
		t.Parallel()
		p := e2e.NewPlace(t)
		s := p.Serve(t, nil)
		agent := s.Start(p.Demo())
		_, err := s.Sessions.LoadSession(s.Ctx, &supervisorv1.LoadSessionRequest{AgentId: agent.GetId(), SessionId: "gone", Cwd: p.Work})
		e2e.ExpectError(t, err, codes.NotFound, supervisorv1.ErrorKind_ERROR_KIND_SESSION_NOT_FOUND, "gone")
		list, err := s.State.ListSessions(s.Ctx, &supervisorv1.ListSessionsRequest{})
		if err != nil || len(list.GetSessions()) != 0 {
			t.Errorf("the sessions are %v (%v), want none", list, err)
		}
		s.Finish()
	})
}

func TestSessionLoad_ReplaysHistoryOnce(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, nil)
	call, asked := s.Turn("s1")
	s.Agent.Update("s1", e2e.Chunk("a word of old"))
	s.Expect("session/update")
	endTurn(s, call, asked)
	watching := watches(s, "s1")

	loading := s.Send("session/load", map[string]any{"sessionId": "s1", "cwd": p.Work, "mcpServers": []any{}})
	load := s.Agent.Expect("session/load")
	s.Agent.Update("s1", e2e.Chunk("a word of old"))
	s.Agent.Reply(load, map[string]any{})
	loading.Result(nil)
	call, asked = s.Turn("s1")
	s.Agent.Update("s1", e2e.Chunk("a new word"))
	endTurn(s, call, asked)
	watching.Says("a new word")

	var got []string
	for _, m := range s.Waiting() {
		if m.Method == "session/update" {
			got = append(got, string(m.Raw))
		}
	}
	if len(got) != 2 || !strings.Contains(got[0], "a word of old") || !strings.Contains(got[1], "a new word") {
		t.Errorf("the editor got %q, want the history once and then the new word", got)
	}
	s.Finish()
	for history, want := range map[string]int{"--history": 2, "--history=false": 1} {
		status, shown, errs := p.Cli(t, "sessions", "show", history, "s1")
		if n := strings.Count(shown, "a word of old"); status != 0 || n != want || strings.Count(shown, "a new word") != 1 {
			t.Errorf("sessions show %s ended with %d and has the history %d times, want %d:\n%s%s", history, status, n, want, shown, errs)
		}
	}
}

func TestSessionsShow_AfterCrash(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, nil)
	watching := watches(s, "s1")
	s.Send("session/prompt", e2e.Params("prompt", []any{map[string]any{"type": "text", "text": "what was asked"}}))
	s.Agent.Expect("session/prompt")
	var words []string
	for n := range 50 {
		words = append(words, fmt.Sprintf("word-%d.", n))
		s.Agent.Update("s1", e2e.Chunk(words[n]))
	}
	watching.Says(words[49])
	testkit.Eventually(t, "the record has the last word", func() bool { // it is written some milliseconds later
		_, shown, _ := p.Cli(t, "sessions", "show", "s1")
		return strings.Contains(shown, words[49])
	})
	family := s.Family()
	if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.ExpectExit()
	s.ExpectNobody(t, family)
	status, shown, errs := p.Cli(t, "sessions", "show", "s1")
	if status != 0 {
		t.Fatalf("sessions show ended with %d: %s", status, errs)
	}
	e2e.ExpectContains(t, "what is shown", shown, append(slices.Clone(words), "what was asked")...)
}

func TestUnknownRequest_Answered(t *testing.T) {
	t.Parallel()
	t.Run("with an editor", func(t *testing.T) {
		t.Parallel()
		s := e2e.NewPlace(t).Fixture(t, nil)
		for _, method := range []string{"_x/unknown", "session/of_tomorrow", "nothing"} {
			call := s.Agent.Send(method, e2e.Params("x", 1))
			s.Refuse(s.Expect(method), &wire.Error{Code: -32601, Message: "what?"})
			call.Refused(-32601)
			call = s.Send(method, e2e.Params("x", 1))
			s.Agent.Refuse(s.Agent.Expect(method), &wire.Error{Code: -32601, Message: "what?"})
			call.Refused(-32601)
		}
		s.ExpectQuiet()
		s.Finish()
	})
	t.Run("without", func(t *testing.T) {
		t.Parallel()
		s := e2e.NewPlace(t).Serve(t, nil)
		agent, actor := s.Plays("asking")
		if err := s.Opens(agent, actor, "s"); err != nil {
			t.Fatal(e2e.Explain(err))
		}
		for _, method := range []string{"_x/unknown", "session/of_tomorrow", "nothing"} {
			e2e.ExpectContains(t, "the answer", actor.Send(method, map[string]any{"sessionId": "s"}).Refused(-32601).Message, method)
		}
		s.Finish()
	})
}

// watches follows a session that an editor drives.
func watches(s *e2e.Fixture, session string) *e2e.Stream {
	s.T.Helper()
	events, err := s.Dial(s.T, s.PID()).Sessions.WatchSession(wire.Context(s.T), &supervisorv1.WatchSessionRequest{SessionId: session})
	if err != nil {
		s.T.Fatal(err)
	}
	return &e2e.Stream{T: s.T, Next: func() (*supervisorv1.Event, error) {
		m, err := events.Recv()
		return m.GetEvent(), err
	}}
}

// endTurn ends a turn.
func endTurn(s *e2e.Fixture, call *wire.Call, asked wire.Message) {
	s.T.Helper()
	s.Agent.Reply(asked, map[string]any{"stopReason": "end_turn"})
	call.Result(nil)
}
