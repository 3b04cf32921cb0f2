package link

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
	"github.com/go-json-experiment/json/jsontext"
)

// maxContent is how many bytes the content of an answer to an elicitation may have.
const maxContent = 1 << 20

var (
	// ErrNotOpen says that a question is not open, or not any more.
	ErrNotOpen = errors.New("the question is not open: somebody has answered it, or the agent has given it up")
	// ErrNotOffered says that a question does not offer an answer. The error that wraps it says what it offers.
	ErrNotOffered = errors.New("it is not on offer")
)

// Answer is an answer to a question: one of its fields.
type Answer struct {
	// Option, for a permission question: the id of an option, or the kind of just one.
	Option string
	// Accept, for an elicitation: the content, a JSON object of at most 1 MiB.
	Accept []byte
	// Decline, for an elicitation: the person does not want to.
	Decline bool
	// Cancel: the person did not decide.
	Cancel bool
}

// Answer answers a question that is open at the front, in the front's place: by says who answers, a name for people and for
// the record. The front is told that its answer is not needed any more. An answer that is not on offer (ErrNotOffered)
// leaves the question open; for one that is not open the error is ErrNotOpen. Safe for concurrent use; one answer counts.
func (l *Link) Answer(id []byte, a Answer, by string) (End, error) {
	if q, open := l.own.Get(id); open {
		<-q.waiting.ready // a moment: observers are just told of it
		return l.answerOwn(q, a, by)
	}
	c, ok := l.agentCalls.Get(id)
	if !ok || c.current() != atFront || c.waiting == nil {
		return End{}, ErrNotOpen
	}
	<-c.waiting.ready
	if c.question == nil {
		return l.answerElicitation(c, a, by)
	}
	return l.answerQuestion(c, a, by)
}

func (l *Link) answerOwn(q *ownQuestion, a Answer, by string) (End, error) {
	option, err := a.option(q.waiting.q.Options)
	if err != nil {
		return End{}, err
	}
	if _, ok := l.own.Take(q.id); !ok {
		return End{}, ErrNotOpen
	}
	l.see(frame.FrontToOurs, by, jsonrpc.AppendResult(nil, q.id, selected(option)))
	l.postFront(cancelLine(q.id))
	e := choice(option.ID, option.Kind, by)
	l.ends(q.waiting, e)
	q.answers <- ownAnswer{option: option.Kind, by: by}
	return e, nil
}

func (l *Link) answerQuestion(c *agentCall, a Answer, by string) (End, error) {
	option, err := a.option(c.question.request.Options)
	if err != nil {
		return End{}, err
	}
	if !l.takeAway(c) {
		return End{}, ErrNotOpen
	}
	l.shownEnds(c, false)
	l.retract(c)
	if !l.chose(c, option.ID, by) {
		return l.rejectUnrecorded(c), nil
	}
	e := choice(option.ID, option.Kind, by)
	l.ends(c.waiting, e)
	l.postAgentBy(by, jsonrpc.AppendResult(nil, c.id, selected(option)))
	return e, nil
}

func (l *Link) answerElicitation(c *agentCall, a Answer, by string) (End, error) {
	result, outcome, err := a.elicited(c.waiting.q.Params)
	if err != nil {
		return End{}, err
	}
	if !l.takeAway(c) {
		return End{}, ErrNotOpen
	}
	l.shownEnds(c, false)
	l.retract(c)
	e := End{Outcome: outcome, By: by}
	l.ends(c.waiting, e)
	l.postAgentBy(by, jsonrpc.AppendResult(nil, c.id, result))
	return e, nil
}

// retract tells the front that its answer to a question of the agent's is not needed any more.
func (l *Link) retract(c *agentCall) {
	line := cancelLine(c.id)
	if l.see(frame.OursToFront, "", line); !c.withdraw(line) {
		l.writeFront(line)
	}
}

func cancelLine(id []byte) []byte {
	params := append([]byte(`{"requestId":`), id...)
	return jsonrpc.AppendNotification(nil, acp.MethodCancelRequest, append(params, '}'))
}

// selected is the result that tells an agent of a choice.
func selected(o acp.PermissionOption) []byte {
	if o.ID == "" {
		return acp.Cancelled()
	}
	return acp.Selected(o.ID)
}

// option finds the option that an answer means; one without an id: the question is cancelled.
func (a Answer) option(offered []acp.PermissionOption) (acp.PermissionOption, error) {
	none := acp.PermissionOption{}
	if a.Cancel && a.Option == "" && !a.Decline && a.Accept == nil {
		return none, nil
	}
	if a.Option == "" || a.Cancel || a.Decline || a.Accept != nil {
		return none, fmt.Errorf("%w: a permission question is answered with an option, or cancelled: %s", ErrNotOffered, offers(offered))
	}
	var meant []acp.PermissionOption
	ids := map[string]int{}
	for _, o := range offered {
		ids[o.ID]++
		if o.ID == a.Option || o.Kind == a.Option {
			meant = append(meant, o)
		}
	}
	switch {
	case len(meant) == 0:
		return none, fmt.Errorf("%w: the question does not offer %q: choose one of %s", ErrNotOffered, a.Option, offers(offered))
	case len(meant) > 1 || ids[meant[0].ID] > 1 || meant[0].ID == "":
		return none, fmt.Errorf("%w: %q could mean several of what the question offers: choose one of %s", ErrNotOffered, a.Option, offers(offered))
	}
	return meant[0], nil
}

// offers are the options of a question in words.
func offers(offered []acp.PermissionOption) string {
	const most = 16
	var list []string
	for i, o := range offered {
		if i == most {
			list = append(list, "…")
			break
		}
		if text := fmt.Sprintf("%.64q (%.32s)", o.ID, o.Kind); !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	if len(list) == 0 {
		return "it offers nothing"
	}
	return strings.Join(list, ", ")
}

// elicited is the result that tells an agent of an answer to an elicitation with the params given.
func (a Answer) elicited(params []byte) ([]byte, Outcome, error) {
	switch {
	case a.Option == "" && a.Accept == nil && a.Decline && !a.Cancel:
		return []byte(`{"action":"decline"}`), Declined, nil
	case a.Option == "" && a.Accept == nil && !a.Decline && a.Cancel:
		return cancelledElicitation(), Cancelled, nil
	case a.Option != "" || a.Accept == nil || a.Decline || a.Cancel:
		return nil, "", fmt.Errorf("%w: a form or a page is accepted, declined or cancelled", ErrNotOffered)
	case len(a.Accept) > maxContent:
		return nil, "", fmt.Errorf("%w: the content has %d bytes, more than the %d that are taken", ErrNotOffered, len(a.Accept), maxContent)
	}
	content := jsontext.Value(slices.Clone(a.Accept))
	if !content.IsValid() || content.Kind() != '{' {
		return nil, "", fmt.Errorf("%w: the content is no JSON object without duplicate names", ErrNotOffered)
	}
	if err := content.Compact(); err != nil { // a line must stay one
		return nil, "", fmt.Errorf("%w: the content: %w", ErrNotOffered, err)
	}
	for _, r := range []string{"\u2028", "\u2029"} { // some peers take them for the end of a line
		content = bytes.ReplaceAll(content, []byte(r), []byte(fmt.Sprintf(`\u%x`, []rune(r)[0])))
	}
	if mode, _ := acp.String(acp.Get(params, "mode")); mode == "url" && len(content) == len("{}") {
		return []byte(`{"action":"accept"}`), Accepted, nil // a page that was opened has no content
	}
	out := append([]byte(`{"action":"accept","content":`), content...)
	return append(out, '}'), Accepted, nil
}

func cancelledElicitation() []byte { return []byte(`{"action":"cancel"}`) }

// elicitationEnd is how the front's answer ends an elicitation.
func elicitationEnd(result []byte, failed bool) End {
	e := End{Outcome: Cancelled, By: gate.ByFront}
	if failed {
		return e
	}
	switch action, _ := acp.String(acp.Get(result, "action")); action {
	case "accept":
		e.Outcome = Accepted
	case "decline":
		e.Outcome = Declined
	}
	return e
}
