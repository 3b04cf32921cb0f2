package prompt

import (
	"context"
	"fmt"
	"io"
	"slices"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/question/confirm"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
	"github.com/acphost/acphost/services/supervisor/internal/tui/render"
)

// answeredBy is the name of this client in answers.
const answeredBy = "cli"

// answerPause is the time in which a question ignores keys after another question at its place has ended, so that a key
// for the earlier question does not answer it. Agents choose when they withdraw questions.
const answerPause = 600 * time.Millisecond

// asker asks the user at the terminal, one question at a time. Only the goroutine of run uses it.
type asker struct {
	waiting   []*supervisorv1.Approval
	current   *supervisorv1.Approval // nil: no question
	dialog    dialog
	sending   bool                              // its answer is being sent
	keys      <-chan key                        // nil: no question
	seen      map[string]bool                   // questions that were asked, or ended before
	pending   map[string]*supervisorv1.Approval // questions of the turn that wait for their events
	away      <-chan time.Time                  // not nil: another job has the terminal, which is checked regularly
	reported  bool                              // that was reported
	removedAt time.Time                         // end of the last question that was not answered here
	from      time.Time                         // time from which on keys answer the current question
	codes     confirm.Codes                     // codes for confirming answers that allow something
	unseen    render.Hidden                     // of the current question
	detail    bool                              // the current question has a detail that was not shown
}

// dialog is a question with its input state.
type dialog interface {
	// intro returns the possible answers, which are printed below the question, in whole lines.
	intro() string
	// line returns the last line, which describes the keys and shows the typed text.
	line() string
	// typing reports whether every key is text.
	typing() bool
	// withheld reports whether a key chooses an answer, or begins one, that has to wait until the user has seen all of
	// the question, of which unseen is hidden.
	withheld(k key, unseen render.Hidden) bool
	// key processes a key. say is text to print, in whole lines. answer is not nil once the answer is complete.
	key(k key) (say string, answer *supervisorv1.AnswerApprovalRequest)
}

// watchQuestions subscribes to the questions of all sessions, and returns after it has received the open ones.
func (p *promptRun) watchQuestions(ctx context.Context) error {
	changes, err := p.client.WatchApprovals(ctx, &supervisorv1.WatchApprovalsRequest{})
	if err != nil {
		return err
	}
	caughtUp := make(chan error, 1)
	tell := func(err error) {
		select {
		case caughtUp <- err:
		default: // it was processed already
		}
	}
	p.spawn(func() {
		defer tell(io.EOF)
		for change, err := range changes {
			switch c := change.GetChange().(type) {
			case *supervisorv1.WatchApprovalsResponse_Asked:
				p.post(ctx, func() { p.handleQuestion(ctx, c.Asked) })
			case *supervisorv1.WatchApprovalsResponse_Answered:
				p.post(ctx, func() { p.handleAnswer(c.Answered) })
			case *supervisorv1.WatchApprovalsResponse_CaughtUp:
				tell(nil)
			}
			if err != nil {
				tell(err)
				if ctx.Err() == nil {
					p.post(ctx, func() { p.printf("questions can no longer be answered here: %v", err) })
				}
			}
		}
	})
	return <-caughtUp
}

// lateGrace limits the time that a question of the turn waits for its event.
const lateGrace = time.Second

// handleQuestion processes an open question. A question of the turn is asked when its event arrives, after the events
// that led to it.
func (p *promptRun) handleQuestion(ctx context.Context, a *supervisorv1.Approval) {
	if p.sessID == "" || a.GetSessionId() != p.sessID || p.ended != nil {
		p.enqueue(a)
		return
	}
	if p.asker.seen[a.GetId()] {
		p.explain(a)
		return
	}
	p.asker.pending[a.GetId()] = a
	p.spawn(func() {
		select {
		case <-time.After(lateGrace):
			p.post(ctx, func() { p.enqueue(a) })
		case <-ctx.Done():
		}
	})
}

// explain prints why the current question is asked, if it was asked without that: the events of the turn lack the
// reasons of the policy for questions of the agent.
func (p *promptRun) explain(a *supervisorv1.Approval) {
	k := &p.asker
	if now := k.current; now == nil || now.GetId() != a.GetId() || now.GetPermission().GetReason() != "" || a.GetPermission().GetReason() == "" {
		return
	}
	k.current, k.detail = a, render.HasDetail(a)
	p.screen.ask("")
	p.screen.print(render.Reason(p.look, a))
	p.screen.ask(k.line())
}

// enqueue queues a question, once, and asks the next one.
func (p *promptRun) enqueue(a *supervisorv1.Approval) {
	if earlier := p.asker.pending[a.GetId()]; earlier != nil {
		delete(p.asker.pending, a.GetId())
		if q := earlier.GetPermission(); a.GetPermission().GetReason() == "" && q.GetReason() != "" {
			a = proto.CloneOf(a)
			a.GetPermission().Reason, a.GetPermission().Detail = q.GetReason(), q.GetDetail()
		}
	}
	if p.attended && p.firstSignal == nil && a != nil && !p.asker.seen[a.GetId()] { // cancelling the turn also cancels its questions
		p.asker.seen[a.GetId()] = true
		p.asker.waiting = append(p.asker.waiting, a)
	}
	p.next()
}

// handleAnswer removes a question and asks the next one.
func (p *promptRun) handleAnswer(a *supervisorv1.ApprovalAnswer) {
	// otherwise an event of the turn contains the answer
	if asked := p.removeQuestion(a); asked != nil && asked.GetSessionId() != p.sessID {
		p.screen.print(render.Answer(a, asked.GetPermission().GetOptions()) + "\n")
	}
	p.next()
}

// removeQuestion removes a question that was answered by any client, and returns it if it was being asked.
func (p *promptRun) removeQuestion(a *supervisorv1.ApprovalAnswer) *supervisorv1.Approval {
	if a == nil {
		return nil
	}
	k := &p.asker
	k.seen[a.GetId()] = true
	delete(k.pending, a.GetId())
	k.waiting = slices.DeleteFunc(k.waiting, func(w *supervisorv1.Approval) bool { return w.GetId() == a.GetId() })
	asked := k.current
	if asked == nil || asked.GetId() != a.GetId() {
		return nil
	}
	if !k.sending {
		k.removedAt = time.Now()
	}
	k.done(p)
	return asked
}

// next asks the next question, if none is being asked.
func (p *promptRun) next() {
	k := &p.asker
	if k.current != nil || len(k.waiting) == 0 {
		return
	}
	a := k.waiting[0]
	k.waiting = k.waiting[1:]
	k.current, k.sending, k.from = a, false, time.Time{}
	if now := time.Now(); now.Sub(k.removedAt) < p.answerPause {
		k.from = now.Add(p.answerPause)
	}
	k.dialog, k.unseen, k.detail = newDialog(a, &k.codes), render.Unseen(p.look, a), render.HasDetail(a)
	p.screen.print(p.r.Question(a) + k.dialog.intro())
	p.openBoard()
}

// line returns the last line. It includes the amount of the question that is not shown.
func (k *asker) line() string {
	switch {
	case !k.unseen.Any() && k.detail && !k.dialog.typing():
		return "v shows why in detail. " + k.dialog.line()
	case !k.unseen.Any():
		return k.dialog.line()
	}
	return "… " + k.unseen.Count("more ") + ": v shows all. " + k.dialog.line()
}

// done removes the question and releases the terminal.
func (k *asker) done(p *promptRun) {
	p.closeBoard()
	k.current, k.dialog = nil, nil
}

// close stops asking questions.
func (k *asker) close(p *promptRun) {
	k.waiting = nil
	if k.current != nil {
		k.done(p)
	}
}

// key processes a key. ok is false if the terminal was closed.
func (p *promptRun) key(ctx context.Context, pressed key, ok bool) {
	k := &p.asker
	if !ok { // the terminal was closed
		k.keys = nil
		p.interrupted(ctx, syscall.SIGHUP)
		return
	}
	if pressed.name == keyInterrupt {
		p.interrupted(ctx, syscall.SIGINT)
		return
	}
	if k.sending || time.Now().Before(k.from) {
		return
	}
	v := pressed.name == keyRune && pressed.r == 'v' && !k.dialog.typing() && (k.unseen.Any() || k.detail)
	if v || k.dialog.withheld(pressed, k.unseen) {
		k.unseen, k.detail = render.Hidden{}, false
		p.screen.ask("")
		p.screen.print(render.Whole(p.look, k.current) + k.dialog.intro())
		p.screen.ask(k.line())
		return
	}
	say, answer := k.dialog.key(pressed)
	if say != "" || answer != nil {
		p.screen.ask("")
	}
	p.screen.print(say)
	if answer == nil {
		p.screen.ask(k.line())
		return
	}
	k.sending = true
	id := k.current.GetId()
	answer.Surface = supervisorv1.Surface_SURFACE_INPUT
	p.spawn(func() {
		_, err := p.client.Answer(ctx, id, answeredBy, answer)
		p.post(ctx, func() { p.sent(id, err) })
	})
}

// sent processes the result of sending an answer.
func (p *promptRun) sent(id string, err error) {
	k := &p.asker
	if k.current == nil || k.current.GetId() != id {
		return // it was reported already
	}
	switch status.Code(err) {
	// another client was faster, and the events contain its answer
	case codes.OK, codes.FailedPrecondition, codes.NotFound:
	case codes.InvalidArgument:
		p.printf("%v", err)
		k.sending = false
		k.dialog = newDialog(k.current, &k.codes)
		p.screen.print(k.dialog.intro())
		p.screen.ask(k.line())
		return
	default:
		p.printf("the answer did not get there: %v", err)
	}
	k.done(p)
	p.next()
}

func newDialog(a *supervisorv1.Approval, codes *confirm.Codes) dialog {
	e := a.GetElicitation()
	switch {
	case e == nil:
		return newPermissionDialog(a.GetPermission(), codes)
	case e.GetMode() == "form":
		return newFormDialog(e)
	}
	return &pageDialog{opened: e.GetMode() == "url"}
}

// permissionDialog asks for a permission. An answer that allows something is confirmed by a code.
type permissionDialog struct {
	choices []choice
	codes   *confirm.Codes
	chosen  *supervisorv1.PermissionOption // the answer to confirm
	code    *confirm.Code                  // nil: nothing to confirm
}

// choice is an answer with its key.
type choice struct {
	key    rune
	option *supervisorv1.PermissionOption
}

// newPermissionDialog assigns a key to each option: by its kind, or a digit if that key is used.
func newPermissionDialog(q *supervisorv1.PermissionQuestion, codes *confirm.Codes) *permissionDialog {
	byKind := map[string]rune{"allow_once": 'a', "allow_always": 'A', "reject_once": 'r', "reject_always": 'R'}
	d := &permissionDialog{codes: codes}
	digit := '1'
	for _, op := range q.GetOptions() {
		k, ok := byKind[op.GetKind()]
		if ok {
			delete(byKind, op.GetKind())
		} else if digit <= '9' {
			k = digit
			digit++
		} else {
			continue // too many options to be useful
		}
		d.choices = append(d.choices, choice{k, op})
	}
	return d
}

func (d *permissionDialog) intro() string {
	text := ""
	for _, c := range d.choices {
		text += fmt.Sprintf("    [%c] %s%s\n", c.key, safetext.Line(c.option.GetName()), meanings[c.option.GetKind()])
	}
	return text
}

func (d *permissionDialog) typing() bool { return d.code != nil }

// meanings describe the effect of a kind of option. The name of an option is the agent's text and may not.
var meanings = map[string]string{
	"allow_once":    " (allow once)",
	"allow_always":  " (allow from now on)",
	"reject_once":   " (reject once)",
	"reject_always": " (reject from now on)",
}

func (d *permissionDialog) line() string {
	if d.code != nil {
		return fmt.Sprintf("Type %s for \"%s\", or another key to go back: %s", d.code.Text(), safetext.Line(d.chosen.GetName()), d.code.Typed())
	}
	keys := ""
	for _, c := range d.choices {
		keys += fmt.Sprintf(" %c", c.key)
	}
	if keys == "" {
		return "There is no answer to choose: Ctrl-C cancels the turn "
	}
	return "Press" + keys + ", or Ctrl-C to cancel the turn: "
}

func (d *permissionDialog) withheld(k key, unseen render.Hidden) bool {
	option := d.option(k)
	return d.code == nil && option != nil && unseen.Withholds(option)
}

// option returns the option of a key, or nil.
func (d *permissionDialog) option(k key) *supervisorv1.PermissionOption {
	for _, c := range d.choices {
		if !k.together && k.name == keyRune && k.r == c.key {
			return c.option
		}
	}
	return nil
}

func (d *permissionDialog) key(k key) (string, *supervisorv1.AnswerApprovalRequest) {
	if d.code != nil {
		text := ""
		if k.name == keyRune {
			text = string(k.r)
		}
		done, stands := d.code.Key(text)
		if done {
			return "", client.Choose(d.chosen.GetOptionId())
		}
		if !stands {
			d.code = nil
		}
		return "", nil
	}
	switch option := d.option(k); {
	case option == nil:
	case render.Rejects(option):
		return "", client.Choose(option.GetOptionId())
	default:
		d.chosen, d.code = option, d.codes.New()
	}
	return "", nil
}

// pageDialog asks to open a page. It also shows unknown questions, which can only be declined.
type pageDialog struct{ opened bool }

func (d *pageDialog) intro() string { return "" }

func (d *pageDialog) typing() bool { return false }

func (d *pageDialog) withheld(k key, unseen render.Hidden) bool {
	return k.name == keyEnter && unseen.Withholds(nil)
}

func (d *pageDialog) line() string {
	if !d.opened {
		return "acphost cannot show this: press d to decline "
	}
	return "Press Enter when done, d to decline: "
}

func (d *pageDialog) key(k key) (string, *supervisorv1.AnswerApprovalRequest) {
	switch {
	case k.together:
	case k.name == keyEnter && d.opened:
		return "", client.Accept("{}")
	case k.name == keyRune && k.r == 'd':
		return "", client.Decline()
	}
	return "", nil
}
