package link

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/question"
)

func TestQuestionEnd_AgentWithdraws(t *testing.T) {
	own := fmt.Sprintf(writeCall, 7, 1)
	for name, line := range map[string]string{"a permission question": askedEdit, "a form": askedForm, "one of ours": own} {
		t.Run(name, func(t *testing.T) {
			r, d := watchedRig(t)
			r.open(`{}`)
			r.agent.send(line)
			q := d.question()
			r.client.next()
			id := string(q.ID)
			if q.Own {
				r.client.next()
				id = "7"
			}
			cancel := `{"method":"$/cancel_request","params":{"requestId":` + id + `}}`
			r.agent.send(cancel)
			d.want(question.End{Outcome: question.Withdrawn, By: "nobody"})
			r.agent.wantError(id, -32800, "cancelled")
			if m := parse(t, r.client.next()); m.Method != "$/cancel_request" || string(m.Params.RequestID) != string(q.ID) {
				t.Errorf("the client was told %+v", m)
			}
			// Later answers of the person have no effect.
			r.client.send(`{"id":`+string(q.ID)+`,"result":{"outcome":{"outcome":"selected","optionId":"a"}}}`, `{"method":"_marker"}`)
			r.agent.want(`{"method":"_marker"}`)
		})
	}
}

func TestQuestionEnd_IDIsSpentUntilClientAnswers(t *testing.T) {
	r, d := watchedRig(t)
	r.open(`{}`)
	r.agent.send(askedEdit)
	d.question()
	r.agent.send(`{"method":"$/cancel_request","params":{"requestId":7}}`)
	d.want(question.End{Outcome: question.Withdrawn, By: "nobody"})
	r.agent.wantError("7", -32800, "")
	r.client.next()
	r.client.next()
	worse := strings.Replace(askedEdit, `"id":7`, `"id":7.0`, 1)
	r.agent.send(worse)
	r.agent.wantError("7.0", -32600, "in flight")
	r.client.send(answerYes, `{"method":"_marker"}`) // to the question that has ended
	r.agent.want(`{"method":"_marker"}`)
	r.agent.send(worse)
	d.question()
	r.client.want(worse)
	r.client.send(`{"id":7.0,"result":{"outcome":{"outcome":"selected","optionId":"r"}}}`)
	d.want(question.End{Outcome: question.Denied, Option: "r", By: "front"})
	r.agent.next()
}

func TestQuestionEnd_LimitsSpentIDs(t *testing.T) {
	r, _ := watchedRig(t)
	r.open(`{}`)
	for i := range question.MaxOpen {
		r.agent.send(fmt.Sprintf(`{"id":%d,"method":"elicitation/create","params":{"sessionId":"s"}}`, 100+i))
		r.client.next()
	}
	r.agent.send(askedEdit)
	r.agent.wantError("7", -32603, "too many questions")
	if _, err := r.Answer([]byte("100"), question.Answer{Cancel: true}, "cli"); err != nil {
		t.Fatal(err)
	}
	r.agent.next()
	r.client.next()
	r.agent.send(askedEdit)
	r.client.want(askedEdit)
}

func TestQuestionEnd_ReleasesRoom(t *testing.T) {
	r, d := watchedRig(t)
	r.open(`{}`)
	r.agent.send(askedEdit, askedForm, fmt.Sprintf(writeCall, 8, 1))
	asked := []*question.Question{d.question(), d.question(), d.question()}
	if n := r.opts.Gate.Counters().GetOpenQuestions(); n != 3 {
		t.Errorf("%d questions are counted, want 3", n)
	}
	for _, q := range asked {
		if _, err := r.Answer(q.ID, question.Answer{Cancel: true}, "cli"); err != nil {
			t.Fatal(err)
		}
		<-d.ended
	}
	if n := r.opts.Gate.Counters().GetOpenQuestions(); n != 0 {
		t.Errorf("%d questions are counted, want none", n)
	}
	go func() { _, _ = io.Copy(io.Discard, r.client.out) }()
	for i := range question.MaxOpen { // all the room
		r.agent.send(fmt.Sprintf(`{"id":%d,"method":"elicitation/create","params":{"sessionId":"s"}}`, 100+i))
		d.question()
	}
}

func TestQuestionEnd_TurnCancelled(t *testing.T) {
	cancel := `{"method":"session/cancel","params":{"sessionId":"s"}}`
	for name, tt := range map[string]struct{ line, result string }{
		"a permission question": {askedEdit, answerOff},
		"a form":                {askedForm, `{"jsonrpc":"2.0","id":"\u0071","result":{"action":"cancel"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			r, d := watchedRig(t, func(o *Options) { o.Program, o.cancelGrace = true, time.Hour }) // a program gets no grace
			r.open(`{}`)
			r.agent.send(tt.line)
			q := d.question()
			r.client.want(tt.line)
			r.client.send(`{"method":"session/cancel","params":{"sessionId":"other"}}`, cancel)
			d.want(question.End{Outcome: question.Cancelled, By: "nobody"})
			got := map[string]bool{}
			for range 3 {
				got[r.agent.next()] = true
			}
			if !got[tt.result] || !got[cancel] {
				t.Errorf("the agent got %v", got)
			}
			r.agent.send(`{"method":"_marker"}`)
			r.client.want(`{"method":"_marker"}`) // it knows what it has cancelled
			if _, err := r.Answer(q.ID, question.Answer{Cancel: true}, "late"); !errors.Is(err, question.ErrNotOpen) {
				t.Errorf("a later answer: %v", err)
			}
		})
	}
	t.Run("one of ours", func(t *testing.T) {
		r, d := watchedRig(t)
		r.open(`{}`)
		r.agent.send(fmt.Sprintf(writeCall, 7, 1))
		d.question()
		r.client.send(cancel)
		d.want(question.End{Outcome: question.Withdrawn, By: "nobody"})
	})
}

func TestQuestionEnd_LinkOver(t *testing.T) {
	r, d := watchedRig(t)
	r.open(`{}`)
	r.agent.send(askedEdit, askedForm, fmt.Sprintf(writeCall, 8, 1))
	var last *question.Question
	for range 3 {
		last = d.question()
	}
	_ = r.agent.in.Close()
	for range 3 {
		d.want(question.End{Outcome: question.Withdrawn, By: "nobody"})
	}
	if reason := r.end(); reason != AgentGone {
		t.Errorf("it ended for %v", reason)
	}
	r.ended <- AgentGone // for the clean-up
	if _, err := r.Answer(last.ID, question.Answer{Cancel: true}, "late"); !errors.Is(err, question.ErrNotOpen) {
		t.Errorf("a later answer: %v", err)
	}
}
