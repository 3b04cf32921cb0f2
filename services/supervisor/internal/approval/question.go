package approval

import (
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/event"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
	"github.com/acphost/acphost/services/supervisor/internal/question"
	"github.com/acphost/acphost/services/supervisor/internal/secret"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// nobody is the name in the answer to a question that nobody has answered.
const nobody = gate.ByNobody

// approvalOf is a question as people are shown it. It is read leniently: what cannot be read is in its raw params alone.
func approvalOf(agentID, id string, q *question.Question) *supervisorv1.Approval {
	a := event.Question(q.Method, q.Params, q.ToolCall, q.Own)
	a.Id = id
	a.AgentId = agentID
	a.SessionId = text(q.SessionID)
	a.Time = timestamppb.New(q.Asked)
	a.Raw = text(string(q.Params))
	if a.Permission != nil {
		a.Permission.Reason = text(q.Reason)
		hide(a)
	}
	return a
}

// hide takes what looks like a secret out of a question about a permission. Forms stay: a field that is called "password" is
// none.
func hide(a *supervisorv1.Approval) {
	p := a.GetPermission()
	p.Title, p.Reason = secret.Text(p.GetTitle()), secret.Text(p.GetReason())
	p.RawInput, a.Raw = secret.JSON(p.GetRawInput()), secret.JSON(a.GetRaw())
	for _, c := range p.GetContent() {
		if t := c.GetContent().GetText(); t != nil {
			t.Text = secret.Text(t.GetText())
		}
	}
	for _, o := range p.GetOptions() {
		o.Name = secret.Text(o.GetName())
	}
}

// text is s with what is not UTF-8 replaced.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
