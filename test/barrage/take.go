package barrage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// ownName begins acphost's own ids; the barrage does not use it.
const ownName = "acphost-"

// take checks a line that a side received.
func (b *barrage) take(s *side, line []byte) {
	line = bytes.TrimSuffix(line, []byte("\n"))
	mark := markOf(line)
	if mark == "" || bytes.Contains(line, []byte(ownName)) {
		b.own(s, line)
		return
	}
	m := b.sent[mark]
	switch {
	case m == nil:
		b.fail(mark, "the %s got a line that was not sent, or got it twice: %.300s", s.name, line)
		return
	case m.never:
		b.fail(mark, "the %s got a line that must not be forwarded: %.300s", s.name, line)
		return
	case string(line) != m.line:
		b.fail(mark, "the %s got %.300s\nwhat was sent is %.300s", s.name, line, m.line)
		return
	}
	delete(b.sent, mark)
	if m.session != "-" {
		b.inTurn(s, m)
	}
	if r := m.request; r != nil {
		r.reached = true
		s.owed = append(s.owed, owedAnswer{request: r})
	}
	if r := m.about; r != nil && s == b.client && !r.reached && !r.shared {
		b.fail(mark, "the %s is told to forget %s before it was asked", s.name, r.id)
	}
	if r := m.answers; r != nil {
		b.answered(s, r, r.id)
	}
}

// markOf returns the mark in a line; empty if it has none.
func markOf(line []byte) string {
	i := bytes.IndexByte(line, '~')
	if i < 0 {
		return ""
	}
	end := bytes.IndexByte(line[i+1:], '~')
	if end < 0 || end > 20 {
		return ""
	}
	return string(line[i : i+1+end+1])
}

// inTurn checks that a message did not overtake another message of its session that must arrive.
func (b *barrage) inTurn(s *side, m *message) {
	from := s.other
	queue := from.lines[m.session]
	i := slices.Index(queue, m)
	if i < 0 {
		b.fail(m.mark, "the %s got %s behind what was sent after it", s.name, m.mark)
		return
	}
	for _, before := range queue[:i] {
		if b.Closer == Agent && s == b.agent {
			break // acphost drops the other message, because its request has been answered
		}
		if before.must || before.request != nil && before.request.reached {
			b.fail(before.mark, "the %s got %s before %s", s.name, m.mark, before.mark)
		}
	}
	from.lines[m.session] = queue[i+1:]
}

// answered records that a side received the answer to its request.
func (b *barrage) answered(s *side, r *request, about string) {
	if r.by != s || r.answered {
		b.fail(about, "the %s got an answer to %s (%s), which it has not asked or was answered before", s.name, r.id, r.kind)
		return
	}
	r.answered = true
	if r.kind == prompt {
		b.prompting[r.session] = false
	}
	s.open[r.id] = slices.DeleteFunc(s.open[r.id], func(other *request) bool { return other == r })
	if len(s.open[r.id]) == 0 {
		delete(s.open, r.id)
	}
	i := slices.Index(s.all, r)
	s.all[i] = s.all[len(s.all)-1]
	s.all = s.all[:len(s.all)-1]
}

// reply is a message from acphost itself.
type reply struct {
	ID     json.RawMessage
	Method string
	Params struct{ RequestID json.RawMessage }
	Error  *struct {
		Code    int
		Message string
	}
	Result *struct {
		Content string
		Outcome struct{ Outcome, OptionID string }
		Action  string
	}
}

// own checks a message from acphost itself: an answer, or, to the client, a notification or a question.
func (b *barrage) own(s *side, line []byte) {
	var m reply
	if err := json.Unmarshal(line, &m); err != nil {
		b.fail("", "the %s got what cannot be read: %v: %.300s", s.name, err, line)
		return
	}
	id := string(m.ID)
	switch {
	case m.Method == "":
		b.refused(s, id, &m, line)
	case s == b.client && m.Method == "session/update" && m.ID == nil:
	case s == b.client && m.Method == string(permission) && strings.HasPrefix(id, `"`+ownName):
		s.owed = append(s.owed, owedAnswer{own: id})
	case s == b.client && m.Method == "$/cancel_request" && strings.HasPrefix(string(m.Params.RequestID), `"`+ownName):
	default:
		b.fail(id, "the %s got a line that was not sent: %.300s", s.name, line)
	}
}

// refused checks an error from acphost itself, and finds its request.
func (b *barrage) refused(s *side, id string, m *reply, line []byte) {
	why := "it has no such request"
	for _, r := range s.open[id] {
		if why = b.fits(r, m); why == "" {
			b.answered(s, r, id)
			return
		}
	}
	if id == "null" && m.Error != nil {
		s.nulls[m.Error.Code]++
		return
	}
	b.fail(id, "the %s got %.300s\nfor its request %s: %s", s.name, line, id, why)
}

// fits returns the reason why an answer cannot belong to a request; empty if it can.
func (b *barrage) fits(r *request, m *reply) string {
	code := 0
	if m.Error != nil {
		code = m.Error.Code
	} else if m.Result == nil && r.kind != write {
		return "it has neither result nor error"
	}
	turnCancelled := b.cancelledTurns[r.session] && r.by == b.agent
	folder, file, _ := strings.Cut(r.subject, "/")
	over := b.closes(b.client) || b.closes(b.agent) // open requests may then end in any way
	switch {
	case r.refused != 0 && r.refused == code, r.again && !r.reached && code == invalid, over && (code == internal || code == cancelled):
	case r.refused != 0:
		return fmt.Sprintf("want code %d", r.refused)
	case code == cancelled && (r.given || turnCancelled) && r.by == b.agent:
	case code == internal && r.spoilt:
	case r.kind == permission && code == 0:
		return b.decided(r, m, folder, turnCancelled)
	case r.kind == elicitation && code == 0 && m.Result.Action == "cancel" && turnCancelled:
	case r.kind == read && code == 0 && folder != denied && m.Result.Content == file:
	case r.kind == read && code == missing && folder == asked:
	case r.kind == write && code == 0 && folder != denied:
	case (r.kind == read || r.kind == write) && code == internal && folder != allowed:
	case r.kind == gated && code == internal: // the user rejected it
	default:
		return fmt.Sprintf("acphost must not answer it so (%s of %q; given up %v, turn cancelled %v)", r.kind, r.subject, r.given, turnCancelled)
	}
	if r.reached && code != internal && !over && !(r.kind == permission || r.kind == elicitation) {
		return "it is the other side's to answer"
	}
	return ""
}

// decided returns the reason why acphost cannot have given this answer to a permission request; empty if it can.
func (b *barrage) decided(r *request, m *reply, folder string, turnCancelled bool) string {
	switch o := m.Result.Outcome; {
	case o.Outcome == "cancelled" && turnCancelled:
	case o.Outcome == "selected" && folder == allowed && o.OptionID == "a" && !r.reached:
	case o.Outcome == "selected" && folder == denied && o.OptionID == "r" && !r.reached:
	default:
		return fmt.Sprintf("neither the policy nor the user decided that about %s", r.subject)
	}
	return ""
}

// pay appends an answer to a request that needs one, or a wrong answer.
func (b *barrage) pay(s *side, lines []byte) []byte {
	i := s.random.IntN(len(s.owed))
	d := s.owed[i]
	s.owed[i] = s.owed[len(s.owed)-1]
	s.owed = s.owed[:len(s.owed)-1]
	s.number++
	if d.own != "" {
		option := []string{"allow_once", "reject_once"}[s.random.IntN(2)]
		return b.send(s, lines, &message{never: true,
			line: fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"outcome":{"outcome":"selected","optionId":%q}}}`, d.own, option)})
	}
	r := d.request
	mark := fmt.Sprintf("~%s%da~", s.name[:1], s.number)
	m := &message{mark: mark, answers: r}
	if s == b.agent {
		m.session = fmt.Sprintf("s%d", r.session)
	}
	result := fmt.Sprintf(`{"_k":%q}`, mark)
	switch r.kind {
	case prompt:
		result = fmt.Sprintf(`{"stopReason":"end_turn","_k":%q}`, mark)
	case permission:
		outcome := []string{`{"outcome":"selected","optionId":"a"}`, `{"outcome":"selected","optionId":"r"}`, `{"outcome":"cancelled"}`}[s.random.IntN(3)]
		result = fmt.Sprintf(`{"outcome":%s,"_k":%q}`, outcome, mark)
	case elicitation:
		result = fmt.Sprintf(`{"action":%q,"_k":%q}`, []string{"decline", "cancel"}[s.random.IntN(2)], mark)
	}
	m.line = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, r.id, result)
	switch s.random.IntN(40) {
	case 0: // either answer may count
		if !r.shared {
			r.spoilt, m.never, m.answers = true, true, nil
			m.line = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{},"result":%s}`, r.id, result)
		}
	case 1:
		if !r.shared && s.number%20 == 0 {
			r.spoilt, m.never, m.answers = true, true, nil
			m.line = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%q}`, r.id, strings.Repeat("x", b.MaxMessage))
		}
	case 2, 3, 4, 5:
		m.line = fmt.Sprintf(`{"error":{"code":-32001,"message":%q},"id":%s}`, mark, r.id)
	}
	lines = b.send(s, lines, m)
	if !r.shared && r.id != "null" && s.random.IntN(12) == 0 { // a second answer
		s.number++
		r.doubled = true
		mark = fmt.Sprintf("~%s%da~", s.name[:1], s.number)
		lines = b.send(s, lines, &message{mark: mark, never: true, line: fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"_k":%q}}`, r.id, mark)})
	}
	return lines
}
