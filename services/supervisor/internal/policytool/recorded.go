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
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/sdk/programs"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/audit"
	"github.com/acphost/acphost/services/supervisor/internal/dialect"
	"github.com/acphost/acphost/services/supervisor/internal/event"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
	"github.com/acphost/acphost/services/supervisor/internal/intent"
	"github.com/acphost/acphost/services/supervisor/internal/journal"
	"github.com/acphost/acphost/services/supervisor/internal/safetext"
	"github.com/acphost/acphost/services/supervisor/internal/secret"
	"github.com/acphost/acphost/services/supervisor/internal/session"
)

// Records are where it is recorded what agents sent, and what was decided about it.
type Records struct {
	// Journal is the folder of the journal, Audit the file of the audit. Empty: there is none.
	Journal, Audit string
	// Gate knows the files and folders that are acphost's own.
	Gate *gate.Gate
	// Dialect says how an agent of a configured name describes its tools; nil, or what it returns: nothing is configured.
	Dialect func(agent string) *dialect.Dialect
}

// Recorded is the action that a question was about, as the record has it.
type Recorded struct {
	Action *permissionv1.Action
	// Notes say how it was found, and why it may be judged otherwise than it was, one sentence each.
	Notes []string
}

// Find returns the action that a question was about, which may wait, be answered, or belong to a session that has ended. id
// is the question's id or handle, or the id of a decision in the audit. The action is the one of the audit, which is what was judged; if the audit has none,
// it is made of the recorded frames, as it was made when the agent sent them.
func (r Records) Find(id string) (*Recorded, error) {
	handle := client.Handle(id)
	agentID, _, ok := strings.Cut(handle, "/")
	if !ok {
		if a := r.decided(id); a != nil {
			return noted(&Recorded{Action: a, Notes: []string{asJudged}}), nil
		}
		return nil, fmt.Errorf("there is no question and no decision %q: \"acphost approvals list\" shows the questions that wait, and "+
			"\"acphost audit query --json\" the ids of decisions", id)
	}
	if r.Journal == "" {
		return nil, errors.New("where the journal is cannot be told: neither XDG_STATE_HOME nor HOME is set; set journal.dir")
	}
	files, err := journal.Files(r.Journal, true)
	if err != nil {
		return nil, fmt.Errorf("look for question %s in the journal: %w", handle, err)
	}
	names := map[string]acp.Initialized{} // by instance of the supervisor, what the agent says of itself
	var found *askedAction
	for _, file := range files { // the newest counts
		a := r.search(file, agentID, handle, names)
		if a != nil {
			found = a
		}
	}
	if found == nil {
		return nil, fmt.Errorf("no question %s is in the journal in %s: it was not recorded (--no-journal, journal.content), or the record was removed", handle, r.Journal)
	}
	out := &Recorded{Action: r.judged(found)}
	if out.Action != nil {
		out.Notes = append(out.Notes, asJudged)
	} else if out.Action = found.action; out.Action != nil {
		out.Notes = append(out.Notes, "the action is made of the recorded frames; paths and programs are looked up as they are on this machine now")
	} else {
		return nil, fmt.Errorf("question %s is acphost's own, and the call that it is about is not in the journal", handle)
	}
	return noted(out), nil
}

// Denied returns the action that was denied last, as it was judged.
func (r Records) Denied() (*Recorded, error) {
	if r.Audit == "" {
		return nil, errors.New("where the audit is cannot be told: neither XDG_STATE_HOME nor HOME is set; set permission.audit.file")
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
	return noted(&Recorded{Action: last.GetAction(), Notes: []string{note}}), nil
}

const asJudged = "this is the action as it was judged then, from the audit"

// noted notes that the record lacks secrets, if it does.
func noted(r *Recorded) *Recorded {
	if text, err := protojson.Marshal(r.Action); err == nil && strings.Contains(string(text), secret.Redacted) {
		r.Notes = append(r.Notes, "secrets in it are "+secret.Redacted+" in the record, so it may have been judged otherwise")
	}
	return r
}

// decided is the action of a decision in the audit; nil: there is none.
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
	action *permissionv1.Action // nil: it is not known
}

// search reads a file for the question of a handle; nil: it is not there.
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

// judged is the action of the audit's record about a question; nil: there is none. Agents use the ids of tool calls again: the
// first record after the question was asked is its own.
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

// recordedSession follows what is known of a session, as the supervisor did.
type recordedSession struct {
	gate    *gate.Gate
	header  journal.Header
	agent   frame.Agent
	names   map[string]acp.Initialized
	dialect *dialect.Dialect
	table   *session.Table
	decoder *event.Decoder
	calls   map[string]sentCall // of the agent's, that were not answered, by their ids
	order   []string
}

// sentCall is a request of the agent's.
type sentCall struct {
	method string
	params []byte
}

// maxSentCalls bounds the requests that are remembered.
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

// take takes a frame.
func (s *recordedSession) take(f *frame.Frame) {
	method, _ := acp.Exact(acp.Get(f.Line, "method"))
	method = string(acp.Method([]byte(method)))
	params, id := acp.Get(f.Line, "params"), string(acp.Get(f.Line, "id"))
	switch f.Direction {
	case frame.AgentToClient, frame.AgentToHandler:
		if said := acp.ParseInitialized(acp.Get(f.Line, "result")); said.Name != "" && method == "" {
			said.Raw = nil
			s.names[s.header.Instance+"/"+s.header.AgentID] = said
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

// about is the action that a question is about; nil: it is not known. params are the request's.
func (s *recordedSession) about(q *supervisorv1.Approval, params []byte) *permissionv1.Action {
	against := s.judging()
	if !q.GetPermission().GetFromAcphost() {
		if q.GetPermission() == nil {
			return looked(s.gate, intent.Call(against, acp.MethodElicitationCreate, "elicitation", params))
		}
		req, err := acp.ParsePermissionRequest(params)
		if err != nil {
			return nil
		}
		return looked(s.gate, intent.Question(against, s.table.ToolCall(s.header.Session, req.ToolCall)))
	}
	for _, id := range slices.Backward(s.order) {
		c := s.calls[id]
		a := looked(s.gate, intent.Call(against, c.method, kindOf(c.method), c.params))
		if title := q.GetPermission().GetTitle(); title == intent.Title(a) || title == intent.Summary(a) { // older recordings have summaries
			return a
		}
	}
	return nil
}

// judging is what the session's actions are judged against.
func (s *recordedSession) judging() intent.Session {
	said := s.names[s.header.Instance+"/"+s.header.AgentID]
	j := intent.Session{
		Agent: s.header.Agent, SessionID: s.header.Session, Configured: s.dialect, Local: true,
		Dialect: cmp.Or(said.Name, s.header.Agent), Version: said.Version,
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

// kindOf is the kind of action of a method.
func kindOf(method string) string {
	for kind, of := range methods {
		if of == method {
			return kind
		}
	}
	return method
}

// looked has an action's command be what it comes to here, in our own environment. An agent's may differ.
func looked(g *gate.Gate, a *permissionv1.Action) *permissionv1.Action {
	resolver := programs.Resolver{Environ: os.Environ(), Roots: slices.Concat(a.GetRoots(), a.GetResolvedRoots()),
		Quiet: a.GetKind() == "terminal.create"}
	intent.Found(a, resolver.Look(intent.SimpleCommands(a)))
	g.Mark(a)
	return a
}

// placeIn says where a path of this machine leads, in a session with such roots.
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
		Public: gate.HoldsNoSecret(resolved),
	}
}
