package link

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"

	"github.com/acphost/acphost/internal/paths"
	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/sdk/programs"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/acp/transcode"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
	"github.com/acphost/acphost/services/supervisor/internal/question"
	"github.com/acphost/acphost/services/supervisor/internal/sandbox/containment"
)

// Containment decides about process actions of the agent. *containment.Decider implements it.
type Containment interface {
	// Confine opens a confinement for the command of a terminal.
	Confine(
		handler string, conn grpc.ClientConnInterface, sessionID string, allowed *gate.Decision,
	) (id string, settle func(started bool), err error)
	// Sees returns a function that reports later whether all process actions in the current turn of a session were observed.
	Sees(sessionID string) func() bool
	// SnapshotRepositories records the commits of the repositories of folders, before the agent works there.
	SnapshotRepositories(folders ...string)
	// BeginTurn prepares the review of a session's turn, before the agent gets the prompt.
	BeginTurn(sessionID string)
	// EndTurn returns a function that reviews a session's turn that has ended; nil: there is nothing to review. The
	// function returns a text for the user; empty: there is nothing to name.
	EndTurn(sessionID string) (review func(ctx context.Context) string)
	// RefusedAtStart returns the first denials while no session was open, as the end of an error, "; …", or "".
	RefusedAtStart() string
	// Walls returns the walls around the agent's processes and the commands of its terminals; nil: there are none.
	Walls() []permissionv1.Wall
}

var _ containment.Link = (*Link)(nil)

// Judging implements containment.Link.
func (l *Link) Judging(ctx context.Context, sessionID string, cc *acpv1.CallContext, seen *paths.Cache) intent.Session {
	return l.judging(ctx, sessionID, cc, seen)
}

// FindPrograms implements containment.Link.
func (l *Link) FindPrograms(resolver *programs.Resolver, a *permissionv1.Action) {
	l.resolvePrograms(resolver, a)
}

// Request implements containment.Link.
func (l *Link) Request(sessionID string, a *permissionv1.Action, seen *paths.Cache) gate.Request {
	return l.decisionRequest(sessionID, a, seen)
}

// Conclude implements containment.Link.
func (l *Link) Conclude(sessionID, scope string, d *gate.Decision, o gate.Outcome) error {
	return l.conclude(sessionID, scope, d, o)
}

// TellDenied implements containment.Link.
func (l *Link) TellDenied(sessionID string, d *gate.Decision) {
	l.tellAbout(d.DenialKey(), sessionID, deniedTitle, d.Denial())
}

// TellMore implements containment.Link.
func (l *Link) TellMore(sessionID string) {
	l.tell(sessionID, "More of what the agent does in this turn is denied", "\"acphost audit tail\" shows all of it")
}

// TellReport implements containment.Link.
func (l *Link) TellReport(sessionID string, r gate.Report) { l.tellReport(sessionID, r) }

// AskAboutTry implements containment.Link.
func (l *Link) AskAboutTry(t containment.Try, ended func(allowed bool)) {
	l.spawn(func() {
		allowed := false
		defer func() { ended(allowed) }()
		allowed = l.askAboutTry(t)
	})
}

// Spawn implements containment.Link.
func (l *Link) Spawn(f func()) { l.spawn(f) }

// Ended implements containment.Link.
func (l *Link) Ended() <-chan struct{} { return l.ended }

// confine runs the command of a call in a sandbox, if required. judged is the decided call; nil: it was not decided. The caller calls settle with whether the call has succeeded.
func (l *Link) confine(r *route.Route, c *agentCall, cc *acpv1.CallContext, conn grpc.ClientConnInterface, judged *heldCall) (settle func(started bool), jerr *jsonrpc.Error) {
	if l.opts.Containment == nil || r.Action != "terminal.create" {
		return func(bool) {}, nil
	}
	var allowed *gate.Decision
	if judged != nil {
		allowed = judged.decision
	}
	id, settle, err := l.opts.Containment.Confine(r.Handler, conn, c.sessionID, allowed)
	if cannot, ok := errors.AsType[*containment.CannotConfine](err); ok {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: fmt.Sprintf("%s: handler %s: %v", c.method, r.Handler, cannot)}
	}
	if err != nil {
		return nil, transcode.ErrorFrom(err, r.Handler)
	}
	cc.Confinement = id
	return settle, nil
}

// tryQuestion is acphost's own question about a process action that was refused. It implements question.Asker. Nobody waits for its end.
type tryQuestion struct {
	callQuestion
	try containment.Try
}

// Record implements question.Asker.
func (q *tryQuestion) Record(d *gate.Decision, o gate.Outcome, answered bool) error {
	if answered {
		q.notifyPolicy(d, o)
	}
	return q.conclude(q.try.SessionID, q.try.Scope, d, o)
}

// askAboutTry asks the user about a process action. It returns when the question has ended, and reports whether the
// next try is allowed.
func (l *Link) askAboutTry(t containment.Try) (allowed bool) {
	shown := l.newTryCall(t)
	q := &tryQuestion{callQuestion: callQuestion{Link: l}, try: t}
	q.Question = l.questions.Add(&question.Question{
		ID: jsonrpc.AppendString(nil, l.opts.Names.next(jsonrpc.NewID())), Own: true, Method: acp.MethodRequestPermission,
		SessionID: t.SessionID, Params: shown.question(t.Decision, nil), Options: offered(t.Decision), Reason: reasonOf(t.Decision), Detail: t.Decision.Detail,
	}, q)
	q.Decided(t.Decision)
	l.own.Add(q.ID, q.Question)
	defer l.own.Remove(q.ID)
	_ = q.Ask(func(show func(see func()) bool) error {
		if !show(func() {
			l.postClient(shown.created())
			l.postClient(jsonrpc.AppendRequest(nil, q.ID, acp.MethodRequestPermission, q.Params))
		}) {
			return question.ErrEnded
		}
		return nil
	})
	select {
	case <-q.Done():
	case <-l.ended:
		q.Finish(question.Ending{Cause: question.LinkOver})
		<-q.Done()
	}
	r := &q.reply
	if r.Ending.Cause == question.ClientAnswers {
		l.see(frame.ClientToOurs, "", r.Ending.Line)
	}
	allowed, status := r.Outcome.Allowed && r.Unrecorded == nil, "failed"
	if allowed {
		status = "completed"
	}
	l.postClient(shown.updated(status))
	return allowed
}

// newTryCall describes a refused process action to the user.
func (l *Link) newTryCall(t containment.Try) *ownCall {
	c := &ownCall{sessionID: t.SessionID, id: l.opts.Names.next(t.Decision.ID()), title: intent.Title(t.Action), kind: ownKind(t.Action.GetKind())}
	c.detail = t.Decision.Detail
	if why := t.Decision.Why(); why != "" {
		c.content = textContent(askedBecause + why)
	}
	if t.Action.GetCommand() != nil {
		c.content = appendItem(c.content, shownInBlock(t.Action.GetCommand()))
	}
	const note = "A program of the agent tried this, and acphost stopped it. If you allow it, the next try works."
	c.content = appendItem(c.content, note)
	locations := []byte{'['}
	for i, p := range t.Action.GetPaths() {
		if i > 0 {
			locations = append(locations, ',')
		}
		locations = append(jsonrpc.AppendString(append(locations, `{"path":`...), p.GetPath()), '}')
	}
	c.locations = append(locations, ']')
	return c
}
