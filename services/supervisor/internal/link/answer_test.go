package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/acphost/acphost/internal/testkit"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/audit"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
	"github.com/acphost/acphost/services/supervisor/internal/question"
	"github.com/acphost/acphost/services/supervisor/internal/route"
)

// recorder is told of questions, and checks that each begins and ends once.
type recorder struct {
	t       *testing.T
	asked   chan *question.Question
	ended   chan question.End
	expires chan time.Time

	mu    sync.Mutex
	state map[*question.Question]string
}

func newRecorder(t *testing.T) *recorder {
	d := &recorder{t: t, asked: make(chan *question.Question, 4096), ended: make(chan question.End, 4096), expires: make(chan time.Time, 16), state: map[*question.Question]string{}}
	t.Cleanup(func() {
		late := testkit.After()
		for open := d.open(); len(open) > 0; open = d.open() {
			select {
			case <-d.ended: // whoever was telling its begin as the link ended tells its end
			case <-late:
				t.Fatalf("questions %q never end", open)
			}
		}
	})
	return d
}

// open returns the ids of the questions that have not ended.
func (d *recorder) open() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var ids []string
	for q, s := range d.state {
		if s != "ended" {
			ids = append(ids, string(q.ID))
		}
	}
	return ids
}

func (d *recorder) Asked(q *question.Question) {
	d.mu.Lock()
	if s := d.state[q]; s != "" {
		d.t.Errorf("question %s is asked, and was %s", q.ID, s)
	}
	d.state[q] = "asked"
	d.mu.Unlock()
	d.asked <- q
}

func (d *recorder) Expires(_ *question.Question, at time.Time) { d.expires <- at }

func (d *recorder) Ended(q *question.Question, e question.End) {
	d.mu.Lock()
	if s := d.state[q]; s != "asked" {
		d.t.Errorf("question %s ended (%+v), and was %q", q.ID, e, s)
	}
	d.state[q] = "ended"
	d.mu.Unlock()
	d.ended <- e
}

func (d *recorder) question() *question.Question {
	d.t.Helper()
	select {
	case q := <-d.asked:
		return q
	case <-testkit.After():
		d.t.Fatal("no question was told")
		return nil
	}
}

func (d *recorder) want(want question.End) {
	d.t.Helper()
	select {
	case got := <-d.ended:
		if got != want {
			d.t.Errorf("it ended as %+v, want %+v", got, want)
		}
	case <-testkit.After():
		d.t.Error("no end was told")
	}
}

// watchedRig is a gated rig whose questions are told to a recorder, and whose elicitations go to the client.
func watchedRig(t *testing.T, change ...func(*Options)) (*rig, *recorder) {
	t.Helper()
	d := newRecorder(t)
	r := gatedRig(t, append([]func(*Options){func(o *Options) {
		o.Questions = d
		o.Ready = func(context.Context) (*route.Table, error) {
			return route.Build([]route.Claim{
				{Handler: "fs", Kind: route.KindFS, Services: []protoreflect.ServiceDescriptor{fsv1.File_acphost_fs_v1_fs_proto.Services().Get(0)}},
				{Handler: "terminal", Kind: route.KindTerminal, Services: []protoreflect.ServiceDescriptor{terminalv1.File_acphost_terminal_v1_terminal_proto.Services().Get(0)}},
			}, nil)
		}
	}}, change...)...)
	t.Cleanup(func() { // before the recorder is looked at
		_ = r.agent.in.Close()
		_ = r.client.in.Close()
		r.end()
	})
	return r, d
}

// Elicitations, spelled oddly.
const (
	askedForm = `{"jsonrpc":"2.0", "id":"\u0071" ,"method":"elicitation/create","params":{"sessionId":"s","mode":"form","message":"é","requestedSchema":{"properties":{},"type":"object"},"_meta":{"n":1.50}}}`
	askedPage = `{"id":9007199254740993,"method":"elicitation\/create","params":{"requestId":"i2","mode":"url","url":"https://x.example","elicitationId":"e","message":""}}`
	answerYes = `{"jsonrpc":"2.0","id":7,"result":{"outcome":{"outcome":"selected","optionId":"a"}}}`
	answerOff = `{"jsonrpc":"2.0","id":7,"result":{"outcome":{"outcome":"cancelled"}}}`
	cancel7   = `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":7}}`
)

func TestAQuestionOfTheAgentsIsAnsweredByWhoeverComesFirst(t *testing.T) {
	for name, tt := range map[string]struct {
		answer  question.Answer
		agent   string
		end     question.End
		decided string // what the policy is told
	}{
		"an option's id":   {question.Answer{Option: "a"}, answerYes, question.End{Outcome: question.Allowed, Option: "a", By: "cli"}, "allow_once"},
		"an option's kind": {question.Answer{Option: "reject_always"}, strings.Replace(answerYes, `"a"`, `"rr"`, 1), question.End{Outcome: question.Denied, Option: "rr", By: "cli"}, "reject_always"},
		"no decision":      {question.Answer{Cancel: true}, answerOff, question.End{Outcome: question.Cancelled, By: "cli"}, "cancelled"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &witness{}
			r, d := watchedRig(t, func(o *Options) { o.Observer = w })
			r.handler.answered = make(chan *permissionv1.AnsweredRequest, 1)
			r.handler.decide = func(context.Context, *permissionv1.Action) (*permissionv1.DecideResponse, error) {
				return &permissionv1.DecideResponse{Verdict: gate.Ask, Rule: "the-rule", Reason: "because"}, nil
			}
			r.open(`{}`)
			r.agent.send(toolEdit, askedEdit)
			r.client.want(toolEdit)
			q := d.question()
			if string(q.ID) != "7" || q.Own || q.SessionID != "s" || q.Method != acp.MethodRequestPermission || len(q.Options) != 4 ||
				q.Reason != "because (rule the-rule)" || q.ToolCall.Title != "Edit" || !strings.Contains(askedEdit, string(q.Params)) || !q.Expires.IsZero() {
				t.Errorf("it was told as %+v", q)
			}
			r.client.want(askedEdit)
			end, err := r.Answer(q.ID, tt.answer, "cli")
			if err != nil || end != tt.end {
				t.Fatalf("got %+v, %v", end, err)
			}
			d.want(tt.end)
			r.agent.want(tt.agent)
			r.client.want(cancel7)
			if _, err := r.Answer(q.ID, question.Answer{Option: "r"}, "grpc"); !errors.Is(err, question.ErrNotOpen) {
				t.Errorf("a second answer: %v", err)
			}
			r.client.send(strings.Replace(answerYes, `"a"`, `"aa"`, 1), `{"method":"_marker"}`) // too late
			r.agent.want(`{"method":"_marker"}`)
			if got := <-r.handler.answered; got.GetOutcome() != tt.decided || got.GetAnsweredBy() != "cli" {
				t.Errorf("the policy was told %v", got)
			}
			if got := w.by(frame.OursToAgent, "cli"); len(got) != 1 || got[0] != tt.agent {
				t.Errorf("frames to the agent: %q", got)
			}
			if got := w.of(frame.OursToClient); len(got) != 1 || got[0] != cancel7 {
				t.Errorf("frames to the client: %q", got)
			}
		})
	}
}

// by returns the lines of a direction that bear a handler's name.
func (w *witness) by(d frame.Direction, handler string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, s := range w.seen {
		if _, line, ok := strings.Cut(s, "{"); ok && strings.HasPrefix(s, fmt.Sprintf("%d %s ", d, handler)) {
			all = append(all, "{"+line)
		}
	}
	return all
}

func TestAnElicitationIsAnsweredByWhoeverComesFirst(t *testing.T) {
	for name, tt := range map[string]struct {
		line   string
		answer question.Answer
		result string
		end    question.End
	}{
		"a form is filled in": {askedForm, question.Answer{Accept: []byte("{ \"b\" : 1.50,\n\"a\":[\"\u2028\"]}")}, `{"action":"accept","content":{"b":1.50,"a":["\u2028"]}}`, question.End{Outcome: question.Accepted, By: "grpc"}},
		"an empty form":       {askedForm, question.Answer{Accept: []byte(" {} ")}, `{"action":"accept","content":{}}`, question.End{Outcome: question.Accepted, By: "grpc"}},
		"a form is declined":  {askedForm, question.Answer{Decline: true}, `{"action":"decline"}`, question.End{Outcome: question.Declined, By: "grpc"}},
		"a page was opened":   {askedPage, question.Answer{Accept: []byte(`{}`)}, `{"action":"accept"}`, question.End{Outcome: question.Accepted, By: "grpc"}},
		"a page was not":      {askedPage, question.Answer{Cancel: true}, `{"action":"cancel"}`, question.End{Outcome: question.Cancelled, By: "grpc"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &witness{}
			r, d := watchedRig(t, func(o *Options) { o.Observer = w })
			r.open(`{}`)
			r.client.send(`{"id":"i2","method":"authenticate","params":{"methodId":"m"}}`)
			r.agent.next()
			before := `{"method":"_before"}`
			r.agent.send(before, tt.line, `{"method":"_after"}`)
			r.client.want(before)
			r.client.want(tt.line)
			q := d.question()
			_, id, _ := strings.Cut(tt.line, `"id":`)
			id = strings.TrimSpace(id[:strings.IndexByte(id, ',')])
			if string(q.ID) != id || q.Method != "elicitation/create" || !strings.Contains(tt.line, string(q.Params)) || q.Own {
				t.Errorf("it was told as %+v", q)
			}
			r.client.want(`{"method":"_after"}`)
			for _, bad := range []question.Answer{
				{}, {Option: "a"}, {Accept: []byte(`[]`)}, {Accept: []byte(`{`)}, {Accept: []byte(`{} {}`)}, {Accept: []byte(`{"a":1,"a":2}`)}, {Accept: []byte(`null`)},
				{Accept: []byte(`{}`), Decline: true}, {Accept: []byte(`{"a":"` + strings.Repeat("x", 1<<20) + `"}`)},
			} {
				if _, err := r.Answer(q.ID, bad, "grpc"); !errors.Is(err, question.ErrNotOffered) {
					t.Errorf("%.40q: %v", bad.Accept, err)
				}
			}
			if end, err := r.Answer(q.ID, tt.answer, "grpc"); err != nil || end != tt.end {
				t.Fatalf("got %+v, %v", end, err)
			}
			d.want(tt.end)
			line := `{"jsonrpc":"2.0","id":` + id + `,"result":` + tt.result + `}`
			r.agent.want(line)
			r.client.want(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":` + id + `}}`)
			r.client.send(`{"id":`+id+`,"result":{"action":"accept"}}`, `{"method":"_marker"}`)
			r.agent.want(`{"method":"_marker"}`)
			if got := w.by(frame.OursToAgent, "grpc"); len(got) != 1 || got[0] != line {
				t.Errorf("frames to the agent: %q", got)
			}
		})
	}
}

func TestAQuestionOfOursIsAnsweredByWhoeverComesFirst(t *testing.T) {
	w := &witness{}
	r, d := watchedRig(t, func(o *Options) { o.Observer = w })
	r.open(`{}`)
	r.agent.send(fmt.Sprintf(writeCall, 1, 1))
	asked, q := r.asked(), d.question()
	if string(q.ID) != string(asked.ID) || !q.Own || q.SessionID != "s" || len(q.Options) != 2 || q.Options[0].ID != acp.AllowOnce || acp.Get(q.Params, "toolCall") == nil {
		t.Errorf("it was told as %+v", q)
	}
	if _, err := r.Answer(q.ID, question.Answer{Accept: []byte(`{}`)}, "grpc"); !errors.Is(err, question.ErrNotOffered) {
		t.Errorf("a form: %v", err)
	}
	want := question.End{Outcome: question.Allowed, Option: acp.AllowOnce, By: "cli"}
	if end, err := r.Answer(q.ID, question.Answer{Option: acp.AllowOnce}, "cli"); err != nil || end != want {
		t.Fatalf("got %+v, %v", end, err)
	}
	d.want(want)
	if m := parse(t, r.agent.next()); string(m.ID) != "1" || m.Error != nil {
		t.Errorf("the agent was answered %+v", m)
	}
	if got := w.by(frame.ClientToOurs, "cli"); len(got) != 1 || got[0] != choose(asked.ID, acp.AllowOnce) {
		t.Errorf("frames: %q", got)
	}
	r.agent.send(fmt.Sprintf(writeCall, 2, 2))
	if _, err := r.Answer(d.question().ID, question.Answer{Cancel: true}, "cli"); err != nil {
		t.Fatal(err)
	}
	d.want(question.End{Outcome: question.Cancelled, By: "cli"})
	r.agent.wantError("2", -32800, "")
}

func TestTheClientsAnswerEndsAQuestion(t *testing.T) {
	own := fmt.Sprintf(writeCall, 7, 1)
	for name, tt := range map[string]struct {
		line, answer string // the answer without its id
		end          question.End
	}{
		"an option":                    {askedEdit, `"result":{"outcome":{"outcome":"selected","optionId":"rr"}}`, question.End{Outcome: question.Denied, Option: "rr", By: "front"}},
		"a cancellation":               {askedEdit, `"result":{"outcome":{"outcome":"cancelled"}}`, question.End{Outcome: question.Cancelled, By: "front"}},
		"an option that is not there":  {askedEdit, `"result":{"outcome":{"outcome":"selected","optionId":"zz"}}`, question.End{Outcome: question.Cancelled, By: "nobody"}},
		"an error":                     {askedEdit, `"error":{"code":-32601,"message":"no"}`, question.End{Outcome: question.Cancelled, By: "front"}},
		"a form":                       {askedForm, `"result":{"action":"accept","content":{"a":1}}`, question.End{Outcome: question.Accepted, By: "front"}},
		"a form declined":              {askedForm, `"result":{"action":"decline"}`, question.End{Outcome: question.Declined, By: "front"}},
		"an unheard of action":         {askedForm, `"result":{"action":"_later"}`, question.End{Outcome: question.Cancelled, By: "front"}},
		"a form that it does not know": {askedForm, `"error":{"code":-32601,"message":"no"}`, question.End{Outcome: question.Cancelled, By: "front"}},
		"an answer in two ways":        {askedForm, `"result":{"action":"accept"},"result":{}`, question.End{Outcome: question.Cancelled, By: "nobody"}},
		"a yes to ours":                {own, `"result":{"outcome":{"outcome":"selected","optionId":"allow_once"}}`, question.End{Outcome: question.Allowed, Option: "allow_once", By: "front"}},
		"a no to ours":                 {own, `"result":{"outcome":{"outcome":"selected","optionId":"reject_once"}}`, question.End{Outcome: question.Denied, Option: "reject_once", By: "front"}},
		"an error to ours":             {own, `"error":{"code":-32601,"message":"no"}`, question.End{Outcome: question.Cancelled, By: "front"}},
		"what ours does not offer":     {own, `"result":{"outcome":{"outcome":"selected","optionId":"allow_always"}}`, question.End{Outcome: question.Denied, Option: "allow_always", By: "front"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, d := watchedRig(t)
			r.open(`{}`)
			r.agent.send(tt.line)
			q := d.question()
			if q.Own {
				r.client.next()
			}
			r.client.next()
			r.client.send(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,` + tt.answer + `}`)
			d.want(tt.end)
			r.agent.next()
			if _, err := r.Answer(q.ID, question.Answer{Cancel: true}, "late"); !errors.Is(err, question.ErrNotOpen) {
				t.Errorf("a later answer: %v", err)
			}
		})
	}
}

func TestAQuestionThatTheAgentWithdrawsEndsAtOnce(t *testing.T) {
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
			// What a person still clicks on counts for nothing.
			r.client.send(`{"id":`+string(q.ID)+`,"result":{"outcome":{"outcome":"selected","optionId":"a"}}}`, `{"method":"_marker"}`)
			r.agent.want(`{"method":"_marker"}`)
		})
	}
}

func TestAnIDIsNotFreeBeforeTheClientHasAnsweredWhatItStoodFor(t *testing.T) {
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
	r.client.send(answerYes, `{"method":"_marker"}`) // to the question that is gone
	r.agent.want(`{"method":"_marker"}`)
	r.agent.send(worse)
	d.question()
	r.client.want(worse)
	r.client.send(`{"id":7.0,"result":{"outcome":{"outcome":"selected","optionId":"r"}}}`)
	d.want(question.End{Outcome: question.Denied, Option: "r", By: "front"})
	r.agent.next()
}

func TestAClientThatLeavesTooManyQuestionsOpenGetsNoMore(t *testing.T) {
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

func TestEveryQuestionGivesItsRoomBack(t *testing.T) {
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
	for i := range question.MaxOpen { // all of it
		r.agent.send(fmt.Sprintf(`{"id":%d,"method":"elicitation/create","params":{"sessionId":"s"}}`, 100+i))
		d.question()
	}
}

func TestACancelledTurnEndsItsQuestions(t *testing.T) {
	cancel := `{"method":"session/cancel","params":{"sessionId":"s"}}`
	for name, tt := range map[string]struct{ line, result string }{
		"a permission question": {askedEdit, answerOff},
		"a form":                {askedForm, `{"jsonrpc":"2.0","id":"\u0071","result":{"action":"cancel"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			r, d := watchedRig(t, func(o *Options) { o.Program, o.cancelGrace = true, time.Hour }) // no time for a program to answer
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

func TestTheEndOfTheLinkEndsItsQuestions(t *testing.T) {
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

func TestNobodyAnswersInTime(t *testing.T) {
	reject := strings.Replace(answerYes, `"a"`, `"r"`, 1)
	for name, tt := range map[string]struct {
		line, answer string
		program      bool
		decide       permissionv1.Verdict
		end          question.End
	}{
		"no":               {askedEdit, reject, false, gate.Deny, question.End{Outcome: question.Expired, Option: "r", By: "nobody"}},
		"yes, by a policy": {askedEdit, answerYes, true, gate.Allow, question.End{Outcome: question.Allowed, Option: "a", By: "nobody"}},
		"a form":           {askedForm, `{"jsonrpc":"2.0","id":"\u0071","result":{"action":"cancel"}}`, true, gate.Deny, question.End{Outcome: question.Expired, By: "nobody"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &witness{}
			var there atomic.Bool
			there.Store(true)
			r, d := watchedRig(t, func(o *Options) {
				o.Observer, o.Program = w, tt.program
				o.Attended, o.Unattended = there.Load, 50*time.Millisecond
			})
			r.handler.decide = func(context.Context, *permissionv1.Action) (*permissionv1.DecideResponse, error) {
				return &permissionv1.DecideResponse{Verdict: gate.Ask, Unattended: tt.decide}, nil
			}
			r.open(`{}`)
			r.agent.send(tt.line)
			q := d.question()
			if !q.Expires.IsZero() {
				t.Errorf("it ends at %v, though somebody is there", q.Expires)
			}
			r.client.want(tt.line)
			there.Store(false)
			if at := <-d.expires; time.Until(at) > 50*time.Millisecond {
				t.Errorf("it ends in %v", time.Until(at))
			}
			d.want(tt.end)
			r.agent.want(tt.answer)
			if m := parse(t, r.client.next()); m.Method != "$/cancel_request" {
				t.Errorf("the client was told %+v", m)
			}
			if got := w.by(frame.OursToAgent, "nobody"); len(got) != 1 || got[0] != tt.answer {
				t.Errorf("frames: %q", got)
			}
		})
	}
	t.Run("one of ours", func(t *testing.T) {
		w := &witness{}
		r, d := watchedRig(t, func(o *Options) {
			o.Observer = w
			o.Attended, o.Unattended = func() bool { return false }, 20*time.Millisecond
		})
		r.open(`{}`)
		r.agent.send(fmt.Sprintf(writeCall, 7, 1))
		q := d.question()
		if q.Expires.Sub(q.Asked) != 20*time.Millisecond {
			t.Errorf("it ends after %v", q.Expires.Sub(q.Asked))
		}
		d.want(question.End{Outcome: question.Expired, Option: acp.RejectOnce, By: "nobody"})
		r.agent.wantError("7", -32603, "nobody answered within 20ms")
		if got := w.by(frame.ClientToOurs, "nobody"); len(got) != 1 || got[0] != choose(q.ID, acp.RejectOnce) {
			t.Errorf("frames: %q", got)
		}
	})
}

func TestWhoComesBeforeTheEndIsWaitedFor(t *testing.T) {
	for name, line := range map[string]string{"a permission question": askedEdit, "one of ours": fmt.Sprintf(writeCall, 7, 1)} {
		t.Run(name, func(t *testing.T) {
			var there atomic.Bool
			r, d := watchedRig(t, func(o *Options) { o.Attended, o.Unattended = there.Load, 20*time.Millisecond })
			r.open(`{}`)
			r.agent.send(line)
			q := d.question()
			there.Store(true)
			if q.Expires.IsZero() {
				t.Error("it waits without an end, though nobody is there")
			}
			if at := <-d.expires; !at.IsZero() {
				t.Errorf("it ends at %v", at)
			}
			if _, err := r.Answer(q.ID, question.Answer{Cancel: true}, "cli"); err != nil {
				t.Error(err)
			}
			d.want(question.End{Outcome: question.Cancelled, By: "cli"})
		})
	}
}

func TestWhatNobodyAttendsToIsNotAskedForByAProgram(t *testing.T) {
	w := &witness{}
	r, _ := watchedRig(t, func(o *Options) {
		o.Observer, o.Program, o.Attended = w, true, func() bool { return false }
	})
	r.open(`{}`)
	r.agent.send(askedForm, `{"method":"_marker"}`)
	want := `{"jsonrpc":"2.0","id":"\u0071","result":{"action":"cancel"}}`
	r.agent.want(want)
	r.client.want(`{"method":"_marker"}`)
	if got := w.by(frame.OursToAgent, "nobody"); len(got) != 1 || got[0] != want {
		t.Errorf("frames: %q", got)
	}
	if got := w.by(frame.AgentToHandler, GateName); len(got) != 1 || got[0] != askedForm {
		t.Errorf("frames: %q", got)
	}
}

// hasty answers every question as soon as it is told of it.
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

func TestWhoAnswersAtOnceOvertakesNothing(t *testing.T) {
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

func TestWhatAProgramSaysThatItTakesWaits(t *testing.T) {
	r, d := watchedRig(t, func(o *Options) {
		o.Program, o.Attended, o.Unattended = true, func() bool { return false }, time.Millisecond
	})
	r.open(`{"elicitation":{"form":{}}}`)
	r.agent.send(askedForm, askedEdit)
	q := d.question()
	d.question()
	d.want(question.End{Outcome: question.Expired, Option: "r", By: "nobody"}) // a permission is another matter
	if _, err := r.Answer(q.ID, question.Answer{Decline: true}, "cli"); err != nil {
		t.Fatal(err)
	}
	d.want(question.End{Outcome: question.Declined, By: "cli"})
}

func TestAnElicitationThatTheGateLetsPassWaitsLikeAnyOther(t *testing.T) {
	r, d := watchedRig(t, func(o *Options) {
		conn := o.Conn
		o.Gate = gate.New(gate.Options{
			Chain:    []gate.Policy{{Name: "permission", Conn: func() (c connection, err error) { return conn("permission") }}},
			Enforced: true, Methods: []string{"elicitation/*"}, Logger: o.Logger,
		})
	})
	r.open(`{}`)
	r.agent.send(askedForm)
	own := d.question()
	if !own.Own {
		t.Fatalf("got %+v", own)
	}
	if _, err := r.Answer(own.ID, question.Answer{Option: acp.AllowOnce}, "cli"); err != nil {
		t.Fatal(err)
	}
	d.want(question.End{Outcome: question.Allowed, Option: acp.AllowOnce, By: "cli"})
	q := d.question()
	for r.client.next() != askedForm {
	}
	if _, err := r.Answer(q.ID, question.Answer{Decline: true}, "cli"); err != nil {
		t.Fatal(err)
	}
	d.want(question.End{Outcome: question.Declined, By: "cli"})
	r.agent.want(`{"jsonrpc":"2.0","id":"\u0071","result":{"action":"decline"}}`)
	r.shows("completed")
}

func TestAQuestionIsAnsweredThoughTheClientDoesNotRead(t *testing.T) {
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

func TestAQuestionOfASessionThatNobodyKnowsIsAnsweredToo(t *testing.T) {
	r, d := watchedRig(t)
	r.open(`{}`)
	r.agent.send(strings.Replace(askedEdit, `"sessionId":"s"`, `"sessionId":"unheard of","parentSessionId":"none"`, 1))
	q := d.question()
	if q.SessionID != "unheard of" {
		t.Errorf("got %+v", q)
	}
	if _, err := r.Answer(q.ID, question.Answer{Option: "a"}, "cli"); err != nil {
		t.Fatal(err)
	}
	r.agent.want(answerYes)
	d.want(question.End{Outcome: question.Allowed, Option: "a", By: "cli"})
	for _, id := range []string{`8`, `"7"`, `null`, `"\u0000"`} {
		if _, err := r.Answer([]byte(id), question.Answer{Cancel: true}, "cli"); !errors.Is(err, question.ErrNotOpen) {
			t.Errorf("%s: %v", id, err)
		}
	}
}

func TestACallThatIsNoQuestionCannotBeAnswered(t *testing.T) {
	r, _ := watchedRig(t)
	r.open(`{}`)
	r.agent.send(`{"id":5,"method":"_z/ask","params":{"sessionId":"s"}}`)
	r.client.next()
	if _, err := r.Answer([]byte("5"), question.Answer{Cancel: true}, "cli"); !errors.Is(err, question.ErrNotOpen) {
		t.Errorf("got %v", err)
	}
	r.client.send(`{"id":5,"result":{}}`)
	r.agent.want(`{"id":5,"result":{}}`)
}

func TestAnElicitationBelongsToTheSessionOfItsRequest(t *testing.T) {
	r, d := watchedRig(t)
	r.open(`{}`)
	r.client.send(`{"id":"i2","method":"session/prompt","params":{"sessionId":"s","prompt":[]}}`)
	r.agent.next()
	r.agent.send(askedPage)
	if q := d.question(); q.SessionID != "s" {
		t.Errorf("got %+v", q)
	}
	r.agent.send(strings.NewReplacer("i2", "unknown", "993", "994").Replace(askedPage), `{"id":5,"method":"elicitation/create","params":{"requestId":{}}}`)
	for range 2 {
		if q := d.question(); q.SessionID != "" {
			t.Errorf("got %+v", q)
		}
	}
}

func TestTheRecordSaysWhoAnswered(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	log, err := audit.Open(audit.Options{File: file})
	if err != nil {
		t.Fatal(err)
	}
	r, d := watchedRig(t, func(o *Options) {
		conn := o.Conn
		o.Gate = gate.New(gate.Options{
			Chain:    []gate.Policy{{Name: "permission", Conn: func() (c connection, err error) { return conn("permission") }}},
			Enforced: true, Methods: []string{"fs/*"}, Audit: log, Logger: o.Logger,
		})
	})
	r.open(`{}`)
	r.agent.send(askedEdit)
	if _, err := r.Answer(d.question().ID, question.Answer{Option: "a"}, "ann's laptop"); err != nil {
		t.Fatal(err)
	}
	r.agent.want(answerYes)
	r.agent.send(fmt.Sprintf(writeCall, 8, 8))
	if _, err := r.Answer(d.question().ID, question.Answer{Option: acp.RejectOnce}, "bob"); err != nil {
		t.Fatal(err)
	}
	r.agent.wantError("8", -32603, "a person refused it")
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	records := readRecords(t, file)
	if len(records) != 2 || records[0].GetAnsweredBy() != "ann's laptop" || records[0].GetOutcome() != "allowed" || records[0].GetOption() != acp.AllowOnce ||
		records[1].GetAnsweredBy() != "bob" || records[1].GetOutcome() != "denied" {
		t.Errorf("recorded: %v", records)
	}
	// What cannot be recorded is not allowed, whoever allows it.
	r.agent.send(strings.Replace(askedEdit, `"id":7`, `"id":9`, 1))
	end, err := r.Answer(d.question().ID, question.Answer{Option: "a"}, "ann")
	if want := (question.End{Outcome: question.Denied, Option: "r", By: gate.ByPolicy}); err != nil || end != want {
		t.Errorf("got %+v, %v, want %+v", end, err, want)
	}
	r.agent.want(`{"jsonrpc":"2.0","id":9,"result":{"outcome":{"outcome":"selected","optionId":"r"}}}`)
	r.agent.send(fmt.Sprintf(writeCall, 10, 10))
	end, err = r.Answer(d.question().ID, question.Answer{Option: acp.AllowOnce}, "ann")
	if want := (question.End{Outcome: question.Denied, Option: acp.RejectOnce, By: gate.ByPolicy}); err != nil || end != want {
		t.Errorf("a call: got %+v, %v, want %+v", end, err, want)
	}
	r.agent.wantError("10", -32603, "could not be recorded")
}

func TestOneAnswerCountsHoweverTheyRace(t *testing.T) {
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
		if kind == 2 && end.By == gate.ByClient { // it was allowed, so that the client answers the call itself
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
		// All that the client is shown of this round.
		r.agent.send(`{"method":"_end"}`)
		for r.client.next() != `{"method":"_end"}` {
		}
	}
}

type connection = grpc.ClientConnInterface

func readRecords(t *testing.T, file string) []*supervisorv1.AuditRecord {
	t.Helper()
	var all []*supervisorv1.AuditRecord
	for rec, err := range audit.Read(file, audit.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rec)
	}
	return all
}

func TestAnAnswerToOneQuestionNeverCountsForAnother(t *testing.T) {
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
