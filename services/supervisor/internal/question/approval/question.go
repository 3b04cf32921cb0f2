package approval

import (
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/policy/secret"
	"github.com/acphost/acphost/services/supervisor/internal/question"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// nobody is the answerer of a question that ended without an answer.
const nobody = gate.ByNobody

// approvalOf converts a question for people. It ignores fields that it cannot parse; they remain in the raw params.
func approvalOf(agentID, id string, q *question.Question) *supervisorv1.Approval {
	a := event.Question(q.Method, q.Params, q.ToolCall, q.Own)
	a.Id = id
	a.AgentId = agentID
	a.SessionId = text(q.SessionID)
	a.Time = timestamppb.New(q.Asked)
	a.Raw = text(string(q.Params))
	if a.Permission != nil {
		a.Permission.Reason, a.Permission.Detail = text(q.Reason), text(q.Detail)
		hide(a)
	}
	return a
}

// hide masks probable secrets in a permission question. It leaves forms unchanged: a field named "password" is no secret.
func hide(a *supervisorv1.Approval) {
	p := a.GetPermission()
	p.Title, p.Reason, p.Detail = secret.Text(p.GetTitle()), secret.Text(p.GetReason()), secret.Text(p.GetDetail())
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

// text returns s with invalid UTF-8 replaced.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
