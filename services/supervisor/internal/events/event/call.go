package event

import (
	"cmp"
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
)

// toClient is the destination of a call without a handler.
const toClient = "front"

// fromAgent processes a request of the agent to its client.
func (d *Decoder) fromAgent(f *frame.Frame, r *request, m *jsonrpc.Message) {
	toPerson := f.Direction == frame.AgentToClient
	switch r.method {
	case acp.MethodRequestPermission, acp.MethodElicitationCreate:
		if toPerson { // otherwise the policy decides about it, and it may not become a question
			d.asked(r, m.Params, false)
			return
		}
		if r.method == acp.MethodRequestPermission {
			d.decided(r, m.Params)
			return
		}
		if f.Handler == gateName {
			return
		}
	case acp.MethodSessionUpdate: // as a request, which is wrong
		if toPerson {
			d.update(r.session, updateIn(m.Raw))
		}
	}
	r.to = f.Handler
	if toPerson || r.to == "" {
		r.to = toClient
	}
	if old := d.calls.At(r.key); old != nil && old.to == gateName && old.method == r.method && toPerson {
		old.to = r.to // it was allowed, and is forwarded
		return
	}
	d.open(&d.calls, r)
	call := &supervisorv1.CallStarted{Id: r.id, Method: r.method, To: r.to}
	read(m.Params, "path", &call.Path, "terminalId", &call.TerminalId)
	r.touched = d.usedByCall(r, call.GetPath(), m.Params)
	d.emit(&supervisorv1.Event{SessionId: r.session, Raw: rawCall(raw(m.Params), f.Brief), Event: &supervisorv1.Event_CallStarted{CallStarted: call}})
}

// decided tracks a permission request that a policy may answer. It becomes a question if it is forwarded to a person.
func (d *Decoder) decided(r *request, params []byte) {
	req, _ := acp.ParsePermissionRequest(params)
	report := questioned(req.ToolCall)
	if report.GetToolCallId() == "" {
		return
	}
	d.reports.note(r.session, report, false, len(params))
	q, _, _ := permission(params, false)
	r.toolCall, r.allowing = report.GetToolCallId(), allowing(q.GetOptions())
	d.open(&d.calls, r)
}

// gateName replaces the handler's name while the gate decides about a call.
const gateName = "gate"

// agentAnswered processes the answer to a request of the agent.
func (d *Decoder) agentAnswered(r *request, a *answer) {
	switch {
	case r.question != "":
		d.questionAnswered(r, a)
		return
	case r.allowing != nil: // the policy answered it
		d.deniedQuestion(r, a.fault != nil || !r.allowing[acp.Chosen(a.result)])
		return
	}
	end := &supervisorv1.CallEnded{Id: r.id, Method: r.method}
	if a.fault != nil {
		var code int32
		code, end.Error = errorWords(a.fault)
		end.ErrorCode = code
		end.Error = cmp.Or(end.Error, "an error without words")
	} else if strings.HasPrefix(r.method, "terminal/") {
		end.TerminalId = textOf(acp.Get(a.result, "terminalId"))
	}
	d.emit(&supervisorv1.Event{SessionId: r.session, Raw: rawCall(a.raw(), a.brief), Touches: touchedByCall(r, a),
		Event: &supervisorv1.Event_CallEnded{CallEnded: end}})
}

// maxCall is the limit of a call's params or result in an event, in bytes: they contain files, which the record has.
const maxCall = 64 << 10

func rawCall(raw string, brief bool) string {
	if brief || len(raw) > maxCall {
		return ""
	}
	return raw
}
