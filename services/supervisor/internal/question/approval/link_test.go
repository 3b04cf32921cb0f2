package approval

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/fault"
	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/session"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/link"
	"google.golang.org/grpc"
)

// joined is a real link between an agent and a client that a test plays, with its questions, and the events that are told of it.
type joined struct {
	t             *testing.T
	registry      *Registry
	agent, client *end

	mu      sync.Mutex
	decoder *event.Decoder
	events  []*supervisorv1.Event
	told    chan struct{} // has something when there are more events
}

// end is one end of the link.
type end struct {
	t   *testing.T
	in  *os.File // what the test writes
	raw *os.File
	out *bufio.Reader
}

func (e *end) send(lines ...string) {
	e.t.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(e.in, line+"\n"); err != nil {
			e.t.Fatal(err)
		}
	}
}

func (e *end) next() string {
	e.t.Helper()
	if err := e.raw.SetReadDeadline(time.Now().Add(testkit.Timeout())); err != nil {
		e.t.Fatal(err)
	}
	line, err := e.out.ReadString('\n')
	if err != nil {
		e.t.Fatal(err)
	}
	return strings.TrimSuffix(line, "\n")
}

type pipes struct {
	r io.Reader
	w io.WriteCloser
}

func (p pipes) Stdin() io.WriteCloser                  { return p.w }
func (p pipes) Stdout() io.Reader                      { return p.r }
func (p pipes) Ended(context.Context) (string, []byte) { return "gone", nil }

// Frame implements frame.Observer.
func (j *joined) Frame(f frame.Frame) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, j.decoder.Frame(f)...)
	select {
	case j.told <- struct{}{}:
	default:
	}
}

// inEvents waits for the end of a question in the events, and returns how it began and ended there.
func (j *joined) inEvents(id string) (asked *supervisorv1.Approval, ends []*supervisorv1.ApprovalAnswer) {
	j.t.Helper()
	late := testkit.After()
	for {
		j.mu.Lock()
		for _, e := range j.events {
			if q := e.GetQuestionAsked(); event.Handle(q.GetId()) == id && q != nil {
				asked = q
			}
			if a := e.GetQuestionAnswered(); event.Handle(a.GetId()) == id && a != nil {
				ends = append(ends, a)
			}
		}
		j.mu.Unlock()
		if len(ends) > 0 {
			return asked, ends
		}
		select {
		case <-j.told:
		case <-late:
			j.t.Fatal("the events do not end the question")
		}
	}
}

func join(t *testing.T, r *Registry, change ...func(*link.Options)) *joined {
	t.Helper()
	who := &frame.Agent{ID: "demo-1", Name: "demo"}
	j := &joined{t: t, registry: r, told: make(chan struct{}, 1), decoder: event.NewDecoder(*who, nil)}
	pipe := func() (r, w *os.File) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		return r, w
	}
	clientIn, toLink := pipe()
	fromLink, clientOut := pipe()
	agentIn, toLink2 := pipe()
	fromLink2, agentOut := pipe()
	j.client = &end{t: t, in: toLink, raw: fromLink, out: bufio.NewReader(fromLink)}
	j.agent = &end{t: t, in: toLink2, raw: fromLink2, out: bufio.NewReader(fromLink2)}
	questions := r.Questions(who)
	log := slog.New(slog.DiscardHandler)
	o := link.Options{
		Client:    link.Client{In: clientIn, Out: clientOut},
		Agent:     pipes{agentIn, agentOut},
		Ready:     func(context.Context) (*route.Table, error) { return route.Build(nil, nil) },
		Conn:      func(string) (grpc.ClientConnInterface, error) { return nil, io.EOF },
		Sessions:  session.New(session.Options{Agent: "demo"}),
		Gate:      gate.New(gate.Options{Logger: log}),
		Questions: questions,
		Observer:  j,
		Logger:    log,
	}
	for _, f := range change {
		f(&o)
	}
	l := link.New(o)
	questions.Bind(l)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = l.Run(t.Context())
	}()
	t.Cleanup(func() {
		_, _ = toLink.Close(), toLink2.Close()
		_, _ = fromLink.Close(), fromLink2.Close()
		<-done
	})
	j.client.send(`{"id":"i","method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}`)
	j.agent.next()
	j.agent.send(`{"id":"i","result":{"protocolVersion":1}}`)
	j.client.next()
	j.client.send(`{"id":"n","method":"session/new","params":{"cwd":"/w","mcpServers":[]}}`)
	j.agent.next()
	j.agent.send(`{"id":"n","result":{"sessionId":"s"}}`)
	j.client.next()
	return j
}

const (
	asksEdit = `{"id":7,"method":"session/request_permission","params":` + params + `}`
	formAsk  = `{"id":"f","method":"elicitation/create","params":{"sessionId":"s","mode":"form","message":"Who?","requestedSchema":{"type":"object"}}}`
)

func accept(id, content string) *supervisorv1.AnswerApprovalRequest {
	return &supervisorv1.AnswerApprovalRequest{Id: id, AnsweredBy: "ann", Answer: &supervisorv1.AnswerApprovalRequest_Accept{Accept: content}}
}

func TestWatch_AgreesWithEvents(t *testing.T) {
	var r *Registry
	answer := func(req *supervisorv1.AnswerApprovalRequest) func(*joined) {
		return func(j *joined) {
			if _, err := r.AnswerApproval(j.t.Context(), whole(r, req)); err != nil {
				j.t.Error(err)
			}
		}
	}
	sends := func(line string) func(*joined) { return func(j *joined) { j.client.send(line) } }
	var there atomic.Bool
	for name, tt := range map[string]struct {
		line, id string
		program  bool
		end      func(*joined)
		want     *supervisorv1.ApprovalAnswer
	}{
		"allowed by a caller":      {asksEdit, "demo-1/7", true, answer(option("demo-1/7", "allow_once", "ann")), &supervisorv1.ApprovalAnswer{Outcome: "allowed", OptionId: "y", AnsweredBy: "ann"}},
		"denied by the front":      {asksEdit, "demo-1/7", false, sends(`{"id":7,"result":{"outcome":{"outcome":"selected","optionId":"n"}}}`), &supervisorv1.ApprovalAnswer{Outcome: "denied", OptionId: "n", AnsweredBy: "front"}},
		"an error of the front's":  {asksEdit, "demo-1/7", false, sends(`{"id":7,"error":{"code":1,"message":""}}`), &supervisorv1.ApprovalAnswer{Outcome: "cancelled", AnsweredBy: "front"}},
		"nobody's answer":          {asksEdit, "demo-1/7", true, func(*joined) { there.Store(false) }, &supervisorv1.ApprovalAnswer{Outcome: "expired", OptionId: "n", AnsweredBy: "nobody"}},
		"a turn that is cancelled": {asksEdit, "demo-1/7", true, sends(`{"method":"session/cancel","params":{"sessionId":"s"}}`), &supervisorv1.ApprovalAnswer{Outcome: "cancelled", AnsweredBy: "nobody"}},
		"an agent's second thought": {asksEdit, "demo-1/7", true, func(j *joined) {
			j.agent.send(`{"method":"$/cancel_request","params":{"requestId":7}}`)
		}, &supervisorv1.ApprovalAnswer{Outcome: "withdrawn", AnsweredBy: "nobody"}},
		"a form filled in":         {formAsk, "demo-1/f", true, answer(accept("demo-1/f", `{"a":1}`)), &supervisorv1.ApprovalAnswer{Outcome: "accepted", AnsweredBy: "ann"}},
		"a form that is left":      {formAsk, "demo-1/f", true, func(*joined) { there.Store(false) }, &supervisorv1.ApprovalAnswer{Outcome: "expired", AnsweredBy: "nobody"}},
		"a form that is cancelled": {formAsk, "demo-1/f", true, sends(`{"method":"session/cancel","params":{"sessionId":"s"}}`), &supervisorv1.ApprovalAnswer{Outcome: "cancelled", AnsweredBy: "nobody"}},
	} {
		t.Run(name, func(t *testing.T) {
			there.Store(true)
			r = New()
			w := watch(t, r, &supervisorv1.WatchApprovalsRequest{OnlyLook: true})
			if w.take(t).GetCaughtUp() == nil {
				t.Fatal("something waited")
			}
			j := join(t, r, func(o *link.Options) {
				o.Program, o.Attended, o.Unattended = tt.program, there.Load, 50*time.Millisecond
			})
			j.agent.send(tt.line)
			asked := w.take(t).GetAsked()
			if event.Handle(asked.GetId()) != tt.id || asked.GetAgentId() != "demo-1" || asked.GetSessionId() != "s" {
				t.Fatalf("asked: %v", asked)
			}
			j.client.next()
			tt.end(j)
			got := w.take(t).GetAnswered()
			if event.Handle(got.GetId()) != tt.id || got.GetOutcome() != tt.want.GetOutcome() || got.GetOptionId() != tt.want.GetOptionId() || got.GetAnsweredBy() != tt.want.GetAnsweredBy() {
				t.Errorf("answered: %v, want %v", got, tt.want)
			}
			j.agent.next() // what it is told, or what has passed before
			_ = w.leave()
			inEvents, ends := j.inEvents(tt.id)
			if inEvents.GetRaw() != asked.GetRaw() || inEvents.GetPermission().GetTitle() != asked.GetPermission().GetTitle() || inEvents.GetElicitation().GetMessage() != asked.GetElicitation().GetMessage() {
				t.Errorf("the events have %v, the questions %v", inEvents, asked)
			}
			if len(ends) != 1 || ends[0].GetOutcome() != got.GetOutcome() || ends[0].GetAnsweredBy() != got.GetAnsweredBy() ||
				got.GetOutcome() != "expired" && ends[0].GetOptionId() != got.GetOptionId() {
				t.Errorf("the events end with %v, the questions with %v", ends, got)
			}
		})
	}
}

func TestEvents_QuestionIsAnswerableAtOnce(t *testing.T) {
	r := New()
	j := join(t, r)
	write := `{"id":"w","method":"session/request_permission","params":` + params + `}`
	for i := range 200 {
		j.agent.send(strings.Replace(write, `"w"`, fmt.Sprint(i), 1))
		id := fmt.Sprintf("demo-1/%d", i)
		for asked := false; !asked; {
			j.mu.Lock()
			for _, e := range j.events {
				asked = asked || event.Handle(e.GetQuestionAsked().GetId()) == id
			}
			j.mu.Unlock()
			if !asked {
				<-j.told
			}
		}
		if _, err := r.AnswerApproval(t.Context(), whole(r, option(id, "y", "ann"))); err != nil {
			t.Fatal(err)
		}
		if got := j.agent.next(); !strings.Contains(got, `"optionId":"y"`) {
			t.Fatal(got)
		}
		if got := r.ListApprovals(""); len(got) != 0 { // the agent goes on, and nothing waits
			t.Fatalf("still there: %v", got)
		}
		j.client.next()
		j.client.next()
	}
}

func TestAnswer_EditorAndCallersRace(t *testing.T) {
	const rounds = 100
	r := New()
	j := join(t, r)
	w := watch(t, r, &supervisorv1.WatchApprovalsRequest{})
	w.take(t)
	for i := range rounds {
		j.agent.send(strings.Replace(asksEdit, `"id":7`, fmt.Sprintf(`"id":%d`, i), 1))
		id := event.Handle(w.take(t).GetAsked().GetId())
		j.client.next()
		var race sync.WaitGroup
		answers := make([]*supervisorv1.ApprovalAnswer, 2)
		for n, by := range []string{"ann", "bob"} {
			race.Go(func() {
				got, err := r.AnswerApproval(t.Context(), whole(r, option(id, "n", by)))
				if err != nil {
					f := classOf(t, err)
					if f.Class != fault.Precondition || f.Answer == nil {
						t.Errorf("%s is told %+v", by, f)
					}
					got = f.Answer
				} else if got.GetAnsweredBy() != by {
					t.Errorf("%s won, and is told %v", by, got)
				}
				answers[n] = got
			})
		}
		race.Go(func() {
			j.client.send(fmt.Sprintf(`{"id":%d,"result":{"outcome":{"outcome":"selected","optionId":"y"}}}`, i), `{"method":"_round"}`)
		})
		race.Wait()
		told := w.take(t).GetAnswered()
		for _, got := range answers {
			if got.GetAnsweredBy() != told.GetAnsweredBy() || got.GetOutcome() != told.GetOutcome() || event.Handle(got.GetId()) != id {
				t.Errorf("round %d: %v, and the watcher %v", i, got, told)
			}
		}
		want := "n"
		if told.GetAnsweredBy() == "front" {
			want = "y"
		} else {
			j.client.next() // its answer is not needed any more
		}
		var got string
		for passed := false; got == "" || !passed; {
			if line := j.agent.next(); line == `{"method":"_round"}` {
				passed = true
			} else {
				got += line
			}
		}
		if strings.Count(got, `"id"`) != 1 || !strings.Contains(got, fmt.Sprintf(`"optionId":%q`, want)) {
			t.Fatalf("round %d: answered by %s, and the agent got %s", i, told.GetAnsweredBy(), got)
		}
	}
	if err := w.leave(); err == nil {
		t.Error("watching ended by itself")
	}
}
