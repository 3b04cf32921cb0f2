package link

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/question"
)

// hasty answers every question as soon as it is notified of it.
type hasty struct {
	*recorder
	link *Link
	wg   sync.WaitGroup
}

func (h *hasty) Asked(q *question.Question) {
	h.recorder.Asked(q)
	h.wg.Go(func() {
		answer := question.Answer{Decline: true}
		if q.Options != nil {
			answer = question.Answer{Option: acp.RejectOnce}
		}
		if _, err := h.link.Answer(q.ID, answer, "hasty"); err != nil {
			h.t.Errorf("answer %s: %v", q.ID, err)
		}
	})
}

func TestAnswer_ImmediateAnswerKeepsOrder(t *testing.T) {
	w := &witness{}
	h := &hasty{}
	r, d := watchedRig(t, func(o *Options) {
		o.Observer = w
		h.recorder, o.Questions = o.Questions.(*recorder), h
	})
	h.link = r.Link
	r.open(`{}`)
	for i := range 200 {
		r.agent.send(
			strings.Replace(askedEdit, `"id":7`, fmt.Sprintf(`"id":"p%d"`, i), 1),
			fmt.Sprintf(`{"id":"f%d","method":"elicitation/create","params":{"sessionId":"s","mode":"form"}}`, i),
			fmt.Sprintf(writeCall, i, i))
		asked := map[string]bool{}
		for over := 0; over < 3; {
			switch m := parse(t, r.client.next()); m.Method {
			case "session/request_permission", "elicitation/create":
				asked[string(m.ID)] = true
			case "$/cancel_request":
				if over++; !asked[string(m.Params.RequestID)] {
					t.Fatalf("round %d: the client was told to forget %s before it was asked", i, m.Params.RequestID)
				}
			}
		}
		for range 3 {
			r.agent.next()
			d.question()
			<-d.ended
		}
	}
	h.wg.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	asked := map[string]bool{}
	for _, s := range w.seen {
		_, text, _ := strings.Cut(s, "{")
		var m line
		if json.Unmarshal([]byte("{"+text), &m) != nil {
			continue
		}
		direction, _, _ := strings.Cut(s, " ")
		switch {
		case m.Method == "session/request_permission" && direction != fmt.Sprint(int(frame.AgentToHandler)), m.Method == "elicitation/create":
			asked[string(m.ID)] = true
		case strings.HasPrefix(s, direction+" hasty ") && !asked[string(m.ID)]:
			t.Fatalf("observers saw the answer to %s before it was asked", m.ID)
		}
	}
}

func TestAnswer_ClientDoesNotRead(t *testing.T) {
	long := `"_meta":{"x":"` + strings.Repeat("x", 1<<20) + `"},`
	for name, tt := range map[string]struct{ line, agent string }{
		"a permission question": {askedEdit, answerYes},
		"a form":                {askedForm, `{"jsonrpc":"2.0","id":"\u0071","result":{"action":"cancel"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := &witness{}
			r, d := watchedRig(t, func(o *Options) { o.Observer = w })
			r.open(`{}`)
			line := strings.Replace(tt.line, `"params":{`, `"params":{`+long, 1)
			sent := make(chan error, 1)
			go func() {
				_, err := r.agent.in.WriteString(line + "\n")
				sent <- err
			}()
			q := d.question()
			answer := question.Answer{Cancel: true}
			if q.Options != nil {
				answer = question.Answer{Option: "a"}
			}
			if _, err := r.Answer(q.ID, answer, "cli"); err != nil {
				t.Fatal(err)
			}
			<-d.ended
			r.agent.want(tt.agent)
			r.client.want(line)
			if m := parse(t, r.client.next()); m.Method != "$/cancel_request" || string(m.Params.RequestID) != string(q.ID) {
				t.Errorf("the client was told %+v", m)
			}
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			var shown, answered int
			for i, s := range w.seen {
				if strings.HasPrefix(s, fmt.Sprint(int(frame.AgentToClient))) && strings.Contains(s, long) {
					shown = i
				}
				if strings.HasPrefix(s, fmt.Sprint(int(frame.OursToAgent))) {
					answered = i
				}
			}
			if shown == 0 || answered < shown {
				t.Errorf("the question was frame %d, its answer frame %d", shown, answered)
			}
		})
	}
}

func TestAnswer_OneOfConcurrentAnswersCounts(t *testing.T) {
	const rounds = 1000
	r, d := watchedRig(t)
	r.open(`{}`)
	for i := range rounds {
		line, kind := askedEdit, i%3
		switch kind {
		case 1:
			line = `{"id":7,"method":"elicitation/create","params":{"sessionId":"s","mode":"form"}}`
		case 2:
			line = fmt.Sprintf(`{"id":7,"method":"_x/y","params":{"sessionId":"s","n":%d}}`, i)
		}
		r.agent.send(strings.Replace(line, `"id":7`, fmt.Sprintf(`"id":%d`, i), 1))
		q := d.question()
		for parse(t, r.client.next()).Method == "session/update" {
		}
		fromClient, answer := choose(q.ID, "a"), question.Answer{Option: acp.RejectOnce}
		switch kind {
		case 1:
			fromClient, answer = `{"id":`+string(q.ID)+`,"result":{"action":"accept"}}`, question.Answer{Decline: true}
		case 2:
			fromClient = choose(q.ID, acp.AllowOnce)
		}
		var wins atomic.Int32
		var race sync.WaitGroup
		for _, by := range []string{"ann", "bob"} {
			race.Go(func() {
				switch _, err := r.Answer(q.ID, answer, by); {
				case err == nil:
					wins.Add(1)
				case !errors.Is(err, question.ErrNotOpen):
					t.Error(err)
				}
			})
		}
		race.Go(func() { r.client.send(fromClient, `{"method":"_round"}`) })
		race.Wait()
		var end question.End
		select {
		case end = <-d.ended:
		case <-testkit.After():
			t.Fatalf("round %d: no end", i)
		}
		if wins.Load() != 0 != (end.By != gate.ByClient) || wins.Load() > 1 {
			t.Fatalf("round %d: %d answers counted, and it ended as %+v", i, wins.Load(), end)
		}
		if kind == 2 && end.By == gate.ByClient { // the call was allowed, so the client answers it itself
			for !strings.Contains(r.client.next(), `"_x/y"`) {
			}
			r.client.send(fmt.Sprintf(`{"id":%d,"result":{}}`, i))
		}
		var answers, rounds int
		for answers == 0 || rounds == 0 {
			m := parse(t, r.agent.next())
			switch {
			case m.Method == "_round":
				rounds++
			case string(m.ID) == fmt.Sprint(i):
				answers++
				if allowed := m.Error == nil && !strings.Contains(string(m.Result), `"r"`) && !strings.Contains(string(m.Result), "decline"); allowed != (end.By == gate.ByClient) {
					t.Fatalf("round %d: it ended as %+v, and the agent got %+v", i, end, m)
				}
			default:
				t.Fatalf("round %d: the agent got %+v", i, m)
			}
		}
		// Everything that the client is shown in this round.
		r.agent.send(`{"method":"_end"}`)
		for r.client.next() != `{"method":"_end"}` {
		}
	}
}

func TestAnswer_CountsForOneQuestion(t *testing.T) {
	again := strings.Replace(askedEdit, `"Edit"`, `"Erase"`, 1)
	t.Run("one that was withdrawn", func(t *testing.T) {
		r, d := watchedRig(t, func(o *Options) { o.Program = true })
		r.open(`{}`)
		r.agent.send(askedEdit)
		shown := d.question() // and a person looks at it
		r.client.want(askedEdit)
		r.agent.send(`{"method":"$/cancel_request","params":{"requestId":7}}`)
		d.want(question.End{Outcome: question.Withdrawn, By: "nobody"})
		r.agent.wantError("7", -32800, "cancelled")
		r.agent.send(again)
		r.agent.wantError("7", -32600, "another question")
		if _, err := r.Answer(shown.ID, question.Answer{Option: "a"}, "cli"); !errors.Is(err, question.ErrNotOpen) {
			t.Errorf("the answer to what was withdrawn: %v", err)
		}
		r.agent.send(strings.Replace(again, `"id":7`, `"id":70`, 1))
		if q := d.question(); string(q.ID) != "70" {
			t.Errorf("question %s is asked", q.ID)
		}
	})
	t.Run("one of ours", func(t *testing.T) {
		r, d := watchedRig(t, func(o *Options) { o.Program = true })
		r.open(`{}`)
		r.agent.send(fmt.Sprintf(writeCall, 8, 1))
		ours := d.question()
		r.agent.send(`{"method":"$/cancel_request","params":{"requestId":8}}`)
		d.want(question.End{Outcome: question.Withdrawn, By: "nobody"})
		r.agent.wantError("8", -32800, "cancelled")
		r.agent.send(strings.Replace(again, `"id":7`, `"id":`+string(ours.ID), 1))
		r.agent.wantError(string(ours.ID), -32600, "session/request_permission") // it may still be in flight
	})
}
