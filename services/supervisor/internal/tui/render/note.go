package render

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// note returns the text of an event that is shown in one or two lines, or is not shown.
func (r *Renderer) note(ev *supervisorv1.Event) string {
	o := r.o
	faint := func(format string, args ...any) string { return o.paint(dim, fmt.Sprintf(format, args...)) + "\n" }
	switch e := ev.GetEvent().(type) {
	case *supervisorv1.Event_AvailableCommands:
		return r.commands(e.AvailableCommands.GetCommands())
	case *supervisorv1.Event_CurrentMode:
		if id := e.CurrentMode.GetModeId(); id != r.mode {
			r.mode = id
			return faint("mode: %s", safetext.Line(id))
		}
		return ""
	case *supervisorv1.Event_ConfigOptions:
		return r.configOptions(e.ConfigOptions.GetOptions(), true)
	case *supervisorv1.Event_SessionInfo:
		if title := e.SessionInfo.GetTitle(); e.SessionInfo.Title != nil && title != r.title {
			r.title = title
			if title != "" {
				return faint("title: %s", safetext.Line(title))
			}
		}
		return ""
	case *supervisorv1.Event_Usage:
		r.context = client.LatestUsage(r.context, e.Usage)
		return ""
	case *supervisorv1.Event_Notice:
		r.recordNotice(e.Notice)
		return notice(o, e.Notice)
	case *supervisorv1.Event_Compaction:
		return compaction(o, e.Compaction)
	case *supervisorv1.Event_OtherUpdate:
		switch e.OtherUpdate.GetKind() {
		// of a turn that continues, which the screen shows anyway; of a subagent
		case "state_update", client.ChildSessionUpdate:
			return ""
		case "current_model_update", "currentModelUpdate":
			if model := modelOf(ev.GetRaw()); model != "" {
				return faint("model: %s", safetext.Line(model))
			}
		case "auth_complete":
			return faint("the agent is logged in")
		}
		return faint("[update %q, which acphost does not know]", safetext.Line(e.OtherUpdate.GetKind()))
	case *supervisorv1.Event_SessionOpened:
		return r.opened(ev, e.SessionOpened)
	case *supervisorv1.Event_SessionClosed:
		return faint("session closed: %s", safetext.Line(e.SessionClosed.GetReason()))
	case *supervisorv1.Event_Agent:
		return r.agentState(e.Agent)
	case *supervisorv1.Event_Handler:
		return r.handlerState(e.Handler)
	case *supervisorv1.Event_Gap:
		missing := "something is"
		if n := e.Gap.GetFrames(); n > 0 {
			missing = fmt.Sprintf("at least %s is", safetext.Count(n, "message"))
			if n > 1 {
				missing = strings.TrimSuffix(missing, "is") + "are"
			}
		}
		return o.paint(yellow, fmt.Sprintf("[%s missing here: %s]", missing, safetext.Line(e.Gap.GetReason()))) + "\n"
	case nil:
		return faint("[an event that this acphost does not know]")
	}
	return ""
}

func (r *Renderer) commands(list []*supervisorv1.AvailableCommand) string {
	if !r.o.Verbose || len(list) == 0 {
		return ""
	}
	var names []string
	for _, c := range list[:min(len(list), 30)] {
		names = append(names, "/"+safetext.LineOf(c.GetName(), 40))
	}
	text := "commands: " + strings.Join(names, " ")
	if n := len(list) - len(names); n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return r.o.paint(dim, text) + "\n"
}

// configOptions shows the options that have changed. It shows none of the first list.
func (r *Renderer) configOptions(list []*supervisorv1.ConfigOption, show bool) string {
	var b strings.Builder
	first := r.options.Len() == 0
	for _, c := range list[:min(len(list), 100)] {
		value := c.GetValue()
		if _, ok := c.GetCurrent().(*supervisorv1.ConfigOption_Enabled); ok {
			value = map[bool]string{true: "on", false: "off"}[c.GetEnabled()]
		}
		for _, choice := range c.GetChoices() {
			if choice.GetValue() == value && choice.GetName() != "" {
				value = choice.GetName()
			}
		}
		before, known := r.options.Get(c.GetId())
		r.options.Keep(c.GetId(), value, maxKept)
		if show && !first && (!known || before != value) {
			b.WriteString(r.o.paint(dim, fmt.Sprintf("%s: %s", cmp.Or(safetext.Line(c.GetName()), safetext.Line(c.GetId())), safetext.Line(value))) + "\n")
		}
	}
	return b.String()
}

func notice(o Options, n *supervisorv1.Notice) string {
	s := blue
	switch n.GetSeverity() {
	case "warning":
		s = yellow
	case "error":
		s = red
	}
	sender := "agent"
	if n.GetFromAcphost() {
		sender = "acphost"
	}
	head := fmt.Sprintf("! %s (%s): ", cmp.Or(safetext.Line(n.GetSeverity()), "notice"), sender)
	text := o.paint(s, head) + safetext.Line(n.GetTitle()) + "\n"
	return text + indented(excerpt(o, n.GetDescription()), toolIndent)
}

func compaction(o Options, c *supervisorv1.Compaction) string {
	switch c.GetStatus() {
	case "in_progress":
		return o.paint(dim, "The agent makes its context smaller …") + "\n"
	case "completed":
		return o.paint(dim, "The context was made smaller.") + "\n"
	case "failed":
		why := "The context could not be made smaller"
		if c.GetError() != "" {
			why += ": " + safetext.Line(c.GetError())
		}
		return o.paint(red, why) + "\n"
	}
	return o.paint(dim, "Making the context smaller: "+safetext.Line(c.GetStatus())) + "\n"
}

func (r *Renderer) opened(ev *supervisorv1.Event, e *supervisorv1.SessionOpened) string {
	r.mode = e.GetModeId()
	r.configOptions(e.GetOptions(), false)
	if !r.o.Verbose {
		return ""
	}
	text := "session " + safetext.Line(ev.GetSessionId()) + " (" + safetext.Line(e.GetMethod()) + ")"
	if roots := e.GetRoots(); len(roots) > 0 {
		text += " in " + safetext.Line(roots[0])
	}
	if e.GetModeId() != "" {
		text += ", mode " + safetext.Line(e.GetModeId())
	}
	return r.o.paint(dim, text) + "\n"
}

func (r *Renderer) agentState(a *supervisorv1.Agent) string {
	name := cmp.Or(safetext.Line(a.GetId()), "the agent")
	switch a.GetState() {
	case supervisorv1.AgentState_AGENT_STATE_BACKOFF:
		return r.o.paint(yellow, "! "+name+" ended and is started again soon"+because(a.GetError())) + "\n"
	case supervisorv1.AgentState_AGENT_STATE_FAILED:
		return r.o.paint(red, "! "+name+" does not run"+because(a.GetError())) + "\n"
	case supervisorv1.AgentState_AGENT_STATE_RUNNING:
		if a.GetRestarts() > 0 {
			return r.o.paint(dim, name+" runs again") + "\n"
		}
	}
	return ""
}

func because(e *supervisorv1.AgentError) string {
	if e.GetMessage() == "" {
		return ""
	}
	return ": " + safetext.Line(e.GetMessage())
}

func (r *Renderer) handlerState(h *supervisorv1.HandlerChanged) string {
	before, _ := r.handlers.Get(h.GetName())
	r.handlers.Keep(h.GetName(), h.GetState(), maxKept)
	name := "handler " + safetext.Line(h.GetName())
	switch h.GetState() {
	case "backoff", "failed":
		text := "! " + name + ": " + h.GetState()
		if h.GetError() != "" {
			text += ": " + safetext.Line(h.GetError())
		}
		return r.o.paint(yellow, text) + "\n"
	case "ready":
		if before == "backoff" || before == "failed" {
			return r.o.paint(dim, name+" is ready again") + "\n"
		}
	}
	return ""
}

func (r *Renderer) callStarted(ev *supervisorv1.Event, e *supervisorv1.CallStarted) string {
	about := e.GetMethod()
	switch {
	case e.GetPath() != "":
		about += " " + r.o.path(e.GetPath())
	case e.GetTerminalId() != "":
		about += " " + e.GetTerminalId()
	}
	about = safetext.Line(about)
	r.calls.Keep(ev.GetAgentId()+"\x00"+e.GetId(), about, maxKept)
	if !r.o.Verbose {
		return ""
	}
	return r.lines(work, r.o.paint(dim, "· "+about+" → "+safetext.Line(e.GetTo()))+"\n")
}

func (r *Renderer) callEnded(ev *supervisorv1.Event, e *supervisorv1.CallEnded) string {
	key := ev.GetAgentId() + "\x00" + e.GetId()
	about := r.calls.Delete(key)
	if e.GetError() == "" && e.GetErrorCode() == 0 || !r.o.Verbose && unknownExtension(e) {
		return ""
	}
	text := "✗ " + cmp.Or(about, safetext.Line(e.GetMethod())) + ": " + cmp.Or(safetext.Line(e.GetError()), "failed")
	if code := e.GetErrorCode(); code != 0 {
		text += fmt.Sprintf(" (%d)", code)
	}
	text = r.o.paint(red, text) + "\n"
	if r.o.Brief && !r.o.Verbose {
		return r.failed(text, e.GetError())
	}
	return r.lines(work, text)
}

// unknownExtension reports whether a call was an extension method that no handler or client knows. Agents try such
// methods, and work without them.
func unknownExtension(e *supervisorv1.CallEnded) bool {
	const methodNotFound = -32601
	space, _, _ := strings.Cut(e.GetMethod(), "/")
	switch space {
	case "fs", "terminal", "session", "elicitation", "mcp":
		return false
	}
	return e.GetErrorCode() == methodNotFound
}

var stopReasons = map[string]string{
	"end_turn":          "The turn is over.",
	"max_tokens":        "The turn ended: the most tokens that there can be were reached.",
	"max_turn_requests": "The turn ended: the agent asked its model as often as it may in one turn.",
	"refusal":           "The agent refuses to go on.",
	"cancelled":         "The turn was cancelled.",
}

// StopReason describes the reason of a turn's end for users.
func StopReason(reason string) string {
	if text, ok := stopReasons[reason]; ok {
		return text
	}
	return "The turn ended: " + cmp.Or(safetext.Line(reason), "the agent does not say why") + "."
}

// stderrPrefix is the text before the last line of an agent's standard error in the supervisor's errors.
const stderrPrefix = "; its last error output: "

// WithoutStderrLine removes the last line of the agent's standard error from an error message, for output that shows
// tail below it.
func WithoutStderrLine(message string, tail []string) string {
	if n := len(tail); n > 0 {
		message = strings.TrimSuffix(message, stderrPrefix+tail[n-1])
	}
	return message
}

// AgentError describes an agent's error, with the end of its standard error, in whole lines.
func AgentError(o Options, e *supervisorv1.AgentError) string {
	text := safetext.LineOf(WithoutStderrLine(e.GetMessage(), e.GetStderrTail()), 4*safetext.MaxLine)
	switch {
	case text == "":
		text = "the agent failed"
	case e.GetSignal() != "" && !strings.Contains(text, e.GetSignal()):
		text += " (" + safetext.Line(e.GetSignal()) + ")"
	}
	out := o.paint(red, "✗ "+text) + "\n"
	tail := e.GetStderrTail()
	for _, l := range tail[max(0, len(tail)-20):] {
		out += toolIndent + o.paint(dim, safetext.LineOf(l, 500)) + "\n"
	}
	return out
}

// modelOf returns the model in an update, in one of the formats of agents, or "".
func modelOf(raw string) string {
	var all map[string]any
	if json.Unmarshal([]byte(raw), &all, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) != nil {
		return ""
	}
	nested, _ := all["model"].(map[string]any)
	for _, v := range []any{all["currentModelId"], all["modelId"], nested["modelId"], all["model"]} {
		if model, ok := v.(string); ok {
			return model
		}
	}
	return ""
}
