package prompt

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/confirm"
	"github.com/acphost/acphost/services/supervisor/internal/render"
	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

// answeredBy is who answers here, as others see it.
const answeredBy = "cli"

// answerPause is how long a question takes no answer that stands where another one was taken away a moment ago: a key that
// was meant for that one must not answer this. Agents choose when they take questions back.
const answerPause = 600 * time.Millisecond

// asker puts questions to whoever sits at the terminal, one at a time. It is for run's goroutine.
type asker struct {
	waiting []*supervisorv1.Approval
	current *supervisorv1.Approval // nil: nothing is asked
	dialog  dialog
	sending bool                              // its answer is on its way
	keys    <-chan key                        // nil: nothing is asked
	seen    map[string]bool                   // questions that were asked here, or ended before
	told    map[string]*supervisorv1.Approval // questions of the turn that wait for their place among its events
	away    <-chan time.Time                  // not nil: the terminal is another job's, and is looked for now and then
	said    bool                              // that it is another's
	taken   time.Time                         // when a question was last taken away before it was answered here
	from    time.Time                         // when keys count for the current one
	codes   confirm.Codes                     // by which a person confirms what allows something
	unseen  render.Hidden                     // of the current one
	detail  bool                              // the current one has a detail that was not shown
}

// dialog is a question with what was typed so far.
type dialog interface {
	// intro is what is printed below the question: the answers that there are. Whole lines.
	intro() string
	// line is the line below all, which says what to press and shows what was typed.
	line() string
	// typing reports whether every key is for what is being typed.
	typing() bool
	// key takes a key. It returns text to print, whole lines, and the answer once it is known.
	key(k key) (say string, answer *supervisorv1.AnswerApprovalRequest)
}

// watchQuestions follows the questions of all sessions, and returns when those that wait already were told.
func (p *promptRun) watchQuestions(ctx context.Context) error {
	changes, err := p.client.WatchApprovals(ctx, &supervisorv1.WatchApprovalsRequest{})
	if err != nil {
		return err
	}
	caughtUp := make(chan error, 1)
	tell := func(err error) {
		select {
		case caughtUp <- err:
		default: // it was told already
		}
	}
	p.goes(func() {
		defer tell(io.EOF)
		for change, err := range changes {
			switch c := change.GetChange().(type) {
			case *supervisorv1.WatchApprovalsResponse_Asked:
				p.post(ctx, func() { p.told(ctx, c.Asked) })
			case *supervisorv1.WatchApprovalsResponse_Answered:
				p.post(ctx, func() { p.answered(c.Answered) })
			case *supervisorv1.WatchApprovalsResponse_CaughtUp:
				tell(nil)
			}
			if err != nil {
				tell(err)
				if ctx.Err() == nil {
					p.post(ctx, func() { p.say("questions can no longer be answered here: %v", err) })
				}
			}
		}
	})
	return <-caughtUp
}

// lateGrace is how long a question of the turn waits for its place among the turn's events.
const lateGrace = time.Second

// told takes a question that waits. One of the turn is asked when it comes among the turn's events, behind what led to it.
func (p *promptRun) told(ctx context.Context, a *supervisorv1.Approval) {
	if p.sessID == "" || a.GetSessionId() != p.sessID || p.ended != nil {
		p.asked(a)
		return
	}
	if p.asker.seen[a.GetId()] {
		p.explain(a)
		return
	}
	p.asker.told[a.GetId()] = a
	p.goes(func() {
		select {
		case <-time.After(lateGrace):
			p.post(ctx, func() { p.asked(a) })
		case <-ctx.Done():
		}
	})
}

// explain prints why the current question is asked, if it was asked without that: the events of the turn lack the reasons of the policy
// for questions of the agent.
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

// asked puts a question in line, once, and asks the next one.
func (p *promptRun) asked(a *supervisorv1.Approval) {
	if told := p.asker.told[a.GetId()]; told != nil {
		delete(p.asker.told, a.GetId())
		if q := told.GetPermission(); a.GetPermission().GetReason() == "" && q.GetReason() != "" {
			a = proto.CloneOf(a)
			a.GetPermission().Reason, a.GetPermission().Detail = q.GetReason(), q.GetDetail()
		}
	}
	if p.attended && p.caught == nil && a != nil && !p.asker.seen[a.GetId()] { // when the turn is being cancelled, so is the question
		p.asker.seen[a.GetId()] = true
		p.asker.waiting = append(p.asker.waiting, a)
	}
	p.next()
}

// answered takes a question back and asks the next one.
func (p *promptRun) answered(a *supervisorv1.ApprovalAnswer) {
	if asked := p.takeBack(a); asked != nil && asked.GetSessionId() != p.sessID { // else the turn's events tell who answered
		p.screen.print(render.Answer(a, asked.GetPermission().GetOptions()) + "\n")
	}
	p.next()
}

// takeBack takes a question back that was answered, here or elsewhere, and returns it if it was being asked.
func (p *promptRun) takeBack(a *supervisorv1.ApprovalAnswer) *supervisorv1.Approval {
	if a == nil {
		return nil
	}
	k := &p.asker
	k.seen[a.GetId()] = true
	delete(k.told, a.GetId())
	k.waiting = slices.DeleteFunc(k.waiting, func(w *supervisorv1.Approval) bool { return w.GetId() == a.GetId() })
	asked := k.current
	if asked == nil || asked.GetId() != a.GetId() {
		return nil
	}
	if !k.sending {
		k.taken = time.Now()
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
	if now := time.Now(); now.Sub(k.taken) < p.settle {
		k.from = now.Add(p.settle)
	}
	k.dialog, k.unseen, k.detail = newDialog(a, &k.codes), render.Unseen(p.look, a), render.HasDetail(a)
	p.screen.print(p.r.Question(a) + k.dialog.intro())
	p.openBoard()
}

// line is the line below all. Nobody should allow what they cannot see: it says how much that is.
func (k *asker) line() string {
	switch {
	case !k.unseen.Any() && k.detail && !k.dialog.typing():
		return "v shows why in detail. " + k.dialog.line()
	case !k.unseen.Any():
		return k.dialog.line()
	case k.dialog.typing():
		return k.unseen.Count("") + " not shown. " + k.dialog.line()
	}
	return "… " + k.unseen.Count("more ") + ": v shows all. " + k.dialog.line()
}

// done takes the question away and gives the terminal back.
func (k *asker) done(p *promptRun) {
	p.closeBoard()
	k.current, k.dialog = nil, nil
}

// close asks nothing any more.
func (k *asker) close(p *promptRun) {
	k.waiting = nil
	if k.current != nil {
		k.done(p)
	}
}

// key takes a key; ok: there was one.
func (p *promptRun) key(ctx context.Context, pressed key, ok bool) {
	k := &p.asker
	if !ok { // the terminal is gone
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
	if (k.unseen.Any() || k.detail) && !k.dialog.typing() && pressed.name == keyRune && pressed.r == 'v' {
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
	p.goes(func() {
		_, err := p.client.Answer(ctx, id, answeredBy, answer)
		p.post(ctx, func() { p.sent(id, err) })
	})
}

// sent takes what became of an answer.
func (p *promptRun) sent(id string, err error) {
	k := &p.asker
	if k.current == nil || k.current.GetId() != id {
		return // it was told already
	}
	switch status.Code(err) {
	case codes.OK, codes.FailedPrecondition, codes.NotFound: // somebody was faster: the events say who
	case codes.InvalidArgument:
		p.say("%v", err)
		k.sending = false
		k.dialog = newDialog(k.current, &k.codes)
		p.screen.print(k.dialog.intro())
		p.screen.ask(k.line())
		return
	default:
		p.say("the answer did not get there: %v", err)
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

// permissionDialog is whether the agent may. What allows something is confirmed by a code.
type permissionDialog struct {
	choices []choice
	codes   *confirm.Codes
	chosen  *supervisorv1.PermissionOption // to be confirmed
	code    *confirm.Code                  // nil: nothing is
}

// choice is an answer with its key.
type choice struct {
	key    rune
	option *supervisorv1.PermissionOption
}

// newPermissionDialog gives each option a key: by its kind, or a digit if that is taken.
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
			continue // nobody looks at so many
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

// meanings say what an option of a kind does where its name may not: the name is the agent's.
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
	for _, c := range d.choices {
		switch {
		case k.together || k.name != keyRune || k.r != c.key:
		case strings.HasPrefix(c.option.GetKind(), "reject_"):
			return "", client.Choose(c.option.GetOptionId())
		default:
			d.chosen, d.code = c.option, d.codes.New()
			return "", nil
		}
	}
	return "", nil
}

// pageDialog is a page to open, or something that acphost does not know, which can only be declined.
type pageDialog struct{ opened bool }

func (d *pageDialog) intro() string { return "" }

func (d *pageDialog) typing() bool { return false }

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
