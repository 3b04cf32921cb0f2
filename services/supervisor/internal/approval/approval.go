// Package approval keeps the questions of all agents of a supervisor that wait for the user. An editor, a program or a command
// can list, watch and answer them.
//
// It knows which questions wait, who watches, and how the last questions ended. It decides nothing: the link decides which
// answer counts. It must not know gRPC.
package approval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/event"
	"github.com/acphost/acphost/services/supervisor/internal/fault"
	"github.com/acphost/acphost/services/supervisor/internal/form"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
	"github.com/acphost/acphost/services/supervisor/internal/ordered"
	"github.com/acphost/acphost/services/supervisor/internal/question"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	// maxRecent is how many answers are remembered, so that whoever comes late learns who was first.
	maxRecent = 256
	// recordTimeout is how long the answer that came first may take to be recorded, where somebody else waits to learn it.
	recordTimeout = 5 * time.Second
	// unnamed answers where nobody says who it is.
	unnamed = "grpc"
	// maxOption is how many bytes of an option's id are remembered: it is the agent's to choose.
	maxOption = 4096
)

// Answerer answers questions at a client: a link.
type Answerer interface {
	// Answer is link.Link.Answer.
	Answer(id []byte, a question.Answer, by string) (question.End, error)
}

// Registry holds the questions of all agents. It is safe for concurrent use.
type Registry struct {
	attending atomic.Int64 // watchers that will answer

	mu       sync.Mutex                    // guards what follows; not held while anybody else is called
	ids      map[string]*event.ApprovalIDs // by agent, whose runs are many
	open     ordered.Map[string, *entry]
	handles  map[string]string // of open and recent questions, to their ids
	recent   ordered.Map[string, *supervisorv1.ApprovalAnswer]
	watchers map[*watcher]struct{}
	closed   bool
}

// entry is a question that waits.
type entry struct {
	owner    *Questions
	question *question.Question
	approval *supervisorv1.Approval // without its end; not changed
	expires  time.Time              // guarded by the Registry's mu
	done     chan struct{}          // closed once answer is set
	answer   *supervisorv1.ApprovalAnswer
}

// New returns a Registry of no questions.
func New() *Registry {
	return &Registry{
		ids:      map[string]*event.ApprovalIDs{},
		handles:  map[string]string{},
		watchers: map[*watcher]struct{}{},
	}
}

// Attended reports whether somebody watches who will answer. It never waits.
func (r *Registry) Attended() bool { return r.attending.Load() > 0 }

// Close ends all watching. What waits can still be answered.
func (r *Registry) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for w := range r.watchers {
		close(w.changes)
	}
	clear(r.watchers)
}

// ListApprovals are the questions that wait, oldest first: of one session, or of all if it is empty. They are not to be
// changed.
func (r *Registry) ListApprovals(sessionID string) []*supervisorv1.Approval {
	attended := r.Attended()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list(sessionID, attended)
}

// list is ListApprovals; mu is held.
func (r *Registry) list(sessionID string, attended bool) []*supervisorv1.Approval {
	var approvals []*supervisorv1.Approval
	for _, e := range r.open.All() {
		if e.isOf(sessionID) {
			approvals = append(approvals, e.shown(attended))
		}
	}
	return approvals
}

// AnswerApproval answers a question. The error is a *fault.Error: NotFound where there is no such question, Precondition
// where it was answered, with the answer that came first if it is still known, Invalid where the question does not offer
// the answer, a form's content does not fit its schema, or its handle was given for its id.
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

// answerOf is an answer as a link takes it.
func answerOf(req *supervisorv1.AnswerApprovalRequest) (question.Answer, error) {
	a := question.Answer{Option: req.GetOptionId(), Decline: req.GetDecline(), Cancel: req.GetCancel(), Surface: req.GetSurface()} // one of them at most
	if accept, ok := req.GetAnswer().(*supervisorv1.AnswerApprovalRequest_Accept); ok {
		a.Accept = []byte(accept.Accept)
	}
	if a.Option != "" || a.Accept != nil || a.Decline || a.Cancel {
		return a, nil
	}
	return question.Answer{}, fault.New(fault.Invalid, "answer question %s: say one of option_id, accept, decline and cancel", req.GetId())
}

// takes checks a form's content against the form's schema, because an agent may rely on it. The link checks whether the
// question offers such an answer at all.
func (e *entry) takes(a question.Answer) error {
	asked := e.approval.GetElicitation()
	if a.Accept == nil || asked.GetMode() == "url" || asked.GetRequestedSchema() == "" {
		return nil
	}
	return form.Parse([]byte(asked.GetRequestedSchema())).Check(a.Accept)
}

// ID is the id by which the question of a handle is, or was, answered; "" for one that is not known.
func (r *Registry) ID(handle string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.handles[handle]
}

// find returns the question that waits under an id. The handle of a question is not enough: those who may not answer can
// know it.
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

// answered is the error for a question that somebody else has answered.
func answered(first *supervisorv1.ApprovalAnswer) error {
	return &fault.Error{
		Class:   fault.Precondition,
		Message: fmt.Sprintf("question %s does not wait any more: %s", event.Handle(first.GetId()), client.HowEnded(first)),
		Answer:  first,
	}
}

// handle is the name by which people are told of the question.
func (e *entry) handle() string { return event.Handle(e.approval.GetId()) }

// isOf reports whether a question is of a session; every one is of the session "".
func (e *entry) isOf(sessionID string) bool {
	return sessionID == "" || e.question.SessionID == sessionID
}

// shown is the question as it is now, with its end if nobody is there to answer; mu is held.
func (e *entry) shown(attended bool) *supervisorv1.Approval {
	if attended || e.expires.IsZero() {
		return e.approval
	}
	a := proto.CloneOf(e.approval)
	a.ExpireTime = timestamppb.New(e.expires)
	return a
}

// ended is how the question ended.
func (e *entry) ended(end question.End) *supervisorv1.ApprovalAnswer {
	return &supervisorv1.ApprovalAnswer{
		Id:         e.approval.GetId(),
		Outcome:    string(end.Outcome),
		OptionId:   text(end.Option[:min(len(end.Option), maxOption)]),
		AnsweredBy: text(end.By),
		Time:       timestamppb.Now(),
	}
}

// await waits until it was told how the question ended; nil: it was not in time.
func (e *entry) await(ctx context.Context) *supervisorv1.ApprovalAnswer {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	select {
	case <-e.done:
	case <-ctx.Done():
		select {
		case <-e.done: // all the same
		default:
			return nil
		}
	}
	return e.answer
}

// Questions are the open questions of one run of an agent. It implements question.Observer.
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

// id is the id of a question that is asked now.
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

// Bind says which link answers; it must be called before that runs.
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
		if before.owner != qs && before.owner.agent.ID == qs.agent.ID { // of a link that is over and has not said so
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

// end ends a question; mu is held.
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

// tell tells those who watch; mu is held.
func (r *Registry) tell(e *entry, change *supervisorv1.WatchApprovalsResponse) {
	for w := range r.watchers {
		if e.isOf(w.sessionID) {
			r.add(w, change)
		}
	}
}
