package question

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
	"github.com/go-json-experiment/json/jsontext"
)

// maxContent limits the content of an answer to an elicitation, in bytes.
const maxContent = 1 << 20

// maxFailure limits a client's error text that is passed on, in bytes.
const maxFailure = 500

// Answer is an answer to a question. Exactly one of the fields before Surface is set.
type Answer struct {
	// Option, for a permission question, is the id of an option, or the kind of exactly one option.
	Option string
	// Accept, for an elicitation, is the content, a JSON object of at most 1 MiB.
	Accept []byte
	// Decline, for an elicitation: the person declines.
	Decline bool
	// Cancel: the person did not decide.
	Cancel bool
	// Surface is the surface on which the person answers. The zero value shows only the agent's words.
	Surface gate.Surface
}

// Answer answers the question instead of the client. by names the answerer, for people and for the record. The client is notified that its
// answer is no longer needed. If the question does not offer the answer, the error is ErrNotOffered, and the question stays open. If the
// question is not open, the error is ErrNotOpen. Only one answer counts.
func (q *Question) Answer(a Answer, by string) (End, error) {
	if q.State() == Deciding {
		return End{}, ErrNotOpen
	}
	e := Ending{Cause: SomebodyAnswers, By: by, Surface: a.Surface}
	if q.Method == acp.MethodRequestPermission {
		option, err := a.option(q.Options)
		if err != nil {
			return End{}, err
		}
		if e.Option, e.Result = option.ID, acp.Cancelled(); option.ID != "" {
			e.Result = q.selected(option.ID)
		}
	} else {
		var err error
		if e.Result, e.Outcome, err = a.elicitationResult(q.Params); err != nil {
			return End{}, err
		}
	}
	if !q.Finish(e) {
		return End{}, ErrNotOpen
	}
	<-q.done
	return q.end, nil
}

// ClientAnswered handles the client's answer, and reports whether it counts. If it counts and the question is the agent's, the caller
// forwards the client's bytes to the agent. ClientAnswered waits only for observers.
func (q *Question) ClientAnswered(m *jsonrpc.Message) bool {
	if q.State() == Deciding || !q.Finish(q.fromClient(m)) {
		return false
	}
	<-q.done
	return q.end.By == gate.ByClient
}

// fromClient returns the Ending for the client's answer.
func (q *Question) fromClient(m *jsonrpc.Message) Ending {
	e := Ending{Cause: ClientAnswers, Outcome: Cancelled}
	if q.Own { // the asker shows it to observers later
		e.Line = slices.Clone(m.Raw)
	}
	switch why := q.unusable(m); {
	case why != "" && !q.Own:
		return Ending{Cause: Unusable, Why: "the client's answer cannot be passed on: " + why}
	case why != "":
		e.Why, e.Option = why, acp.Chosen(m.Result)
	case m.Error != nil:
		text, _ := acp.String(acp.Get(m.Error, "message"))
		if e.Why, _ = safetext.Prefix(text, maxFailure); e.Why == "" {
			e.Why = "it answered with an error"
		}
	case q.Method != acp.MethodRequestPermission:
		switch action, _ := acp.String(acp.Get(m.Result, "action")); action {
		case "accept":
			e.Outcome = Accepted
		case "decline":
			e.Outcome = Declined
		}
	default:
		e.Option = acp.Chosen(m.Result)
	}
	return e
}

// unusable returns the reason why the client's answer must not be forwarded to the agent; empty: it may be. The agent could read the answer
// differently from acphost, which has to count, show and record the answer that the agent acts on. An answer of an unknown form passes if
// no policy applies.
func (q *Question) unusable(m *jsonrpc.Message) string {
	switch {
	case m.Result == nil && m.Error == nil:
		return "it has neither a result nor an error"
	case m.Error != nil && m.Result != nil && string(m.Result) != "null":
		return "it has a result and an error"
	case m.Error != nil:
		return ""
	case q.Method != acp.MethodRequestPermission:
		if err := jsonrpc.DuplicateNames(m.Result, "action", "content"); err != nil {
			return "it is ambiguous"
		}
		return ""
	}
	a := acp.ParseAnswer(m.Result)
	switch {
	case a.Ambiguous != "":
		return a.Ambiguous
	case !q.Own && !q.isJudged():
		return ""
	case a.Unknown != "":
		return a.Unknown
	case a.Option != "" && !slices.ContainsFunc(q.Options, func(o acp.PermissionOption) bool { return o.ID == a.Option }):
		return fmt.Sprintf("it chose an option that was not offered: %.40q", a.Option)
	}
	return ""
}

// isJudged reports whether a policy has decided about the question.
func (q *Question) isJudged() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.judged
}

// option finds the option of an answer. An option without an id means that the question is cancelled.
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

// offers describes the options of a question in words.
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

// elicitationResult returns the result for the agent of an answer to an elicitation with the given params.
func (a Answer) elicitationResult(params []byte) ([]byte, Outcome, error) {
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
	if err := content.Compact(); err != nil { // the message must be a single line
		return nil, "", fmt.Errorf("%w: the content: %w", ErrNotOffered, err)
	}
	for _, r := range []string{"\u2028", "\u2029"} { // some peers treat these as line ends
		content = bytes.ReplaceAll(content, []byte(r), []byte(fmt.Sprintf(`\u%x`, []rune(r)[0])))
	}
	if mode, _ := acp.String(acp.Get(params, "mode")); mode == "url" && len(content) == len("{}") {
		return []byte(`{"action":"accept"}`), Accepted, nil // an opened page has no content
	}
	out := append([]byte(`{"action":"accept","content":`), content...)
	return append(out, '}'), Accepted, nil
}

func cancelledElicitation() []byte { return []byte(`{"action":"cancel"}`) }
