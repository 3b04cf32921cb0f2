package headless

import (
	"testing"
)

func TestAPromptTellsItsTurnFromItsBeginToItsEnd(t *testing.T) {
	r := newRig(t, map[string]part{"session/prompt": func(a *scripted, m message) {
		a.chunk("s1", "hello")
		a.answer(m, `{"stopReason":"end_turn"}`)
		a.chunk("s1", "afterthought")
	}})
	ag, a := r.start()
	s := r.open(ag.GetId())
	for range 3 {
		told, err := r.prompt(s.GetSessionId(), "hi")
		if err != nil {
			t.Fatal(err)
		}
		wantWords(t, told, "started", "says hello", "ended end_turn")
	}
	if got, want := string(a.next("session/prompt").Params), `{"sessionId":"s1","prompt":[{"type":"text","text":"hi"}]}`; got != want {
		t.Errorf("the agent got %s, want %s", got, want)
	}
}
