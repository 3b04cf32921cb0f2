package link

import (
	"slices"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
	"github.com/acphost/acphost/services/supervisor/internal/question"
)

// TerminalTools are the tools of an agent that run every command by terminal/create, and do nothing else. A permission request of such a
// tool is deferred to the call, so that the user is asked once, about the command itself.
type TerminalTools struct {
	// Versions are the agent versions that this is known of, as reported at initialize.
	Versions []string
	// Titles are the titles of the tools' permission requests.
	Titles []string
}

// leftToCall ends a permission request by deferring it to the agent's call, if the request is from one of the TerminalTools, a handler of
// acphost serves that call, and the gate decides about it. The agent gets an answer to continue, which allows nothing by itself. False: a
// person has to be asked about the request.
func (l *Link) leftToCall(a *agentQuestion, req acp.PermissionRequest, d *gate.Decision, action *permissionv1.Action) bool {
	tools := l.opts.TerminalTools
	if tools == nil || !slices.Contains(tools.Versions, l.Reported().Version) || !slices.Contains(tools.Titles, a.judged.Title) {
		return false
	}
	switch kind := action.GetKind(); {
	case kind == "tool.execute":
	case kind == "unknown" && len(action.GetPaths()) == 0: // the request contains only the tool's name
	default:
		return false
	}
	r := l.lookup(a.SessionID, []byte(gate.MethodTerminalCreate))
	if r == nil || r.Target != route.Handler || !l.opts.Gate.Leaves(d) {
		return false
	}
	id, ok := req.Option(acp.AllowOnce)
	if !ok {
		return false
	}
	d.Said = intent.Said(a.judged)
	return a.Finish(question.Ending{Cause: question.CallDecides, Option: id})
}
