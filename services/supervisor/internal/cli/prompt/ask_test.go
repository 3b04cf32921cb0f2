package prompt

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/hosting"
)

func mayI(id string) *supervisorv1.Approval {
	return &supervisorv1.Approval{Id: id, AgentId: "demo-1", SessionId: "s1", Permission: &supervisorv1.PermissionQuestion{
		ToolCallId: "c", Title: "Edit main.go", Kind: "edit",
		Options: []*supervisorv1.PermissionOption{
			{OptionId: "o1", Kind: "allow_once", Name: "Yes"},
			{OptionId: "o2", Kind: "allow_always", Name: "Always in this session"},
			{OptionId: "o3", Kind: "allow_always", Name: "Always"},
			{OptionId: "o4", Kind: "reject_once", Name: "No"},
			{OptionId: "o5", Kind: "reject_always", Name: "Never"},
			{OptionId: "o6", Kind: "ask_mother", Name: "Ask her"},
		},
	}}
}

// ask sends a question to all watchers, among the turn's events or before them.
func (r *aRun) ask(send func(*supervisorv1.Event), a *supervisorv1.Approval) {
	r.fake.Ask(a)
	send(&supervisorv1.Event{Event: &supervisorv1.Event_QuestionAsked{QuestionAsked: a}})
}

// asks is a turn that asks and ends when it was answered.
func (r *aRun) asks(a *supervisorv1.Approval) {
	r.fake.Turn = func(ctx context.Context, send func(*supervisorv1.Event)) error {
		send(agentMessage("I would like to edit"))
		r.ask(send, a)
		var answer *supervisorv1.AnswerApprovalRequest
		select {
		case answer = <-r.fake.Answered:
		case <-ctx.Done():
			return ctx.Err()
		}
		ended := &supervisorv1.ApprovalAnswer{Id: a.GetId(), Outcome: "allowed", OptionId: answer.GetOptionId(), AnsweredBy: answer.GetAnsweredBy()}
		send(&supervisorv1.Event{Event: &supervisorv1.Event_QuestionAnswered{QuestionAnswered: ended}})
		send(turnEnded("end_turn"))
		r.fake.Mu.Lock()
		defer r.fake.Mu.Unlock()
		r.fake.Answers = append(r.fake.Answers, answer)
		return nil
	}
}

func TestQuestion_IsAnsweredByKey(t *testing.T) {
	for pressed, want := range map[string]string{
		"akk": "o1", "Akk": "o2", "1kk": "o3", "r": "o4", "R": "o5", "2kk": "o6", "xq\n\x1bé9akk": "o1",
		"a\nr": "o4", "akrr": "o4", // what is wrong goes back, and is no answer itself
		"akxakkk": "o1", "a\nA\x1bAkkkk": "o2", // and makes the next code longer
	} {
		t.Run(pressed, func(t *testing.T) {
			r := newRun(t, true)
			r.asks(mayI("demo-1/7"))
			r.begin(t)
			k := r.board(t)
			k.press(pressed)
			if s := r.wait(t); s != 0 {
				t.Errorf("status %d: %s", s, r.errs.String())
			}
			got := r.fake.Answers[0]
			if got.GetId() != "demo-1/7" || got.GetOptionId() != want || got.GetAnsweredBy() != "cli" {
				t.Errorf("answered %v, want %s", got, want)
			}
			<-k.closed
			out := visible(r.out.String())
			begin := "I would like to edit\n\n? The agent asks: Edit main.go\n" +
				"    [a] Yes (allow once)\n    [A] Always in this session (allow from now on)\n    [1] Always (allow from now on)\n" +
				"    [r] No (reject once)\n    [R] Never (reject from now on)\n    [2] Ask her\n✓ allowed ("
			if !strings.HasPrefix(out, begin) {
				t.Errorf("the screen shows %q, want %q", out, begin)
			}
			if !strings.Contains(r.out.String(), "Press a A 1 r R 2, or Ctrl-C to cancel the turn: ") {
				t.Errorf("no keys are shown: %q", r.out.String())
			}
		})
	}
}

func TestPrompt_ShowsCommandThatTitleContradicts(t *testing.T) {
	r := newRun(t, true)
	a := mayI("demo-1/7")
	a.Permission.Title, a.Permission.RawInput = "Read a.txt", `{"command":"rm -rf b"}`
	r.asks(a)
	r.begin(t)
	r.board(t).press("akk")
	if s := r.wait(t); s != 0 {
		t.Fatalf("status %d: %s", s, r.errs.String())
	}
	if got := r.fake.Answers[0]; got.GetSurface() != supervisorv1.Surface_SURFACE_INPUT {
		t.Errorf("answered %v, want that the surface shows the input", got)
	}
	out := visible(r.out.String())
	for _, want := range []string{"? The agent asks: Read a.txt\n    $ rm -rf b\n", "✓ allowed (Yes) by cli: $ rm -rf b\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("the screen shows %q, want %q", out, want)
		}
	}
}

func TestQuestion_RemovedWhenAnsweredElsewhere(t *testing.T) {
	r := newRun(t, true)
	answered := make(chan struct{})
	r.fake.Turn = func(ctx context.Context, send func(*supervisorv1.Event)) error {
		a := mayI("demo-1/7")
		r.ask(send, a)
		<-answered
		r.fake.End("demo-1/7", "denied", "somebody")
		send(&supervisorv1.Event{Event: &supervisorv1.Event_QuestionAnswered{QuestionAnswered: &supervisorv1.ApprovalAnswer{
			Id: "demo-1/7", Outcome: "denied", OptionId: "o4", AnsweredBy: "somebody"}}})
		send(turnEnded("end_turn"))
		return nil
	}
	r.begin(t)
	k := r.board(t)
	close(answered)
	<-k.closed // without a key
	if s := r.wait(t); s != 0 {
		t.Errorf("status %d", s)
	}
	out := visible(r.out.String())
	if strings.Contains(out, "Press a") || !strings.HasSuffix(out, "✗ denied (No) by somebody: Edit main.go\n") {
		t.Errorf("the screen shows %q", out)
	}
	if len(r.fake.Answered) != 0 {
		t.Error("it answered as well")
	}
}

func TestQuestion_LateAnswerIsNoError(t *testing.T) {
	r := newRun(t, true)
	r.fake.Answer = func(*supervisorv1.AnswerApprovalRequest) error {
		return status.Error(codes.FailedPrecondition, "it was answered by grpc")
	}
	sent := make(chan struct{})
	r.fake.Turn = func(ctx context.Context, send func(*supervisorv1.Event)) error {
		r.ask(send, mayI("demo-1/7"))
		<-sent
		send(turnEnded("end_turn"))
		return nil
	}
	r.begin(t)
	k := r.board(t)
	k.press("akk")
	<-k.closed
	close(sent)
	if s := r.wait(t); s != 0 || r.errs.String() != "" {
		t.Errorf("status %d, stderr %q", s, r.errs.String())
	}
}

func TestQuestion_RefusedAnswerIsAskedAgain(t *testing.T) {
	r := newRun(t, true)
	first := true
	r.fake.Answer = func(*supervisorv1.AnswerApprovalRequest) error {
		if first {
			first = false
			return status.Error(codes.InvalidArgument, "jobs: too many")
		}
		return nil
	}
	r.asks(mayI("demo-1/7"))
	r.begin(t)
	k := r.board(t)
	k.press("akk")
	go func() {
		for { // keys while the answer is on its way mean nothing
			select {
			case k.keys <- key{name: keyRune, r: 'r'}:
			case <-k.closed:
				return
			}
		}
	}()
	if s := r.wait(t); s != 0 {
		t.Errorf("status %d", s)
	}
	if got := r.fake.Answers[0].GetOptionId(); got != "o4" || !strings.Contains(r.errs.String(), "jobs: too many") {
		t.Errorf("answered %q, stderr %q", got, r.errs.String())
	}
}

func TestQuestion_AskedOneByOne(t *testing.T) {
	r := newRun(t, true)
	r.fake.Turn = func(ctx context.Context, send func(*supervisorv1.Event)) error {
		r.ask(send, mayI("demo-1/1"))
		r.ask(send, mayI("demo-1/2"))
		r.ask(send, mayI("demo-1/3"))
		r.fake.End("demo-1/2", "withdrawn", "nobody")
		r.fake.End("demo-1/none", "allowed", "grpc")
		<-r.fake.Answered
		<-r.fake.Answered
		send(turnEnded("end_turn"))
		return nil
	}
	var asked []string
	r.fake.Answer = func(a *supervisorv1.AnswerApprovalRequest) error { asked = append(asked, a.GetId()); return nil }
	r.begin(t)
	k := r.board(t)
	for all := false; !all; { // before the first is answered
		looked := make(chan struct{})
		r.post(t.Context(), func() {
			all = r.asker.seen["demo-1/3"] && r.asker.seen["demo-1/none"]
			close(looked)
		})
		<-looked
	}
	k.press("akk")
	r.board(t).press("r")
	if s := r.wait(t); s != 0 || strings.Join(asked, " ") != "demo-1/1 demo-1/3" {
		t.Errorf("status %d, asked %q", s, asked)
	}
}

func TestQuestion_OutputIsPrintedAbove(t *testing.T) {
	r := newRun(t, true)
	more := make(chan struct{})
	r.fake.Turn = func(ctx context.Context, send func(*supervisorv1.Event)) error {
		r.ask(send, mayI("demo-1/7"))
		<-more
		send(agentMessage("a whole line\nand half"))
		send(agentMessage(" of one"))
		<-r.fake.Answered
		send(agentMessage("; the end"))
		send(turnEnded("end_turn"))
		return nil
	}
	r.begin(t)
	k := r.board(t)
	close(more)
	k.press("xxxx")
	for !strings.Contains(r.out.String(), "a whole line") {
		k.press("x")
	}
	k.press("akk")
	if s := r.wait(t); s != 0 {
		t.Errorf("status %d", s)
	}
	out := visible(r.out.String())
	if !strings.HasSuffix(out, "[2] Ask her\n\na whole line\nand half of one; the end\n") {
		t.Errorf("the screen shows %q", out)
	}
}

func TestElicitation_PageIsOpenedOrDeclined(t *testing.T) {
	for pressed, want := range map[string]string{"\n": `{}`, "d": "decline"} {
		r := newRun(t, true)
		r.asks(&supervisorv1.Approval{Id: "demo-1/9", Elicitation: &supervisorv1.Elicitation{Mode: "url", Message: "Log in.", Url: "https://example.com/login"}})
		r.begin(t)
		r.board(t).press("xyz" + pressed)
		if s := r.wait(t); s != 0 {
			t.Errorf("status %d", s)
		}
		got := r.fake.Answers[0].GetAccept()
		if r.fake.Answers[0].GetDecline() {
			got = "decline"
		}
		if got != want {
			t.Errorf("%q answers %q, want %q", pressed, got, want)
		}
		if !strings.Contains(r.out.String(), "Open this page: https://example.com/login\n") || !strings.Contains(r.out.String(), "Press Enter when done, d to decline: ") {
			t.Errorf("shown: %q", r.out.String())
		}
	}
}

// beginWaiting begins a turn that continues until it is cancelled, and returns once the prompt has shown its first
// words: a signal then cancels the turn. end: the agent ends the turn when it is cancelled.
func (r *aRun) beginWaiting(t *testing.T, end bool) {
	begun := make(chan struct{})
	r.fake.Turn = func(ctx context.Context, send func(*supervisorv1.Event)) error {
		send(agentMessage("working\n"))
		close(begun)
		select {
		case <-r.fake.Cancelled:
		case <-ctx.Done():
			return ctx.Err()
		}
		if end {
			send(turnEnded("cancelled"))
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
	r.begin(t)
	<-begun
	for !strings.HasPrefix(r.out.String(), "working") {
		r.post(t.Context(), func() {})
	}
}

func TestCtrlC_CancelsTurn(t *testing.T) {
	r := newRun(t, false)
	r.beginWaiting(t, true)
	r.signal <- syscall.SIGINT
	if s := r.wait(t); s != 6 {
		t.Errorf("status %d", s)
	}
	if !strings.Contains(r.errs.String(), "Ctrl-C again quits") || !strings.HasSuffix(r.out.String(), "The turn was cancelled.\n") {
		t.Errorf("stdout %q, stderr %q", r.out.String(), r.errs.String())
	}
}

func TestCtrlC_TwiceQuits(t *testing.T) {
	r := newRun(t, false)
	r.beginWaiting(t, false)
	r.signal <- syscall.SIGINT
	<-r.fake.Cancelled
	r.signal <- syscall.SIGINT
	if s := r.wait(t); s != 130 {
		t.Errorf("status %d", s)
	}
}

func TestPrompt_EndsTurnThatIgnoresCtrlC(t *testing.T) {
	r := newRun(t, false)
	r.turnTimeout = time.Millisecond
	r.beginWaiting(t, false)
	r.signal <- syscall.SIGINT
	if s := r.wait(t); s != 6 {
		t.Errorf("status %d, want 6", s)
	}
}

func TestCtrlC_QuitsBeforeTurn(t *testing.T) {
	r := newRun(t, false)
	starting := make(chan struct{})
	r.start = func(ctx context.Context) (hosting.Supervisor, error) {
		close(starting)
		<-ctx.Done()
		return r.fake, nil
	}
	r.begin(t)
	<-starting
	r.signal <- syscall.SIGINT
	if s := r.wait(t); s != 130 {
		t.Errorf("status %d", s)
	}
}

func TestCtrlC_AtQuestionCancelsTurn(t *testing.T) {
	r := newRun(t, true)
	r.fake.Turn = func(ctx context.Context, send func(*supervisorv1.Event)) error {
		r.ask(send, mayI("demo-1/7"))
		<-r.fake.Cancelled
		send(turnEnded("cancelled"))
		return nil
	}
	r.begin(t)
	k := r.board(t)
	k.press("\x03")
	<-k.closed
	if s := r.wait(t); s != 6 {
		t.Errorf("status %d", s)
	}
	if strings.Contains(visible(r.out.String()), "Press a") {
		t.Errorf("the question is still there: %q", r.out.String())
	}
}

func TestPrompt_HangupEndsTurn(t *testing.T) {
	r := newRun(t, true)
	r.turnTimeout = time.Millisecond
	r.fake.Turn = func(ctx context.Context, send func(*supervisorv1.Event)) error {
		r.ask(send, mayI("demo-1/7"))
		<-ctx.Done()
		return ctx.Err()
	}
	r.begin(t)
	close(r.board(t).keys)
	if s := r.wait(t); s != 129 {
		t.Errorf("status %d", s)
	}
}

func TestSIGTERM_WaitsForTurnUntilTimeout(t *testing.T) {
	r := newRun(t, false)
	r.turnTimeout = time.Millisecond
	r.beginWaiting(t, false)
	r.signal <- syscall.SIGTERM
	if s := r.wait(t); s != 143 {
		t.Errorf("status %d", s)
	}
	r = newRun(t, false)
	r.beginWaiting(t, true)
	r.signal <- syscall.SIGTERM
	if s := r.wait(t); s != 143 {
		t.Errorf("status %d", s)
	}
}

func TestQuestion_KeyForWithdrawnIsDropped(t *testing.T) {
	for name, settle := range map[string]time.Duration{"at once": time.Hour, "later": 0} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, true)
			r.answerPause = settle
			shown, pressed := make(chan struct{}), make(chan struct{})
			r.fake.Turn = func(ctx context.Context, send func(*supervisorv1.Event)) error {
				r.ask(send, mayI("demo-1/7"))
				<-shown
				r.fake.End("demo-1/7", "withdrawn", "nobody")
				r.ask(send, mayI("demo-1/8"))
				<-pressed
				send(turnEnded("end_turn"))
				return nil
			}
			r.begin(t)
			k := r.board(t)
			close(shown)
			<-k.closed
			k = r.board(t)
			k.press("akk")
			if settle == 0 {
				<-k.closed
			} else {
				k.press("x") // what was pressed before was taken
			}
			close(pressed)
			r.wait(t)
			if got := len(r.fake.Answered); settle == 0 && got != 1 || settle > 0 && got != 0 {
				t.Errorf("%d answers were given", got)
			}
		})
	}
}

func TestQuestion_CountsHiddenLines(t *testing.T) {
	command := "make a"
	for i := range 99 {
		command += fmt.Sprintf("\nmake b%d", i)
	}
	long := func() *supervisorv1.Approval {
		a := mayI("demo-1/7")
		a.Permission.RawInput = fmt.Sprintf(`{"command":%q}`, command)
		return a
	}
	for _, c := range []struct {
		name, pressed, want string
		shown               bool
	}{
		{"seen", "vr", "o4", true},
		{"seen, then allowed", "vakk", "o1", true},
		{"allowed unseen: shown, not allowed", "akkr", "o4", true},
		{"allowed for good unseen", "Akkr", "o4", true},
		{"an option of another kind", "2kkr", "o4", true},
		{"allowed twice", "aakk", "o1", true},
		{"rejected unseen", "r", "o4", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRun(t, true)
			r.asks(long())
			r.begin(t)
			r.board(t).press(c.pressed)
			if s := r.wait(t); s != 0 || r.fake.Answers[0].GetOptionId() != c.want {
				t.Errorf("status %d, answered %v, want %s", s, r.fake.Answers[0], c.want)
			}
			out := r.out.String()
			if !strings.Contains(out, "… 40 more lines: v shows all. Press a A 1 r R 2, or Ctrl-C") {
				t.Errorf("nothing states how much is not shown: %q", out)
			}
			if strings.Contains(out, "make b98") != c.shown {
				t.Errorf("the screen shows %q, want all of the command: %v", out, c.shown)
			}
		})
	}
}

func TestQuestion_ShowsDetailOnRequest(t *testing.T) {
	r := newRun(t, true)
	a := mayI("demo-1/7")
	a.Permission.Reason, a.Permission.Detail = "this file is outside of the workspace", "rule look reads the workspace only"
	r.asks(a)
	r.begin(t)
	k := r.board(t)
	if got := r.out.String(); !strings.Contains(got, "\n    Asked because: "+a.Permission.Reason+"\n") || strings.Contains(got, a.Permission.Detail) {
		t.Errorf("got %q, want the reason without the detail", got)
	}
	k.press("v")
	k.press("akk") // the key v is taken before these
	if s := r.wait(t); s != 0 {
		t.Errorf("status %d", s)
	}
	if got := r.out.String(); strings.Count(got, "Details: "+a.Permission.Detail) != 1 {
		t.Errorf("got %q, want the detail once", got)
	}
}

// The events of a turn have no reasons of the policy for questions of the agent.
func TestQuestion_TakesReasonFromApprovals(t *testing.T) {
	for name, earlier := range map[string]bool{"before the event": true, "after it": false} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, true)
			bare, whole := mayI("demo-1/7"), mayI("demo-1/7")
			whole.Permission.Reason, whole.Permission.Detail = "git runs this file later", "more"
			sent := make(chan struct{})
			r.fake.Turn = func(ctx context.Context, send func(*supervisorv1.Event)) error {
				if earlier {
					r.fake.Ask(whole)
					r.post(ctx, func() {}) // goes behind the question
				}
				send(&supervisorv1.Event{SessionId: "s1", Event: &supervisorv1.Event_QuestionAsked{QuestionAsked: bare}})
				if !earlier {
					<-sent
					r.fake.Ask(whole)
				}
				<-r.fake.Answered
				send(turnEnded("end_turn"))
				return nil
			}
			r.begin(t)
			k := r.board(t)
			close(sent)
			for !strings.Contains(r.out.String(), "Asked because: git runs this file later") {
				k.press("x")
			}
			k.press("akk")
			if s := r.wait(t); s != 0 {
				t.Errorf("status %d", s)
			}
		})
	}
}
