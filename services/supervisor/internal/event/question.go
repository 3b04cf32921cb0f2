package event

import (
	"cmp"
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Who answers a question, where no handler's name says so.
const (
	byFront  = "front"
	byPolicy = "policy"
	byNobody = "nobody"
)

// askedBecause is how acphost begins the words of a policy in what it shows of a question of its own.
const askedBecause = "Asked because: "

// asked takes a question that waits for a person: the agent's, or acphost's own.
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
			if about := d.front.get(jsonrpc.CanonicalID(id)); about != nil {
				r.session, q.SessionId = about.session, about.session
			}
		}
	} else {
		q.Permission = permission(params, ours)
		d.complete(r.session, q.GetPermission())
		r.allowing = allowing(q.GetPermission().GetOptions())
	}
	for _, old := range t.add(r) {
		d.lost(old, "it is not known what came of it: too many requests are open, or its id was used again")
	}
	d.tell(&supervisorv1.Event{SessionId: r.session, Raw: q.GetRaw(), Event: &supervisorv1.Event_QuestionAsked{QuestionAsked: q}})
}

// permission reads a session/request_permission.
func permission(params []byte, ours bool) *supervisorv1.PermissionQuestion {
	q := &supervisorv1.PermissionQuestion{FromAcphost: ours}
	title := ""
	members(params, func(name, v []byte) {
		switch string(name) {
		case "toolCall":
			about(q, v)
		case "subject": // ACP v2: there may be none
			about(q, get(v, "toolCall"))
			q.ToolCallId = cmp.Or(q.GetToolCallId(), textOf(get(v, "toolCallId")))
		case "title":
			title = textOf(v)
		case "options":
			q.Options = nil
			elements(v, func(v []byte) {
				o := &supervisorv1.PermissionOption{}
				ok := false
				members(v, func(name, v []byte) {
					switch string(name) {
					case "optionId":
						o.OptionId, ok = text(v)
					case "kind":
						o.Kind = textOf(v)
					case "name":
						o.Name = textOf(v)
					}
				})
				if ok {
					q.Options = append(q.Options, o)
				}
			})
		}
	})
	q.Title = cmp.Or(title, q.GetTitle())
	if ours && len(q.GetContent()) > 0 {
		last := q.GetContent()[len(q.GetContent())-1].GetContent().GetText().GetText()
		q.Reason, _ = strings.CutPrefix(last, askedBecause)
		if q.GetReason() == last {
			q.Reason = ""
		}
	}
	return q
}

// about reads the tool call that a question is about.
func about(q *supervisorv1.PermissionQuestion, v []byte) {
	r := toolCall(v)
	if r == nil { // without an id, but perhaps not without words
		r = &supervisorv1.ToolCallReport{Title: optionalText(get(v, "title")), Kind: optionalText(get(v, "kind"))}
	}
	q.ToolCallId, q.Title, q.Kind = r.GetToolCallId(), r.GetTitle(), r.GetKind()
	q.Content, q.Locations, q.RawInput = r.GetContent(), r.GetLocations(), r.GetRawInput()
}

// complete fills a question with what is known of its tool call: it need not say more than the id.
func (d *Decoder) complete(session string, q *supervisorv1.PermissionQuestion) {
	known := d.reports.of(session, q.GetToolCallId())
	if known == nil || q.GetFromAcphost() {
		return
	}
	if q.GetTitle() == "" {
		q.Title = known.GetTitle()
	}
	if q.GetKind() == "" {
		q.Kind = known.GetKind()
	}
	if len(q.GetContent()) == 0 {
		q.Content = known.GetContent()
	}
	if len(q.GetLocations()) == 0 {
		q.Locations = known.GetLocations()
	}
	if q.GetRawInput() == "" || strings.Trim(q.GetRawInput(), "{} \t\r\n") == "" && known.GetRawInput() != "" {
		q.RawInput = known.GetRawInput()
	}
}

// allowing are the ids of the options that allow. Where one id is given to several, nobody knows which is meant: the one
// that refuses counts.
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

// elicitation reads an elicitation/create.
func elicitation(params []byte) *supervisorv1.Elicitation {
	q := &supervisorv1.Elicitation{}
	members(params, func(name, v []byte) {
		switch string(name) {
		case "mode":
			q.Mode = textOf(v)
		case "message":
			q.Message = textOf(v)
		case "requestedSchema":
			q.RequestedSchema = rawObject(v)
		case "url":
			q.Url = textOf(v)
		case "elicitationId":
			q.ElicitationId = textOf(v)
		case "toolCallId":
			q.ToolCallId = textOf(v)
		}
	})
	if q.GetMode() == "" && q.GetRequestedSchema() != "" {
		q.Mode = "form"
	}
	return q
}

// questionAnswered takes the answer to a question.
func (d *Decoder) questionAnswered(r *request, a *answer) {
	end := &supervisorv1.ApprovalAnswer{Outcome: "cancelled", AnsweredBy: a.handler}
	outcome := get(a.result, "outcome")
	if a.fault == nil && r.method == acp.MethodRequestPermission {
		if id, ok := text(get(outcome, "optionId")); ok && textOf(get(outcome, "outcome")) == "selected" {
			end.OptionId, end.Outcome = id, "denied"
			if r.allowing[id] {
				end.Outcome = "allowed"
			}
		}
	} else if a.fault == nil {
		switch textOf(get(a.result, "action")) {
		case "accept":
			end.Outcome = "accepted"
		case "decline":
			end.Outcome = "declined"
		}
	}
	switch {
	case a.handler == byNobody:
		end.Outcome = "expired"
	case a.handler != "":
	case a.direction != frame.OursToAgent:
		end.AnsweredBy = byFront
	case end.GetOutcome() == "cancelled":
		end.AnsweredBy = byNobody
	default:
		end.AnsweredBy = byPolicy
	}
	d.questionEnded(r, end, a.raw())
}

func (d *Decoder) questionEnded(r *request, end *supervisorv1.ApprovalAnswer, from string) {
	end.Id, end.Time = r.question, timestamppb.New(d.at)
	d.tell(&supervisorv1.Event{SessionId: r.session, Raw: from, Event: &supervisorv1.Event_QuestionAnswered{QuestionAnswered: end}})
}

// withdrawn takes a $/cancel_request. The agent's ends its question. Acphost's ends its own, if that has no answer yet; of
// a question of the agent's, it says to the front that somebody else has answered, and that answer is seen by itself.
func (d *Decoder) withdrawn(direction frame.Direction, key string) {
	var t *table
	switch direction {
	case frame.AgentToFront:
		t = &d.calls
	case frame.OursToFront:
		t = &d.own
	default:
		return
	}
	if r := t.get(key); r != nil && r.question != "" {
		t.take(key)
		d.questionEnded(r, &supervisorv1.ApprovalAnswer{Outcome: "withdrawn", AnsweredBy: byNobody}, "")
	}
}
