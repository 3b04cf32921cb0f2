package transcript

import (
	"cmp"
	"slices"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// maxUndone limits the decisions about commands that wait for the start of the command.
const maxUndone = 256

// Decision is a recorded decision of the audit.
type Decision struct {
	*supervisorv1.AuditRecord
	// What describes the action on one line, as in acphost's own questions.
	What string
}

// LateDecision is the time after the last message in which a decision still belongs to the session.
const LateDecision = 2 * time.Second

// decisions are the decisions in a session, sorted by time, and the items that they may belong to. A decision is
// recorded after its question or call was forwarded, and before the answer was.
type decisions struct {
	records   []Decision  // not assigned yet
	questions []*heldItem // unanswered questions
	calls     []*heldItem // unanswered calls
	undone    []Decision  // decisions about commands
}

// decided processes the decisions up to a time: each is added to its item, or becomes an item.
func (s *story) decided(until time.Time) {
	for len(s.decisions.records) > 0 && !s.decisions.records[0].GetTime().AsTime().After(until) {
		r := s.decisions.records[0]
		s.decisions.records = s.decisions.records[1:]
		if h := s.about(r); h != nil {
			h.Rule = ruleOf(r)
			s.grow(h, len(h.Rule))
			continue
		}
		if r.GetAction().GetKind() == "terminal.create" && r.GetDoor() == "call" && len(s.decisions.undone) < maxUndone {
			s.decisions.undone = append(s.decisions.undone, r)
			continue
		}
		s.addDecision(r)
	}
}

// about returns the item of a decision, or nil if none exists yet.
func (s *story) about(r Decision) *heldItem {
	a, call := r.GetAction(), r.GetDoor() == "call"
	if r.GetVerdict() == "ask" {
		for _, h := range s.decisions.questions {
			q := h.asked.GetPermission()
			if h.Rule == "" && h.asked.GetElicitation() != nil && a.GetKind() == "elicitation" {
				return h
			}
			if q != nil && q.GetFromAcphost() == call && h.Rule == "" && (call && q.GetTitle() == r.What || !call && q.GetToolCallId() == a.GetToolCallId()) {
				return h
			}
		}
	}
	if call {
		for _, h := range s.decisions.calls {
			if h.Rule == "" && h.action == a.GetKind() && len(a.GetPaths()) == 1 && h.path == a.GetPaths()[0].GetPath() {
				return h
			}
		}
		return nil
	}
	if h := s.tools.At(a.GetToolCallId()); h != nil && !h.written && h.Rule == "" {
		return h
	}
	return nil
}

// ran returns the decision about a command that is now started or rejected.
func (s *story) ran(command string) string {
	d := &s.decisions
	i := max(slices.IndexFunc(d.undone, func(r Decision) bool { return r.GetAction().GetCommand().GetText() == command }), 0)
	if len(d.undone) == 0 {
		return ""
	}
	r := d.undone[i]
	d.undone = slices.Delete(d.undone, i, i+1)
	return ruleOf(r)
}

// addPendingDecisions adds items for decisions whose commands were not started.
func (s *story) addPendingDecisions() {
	for _, r := range s.decisions.undone {
		s.addDecision(r)
	}
	s.decisions.undone = nil
}

// addDecision adds a decision as an item.
func (s *story) addDecision(r Decision) {
	if r.GetNote() != "" {
		return
	}
	h := &heldItem{item: item{Kind: kindDecision, Mark: markBad, Title: first(r.GetOutcome()+": "+r.What, maxTitle), Rule: ruleOf(r)}}
	switch r.GetOutcome() {
	case "allowed":
		h.Mark = markGood
	case "cancelled", "left to the call", "refused, then allowed":
		h.Mark = markWarn
	}
	s.add(Entry{}, h).Time = r.GetTime().AsTime()
}

// ruleOf describes the rule of a decision and its reason: "rule secrets: Secrets stay where they are."
func ruleOf(r Decision) string {
	rule := "no rule"
	if r.GetRule() != "" {
		rule = "rule " + r.GetRule()
	}
	if r.GetAnsweredBy() == "grant" {
		rule += ", answered by a grant"
	}
	switch why := safetext.LineOf(r.GetReason(), 300); why {
	case "", "denied by " + rule, "allowed by " + rule, rule + " asks":
	default:
		rule += ": " + why
	}
	return rule
}

// placed moves a question before the items that wait for its answer: the tool call, the call to the client by which the
// agent executes it, and the tool call that shows the same file or command.
func (s *story) placed(h *heldItem) {
	q := h.asked.GetPermission()
	if q == nil {
		return
	}
	from := len(s.items) - 1
	to := slices.IndexFunc(s.items[:from], func(o *heldItem) bool { return o.causedBy(q) })
	if to >= 0 {
		copy(s.items[to+1:], s.items[to:from])
		s.items[to] = h
	}
}

// causedBy reports whether an item waits for the answer to a question.
func (h *heldItem) causedBy(q *supervisorv1.PermissionQuestion) bool {
	names := func(path string) bool {
		return path != "" && slices.ContainsFunc(q.GetLocations(), func(l *supervisorv1.Location) bool { return l.GetPath() == path })
	}
	switch {
	case h.tool != nil && statusMark(h.tool.GetStatus()) != markOpen:
		return false
	case h.tool != nil && h.tool.GetToolCallId() == q.GetToolCallId():
		return true
	case !q.GetFromAcphost():
		return false
	case h.Kind == kindCall:
		return h.Mark == markOpen && names(h.path)
	case h.tool != nil && len(q.GetLocations()) == 0:
		return h.tool.GetKind() == "execute" && q.GetKind() == "execute"
	}
	return slices.ContainsFunc(h.tool.GetLocations(), func(l *supervisorv1.Location) bool { return names(l.GetPath()) }) ||
		slices.ContainsFunc(h.tool.GetContent(), func(c *supervisorv1.ToolCallContent) bool { return names(c.GetDiff().GetPath()) })
}

// actions maps methods to kinds of actions.
var actions = map[string]string{"fs/read_text_file": "fs.read", "fs/write_text_file": "fs.write", "fs/list_directory": "fs.list"}

// actionOf returns the kind of action of a call.
func actionOf(method string) string { return cmp.Or(actions[method], method) }
