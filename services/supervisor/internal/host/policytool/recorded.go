package policytool

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/internal/secretfile"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/sdk/programs"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/session"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
	"github.com/acphost/acphost/services/supervisor/internal/events/journal"
	"github.com/acphost/acphost/services/supervisor/internal/policy/audit"
	"github.com/acphost/acphost/services/supervisor/internal/policy/dialect"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
	"github.com/acphost/acphost/services/supervisor/internal/policy/secret"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// Records locates the recorded messages and decisions.
type Records struct {
	// Journal is the folder of the journal, Audit the file of the audit. Empty means that none exists.
	Journal, Audit string
	// Gate knows the files and folders that are acphost's own.
	Gate *gate.Gate
	// Dialect returns the configured dialect of an agent, or nil. A nil Dialect means that none is configured.
	Dialect func(agent string) *dialect.Dialect
}

// RecordedAction is the recorded action of a question.
type RecordedAction struct {
	Action *permissionv1.Action
	// Notes describe how the decision was found, and why it may be decided differently now, one sentence each.
	Notes []string
}

// Find returns the action of a question, which may be open, answered, or of a session that has ended. id is the
// question's id or handle, or the id of a decision in the audit. If the audit has the action, Find returns it, because
// it is the action that was decided on. Otherwise Find creates it from the recorded frames, as the supervisor does.
func (r Records) Find(id string) (*RecordedAction, error) {
	handle := client.Handle(id)
	agentID, _, ok := strings.Cut(handle, "/")
	if !ok {
		if a := r.decided(id); a != nil {
			return addRedactionNote(&RecordedAction{Action: a, Notes: []string{asJudged}}), nil
		}
		return nil, fmt.Errorf("there is no question and no decision %q: \"acphost approvals list\" shows the questions that wait, and "+
			"\"acphost audit query --json\" the ids of decisions", id)
	}
	if r.Journal == "" {
		return nil, errors.New("the folder of the journal is unknown: neither XDG_STATE_HOME nor HOME is set; set journal.dir")
	}
	files, err := journal.Files(r.Journal, true)
	if err != nil {
		return nil, fmt.Errorf("look for question %s in the journal: %w", handle, err)
	}
	names := map[string]acp.Initialized{} // the agents' answers to initialize, by instance of the supervisor
	var found *askedAction
	for _, file := range files { // the newest match counts
		a := r.search(file, agentID, handle, names)
		if a != nil {
			found = a
		}
	}
	if found == nil {
		return nil, fmt.Errorf("no question %s is in the journal in %s: it was not recorded (--no-journal, journal.content), or the record was removed", handle, r.Journal)
	}
	out := &RecordedAction{Action: r.judged(found)}
	if out.Action != nil {
		out.Notes = append(out.Notes, asJudged)
	} else if out.Action = found.action; out.Action != nil {
		out.Notes = append(out.Notes, "the action is made of the recorded frames; paths and programs are looked up as they are on this machine now")
	} else {
		return nil, fmt.Errorf("question %s is acphost's own, and the call that it is about is not in the journal", handle)
	}
	return addRedactionNote(out), nil
}

// Denied returns the action of the latest denial.
func (r Records) Denied() (*RecordedAction, error) {
	if r.Audit == "" {
		return nil, errors.New("the file of the audit is unknown: neither XDG_STATE_HOME nor HOME is set; set permission.audit.file")
	}
	var last *supervisorv1.AuditRecord
	for record, err := range audit.Read(r.Audit, audit.Filter{Outcome: "denied"}) {
		if err == nil && record.GetAction() != nil {
			last = record
		}
	}
	if last == nil {
		return nil, fmt.Errorf("nothing was denied, as far as the audit %s goes: \"acphost audit tail\" shows what was decided", r.Audit)
	}
	by := "by rule " + safetext.Line(last.GetRule())
	if last.GetRule() == "" || last.GetAnsweredBy() != "policy" && last.GetAnsweredBy() != "acphost" {
		by = "as answered by " + safetext.Line(cmp.Or(last.GetAnsweredBy(), "nobody"))
	}
	note := fmt.Sprintf("%s (%s UTC): it was denied %s", asJudged, last.GetTime().AsTime().UTC().Format(time.DateTime), by)
	return addRedactionNote(&RecordedAction{Action: last.GetAction(), Notes: []string{note}}), nil
}

const asJudged = "this is the action as it was judged then, from the audit"

// addRedactionNote adds a note if secrets were removed from the record.
func addRedactionNote(r *RecordedAction) *RecordedAction {
	if text, err := protojson.Marshal(r.Action); err == nil && strings.Contains(string(text), secret.Redacted) {
		r.Notes = append(r.Notes, "secrets in it are "+secret.Redacted+" in the record, so it may have been judged otherwise")
	}
	return r
}

// decided returns the action of a decision in the audit, or nil.
func (r Records) decided(id string) *permissionv1.Action {
	if r.Audit == "" {
		return nil
	}
	for record, err := range audit.Read(r.Audit, audit.Filter{}) {
		if err == nil && record.GetId() == id && record.GetAction() != nil {
			return record.GetAction()
		}
	}
	return nil
}

// askedAction is a question in the journal.
type askedAction struct {
	asked  *supervisorv1.Approval
	action *permissionv1.Action // nil: unknown
}

// search searches a file for the question with a handle. It returns nil if none exists.
func (r Records) search(file, agentID, handle string, names map[string]acp.Initialized) *askedAction {
	entries, err := journal.OpenReader(file, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = entries.Close() }()
	first, err := entries.Next()
	if err != nil || first.Journal == nil || first.Journal.AgentID != agentID {
		return nil
	}
	s := newRecordedSession(r.Gate, *first.Journal, names)
	if r.Dialect != nil {
		s.dialect = r.Dialect(first.Journal.Agent)
	}
	var found *askedAction
	for {
		e, err := entries.Next()
		if bad := (*journal.LineError)(nil); errors.As(err, &bad) {
			continue
		}
		if err != nil {
			return found
		}
		if e.Dir == "" {
			continue
		}
		f := e.Observed(&s.agent, first.Journal.Session)
		if f.Line == nil {
			continue
		}
		s.take(&f)
		for _, ev := range s.decoder.Frame(f) {
			if q := ev.GetQuestionAsked(); q != nil && client.Handle(q.GetId()) == handle {
				found = &askedAction{asked: q, action: s.about(q, acp.Get(f.Line, "params"))}
			}
		}
	}
}

// judged returns the action in the audit's record of a question, or nil. Agents reuse the ids of tool calls, so the
// first record after the question counts.
func (r Records) judged(a *askedAction) *permissionv1.Action {
	if r.Audit == "" {
		return nil
	}
	q := a.asked
	call := q.GetPermission().GetToolCallId()
	var nearest *supervisorv1.AuditRecord
	for record, err := range audit.Read(r.Audit, audit.Filter{Session: q.GetSessionId(), Since: q.GetTime().AsTime()}) {
		switch {
		case err != nil || record.GetAction() == nil:
		case q.GetPermission().GetFromAcphost():
			if record.GetId() != "" && strings.HasSuffix(call, record.GetId()) {
				return record.GetAction()
			}
		case record.GetDoor() == "request" && call != "" && record.GetAction().GetToolCallId() == call && nearest == nil:
			nearest = record
		}
	}
	return nearest.GetAction()
}

// recordedSession is the state of a session, derived from frames as the supervisor does.
type recordedSession struct {
	gate    *gate.Gate
	header  journal.Header
	agent   frame.Agent
	names   map[string]acp.Initialized
	dialect *dialect.Dialect
	table   *session.Table
	decoder *event.Decoder
	calls   map[string]sentCall // unanswered requests of the agent, by their ids
	order   []string
}

// sentCall is a request of the agent.
type sentCall struct {
	method string
	params []byte
}

// maxSentCalls limits the requests that are stored.
const maxSentCalls = 1024

func newRecordedSession(g *gate.Gate, h journal.Header, names map[string]acp.Initialized) *recordedSession {
	s := &recordedSession{gate: g, header: h, names: names, agent: frame.Agent{ID: h.AgentID, Name: h.Agent}, calls: map[string]sentCall{}}
	s.table = session.New(session.Options{Agent: h.Agent})
	s.decoder = event.NewDecoder(s.agent, nil)
	s.opened(acp.Opening{Cwd: h.Cwd})
	return s
}

func (s *recordedSession) opened(o acp.Opening) {
	o.SessionID = s.header.Session
	s.table.Opening("opening", acp.MethodSessionLoad, o)
	s.table.Opened("opening", acp.Opened{}, false)
}

// take updates the state by a frame.
func (s *recordedSession) take(f *frame.Frame) {
	method, _ := acp.Exact(acp.Get(f.Line, "method"))
	method = string(acp.Method([]byte(method)))
	params, id := acp.Get(f.Line, "params"), string(acp.Get(f.Line, "id"))
	switch f.Direction {
	case frame.AgentToClient, frame.AgentToHandler:
		if info := acp.ParseInitialized(acp.Get(f.Line, "result")); info.Name != "" && method == "" {
			info.Raw = nil
			s.names[s.header.Instance+"/"+s.header.AgentID] = info
		}
		switch {
		case method == acp.MethodSessionUpdate:
			s.updated(acp.UpdateOf(params))
		case method != "" && id != "" && s.header.Session != "":
			if _, known := s.calls[id]; !known {
				s.order = append(s.order, id)
			}
			s.calls[id] = sentCall{method: method, params: slices.Clone(params)}
			if len(s.order) > maxSentCalls {
				s.ended(s.order[0])
			}
		case method == "" && acp.Get(f.Line, "result", "modes") != nil:
			s.table.Mode(s.header.Session, acp.ParseOpened(acp.Get(f.Line, "result")).Mode)
		}
	case frame.HandlerToAgent:
		s.ended(id)
	case frame.ClientToAgent:
		switch method {
		case "":
			s.ended(id)
		case acp.MethodSessionNew, acp.MethodSessionLoad, acp.MethodSessionResume:
			if o, err := acp.ParseOpening(params); err == nil {
				s.opened(o)
			}
		case "session/set_mode":
			mode, _ := acp.Exact(acp.Get(params, "modeId"))
			s.table.Mode(s.header.Session, mode)
		}
	}
}

func (s *recordedSession) ended(id string) {
	delete(s.calls, id)
	s.order = slices.DeleteFunc(s.order, func(o string) bool { return o == id })
}

func (s *recordedSession) updated(update []byte) {
	switch kind, _ := acp.Exact(acp.Get(update, "sessionUpdate")); kind {
	case "tool_call", "tool_call_update":
		s.table.ToolCall(s.header.Session, update)
	case "current_mode_update":
		mode, _ := acp.Exact(acp.Get(update, "currentModeId"))
		s.table.Mode(s.header.Session, mode)
	}
}

// about returns the action of a question, or nil if it is unknown. params are the params of the request.
func (s *recordedSession) about(q *supervisorv1.Approval, params []byte) *permissionv1.Action {
	against := s.judging()
	if !q.GetPermission().GetFromAcphost() {
		if q.GetPermission() == nil {
			return resolveCommand(s.gate, intent.Call(against, acp.MethodElicitationCreate, "elicitation", params))
		}
		req, err := acp.ParsePermissionRequest(params)
		if err != nil {
			return nil
		}
		return resolveCommand(s.gate, intent.Question(against, s.table.ToolCall(s.header.Session, req.ToolCall)))
	}
	for _, id := range slices.Backward(s.order) {
		c := s.calls[id]
		a := resolveCommand(s.gate, intent.Call(against, c.method, kindOf(c.method), c.params))
		if title := q.GetPermission().GetTitle(); title == intent.Title(a) || title == intent.Summary(a) { // older recordings have summaries
			return a
		}
	}
	return nil
}

// judging returns the session for decisions about actions.
func (s *recordedSession) judging() intent.Session {
	info := s.names[s.header.Instance+"/"+s.header.AgentID]
	j := intent.Session{
		Agent: s.header.Agent, SessionID: s.header.Session, Configured: s.dialect, Local: true,
		Dialect: cmp.Or(info.Name, s.header.Agent), Version: info.Version,
	}
	if cc, err := s.table.Context(s.header.Session); err == nil {
		j.Mode = cc.GetMode()
		for _, root := range cc.GetRoots() {
			j.Roots = append(j.Roots, root.GetPath())
			j.ResolvedRoots = append(j.ResolvedRoots, paths.Real(root.GetPath()))
		}
	}
	j.Place = func(path string) intent.Place { return placeIn(s.gate, j.Roots, j.ResolvedRoots, path) }
	return j
}

// kindOf returns the kind of action of a method.
func kindOf(method string) string {
	for kind, of := range methods {
		if of == method {
			return kind
		}
	}
	return method
}

// resolveCommand resolves an action's command on this machine, with this process's environment. The agent's environment
// may differ.
func resolveCommand(g *gate.Gate, a *permissionv1.Action) *permissionv1.Action {
	resolver := programs.Resolver{Environ: os.Environ(), Roots: slices.Concat(a.GetRoots(), a.GetResolvedRoots()),
		Quiet: a.GetKind() == "terminal.create"}
	intent.Found(a, resolver.Look(intent.SimpleCommands(a)))
	g.Mark(a)
	return a
}

// placeIn resolves a path on this machine, in a session with these roots.
func placeIn(g *gate.Gate, roots, real []string, path string) intent.Place {
	clean, resolved := filepath.Clean(path), paths.Real(filepath.Clean(path))
	all := slices.Concat(roots, real)
	below := func(roots []string, path string) bool {
		return slices.ContainsFunc(roots, func(root string) bool { return paths.Below(root, path) })
	}
	return intent.Place{
		Resolved: resolved, Inside: below(all, clean) && below(real, resolved),
		Protected:   g.Protected(clean) || gate.ProtectedBelow(all, clean) || gate.ProtectedBelow(all, resolved),
		GitInternal: gate.GitInternal(clean, resolved), NoFolder: paths.NoFolder(resolved),
		Content: func(reads bool) secretfile.Verdict { return secretfile.File(resolved, reads) },
	}
}
