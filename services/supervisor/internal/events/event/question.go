package event

import (
	"cmp"
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Names for the answerer of a question without a handler.
const (
	byClient = "front"
	byPolicy = "policy"
	byNobody = "nobody"
)

// askedBecause begins the policy's reason in the text of acphost's own questions.
const askedBecause = "Asked because: "

// asked processes a question that waits for a person: the agent's, or acphost's own.
func (d *Decoder) asked(r *request, params []byte, ours bool) {
	id, _ := d.ids.next(d.agent.ID, r.key)
	q := &supervisorv1.Approval{
		Id:        id,
		AgentId:   d.agent.ID,
		SessionId: r.session,
		Time:      timestamppb.New(d.at),
		Raw:       raw(params),
	}
	r.question = q.GetId()
	t := &d.calls
	if ours {
		t = &d.own
	}
	if r.method == acp.MethodElicitationCreate {
		q.Elicitation = elicitation(params)
		if id := requestID(params); r.session == "" && id != nil {
			if about := d.client.At(jsonrpc.CanonicalID(id)); about != nil {
				r.session, q.SessionId = about.session, about.session
			}
		}
	} else {
		q.Permission = d.permission(r.session, params, ours)
		r.toolCall = q.GetPermission().GetToolCallId()
		r.allowing = allowing(q.GetPermission().GetOptions())
	}
	d.open(t, r)
	d.emit(&supervisorv1.Event{SessionId: r.session, Raw: q.GetRaw(), Event: &supervisorv1.Event_QuestionAsked{QuestionAsked: q}})
}

// Question returns a question in the form for people: its Permission or its Elicitation, by the request's method and
// params. call is the known tool call of a permission request; nil: only the request is known. ours: acphost asks.
func Question(method string, params []byte, call *acp.ToolCall, ours bool) *supervisorv1.Approval {
	if method == acp.MethodElicitationCreate {
		return &supervisorv1.Approval{Elicitation: elicitation(params)}
	}
	q, title, report := permission(params, ours)
	c := &supervisorv1.ToolCall{}
	if call == nil {
		client.FoldToolCall(c, report)
	} else {
		c.Title, c.Kind, c.RawInput = call.Title, call.Kind, raw(call.RawInput)
		c.Content, c.Locations = listOf(call.Content, contentItem), locations(call.Locations)
	}
	about(q, title, c)
	return &supervisorv1.Approval{Permission: q}
}

// permission decodes a session/request_permission. Its tool call is a report like those of updates, and may contain
// only the id: the question is about the tool call merged with this report.
func (d *Decoder) permission(session string, params []byte, ours bool) *supervisorv1.PermissionQuestion {
	q, title, report := permission(params, ours)
	c := &supervisorv1.ToolCall{}
	if ours || report.GetToolCallId() == "" {
		client.FoldToolCall(c, report)
	} else {
		c = d.reports.with(session, report)
		d.reports.note(session, report, false, len(params))
	}
	about(q, title, c)
	return q
}

// about sets the parts of a question about its tool call. title is the question's own; empty: it has none.
func about(q *supervisorv1.PermissionQuestion, title string, c *supervisorv1.ToolCall) {
	q.Title, q.Kind = cmp.Or(title, c.GetTitle()), c.GetKind()
	q.Content, q.Locations, q.RawInput = c.GetContent(), c.GetLocations(), c.GetRawInput()
	if content := q.GetContent(); q.GetFromAcphost() && len(content) > 0 {
		// Text before a command, or after a diff.
		for _, item := range []*supervisorv1.ToolCallContent{content[0], content[len(content)-1]} {
			if reason, is := strings.CutPrefix(item.GetContent().GetText().GetText(), askedBecause); is {
				q.Reason = reason
				break
			}
		}
	}
}

// permission decodes the params of a session/request_permission.
func permission(params []byte, ours bool) (q *supervisorv1.PermissionQuestion, title string, report *supervisorv1.ToolCallReport) {
	req, _ := acp.ParsePermissionRequest(params) // ignore invalid members
	report = questioned(req.ToolCall)
	q = &supervisorv1.PermissionQuestion{FromAcphost: ours, ToolCallId: report.GetToolCallId()}
	for _, o := range req.Options {
		q.Options = append(q.Options, &supervisorv1.PermissionOption{OptionId: o.ID, Kind: o.Kind, Name: o.Name})
	}
	if ours { // an agent could write anything there
		q.Detail = textOf(acp.Get(params, "_meta", acp.MetaDetail))
	}
	return q, req.Title, report
}

// questioned decodes the report of a question's tool call; without an id, it returns a report without one.
func questioned(v []byte) *supervisorv1.ToolCallReport {
	if r := toolCall(v); r != nil {
		return r
	}
	r, _ := reportOf(v)
	return r
}

// allowing returns the ids of the options that allow. If options share an id, the rejecting one takes precedence.
func allowing(options []*supervisorv1.PermissionOption) map[string]bool {
	m := map[string]bool{}
	for _, o := range options {
		if len(o.GetOptionId()) > maxOptionID || len(m) >= maxOptions {
			continue
		}
		before, twice := m[o.GetOptionId()]
		m[o.GetOptionId()] = (before || !twice) && (o.GetKind() == acp.AllowOnce || o.GetKind() == acp.AllowAlways)
	}
	return m
}

// elicitation decodes an elicitation/create.
func elicitation(params []byte) *supervisorv1.Elicitation {
	q := &supervisorv1.Elicitation{}
	read(params, "mode", &q.Mode, "message", &q.Message, "url", &q.Url, "elicitationId", &q.ElicitationId, "toolCallId", &q.ToolCallId,
		"requestedSchema", func(v []byte) { q.RequestedSchema = rawObject(v) })
	if q.GetMode() == "" && q.GetRequestedSchema() != "" {
		q.Mode = "form"
	}
	return q
}

// questionAnswered processes the answer to a question.
func (d *Decoder) questionAnswered(r *request, a *answer) {
	end := &supervisorv1.ApprovalAnswer{Outcome: "cancelled", AnsweredBy: a.handler}
	if a.fault == nil && r.method == acp.MethodRequestPermission {
		if id := acp.Chosen(a.result); id != "" {
			end.OptionId, end.Outcome = id, "denied"
			if r.allowing[id] {
				end.Outcome = "allowed"
			}
		}
	} else if a.fault == nil {
		switch textOf(acp.Get(a.result, "action")) {
		case "accept":
			end.Outcome = "accepted"
		case "decline":
			end.Outcome = "declined"
		}
	}
	switch {
	case a.handler == byNobody && end.GetOutcome() == "allowed": // the policy then lets it pass
	case a.handler == byNobody:
		end.Outcome = "expired"
	case a.handler != "":
	case a.direction != frame.OursToAgent:
		end.AnsweredBy = byClient
	case end.GetOutcome() == "cancelled":
		end.AnsweredBy = byNobody
	default:
		end.AnsweredBy = byPolicy
	}
	d.questionEnded(r, end, a.raw())
}

func (d *Decoder) questionEnded(r *request, end *supervisorv1.ApprovalAnswer, from string) {
	d.deniedQuestion(r, end.GetOutcome() == "denied" || end.GetOutcome() == "expired")
	end.Id, end.Time = r.question, timestamppb.New(d.at)
	d.emit(&supervisorv1.Event{SessionId: r.session, Raw: from, Touches: d.refusedBy(r.session, r.toolCall),
		Event: &supervisorv1.Event_QuestionAnswered{QuestionAnswered: end}})
}

// withdrawn processes a $/cancel_request. The agent's cancels its question. Acphost's cancels its own question, if that
// has no answer yet; for a question of the agent, it informs the client that another peer has answered, and that answer
// is processed separately.
func (d *Decoder) withdrawn(direction frame.Direction, key string) {
	var t *table
	switch direction {
	case frame.AgentToClient:
		t = &d.calls
	case frame.OursToClient:
		t = &d.own
	default:
		return
	}
	if r := t.At(key); r != nil && r.question != "" {
		t.Delete(key)
		d.questionEnded(r, &supervisorv1.ApprovalAnswer{Outcome: "withdrawn", AnsweredBy: byNobody}, "")
	}
}
