package link

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
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
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
	"github.com/acphost/acphost/services/supervisor/internal/policy/audit"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/question"
)

// recorder observes questions, and checks that each begins and ends once.
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
			case <-d.ended: // the goroutine that notified the begin at the link's end also notifies the end
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

// watchedRig is a gated rig with a recorder of questions, whose elicitations go to the client.
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
	t.Cleanup(func() { // before the recorder is checked
		_ = r.agent.in.Close()
		_ = r.client.in.Close()
		r.end()
	})
	return r, d
}

// Elicitations in unusual spellings.
const (
	askedForm = `{"jsonrpc":"2.0", "id":"\u0071" ,"method":"elicitation/create","params":{"sessionId":"s","mode":"form","message":"é","requestedSchema":{"properties":{},"type":"object"},"_meta":{"n":1.50}}}`
	askedPage = `{"id":9007199254740993,"method":"elicitation\/create","params":{"requestId":"i2","mode":"url","url":"https://x.example","elicitationId":"e","message":""}}`
	answerYes = `{"jsonrpc":"2.0","id":7,"result":{"outcome":{"outcome":"selected","optionId":"a"}}}`
	answerOff = `{"jsonrpc":"2.0","id":7,"result":{"outcome":{"outcome":"cancelled"}}}`
	cancel7   = `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":7}}`
)

func TestAnswer_FirstAnswerToAgentQuestionCounts(t *testing.T) {
	for name, tt := range map[string]struct {
		answer  question.Answer
		agent   string
		end     question.End
		decided string // the outcome that the policy gets
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

// by returns the lines of a direction with a handler's name.
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

func TestAnswer_FirstAnswerToElicitationCounts(t *testing.T) {
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

func TestAnswer_FirstAnswerToOwnQuestionCounts(t *testing.T) {
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

func TestAnswer_ClientAnswerEndsQuestion(t *testing.T) {
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

func TestElicitation_WaitsAfterGate(t *testing.T) {
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

func TestAnswer_QuestionOfUnknownSession(t *testing.T) {
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

func TestAnswer_RejectsCalls(t *testing.T) {
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

func TestElicitation_BelongsToSessionOfRequest(t *testing.T) {
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

func TestAnswer_RecordsAnswerer(t *testing.T) {
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
	r.agent.wantError("8", -32603, "the user rejected this")
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	records := readRecords(t, file)
	if len(records) != 2 || records[0].GetAnsweredBy() != "ann's laptop" || records[0].GetOutcome() != "allowed" || records[0].GetOption() != acp.AllowOnce ||
		records[1].GetAnsweredBy() != "bob" || records[1].GetOutcome() != "denied" {
		t.Errorf("recorded: %v", records)
	}
	// An action that cannot be recorded is not allowed, whoever allows it.
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
	r.agent.wantError("10", -32603, "could not record it")
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
