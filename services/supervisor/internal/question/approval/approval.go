// Package approval holds the open questions of all agents of a supervisor to the user. An editor, a program or a
// command can list, watch and answer them.
//
// It knows which questions wait, who watches them, and how the latest questions ended. It decides nothing: the link decides which answer
// counts. It must not know gRPC.
package approval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acphost/acphost/internal/fault"
	"github.com/acphost/acphost/internal/ordered"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/acp/form"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
	"github.com/acphost/acphost/services/supervisor/internal/question"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	// maxRecent is how many answers are remembered, so that a later answerer learns who answered first.
	maxRecent = 256
	// recordTimeout is how long a later answerer waits for the record of the first answer.
	recordTimeout = 5 * time.Second
	// unnamed is the answerer if a request names none.
	unnamed = "grpc"
	// maxOption is how many bytes of an option's id are remembered: the agent chooses its length.
	maxOption = 4096
)

// Answerer answers questions in place of a client: a link.
type Answerer interface {
	// Answer is link.Link.Answer.
	Answer(id []byte, a question.Answer, by string) (question.End, error)
}

// Registry holds the questions of all agents. It is safe for concurrent use.
type Registry struct {
	attending atomic.Int64 // number of watchers that will answer

	mu       sync.Mutex                    // guards the fields below; not held during calls to other packages
	ids      map[string]*event.ApprovalIDs // by agent; an agent may run many times
	open     ordered.Map[string, *entry]
	handles  map[string]string // handles of open and recent questions → ids
	recent   ordered.Map[string, *supervisorv1.ApprovalAnswer]
	watchers map[*watcher]struct{}
	closed   bool
}

// entry is a waiting question.
type entry struct {
	owner    *Questions
	question *question.Question
	approval *supervisorv1.Approval // without its end; immutable
	expires  time.Time              // guarded by the Registry's mu
	done     chan struct{}          // closed once answer is set
	answer   *supervisorv1.ApprovalAnswer
}

// New returns an empty Registry.
func New() *Registry {
	return &Registry{
		ids:      map[string]*event.ApprovalIDs{},
		handles:  map[string]string{},
		watchers: map[*watcher]struct{}{},
	}
}

// Attended reports whether a watcher that will answer is connected. It does not block.
func (r *Registry) Attended() bool { return r.attending.Load() > 0 }

// Close ends all watches. Waiting questions can still be answered.
func (r *Registry) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for w := range r.watchers {
		close(w.changes)
	}
	clear(r.watchers)
}

// ListApprovals returns the waiting questions of a session, oldest first; of all sessions if sessionID is empty. The result must not be
// changed.
func (r *Registry) ListApprovals(sessionID string) []*supervisorv1.Approval {
	attended := r.Attended()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list(sessionID, attended)
}

// list implements ListApprovals; mu is held.
func (r *Registry) list(sessionID string, attended bool) []*supervisorv1.Approval {
	var approvals []*supervisorv1.Approval
	for _, e := range r.open.All() {
		if e.isOf(sessionID) {
			approvals = append(approvals, e.shown(attended))
		}
	}
	return approvals
}

// AnswerApproval answers a question. The error is a *fault.Error: NotFound if there is no such question; Precondition if it was answered,
// with the first answer if that is still known; Invalid if the question does not offer the answer, if a form's content does not match its
// schema, or if the request has the question's handle instead of its id.
func (r *Registry) AnswerApproval(ctx context.Context, req *supervisorv1.AnswerApprovalRequest) (*supervisorv1.ApprovalAnswer, error) {
	a, err := answerOf(req)
	if err != nil {
		return nil, err
	}
	e, err := r.find(req.GetId())
	if err != nil {
		return nil, err
	}
	if err := e.takes(a); err != nil {
		return nil, fault.New(fault.Invalid, "answer question %s: %w", e.handle(), err)
	}
	end, err := e.owner.answer(e.question.ID, a, cmp.Or(req.GetAnsweredBy(), unnamed))
	switch {
	case errors.Is(err, question.ErrNotOpen):
		first := e.await(ctx)
		if first == nil {
			return nil, fault.New(fault.Precondition, "question %s does not wait any more", e.handle())
		}
		return nil, answered(first)
	case err != nil:
		return nil, fault.New(fault.Invalid, "answer question %s: %w", e.handle(), err)
	}
	if recorded := e.await(ctx); recorded != nil {
		return recorded, nil
	}
	return e.ended(end), nil
}

// answerOf converts an answer for a link.
func answerOf(req *supervisorv1.AnswerApprovalRequest) (question.Answer, error) {
	// At most one of them is set.
	a := question.Answer{Option: req.GetOptionId(), Decline: req.GetDecline(), Cancel: req.GetCancel(), Surface: req.GetSurface()}
	if accept, ok := req.GetAnswer().(*supervisorv1.AnswerApprovalRequest_Accept); ok {
		a.Accept = []byte(accept.Accept)
	}
	if a.Option != "" || a.Accept != nil || a.Decline || a.Cancel {
		return a, nil
	}
	return question.Answer{}, fault.New(fault.Invalid, "answer question %s: say one of option_id, accept, decline and cancel", req.GetId())
}

// takes checks a form's content against the form's schema, because an agent may rely on it. The link checks whether the question offers
// the answer.
func (e *entry) takes(a question.Answer) error {
	asked := e.approval.GetElicitation()
	if a.Accept == nil || asked.GetMode() == "url" || asked.GetRequestedSchema() == "" {
		return nil
	}
	return form.Parse([]byte(asked.GetRequestedSchema())).Check(a.Accept)
}

// ID returns the id of the open or recent question with a handle; "" if it is unknown.
func (r *Registry) ID(handle string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.handles[handle]
}

// find returns the waiting question with an id. It does not accept a handle: callers that may not answer know handles.
func (r *Registry) find(id string) (*entry, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.open.At(id); e != nil {
		return e, nil
	}
	if first := r.recent.At(cmp.Or(r.handles[id], id)); first != nil {
		return nil, answered(first)
	}
	if r.handles[id] != "" {
		return nil, fault.New(fault.Invalid, "%.128q names a question and does not answer it: its id does, which ListApprovals shows on the control socket, and over TCP to approvers", id)
	}
	return nil, fault.New(fault.NotFound, "no question %.128q waits: `acphost approvals list` shows those that do", id)
}

// answered returns the error for a question that has been answered already.
func answered(first *supervisorv1.ApprovalAnswer) error {
	return &fault.Error{
		Class:   fault.Precondition,
		Message: fmt.Sprintf("question %s does not wait any more: %s", event.Handle(first.GetId()), client.HowEnded(first)),
		Answer:  first,
	}
}

// handle returns the name of the question that all callers may know.
func (e *entry) handle() string { return event.Handle(e.approval.GetId()) }

// isOf reports whether a question belongs to a session; "" matches every session.
func (e *entry) isOf(sessionID string) bool {
	return sessionID == "" || e.question.SessionID == sessionID
}

// shown returns the question in its present state, with its timeout if no watcher will answer; mu is held.
func (e *entry) shown(attended bool) *supervisorv1.Approval {
	if attended || e.expires.IsZero() {
		return e.approval
	}
	a := proto.CloneOf(e.approval)
	a.ExpireTime = timestamppb.New(e.expires)
	return a
}

// ended describes how the question ended.
func (e *entry) ended(end question.End) *supervisorv1.ApprovalAnswer {
	return &supervisorv1.ApprovalAnswer{
		Id:         e.approval.GetId(),
		Outcome:    string(end.Outcome),
		OptionId:   text(end.Option[:min(len(end.Option), maxOption)]),
		AnsweredBy: text(end.By),
		Time:       timestamppb.Now(),
	}
}

// await waits until the question has ended and returns its end; nil: ctx ended first.
func (e *entry) await(ctx context.Context) *supervisorv1.ApprovalAnswer {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	select {
	case <-e.done:
	case <-ctx.Done():
		select {
		case <-e.done: // prefer the answer if both are ready
		default:
			return nil
		}
	}
	return e.answer
}

// Questions holds the open questions of one run of an agent. It implements question.Observer.
type Questions struct {
	registry *Registry
	agent    *frame.Agent
	link     atomic.Pointer[Answerer]

	entries map[*question.Question]*entry // guarded by the Registry's mu
}

var _ question.Observer = (*Questions)(nil)

// Questions returns an empty collection for one run of an agent.
func (r *Registry) Questions(a *frame.Agent) *Questions {
	return &Questions{registry: r, agent: a, entries: map[*question.Question]*entry{}}
}

// id returns the id of a new question.
func (r *Registry) id(agentID string, raw []byte) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := r.ids[agentID]
	if ids == nil {
		ids = &event.ApprovalIDs{}
		r.ids[agentID] = ids
	}
	handle, _ := ids.Next(agentID, raw)
	return event.AnswerID(handle)
}

// Bind sets the link that answers. It must be called before the link runs.
func (qs *Questions) Bind(l Answerer) { qs.link.Store(&l) }

func (qs *Questions) answer(id []byte, a question.Answer, by string) (question.End, error) {
	l := qs.link.Load()
	if l == nil {
		return question.End{}, question.ErrNotOpen
	}
	return (*l).Answer(id, a, by)
}

// Asked implements question.Observer.
func (qs *Questions) Asked(q *question.Question) {
	id := qs.registry.id(qs.agent.ID, q.ID)
	e := &entry{
		owner:    qs,
		question: q,
		approval: approvalOf(qs.agent.ID, id, q),
		expires:  q.Expires,
		done:     make(chan struct{}),
	}
	attended := qs.registry.Attended()
	r := qs.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, before := range r.open.All() {
		if before.owner != qs && before.owner.agent.ID == qs.agent.ID { // a question of a previous link that ended without reporting it
			r.end(before, question.End{Outcome: question.Withdrawn, By: nobody})
		}
	}
	r.open.Set(id, e)
	r.handles[event.Handle(id)] = id
	qs.entries[q] = e
	r.tell(e, &supervisorv1.WatchApprovalsResponse{Change: &supervisorv1.WatchApprovalsResponse_Asked{Asked: e.shown(attended)}})
}

// Expires implements question.Observer.
func (qs *Questions) Expires(q *question.Question, at time.Time) {
	qs.registry.mu.Lock()
	defer qs.registry.mu.Unlock()
	if e := qs.entries[q]; e != nil {
		e.expires = at
	}
}

// Ended implements question.Observer.
func (qs *Questions) Ended(q *question.Question, end question.End) {
	qs.registry.mu.Lock()
	defer qs.registry.mu.Unlock()
	if e := qs.entries[q]; e != nil {
		qs.registry.end(e, end)
	}
}

// end removes a question; mu is held.
func (r *Registry) end(e *entry, end question.End) {
	id := e.approval.GetId()
	r.open.Delete(id)
	delete(e.owner.entries, e.question)
	e.answer = e.ended(end)
	r.recent.Set(id, e.answer)
	if r.recent.Len() > maxRecent {
		oldest := r.recent.Oldest()
		r.recent.Delete(oldest)
		if handle := event.Handle(oldest); r.handles[handle] == oldest {
			delete(r.handles, handle)
		}
	}
	close(e.done)
	r.tell(e, &supervisorv1.WatchApprovalsResponse{Change: &supervisorv1.WatchApprovalsResponse_Answered{Answered: e.answer}})
}

// tell sends a change to the watchers; mu is held.
func (r *Registry) tell(e *entry, change *supervisorv1.WatchApprovalsResponse) {
	for w := range r.watchers {
		if e.isOf(w.sessionID) {
			r.add(w, change)
		}
	}
}
