package policy_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

// TestCancel_RaceWithAnswer cancels requests at the moment when the other side answers them, in varying order. Each
// request gets exactly one answer.
func TestCancel_RaceWithAnswer(t *testing.T) {
	t.Parallel()
	const rounds = 40 // of each race
	p := e2e.NewPlace(t)
	p.File(t, "a.txt", "one\n")
	s := p.Fixture(t, p.Policy(t, e2e.Rules, "")) // reads are asked about
	push := e2e.Params("toolCall", e2e.Command("git push"), "options", e2e.Options)
	var (
		ask    = func() (*wire.Call, wire.Message) { return s.Agent.Send("_x/ask", e2e.Params()), s.Expect("_x/ask") }
		permit = func() (*wire.Call, wire.Message) {
			return s.Agent.Send("session/request_permission", push), s.Expect("session/request_permission")
		}
		read = func() (*wire.Call, wire.Message) { return s.Read("a.txt"), s.Expect("session/request_permission") }
		// withdrawn is the agent's $/cancel_request, dropped the client's.
		withdrawn = func(c *wire.Call) { s.Withdraw(c.ID()) }
		dropped   = func(c *wire.Call) {
			s.Notify("$/cancel_request", map[string]any{"requestId": json.RawMessage(c.ID())})
		}
		stopped = func(*wire.Call) { s.Notify("session/cancel", e2e.Params()) }
		done    = map[string]any{"x": "done"}
		yes     = map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}}
		own     = map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "allow_once"}}
		ended   = map[string]any{"stopReason": "end_turn"}
	)
	const (
		isYes       = `{"outcome":{"optionId":"yes","outcome":"selected"}}`
		isCancelled = `{"outcome":{"outcome":"cancelled"}}`
		givenUp     = "-32800"
	)
	for name, race := range map[string]struct {
		begin  func() (*wire.Call, wire.Message) // a request, and what the other side got
		cancel func(*wire.Call)
		result any
		fits   []string // results, and codes of errors, that the request may be answered with
		agents bool     // the request is the agent's
		turn   bool     // a turn must be under way
	}{
		"a request of the agent's that is forwarded": {ask, withdrawn, done, []string{`{"x":"done"}`, givenUp}, true, false},
		"a question that its agent withdraws":        {permit, withdrawn, yes, []string{isYes, givenUp}, true, false},
		"a question whose turn is cancelled":         {permit, stopped, yes, []string{isYes, isCancelled}, true, true},
		"a call that the user is asked about":        {read, withdrawn, own, []string{`{"content":"one\n"}`, givenUp}, true, false},
		"such a call whose turn is cancelled":        {read, stopped, own, []string{`{"content":"one\n"}`, givenUp}, true, true},
		"a prompt that is given up": {func() (*wire.Call, wire.Message) { return s.Turn("s1") }, dropped, ended,
			[]string{`{"stopReason":"end_turn"}`}, false, false},
		"a turn that is cancelled": {func() (*wire.Call, wire.Message) { return s.Turn("s1") }, stopped, ended,
			[]string{`{"stopReason":"end_turn"}`}, false, false},
		"a request of the client's that is forwarded": {func() (*wire.Call, wire.Message) { return s.Send("_x/ask", e2e.Params()), s.Agent.Expect("_x/ask") },
			dropped, done, []string{`{"x":"done"}`}, false, false},
	} {
		seen := map[string]int{}
		for n := range rounds {
			var turn *wire.Call
			var prompted wire.Message
			if race.turn {
				turn, prompted = s.Turn("s1")
			}
			call, asked := race.begin()
			answer := func() { s.Agent.Reply(asked, race.result) }
			if race.agents {
				answer = func() { s.Reply(asked, race.result) }
			}
			first, second := answer, func() { race.cancel(call) }
			if n%2 == 0 {
				first, second = second, first
			}
			first()
			for began := time.Now(); time.Since(began) < time.Duration(n)*40*time.Microsecond; { // the way from the agent is longer
			}
			second()
			got := call.Answer()
			what := string(got.Result)
			if got.Error != nil {
				what = strconv.Itoa(got.Error.Code)
			}
			if seen[what]++; !slices.Contains(race.fits, what) {
				t.Errorf("%s: round %d was answered with %s, want one of %q", name, n, got.Raw, race.fits)
			}
			if race.turn {
				s.Agent.Reply(prompted, map[string]any{"stopReason": "cancelled"})
				turn.Result(nil)
			}
		}
		t.Logf("%s: %v", name, seen)
		// The editor's last cancellation has been handled when a later message of it has reached the agent: otherwise
		// it could cancel the agent's next request.
		last := s.Send("_x/ask", e2e.Params())
		s.Agent.Reply(s.Agent.Expect("_x/ask"), done)
		last.Result(nil)
	}
	s.Notify("_last", e2e.Params())
	s.Agent.Notify("_last", e2e.Params())
	for end, peer := range map[string]*wire.Peer{"editor": s.Peer, "agent": s.Agent.Peer} {
		for _, m := range peer.Settled(func(m wire.Message) bool { return m.Method == "_last" }) {
			if m.Method == "" || m.ID != nil {
				t.Errorf("at the end the %s had got %s, which belongs to nothing that is open", end, m.Raw)
			}
		}
	}
	s.Finish()
}
