package chat

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/question/confirm"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
	"github.com/acphost/acphost/services/supervisor/internal/tui/render"
)

// keyPause is the time without keys before a key can answer a question, so that a question that arrives while the user
// types is not answered by accident. Agents choose when they ask.
const keyPause = 600 * time.Millisecond

// question is an open question.
type question struct {
	approval *supervisorv1.Approval
	since    time.Time
	ready    bool     // keys answer the question
	writing  bool     // keys are for the input
	sent     bool     // an answer was sent
	text     []string // the rows of the question at width
	width    int
	printed  bool // it was too long, and was printed above
	detailed bool // its detail was printed
	unseen   render.Hidden
	form     *formEditor
	at       int                            // index of the option selected with arrows; -1: none
	delayed  *delayedAnswer                 // an answer that is sent unless another key follows
	choice   *supervisorv1.PermissionOption // the answer that must be confirmed
	code     *confirm.Code                  // nil: nothing to confirm
}

// question returns the question that is shown: the oldest.
func (m *model) question() *question {
	if len(m.openQuestions) == 0 {
		return nil
	}
	return m.openQuestions[0]
}

// questionWaits reports whether keys are for the input although there is a question.
func (m *model) questionWaits() bool {
	q := m.question()
	switch {
	case q == nil:
		return false
	case q.writing:
		return true
	case q.ready:
		return false
	}
	last := m.keyTime
	if q.since.After(last) {
		last = q.since
	}
	return !m.edit.Empty() || m.now().Sub(last) < keyPause
}

// apply processes the stream of questions.
func (msg questionsMsg) apply(m *model) tea.Cmd {
	m.questions = true
	begin := m.begin()
	for _, c := range msg.changes {
		switch c := c.GetChange().(type) {
		case *supervisorv1.WatchApprovalsResponse_CaughtUp:
			m.joined.pending = false
		case *supervisorv1.WatchApprovalsResponse_Asked:
			if m.joined.pending || m.o.Attach != nil && c.Asked.GetSessionId() != m.o.Attach.SessionID {
				continue
			}
			m.questionAsked(c.Asked)
		case *supervisorv1.WatchApprovalsResponse_Answered:
			m.questionEnded(c.Answered)
		}
	}
	if msg.err == nil {
		return tea.Batch(begin, msg.next)
	}
	if m.leaving {
		return nil
	}
	if m.o.Attach != nil && status.Code(msg.err) == codes.PermissionDenied {
		m.note("you see this session, and cannot answer its questions: " + problem(msg.err))
		return begin
	}
	m.openQuestions = nil // all open questions are sent again
	return tea.Batch(begin, m.retry(m.sup.questions(), msg.err))
}

func asEvent(a *supervisorv1.Approval) *supervisorv1.Event {
	return &supervisorv1.Event{SessionId: a.GetSessionId(), Event: &supervisorv1.Event_QuestionAsked{QuestionAsked: a}}
}

func (m *model) questionAsked(a *supervisorv1.Approval) {
	if slices.ContainsFunc(m.openQuestions, func(q *question) bool { return q.approval.GetId() == a.GetId() }) {
		return
	}
	q := &question{approval: a, at: -1, since: m.now(), unseen: render.Unseen(m.drawing(), a)}
	if e := a.GetElicitation(); e != nil && e.GetMode() == "form" {
		q.form = newFormEditor(e.GetRequestedSchema())
	}
	m.openQuestions = append(m.openQuestions, q)
	m.call(noticeAsked)
	m.drawn(m.draw.Event(asEvent(a)))
}

// questionEnded removes a question, and prints who answered it.
func (m *model) questionEnded(a *supervisorv1.ApprovalAnswer) {
	i := slices.IndexFunc(m.openQuestions, func(q *question) bool { return q.approval.GetId() == a.GetId() })
	if i < 0 {
		return
	}
	asked := m.openQuestions[i].approval
	m.openQuestions = slices.Delete(m.openQuestions, i, i+1)
	if id := asked.GetPermission().GetToolCallId(); m.asksAbout(asked, id) && (a.GetOutcome() == cancelled || a.GetOutcome() == "withdrawn") {
		if m.live.unanswered == nil {
			m.live.unanswered = map[string]bool{}
		}
		if len(m.live.unanswered) < maxUnanswered {
			m.live.unanswered[id] = true
		}
	}
	m.drawn(m.draw.Event(&supervisorv1.Event{Event: &supervisorv1.Event_QuestionAnswered{QuestionAnswered: a}}))
	if i == 0 && len(m.openQuestions) > 0 {
		m.openQuestions[0].since = m.now() // a key may have been meant for the previous question
	}
}

// hasDetail reports whether the key v shows more about why the question is asked.
func (q *question) hasDetail() bool { return !q.detailed && render.HasDetail(q.approval) }

// printIfNoRoom prints the first question if the screen has no room for it, so that the user does not allow something
// invisible. A form is always complete, because all its keys are text.
func (m *model) printIfNoRoom() {
	q := m.question()
	if q != nil && q.form != nil && q.unseen.Any() {
		m.showWhole(q)
	}
	if q == nil || q.printed || len(m.questionText(q))+len(q.answers(m)) <= m.middleRows() {
		return
	}
	q.printed = true
	m.flush()
	m.print(render.Question(m.drawing(), q.approval))
}

// showWhole prints a question completely.
func (m *model) showWhole(q *question) {
	q.printed, q.detailed, q.unseen = true, true, render.Hidden{}
	m.flush()
	m.print(render.Whole(m.drawing(), q.approval))
}

func (msg answeredMsg) apply(m *model) tea.Cmd {
	if msg.err == nil {
		if msg.answer != nil {
			m.questionEnded(msg.answer)
		}
		return nil
	}
	for _, q := range m.openQuestions {
		if q.approval.GetId() == msg.id {
			q.sent = false
		}
	}
	switch e := client.ErrorOf(msg.err); {
	case e == nil:
	case e.Answer != nil: // another client was faster
		m.questionEnded(e.Answer)
		return nil
	case e.Code == codes.NotFound || e.Code == codes.FailedPrecondition:
		m.questionEnded(&supervisorv1.ApprovalAnswer{Id: msg.id, Outcome: "withdrawn", AnsweredBy: "nobody"})
		return nil
	}
	m.fail("answer: " + problem(msg.err))
	return nil
}

// key processes a key for the question.
func (q *question) key(m *model, k tea.KeyPressMsg) tea.Cmd {
	if q.sent {
		return nil
	}
	var r *supervisorv1.AnswerApprovalRequest
	name := k.Keystroke()
	if h := q.delayed; h != nil {
		return q.delayedKey(m, h, k)
	}
	switch {
	case q.code != nil:
		done, stands := q.code.Key(k.Text)
		if !stands {
			q.code = nil
		}
		if !done {
			return nil
		}
		r = client.Choose(q.choice.GetOptionId())
	case q.form != nil:
		if r = q.form.key(k); r == nil {
			return nil
		}
	case k.Text == "v" && (q.unseen.Any() || q.hasDetail()):
		m.showWhole(q)
		return nil
	case q.approval.GetElicitation() != nil:
		switch {
		case chooseEnds(&q.at, 2, name):
			return nil
		case (k.Text == "y" || name == "enter" && q.at == 0) && q.unseen.Withholds(nil):
			m.showWhole(q)
			return nil
		case name == "enter" && q.at == 0:
			r = client.Accept("{}")
		case name == "enter" && q.at == 1:
			r = client.Decline()
		case name == "esc":
			r = client.Undecided()
		case k.Text == "y":
			return q.delay(m, k.Text, client.Accept("{}"))
		case k.Text == "n":
			return q.delay(m, k.Text, client.Decline())
		default:
			return q.otherKey(m, k)
		}
	case name == "esc" && m.turn != nil:
		return m.cancel()
	case name == "esc":
		r = client.Undecided()
	default:
		options := q.approval.GetPermission().GetOptions()
		if chooseEnds(&q.at, len(options), name) {
			return nil
		}
		i := q.optionOf(k, name)
		if i < 0 {
			return q.otherKey(m, k)
		}
		if q.unseen.Withholds(options[i]) {
			m.showWhole(q)
			return nil
		}
		if !render.Rejects(options[i]) {
			q.at, q.choice, q.code = i, options[i], m.o.codes.New()
			return nil
		}
		r = client.Choose(options[i].GetOptionId())
		if name != "enter" {
			q.at = i
			return q.delay(m, k.Text, r)
		}
	}
	return q.send(m, r)
}

// optionOf returns the option of a key, or -1.
func (q *question) optionOf(k tea.KeyPressMsg, name string) int {
	options := q.approval.GetPermission().GetOptions()
	i := slices.Index(optionKeys(options), k.Text)
	switch n, err := strconv.Atoi(k.Text); {
	case name == "enter":
		i = q.at
	case k.Text == "":
		return -1
	case err == nil:
		i = n - 1
	}
	if i >= len(options) {
		return -1
	}
	return i
}

func (q *question) send(m *model, r *supervisorv1.AnswerApprovalRequest) tea.Cmd {
	q.sent, q.delayed = true, nil
	return m.sup.answer(q.approval.GetId(), r)
}

// holdTime is the time that a letter which answers a question waits for another key, which would mean that the user
// types text.
const holdTime = 300 * time.Millisecond

// delayedAnswer is an answer by one letter that waits.
type delayedAnswer struct {
	text string
	r    *supervisorv1.AnswerApprovalRequest
}

// delayedMsg sends an answer that has waited.
type delayedMsg struct {
	q *question
	h *delayedAnswer
}

func (q *question) delay(m *model, text string, r *supervisorv1.AnswerApprovalRequest) tea.Cmd {
	q.delayed = &delayedAnswer{text, r}
	return m.sup.after(holdTime, delayedMsg{q, q.delayed})
}

func (msg delayedMsg) apply(m *model) tea.Cmd {
	if msg.q.delayed != msg.h || msg.q != m.question() {
		return nil
	}
	return msg.q.send(m, msg.h.r)
}

// delayedKey processes a key after a letter that answers: enter sends the answer at once, another letter makes both a
// text.
func (q *question) delayedKey(m *model, h *delayedAnswer, k tea.KeyPressMsg) tea.Cmd {
	q.delayed, q.at = nil, -1
	switch {
	case k.Keystroke() == "enter":
		return q.send(m, h.r)
	case k.Text == "":
		return nil
	}
	q.writing = true
	return m.typed(h.text + k.Text)
}

// otherKey processes a key that does not answer: text is for the input, so that later letters of it do not answer.
func (q *question) otherKey(m *model, k tea.KeyPressMsg) tea.Cmd {
	if k.Text == "" {
		return nil
	}
	q.writing = true
	return m.typed(k.Text)
}

// optionKeys returns the letters of options by their kinds. The first option of a kind gets the letter.
func optionKeys(options []*supervisorv1.PermissionOption) []string {
	letters := map[string]string{"allow_once": "a", "allow_always": "A", "reject_once": "r", "reject_always": "R"}
	keys := make([]string, len(options))
	for i, o := range options {
		keys[i] = letters[o.GetKind()]
		delete(letters, o.GetKind())
	}
	return keys
}

// questionText returns the question in rows.
func (m *model) questionText(q *question) []string {
	if q.width != m.width {
		text := strings.TrimRight(render.Question(m.drawing(), q.approval), "\n")
		q.text, q.width = wrap(text, m.width, 1<<20), m.width
	}
	return q.text
}

// answers returns rows that describe the possible answers.
func (q *question) answers(m *model) []string {
	var rows []string
	switch {
	case q.code != nil && !q.sent:
		rows = append(rows, m.optionRow("  type "+m.sty.bold(q.code.Text())+" for ", q.choice, ": "+q.code.Typed()))
		return append(rows, m.sty.dims(hints(m.width, "another key goes back"))...)
	case q.form != nil:
		if m.questionWaits() || q.sent {
			return q.form.rows(m, q.hint(m)...)
		}
		return q.form.rows(m)
	case q.approval.GetElicitation() != nil:
		if q.approval.GetElicitation().GetMode() == "url" {
			rows = append(rows, q.mark(0)+m.sty.bold("y")+" I opened it, go on")
		} else {
			rows = append(rows, q.mark(0)+m.sty.bold("y")+" yes")
		}
		rows = append(rows, q.mark(1)+m.sty.bold("n")+" I do not want to")
	default:
		options := q.approval.GetPermission().GetOptions()
		keys := optionKeys(options)
		from, to := window(len(options), q.at-maxOptions+1, maxOptions)
		for i := from; i < to; i++ {
			o := options[i]
			key := fmt.Sprint(i + 1)
			if keys[i] != "" {
				key = keys[i] + " " + key
			} else {
				key = "  " + key
			}
			rows = append(rows, m.optionRow(q.mark(i)+m.sty.bold(key)+" ", o, ""))
		}
	}
	switch {
	case q.unseen.Any():
		rows = append(rows, fit("  "+m.sty.bold("v")+" "+m.sty.yellow("show all: "+q.unseen.Count("more ")), m.width))
	case q.hasDetail():
		rows = append(rows, fit("  "+m.sty.bold("v")+" show why in detail", m.width))
	}
	return append(rows, m.sty.dims(hints(m.width, q.hint(m)...))...)
}

// minName is the least width for the name of an option.
const minName = 20

// optionRow is a row with the name of an option, between other texts. A name that is too long is cut in the middle,
// because the end of a host name shows the owner of the host.
func (m *model) optionRow(before string, o *supervisorv1.PermissionOption, after string) string {
	note := m.sty.dim(kindNote(o))
	room := m.width - ansi.StringWidth(before+note+after)
	return fit(before+safetext.Middle(short(o.GetName()), max(room, minName))+note+after, m.width)
}

// maxOptions limits the options of a question that are shown at once.
const maxOptions = 9

// mark returns the beginning of an option's row.
func (q *question) mark(i int) string {
	if q.at == i {
		return "▸ "
	}
	return "  "
}

// kindNote describes the kind of an option whose name does not. The name is a text of the agent, and the kind
// determines the effect.
func kindNote(o *supervisorv1.PermissionOption) string {
	words := map[string]string{
		"allow_once": "allows this once", "allow_always": "allows this from now on",
		"reject_once": "rejects this once", "reject_always": "rejects this from now on",
	}
	if w, ok := words[o.GetKind()]; ok {
		return "  " + w
	}
	return "  " + short(o.GetKind())
}

func (q *question) hint(m *model) []string {
	switch {
	case q.sent:
		return []string{"…"}
	case q.writing || !m.edit.Empty() && !q.ready:
		return []string{"tab goes to the question"}
	case m.questionWaits():
		return []string{"a moment…"}
	}
	var all []string
	if n := len(m.openQuestions); n > 1 {
		all = append(all, fmt.Sprintf("1 of %d questions", n))
	}
	if q.at >= 0 {
		all = append(all, "enter takes it")
	} else {
		all = append(all, "↑↓ choose")
	}
	all = append(all, "tab goes to the input")
	if m.turn != nil && q.approval.GetElicitation() == nil {
		return append(all, "esc cancels the turn")
	}
	return append(all, "esc gives no answer")
}

// rows returns the question above its answers.
func (q *question) rows(m *model, room int) []string {
	answers := q.answers(m)
	text := m.questionText(q)
	left := max(room-len(answers), 1)
	if len(text) > left {
		above := "  … all of it stands above"
		if q.unseen.Any() {
			above = "  … more of it stands above"
		}
		text = append(slices.Clone(text[:left-1]), m.sty.yellow(above))
	}
	return append(text, answers...)
}
