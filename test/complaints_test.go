package e2e_test

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
	"github.com/acphost/acphost/test/wire"
)

// What users of ACP complain of most, by its outcome: none of it happens with acphost between an agent and its client.

// watches follows a session that an editor drives.
func (s *scene) watches(session string) *stream {
	s.t.Helper()
	events, err := s.dial(s.t, s.PID()).sessions.WatchSession(wire.Context(s.t), &supervisorv1.WatchSessionRequest{SessionId: session})
	if err != nil {
		s.t.Fatal(err)
	}
	return &stream{t: s.t, next: func() (*supervisorv1.Event, error) {
		m, err := events.Recv()
		return m.GetEvent(), err
	}}
}

// turn begins one, and returns the editor's call and what the agent got.
func (s *scene) turn(session string) (*wire.Call, wire.Message) {
	s.t.Helper()
	call := s.Send("session/prompt", map[string]any{"sessionId": session, "prompt": []any{}})
	return call, s.agent.Expect("session/prompt")
}

// ended ends a turn.
func (s *scene) ended(call *wire.Call, asked wire.Message) {
	s.t.Helper()
	s.agent.Reply(asked, map[string]any{"stopReason": "end_turn"})
	call.Result(nil)
}

func TestAQuestionThatNobodyShowsIsAnswered(t *testing.T) {
	t.Parallel()
	t.Run("the editor has no dialog", func(t *testing.T) {
		t.Parallel()
		s := newPlace(t).scene(t, nil)
		call, asked := s.turn("s1")
		question := s.ask(edit(s.path("a")), options)
		s.Refuse(s.Expect("session/request_permission"), &wire.Error{Code: -32601, Message: "no such dialog"})
		if e := question.Refused(-32601); e.Message != "no such dialog" {
			t.Errorf("the agent was told %q", e.Message)
		}
		s.ended(call, asked)
		s.finish()
	})
	t.Run("the editor leaves", func(t *testing.T) {
		t.Parallel()
		s := newPlace(t).scene(t, nil)
		s.turn("s1")
		s.ask(edit(s.path("a")), options)
		s.Expect("session/request_permission")
		s.finish() // nobody waits for the answer
	})
	t.Run("there is no terminal", func(t *testing.T) {
		t.Parallel()
		status, out, errs := newPlace(t).cli(t, demoCommand("ask")...)
		if status != 0 || strings.Contains(out, "ask ok: allow") {
			t.Errorf("the status is %d, and the agent said %q", status, out)
		}
		expectContains(t, "standard error", out+errs, "nobody")
	})
}

func TestAnUpdateOutsideATurnReachesAllAndBreaksNoTurn(t *testing.T) {
	t.Parallel()
	s := newPlace(t).scene(t, nil)
	watching := s.watches("s1")
	says := func(words string) {
		t.Helper()
		s.agent.update("s1", chunk(words))
		expectContains(t, "the update", string(s.Expect("session/update").Raw), words)
		watching.says(words)
	}
	says("before any turn")
	for n := range 3 {
		call, asked := s.turn("s1")
		says(fmt.Sprint("within turn ", n))
		s.ended(call, asked)
		watching.until("the end of a turn", func(e *supervisorv1.Event) bool { return e.GetTurnEnded().GetStopReason() == "end_turn" })
		says(fmt.Sprint("behind turn ", n))
	}
	if got := kinds(watching.seen); got["turn_started"] != 3 || got["turn_ended"] != 3 || got["agent_message"] != 7 {
		t.Errorf("the watcher was told %v, want 3 turns and 7 messages", got)
	}
	s.expectQuiet()
	s.finish()
}

func TestAQuestionHoldsUpNoOtherSession(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.file(t, "a.txt", "one\n")
	s := p.scene(t, p.policy(t, rules+`  - {id: reading, effect: allow, on: [fs.read], path: ["${root}/**"]}`+"\n", ""))
	s.open("s2")
	first, waiting := s.turn("s1")
	question := s.ask(command("git push"), options)
	shown := s.Expect("session/request_permission")

	second, asked := s.turn("s2")
	if got := content(s.reads("s2", p.path("a.txt"))); got != "one\n" {
		t.Errorf("beside a question the agent read %q", got)
	}
	s.agent.update("s2", chunk("beside it"))
	s.Expect("session/update")
	other := s.agent.Send("session/request_permission", map[string]any{"sessionId": "s2", "toolCall": command("git push"), "options": options})
	beside := s.Expect("session/request_permission")
	s.Reply(beside, map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "no"}})
	if got := chosen(t, other); got != "no" {
		t.Errorf("the second question was answered with %q", got)
	}
	s.ended(second, asked)

	s.Reply(shown, map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}})
	if got := chosen(t, question); got != "yes" {
		t.Errorf("the question was answered with %q", got)
	}
	s.ended(first, waiting)
	s.finish()
}

func TestALoadThatFailsOpensNothingAfresh(t *testing.T) {
	t.Parallel()
	t.Run("with an editor", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		s := p.scene(t, nil)
		call := s.Send("session/load", map[string]any{"sessionId": "old", "cwd": p.work, "mcpServers": []any{}})
		s.agent.Refuse(s.agent.Expect("session/load"), &wire.Error{Code: -32002, Message: "no such session", Data: json.RawMessage(`{"uri":"old"}`)})
		if e := call.Refused(-32002); e.Message != "no such session" || string(e.Data) != `{"uri":"old"}` {
			t.Errorf("the editor was told %v %s", e, e.Data)
		}
		s.reads("old", p.file(t, "a.txt", "a\n")).Refused(-32602)
		s.expectQuiet()
		s.finish()
	})
	t.Run("without", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		s := p.serve(t, nil)
		agent := s.start(p.demo())
		_, err := s.sessions.LoadSession(s.ctx, &supervisorv1.LoadSessionRequest{AgentId: agent.GetId(), SessionId: "gone", Cwd: p.work})
		expectError(t, err, codes.NotFound, supervisorv1.ErrorKind_ERROR_KIND_SESSION_NOT_FOUND, "gone")
		list, err := s.state.ListSessions(s.ctx, &supervisorv1.ListSessionsRequest{})
		if err != nil || len(list.GetSessions()) != 0 {
			t.Errorf("the sessions are %v (%v), want none", list, err)
		}
		s.finish()
	})
}

func TestHistoryIsToldOnceWhenASessionIsLoaded(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, nil)
	call, asked := s.turn("s1")
	s.agent.update("s1", chunk("a word of old"))
	s.Expect("session/update")
	s.ended(call, asked)
	watching := s.watches("s1")

	loading := s.Send("session/load", map[string]any{"sessionId": "s1", "cwd": p.work, "mcpServers": []any{}})
	load := s.agent.Expect("session/load")
	s.agent.update("s1", chunk("a word of old"))
	s.agent.Reply(load, map[string]any{})
	loading.Result(nil)
	call, asked = s.turn("s1")
	s.agent.update("s1", chunk("a new word"))
	s.ended(call, asked)
	watching.says("a new word")

	var got []string
	for _, m := range s.Waiting() {
		if m.Method == "session/update" {
			got = append(got, string(m.Raw))
		}
	}
	if len(got) != 2 || !strings.Contains(got[0], "a word of old") || !strings.Contains(got[1], "a new word") {
		t.Errorf("the editor got %q, want the history once and then the new word", got)
	}
	s.finish()
	for history, want := range map[string]int{"--history": 2, "--history=false": 1} {
		status, shown, errs := p.cli(t, "sessions", "show", history, "s1")
		if n := strings.Count(shown, "a word of old"); status != 0 || n != want || strings.Count(shown, "a new word") != 1 {
			t.Errorf("sessions show %s ended with %d and has the history %d times, want %d:\n%s%s", history, status, n, want, shown, errs)
		}
	}
}

func TestWhatWasSaidBeforeACrashCanBeRead(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, nil)
	watching := s.watches("s1")
	s.Send("session/prompt", params("prompt", []any{map[string]any{"type": "text", "text": "what was asked"}}))
	s.agent.Expect("session/prompt")
	var words []string
	for n := range 50 {
		words = append(words, fmt.Sprintf("word-%d.", n))
		s.agent.update("s1", chunk(words[n]))
	}
	watching.says(words[49])
	testkit.Eventually(t, "the record has the last word", func() bool { // it is written some milliseconds later
		_, shown, _ := p.cli(t, "sessions", "show", "s1")
		return strings.Contains(shown, words[49])
	})
	family := s.family()
	if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.ExpectExit()
	s.expectNobody(t, family)
	status, shown, errs := p.cli(t, "sessions", "show", "s1")
	if status != 0 {
		t.Fatalf("sessions show ended with %d: %s", status, errs)
	}
	expectContains(t, "what is shown", shown, append(slices.Clone(words), "what was asked")...)
}

func TestARequestThatNobodyKnowsIsAnswered(t *testing.T) {
	t.Parallel()
	t.Run("with an editor", func(t *testing.T) {
		t.Parallel()
		s := newPlace(t).scene(t, nil)
		for _, method := range []string{"_x/unknown", "session/of_tomorrow", "nothing"} {
			call := s.agent.Send(method, params("x", 1))
			s.Refuse(s.Expect(method), &wire.Error{Code: -32601, Message: "what?"})
			call.Refused(-32601)
			call = s.Send(method, params("x", 1))
			s.agent.Refuse(s.agent.Expect(method), &wire.Error{Code: -32601, Message: "what?"})
			call.Refused(-32601)
		}
		s.expectQuiet()
		s.finish()
	})
	t.Run("without", func(t *testing.T) {
		t.Parallel()
		s := newPlace(t).serve(t, nil)
		agent, actor := s.plays("asking")
		if err := s.opens(agent, actor, "s"); err != nil {
			t.Fatal(explain(err))
		}
		for _, method := range []string{"_x/unknown", "session/of_tomorrow", "nothing"} {
			expectContains(t, "the answer", actor.Send(method, map[string]any{"sessionId": "s"}).Refused(-32601).Message, method)
		}
		s.finish()
	})
}
