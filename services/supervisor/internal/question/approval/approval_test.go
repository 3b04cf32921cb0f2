package approval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acphost/acphost/internal/fault"
	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
	"github.com/acphost/acphost/services/supervisor/internal/question"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// agent is an agent's link as a test plays it: a table of questions, each answered once.
type agent struct {
	questions *Questions

	mu   sync.Mutex
	open map[string]*question.Question
	got  []question.Answer
	err  error
}

func newAgent(r *Registry, id string) *agent {
	a := &agent{questions: r.Questions(&frame.Agent{ID: id}), open: map[string]*question.Question{}}
	a.questions.Bind(a)
	return a
}

const params = `{"sessionId":"s","toolCall":{"toolCallId":"t","title":"Run make","kind":"execute","rawInput":{"command":"make"}},"options":[{"optionId":"y","kind":"allow_once","name":"Yes"},{"optionId":"n","kind":"reject_once","name":"No"}]}`

// ask has a permission question wait.
func (a *agent) ask(id, session string) *question.Question {
	q := &question.Question{ID: []byte(id), Method: acp.MethodRequestPermission, SessionID: session, Params: []byte(params), Asked: time.Now()}
	a.put(q)
	return q
}

func (a *agent) put(q *question.Question) {
	a.mu.Lock()
	a.open[string(q.ID)] = q
	a.mu.Unlock()
	a.questions.Asked(q)
}

// end ends a question as the link would; false: somebody else has.
func (a *agent) end(id string, e question.End) bool {
	a.mu.Lock()
	q := a.open[id]
	delete(a.open, id)
	a.mu.Unlock()
	if q == nil {
		return false
	}
	a.questions.Ended(q, e)
	return true
}

func (a *agent) Answer(id []byte, answer question.Answer, by string) (question.End, error) {
	a.mu.Lock()
	a.got = append(a.got, answer)
	err := a.err
	a.mu.Unlock()
	if err != nil {
		return question.End{}, err
	}
	e := question.End{Outcome: question.Allowed, Option: answer.Option, By: by}
	if !a.end(string(id), e) {
		return question.End{}, question.ErrNotOpen
	}
	return e, nil
}

func option(id, option, by string) *supervisorv1.AnswerApprovalRequest {
	return &supervisorv1.AnswerApprovalRequest{Id: id, AnsweredBy: by, Answer: &supervisorv1.AnswerApprovalRequest_OptionId{OptionId: option}}
}

// whole is an answer that names a question by its handle, with the id in its place.
func whole(r *Registry, req *supervisorv1.AnswerApprovalRequest) *supervisorv1.AnswerApprovalRequest {
	req.Id = cmp.Or(r.ID(req.GetId()), req.GetId())
	return req
}

func ids(approvals []*supervisorv1.Approval) []string {
	var all []string
	for _, a := range approvals {
		all = append(all, event.Handle(a.GetId()))
	}
	return all
}

func classOf(t *testing.T, err error) *fault.Error {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) {
		t.Fatalf("got %v, want a fault", err)
	}
	return f
}

func TestList_OldestFirstAndBySession(t *testing.T) {
	r := New()
	one, two := newAgent(r, "one"), newAgent(r, "two")
	one.ask("1", "s")
	two.ask("1", "u")
	one.ask(`"x"`, "s")
	if got := ids(r.ListApprovals("")); !slices.Equal(got, []string{"one/1", "two/1", "one/x"}) {
		t.Errorf("all: %q", got)
	}
	if got := ids(r.ListApprovals("s")); !slices.Equal(got, []string{"one/1", "one/x"}) {
		t.Errorf("of s: %q", got)
	}
	one.end("1", question.End{Outcome: question.Denied, By: "front"})
	if got := ids(r.ListApprovals("")); !slices.Equal(got, []string{"two/1", "one/x"}) {
		t.Errorf("after one was answered: %q", got)
	}
}

func TestApproval_ShowsToolCallOfPermission(t *testing.T) {
	r := New()
	a := newAgent(r, "a")
	raw := `{"sessionId":"s","toolCall":{"toolCallId":"t"},"options":[{"optionId":"y","kind":"allow_once","name":"Yes"}],"_meta":{"n":1.50}}`
	a.put(&question.Question{
		ID: []byte("7"), Method: acp.MethodRequestPermission, SessionID: "s", Params: []byte(raw), Reason: "because (rule r)", Asked: time.Unix(5, 0),
		ToolCall: &acp.ToolCall{
			ID: "t", Title: "Edit a \"file\"", Kind: "edit",
			Content:   []byte(`[{"type":"diff","path":"/w/f","oldText":"a","newText":"b"},{"type":"terminal","terminalId":"acphost-1"}]`),
			Locations: []byte(`[{"path":"/w/f","line":3}]`), RawInput: []byte(`{"x":1.0}`),
		},
	})
	got := r.ListApprovals("")[0]
	p := got.GetPermission()
	if got.GetRaw() != raw || got.GetAgentId() != "a" || got.GetSessionId() != "s" || got.GetTime().AsTime().Unix() != 5 || got.GetElicitation() != nil {
		t.Errorf("got %v", got)
	}
	if p.GetToolCallId() != "t" || p.GetTitle() != `Edit a "file"` || p.GetKind() != "edit" || p.GetRawInput() != `{"x":1.0}` ||
		p.GetReason() != "because (rule r)" || p.GetFromAcphost() ||
		len(p.GetContent()) != 2 || p.GetContent()[0].GetDiff().GetNewText() != "b" || p.GetContent()[1].GetTerminalId() != "acphost-1" ||
		len(p.GetLocations()) != 1 || p.GetLocations()[0].GetLine() != 3 ||
		len(p.GetOptions()) != 1 || p.GetOptions()[0].GetName() != "Yes" {
		t.Errorf("got %v", p)
	}
}

func TestApproval_MarksOwnQuestions(t *testing.T) {
	r := New()
	a := newAgent(r, "a")
	a.put(&question.Question{ID: []byte(`"RANDOM"`), Own: true, Method: acp.MethodRequestPermission, SessionID: "s", Params: []byte(params), Reason: "a rule wants it"})
	got := r.ListApprovals("")[0]
	if event.Handle(got.GetId()) != "a/RANDOM" || !got.GetPermission().GetFromAcphost() || got.GetPermission().GetReason() != "a rule wants it" || got.GetPermission().GetTitle() != "Run make" {
		t.Errorf("got %v", got)
	}
}

func TestApproval_ShowsElicitationsByMode(t *testing.T) {
	r := New()
	a := newAgent(r, "a")
	for i, raw := range []string{
		`{"sessionId":"s","toolCallId":"t","mode":"form","message":"Who?","requestedSchema":{"type":"object","properties":{}}}`,
		`{"requestId":4,"mode":"url","message":"Log in","url":"https://x.example/","elicitationId":"e"}`,
		`{"mode":"_odd","message":5}`,
		`null`,
	} {
		a.put(&question.Question{ID: []byte(fmt.Sprint(i)), Method: "elicitation/create", Params: []byte(raw)})
	}
	got := r.ListApprovals("")
	form, page := got[0].GetElicitation(), got[1].GetElicitation()
	if form.GetMode() != "form" || form.GetMessage() != "Who?" || form.GetToolCallId() != "t" || form.GetRequestedSchema() != `{"type":"object","properties":{}}` {
		t.Errorf("form: %v", form)
	}
	if page.GetMode() != "url" || page.GetUrl() != "https://x.example/" || page.GetElicitationId() != "e" || got[1].GetPermission() != nil {
		t.Errorf("page: %v", got[1])
	}
	if got[2].GetElicitation().GetMode() != "_odd" || got[3].GetElicitation() == nil || got[3].GetRaw() != "null" {
		t.Errorf("others: %v", got[2:])
	}
}

func TestAnswer_FirstCountsAndNextIsRejected(t *testing.T) {
	r := New()
	a := newAgent(r, "a")
	a.ask("1", "s")
	first, err := r.AnswerApproval(t.Context(), whole(r, option("a/1", "y", "ann")))
	if err != nil || first.GetOutcome() != "allowed" || first.GetOptionId() != "y" || first.GetAnsweredBy() != "ann" || event.Handle(first.GetId()) != "a/1" || first.GetTime() == nil {
		t.Fatalf("got %v, %v", first, err)
	}
	_, err = r.AnswerApproval(t.Context(), whole(r, option("a/1", "n", "bob")))
	if f := classOf(t, err); f.Class != fault.Precondition || f.Answer != first || !strings.Contains(f.Message, "allowed by ann") {
		t.Errorf("got %+v", f)
	}
	if len(a.got) != 1 {
		t.Errorf("the link was asked %d times", len(a.got))
	}
}

func TestAnswer_LoserLearnsPendingWinner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New()
		a := newAgent(r, "a")
		q := a.ask("1", "s")
		a.err = question.ErrNotOpen // the editor's answer is being recorded
		go func() {
			time.Sleep(time.Second)
			a.questions.Ended(q, question.End{Outcome: question.Denied, Option: "n", By: "front"})
		}()
		_, err := r.AnswerApproval(t.Context(), whole(r, option("a/1", "y", "")))
		if f := classOf(t, err); f.Class != fault.Precondition || f.Answer.GetAnsweredBy() != "front" || f.Answer.GetOutcome() != "denied" {
			t.Errorf("got %+v", f)
		}
		a.ask("2", "s")
		started := time.Now()
		_, err = r.AnswerApproval(t.Context(), whole(r, option("a/2", "y", "")))
		if f := classOf(t, err); f.Class != fault.Precondition || f.Answer != nil || time.Since(started) != recordTimeout {
			t.Errorf("got %+v after %v", f, time.Since(started))
		}
	})
}

func TestAnswer_ReachesLinkUnchanged(t *testing.T) {
	for name, tt := range map[string]struct {
		req  *supervisorv1.AnswerApprovalRequest
		want question.Answer
	}{
		"an option": {option("a/1", "y", ""), question.Answer{Option: "y"}},
		"a form":    {&supervisorv1.AnswerApprovalRequest{Answer: &supervisorv1.AnswerApprovalRequest_Accept{Accept: `{"a":1}`}}, question.Answer{Accept: []byte(`{"a":1}`)}},
		"no":        {&supervisorv1.AnswerApprovalRequest{Answer: &supervisorv1.AnswerApprovalRequest_Decline{Decline: true}}, question.Answer{Decline: true}},
		"nothing":   {&supervisorv1.AnswerApprovalRequest{Answer: &supervisorv1.AnswerApprovalRequest_Cancel{Cancel: true}}, question.Answer{Cancel: true}},
	} {
		t.Run(name, func(t *testing.T) {
			r := New()
			a := newAgent(r, "a")
			a.ask("1", "s")
			tt.req.Id = "a/1"
			got, err := r.AnswerApproval(t.Context(), whole(r, tt.req))
			if err != nil || got.GetAnsweredBy() != "grpc" {
				t.Fatalf("got %v, %v", got, err)
			}
			if a.got[0].Option != tt.want.Option || string(a.got[0].Accept) != string(tt.want.Accept) || a.got[0].Decline != tt.want.Decline || a.got[0].Cancel != tt.want.Cancel {
				t.Errorf("the link got %+v, want %+v", a.got[0], tt.want)
			}
		})
	}
	r := New()
	newAgent(r, "a").ask("1", "s")
	for _, req := range []*supervisorv1.AnswerApprovalRequest{
		{Id: "a/1"}, option("a/1", "", ""),
		{Id: "a/1", Answer: &supervisorv1.AnswerApprovalRequest_Decline{}},
		{Id: "a/1", Answer: &supervisorv1.AnswerApprovalRequest_Cancel{}},
	} {
		if _, err := r.AnswerApproval(t.Context(), whole(r, req)); classOf(t, err).Class != fault.Invalid {
			t.Errorf("%v: %v", req, err)
		}
	}
}

func TestAnswer_InvalidOptionKeepsQuestionOpen(t *testing.T) {
	r := New()
	a := newAgent(r, "a")
	a.ask("1", "s")
	a.err = fmt.Errorf("%w: choose y", question.ErrNotOffered)
	_, err := r.AnswerApproval(t.Context(), whole(r, option("a/1", "z", "")))
	if f := classOf(t, err); f.Class != fault.Invalid || !strings.Contains(f.Message, "choose y") {
		t.Errorf("got %+v", f)
	}
	if len(r.ListApprovals("")) != 1 {
		t.Error("the question is gone")
	}
}

func TestAnswer_InvalidFormKeepsQuestionOpen(t *testing.T) {
	for name, c := range map[string]struct{ params, content, want string }{
		"what is asked for": {`{"mode":"form","requestedSchema":{"properties":{"target":{"type":"string"}},"required":["target"]}}`, `{"target":"x"}`, ""},
		"without what is required": {`{"mode":"form","requestedSchema":{"properties":{"target":{"type":"string"}},"required":["target"]}}`, `{}`,
			`answer question a/1: the field "target" is required: expected a text`},
		"of another kind": {`{"requestedSchema":{"properties":{"jobs":{"type":"integer","maximum":8}}}}`, `{"jobs":"many"}`,
			`answer question a/1: the field "jobs" does not fit: expected a whole number of at most 8`},
		"no object":                    {`{"mode":"form","requestedSchema":{"properties":{}}}`, `7`, "answer question a/1: the content is not a JSON object"},
		"a page":                       {`{"mode":"url","url":"https://a","requestedSchema":{"properties":{"a":{"type":"string"}},"required":["a"]}}`, `{}`, ""},
		"a schema that cannot be read": {`{"mode":"form","requestedSchema":{"properties":7}}`, `{"a":1}`, ""},
		"no schema":                    {`{"mode":"form"}`, `{"a":1}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := New()
			a := newAgent(r, "a")
			a.put(&question.Question{ID: []byte("1"), Method: acp.MethodElicitationCreate, SessionID: "s", Params: []byte(c.params), Asked: time.Now()})
			_, err := r.AnswerApproval(t.Context(), whole(r, accept("a/1", c.content)))
			if c.want == "" {
				if err != nil || len(a.got) != 1 || string(a.got[0].Accept) != c.content {
					t.Errorf("got %v, and the link %v", err, a.got)
				}
				return
			}
			if f := classOf(t, err); f.Class != fault.Invalid || f.Message != c.want {
				t.Errorf("got %+v, want %q", f, c.want)
			}
			if len(r.ListApprovals("")) != 1 || len(a.got) > 0 {
				t.Errorf("%d questions wait, and the link was told %v", len(r.ListApprovals("")), a.got)
			}
		})
	}
}

func TestAnswer_NeedsWholeID(t *testing.T) {
	r := New()
	one, two := newAgent(r, "one"), newAgent(r, "two")
	one.ask(`"abc"`, "s")
	two.ask(`12`, "s")
	for _, q := range r.ListApprovals("") {
		id, handle := q.GetId(), event.Handle(q.GetId())
		if e, err := r.find(id); err != nil || e.approval != q {
			t.Errorf("%s: %v", id, err)
		}
		if len(id) < len(handle)+26 || r.ID(handle) != id {
			t.Errorf("%s is the id of %s, which is known by %s", id, handle, r.ID(handle))
		}
		if _, err := r.find(handle); classOf(t, err).Class != fault.Invalid || strings.Contains(err.Error(), id) {
			t.Errorf("the handle %s: %v", handle, err)
		}
		for _, part := range []string{id[:len(id)-1], id + "A", handle + "." + strings.Repeat("A", 26), "", "one/", "three"} {
			if _, err := r.find(part); classOf(t, err).Class != fault.NotFound || strings.Contains(err.Error(), id) && part != id+"A" {
				t.Errorf("%q: %v", part, err)
			}
		}
	}
	id := r.ID("two/12")
	two.end("12", question.End{Outcome: question.Allowed, By: "x"})
	for _, name := range []string{id, "two/12"} {
		if _, err := r.find(name); classOf(t, err).Answer.GetId() != id {
			t.Errorf("a question that is gone, by %s: %v", name, err)
		}
	}
	two.ask(`12`, "s")
	if again := r.ID("two/12~2"); again == "" || again == id {
		t.Errorf("an id that was used again is %q", again)
	}
}

func TestAnswers_LimitsRemembered(t *testing.T) {
	r := New()
	a := newAgent(r, "a")
	for i := range maxRecent + 10 {
		a.ask(fmt.Sprint(i), "s")
		a.end(fmt.Sprint(i), question.End{Outcome: question.Denied, By: "front"})
	}
	if r.recent.Len() != maxRecent || len(a.questions.entries) != 0 {
		t.Errorf("%d, %d are kept", r.recent.Len(), len(a.questions.entries))
	}
	if _, err := r.find("a/9"); classOf(t, err).Class != fault.NotFound {
		t.Errorf("an old one: %v", err)
	}
	if _, err := r.find("a/10"); classOf(t, err).Answer == nil {
		t.Errorf("a late one: %v", err)
	}
	a.ask("10", "s") // again
	if _, err := r.find("a/10"); classOf(t, err).Answer == nil {
		t.Errorf("an id that was used before means the question of before: %v", err)
	}
	if e, err := r.find(r.ID("a/10~2")); err != nil {
		t.Errorf("%v, %v", e, err)
	}
	a.end("10", question.End{Outcome: question.Allowed, By: "front"})
}

func TestAnswer_ReusedIDIsOtherQuestion(t *testing.T) {
	r := New()
	for run := 1; run <= 3; run++ { // the agent counts from the same number each time it is started
		a := newAgent(r, "a")
		for _, id := range []string{"7", `"x"`} {
			a.ask(id, "s")
			for _, was := range []string{"a/7", "a/x", "a/x~", "a/7~"} {
				_, err := r.AnswerApproval(t.Context(), whole(r, option(was, "allow_once", "ann")))
				if run > 1 && classOf(t, err) == nil {
					t.Errorf("run %d: an answer to %s answered %s", run, was, id)
				}
			}
			if run > 1 && len(r.ListApprovals("")) == 0 {
				t.Errorf("run %d: %s was answered", run, id)
			}
			a.end(id, question.End{Outcome: question.Denied, By: "front"})
		}
	}
}

func TestRegistry_IgnoresRepeatedAndUnknownEnds(t *testing.T) {
	r := New()
	a := newAgent(r, "a")
	q := a.ask("1", "s")
	a.questions.Ended(q, question.End{Outcome: question.Allowed, By: "x"})
	a.questions.Ended(q, question.End{Outcome: question.Denied, By: "y"})
	a.questions.Ended(&question.Question{ID: []byte("1")}, question.End{Outcome: question.Denied, By: "z"})
	a.questions.Expires(q, time.Now())
	if got := r.recent.At(r.ID("a/1")); got.GetAnsweredBy() != "x" {
		t.Errorf("got %v", got)
	}
	again := a.ask("1", "s")
	if b := newAgent(r, "a"); b.ask("1", "s") == again { // a new link of an agent whose last one has not said that it is over
		t.Fatal("the same question")
	}
	a.questions.Ended(again, question.End{Outcome: question.Allowed, By: "late"})
	if got := r.recent.At(r.ID("a/1~2")); got.GetOutcome() != "withdrawn" || len(r.ListApprovals("")) != 1 {
		t.Errorf("got %v", got)
	}
}

func TestApproval_ShowsDeadlineOnlyWhileUnattended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New()
		a := newAgent(r, "a")
		at := time.Now().Add(time.Minute)
		q := &question.Question{ID: []byte("1"), Method: acp.MethodRequestPermission, Params: []byte(params), Asked: time.Now(), Expires: at}
		a.put(q)
		if got := r.ListApprovals("")[0].GetExpireTime(); !got.AsTime().Equal(at) {
			t.Errorf("it ends at %v, want %v", got.AsTime(), at)
		}
		look := watch(t, r, &supervisorv1.WatchApprovalsRequest{OnlyLook: true})
		synctest.Wait()
		if r.Attended() || r.ListApprovals("")[0].GetExpireTime() == nil || look.take(t).GetAsked().GetExpireTime() == nil {
			t.Error("who only looks attends")
		}
		answers := watch(t, r, &supervisorv1.WatchApprovalsRequest{})
		synctest.Wait()
		if !r.Attended() || r.ListApprovals("")[0].GetExpireTime() != nil || answers.take(t).GetAsked().GetExpireTime() != nil {
			t.Error("who will answer does not attend")
		}
		answers.leave()
		a.questions.Expires(q, at.Add(time.Hour))
		if got := r.ListApprovals("")[0].GetExpireTime(); r.Attended() || !got.AsTime().Equal(at.Add(time.Hour)) {
			t.Errorf("it ends at %v", got.AsTime())
		}
		a.questions.Expires(q, time.Time{})
		if r.ListApprovals("")[0].GetExpireTime() != nil {
			t.Error("it still ends")
		}
		look.leave()
	})
}

// watching is a call of WatchApprovals.
type watching struct {
	got    chan *supervisorv1.WatchApprovalsResponse
	cancel context.CancelFunc
	err    chan error
}

func watch(t *testing.T, r *Registry, req *supervisorv1.WatchApprovalsRequest) *watching {
	ctx, cancel := context.WithCancel(t.Context())
	w := &watching{got: make(chan *supervisorv1.WatchApprovalsResponse), cancel: cancel, err: make(chan error, 1)}
	go func() {
		w.err <- r.WatchApprovals(ctx, req, func(m *supervisorv1.WatchApprovalsResponse) error {
			select {
			case w.got <- m:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	return w
}

func (w *watching) take(t *testing.T) *supervisorv1.WatchApprovalsResponse {
	t.Helper()
	select {
	case m := <-w.got:
		return m
	case err := <-w.err:
		t.Fatalf("watching ended: %v", err)
	case <-testkit.After():
		t.Fatal("nothing came")
	}
	return nil
}

func (w *watching) leave() error {
	w.cancel()
	return <-w.err
}

func TestWatch_SendsWaitingThenChanges(t *testing.T) {
	r := New()
	a := newAgent(r, "a")
	a.ask("1", "s")
	a.ask("2", "other")
	all, some := watch(t, r, &supervisorv1.WatchApprovalsRequest{}), watch(t, r, &supervisorv1.WatchApprovalsRequest{SessionId: "s"})
	for _, want := range []string{"a/1", "a/2"} {
		if got := all.take(t).GetAsked(); event.Handle(got.GetId()) != want {
			t.Errorf("got %v, want %s", got, want)
		}
	}
	if got := some.take(t).GetAsked(); event.Handle(got.GetId()) != "a/1" {
		t.Errorf("got %v", got)
	}
	for _, w := range []*watching{all, some} {
		if got := w.take(t); got.GetCaughtUp() == nil {
			t.Errorf("got %v, want that nothing was missed", got)
		}
	}
	a.end("2", question.End{Outcome: question.Denied, Option: "n", By: "front"})
	a.ask("3", "s")
	a.end("1", question.End{Outcome: question.Expired, By: nobody})
	if got := all.take(t).GetAnswered(); event.Handle(got.GetId()) != "a/2" || got.GetOutcome() != "denied" || got.GetOptionId() != "n" || got.GetAnsweredBy() != "front" {
		t.Errorf("got %v", got)
	}
	for _, w := range []*watching{all, some} {
		if got := w.take(t).GetAsked(); event.Handle(got.GetId()) != "a/3" {
			t.Errorf("got %v", got)
		}
		if got := w.take(t).GetAnswered(); event.Handle(got.GetId()) != "a/1" || got.GetOutcome() != "expired" || got.GetAnsweredBy() != "nobody" {
			t.Errorf("got %v", got)
		}
		if err := w.leave(); !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	}
	if len(r.watchers) != 0 || r.Attended() {
		t.Error("somebody still watches")
	}
}

func TestWatch_CutsOffSlowWatcher(t *testing.T) {
	for name, flood := range map[string]func(a *agent){
		"by number": func(a *agent) {
			for i := range 2 * maxWaiting {
				a.ask(fmt.Sprint(i), "s")
				a.end(fmt.Sprint(i), question.End{Outcome: question.Withdrawn, By: nobody})
			}
		},
		"by size": func(a *agent) {
			big := &supervisorv1.Approval{Raw: strings.Repeat("x", maxWaitingBytes/4)}
			r := a.questions.registry
			r.mu.Lock()
			defer r.mu.Unlock()
			for range 12 { // what it has taken when it stops reading is no more than fits
				r.tell(&entry{question: &question.Question{}}, &supervisorv1.WatchApprovalsResponse{Change: &supervisorv1.WatchApprovalsResponse_Asked{Asked: big}})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := New()
			a := newAgent(r, "a")
			w := watch(t, r, &supervisorv1.WatchApprovalsRequest{})
			if w.take(t).GetCaughtUp() == nil {
				t.Fatal("something waited")
			}
			flood(a)
			for {
				select {
				case <-w.got:
					continue
				case err := <-w.err:
					if classOf(t, err).Class != fault.Exhausted {
						t.Errorf("it ended with %v", err)
					}
				}
				break
			}
			if len(r.watchers) != 0 {
				t.Error("it is still told")
			}
		})
	}
}

func TestClose_EndsWatchers(t *testing.T) {
	r := New()
	w := watch(t, r, &supervisorv1.WatchApprovalsRequest{})
	w.take(t)
	r.Close()
	if err := <-w.err; err != nil {
		t.Errorf("it ended with %v", err)
	}
	if err := r.WatchApprovals(t.Context(), &supervisorv1.WatchApprovalsRequest{}, nil); err != nil {
		t.Errorf("a later one ended with %v", err)
	}
}

func TestWatch_WatchersAgreeDuringAnswers(t *testing.T) {
	const questions = 200
	r := New()
	a := newAgent(r, "a")
	var all sync.WaitGroup
	for range 3 {
		w := watch(t, r, &supervisorv1.WatchApprovalsRequest{})
		if w.take(t).GetCaughtUp() == nil {
			t.Fatal("something waited")
		}
		all.Go(func() {
			asked, ended := map[string]bool{}, map[string]bool{}
			for len(ended) < questions {
				m := w.take(t)
				switch {
				case m.GetAsked() != nil:
					if asked[event.Handle(m.GetAsked().GetId())] {
						t.Errorf("%s was told twice", event.Handle(m.GetAsked().GetId()))
					}
					asked[event.Handle(m.GetAsked().GetId())] = true
				case m.GetAnswered() != nil:
					if id := event.Handle(m.GetAnswered().GetId()); !asked[id] || ended[id] {
						t.Errorf("the end of %s: asked %v, ended before %v", id, asked[id], ended[id])
					}
					ended[event.Handle(m.GetAnswered().GetId())] = true
				}
			}
			_ = w.leave()
		})
	}
	for i := range questions {
		id := fmt.Sprint(i)
		a.ask(id, "s")
		var wins sync.Map
		var race sync.WaitGroup
		for _, who := range []string{"ann", "bob"} {
			race.Go(func() {
				if got, err := r.AnswerApproval(t.Context(), whole(r, option("a/"+id, "y", who))); err == nil {
					wins.Store(who, got)
				} else if classOf(t, err).Answer == nil {
					t.Errorf("%s does not learn who was first: %v", who, err)
				}
			})
		}
		race.Wait()
		n := 0
		wins.Range(func(who, got any) bool {
			n++
			if got.(*supervisorv1.ApprovalAnswer).GetAnsweredBy() != who {
				t.Errorf("%s won, and was told %v", who, got)
			}
			return true
		})
		if n != 1 {
			t.Errorf("question %s was answered by %d", id, n)
		}
	}
	all.Wait()
}
