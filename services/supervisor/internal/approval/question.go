package approval

import (
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/event"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/link"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// nobody is who answers what was not answered.
const nobody = gate.ByNobody

// approvalOf is a question as people are shown it. It is read leniently: what cannot be read is in its raw params alone.
func approvalOf(agentID, id string, q *link.Question) *supervisorv1.Approval {
	a := decoded(q)
	if a == nil {
		a = &supervisorv1.Approval{}
	}
	if a.Permission == nil && a.Elicitation == nil {
		if q.Method == acp.MethodRequestPermission {
			a.Permission = &supervisorv1.PermissionQuestion{FromAcphost: q.Own}
		} else {
			a.Elicitation = &supervisorv1.Elicitation{}
		}
	}
	a.Id = id
	a.AgentId = agentID
	a.SessionId = text(q.SessionID)
	a.Time = timestamppb.New(q.Asked)
	a.ExpireTime = nil
	a.Raw = text(string(q.Params))
	if a.Permission != nil {
		a.Permission.Reason = text(q.Reason)
	}
	return a
}

// decoded is a question as watchers of events are told it; nil: it cannot be read.
func decoded(q *link.Question) *supervisorv1.Approval {
	f := frame.Frame{Direction: frame.AgentToFront, Time: q.Asked}
	if q.Own {
		f.Direction = frame.OursToFront
	}
	f.Line = jsonrpc.AppendRequest(nil, []byte("0"), q.Method, shownParams(q))
	for _, e := range event.NewDecoder(frame.Agent{}, nil).Frame(f) {
		if a := e.GetQuestionAsked(); a != nil {
			return a
		}
	}
	return nil
}

// shownParams are a question's params, with all that is known of its tool call: an agent need not say more than the id of
// one that it has shown before.
func shownParams(q *link.Question) []byte {
	tc := q.ToolCall
	if tc == nil {
		return q.Params
	}
	b := append([]byte(`{"toolCall":{"toolCallId":`), acp.Quote(tc.ID)...)
	for name, value := range map[string]string{"title": tc.Title, "kind": tc.Kind} {
		if value != "" {
			b = append(append(append(append(b, `,"`...), name...), `":`...), acp.Quote(value)...)
		}
	}
	for name, value := range map[string][]byte{"content": tc.Content, "locations": tc.Locations, "rawInput": tc.RawInput} {
		if len(value) > 0 {
			b = append(append(append(append(b, `,"`...), name...), `":`...), value...)
		}
	}
	b = append(b, '}')
	if options := acp.Get(q.Params, "options"); options != nil {
		b = append(append(b, `,"options":`...), options...)
	}
	return append(b, '}')
}

// text is s with what is not UTF-8 replaced.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
