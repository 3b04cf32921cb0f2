// Package approval keeps the questions that wait for a person, those of all agents of a supervisor, so that whoever is
// there can see and answer them: an editor, a program, the command line.
//
// It knows what waits, who watches and what came of the last questions. It decides nothing: that an answer counts, and
// that one alone does, is the link's business, which tells a Desk what becomes of each question. It knows no gRPC.
package approval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/event"
	"github.com/acphost/acphost/services/supervisor/internal/fault"
	"github.com/acphost/acphost/services/supervisor/internal/formschema"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
	"github.com/acphost/acphost/services/supervisor/internal/link"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	// maxRecent is how many answers are remembered, so that whoever comes late learns who was first.
	maxRecent = 256
	// settleTimeout is how long the answer that came first may take to be recorded, where somebody else waits to learn it.
	settleTimeout = 5 * time.Second
	// unnamed answers where nobody says who it is.
	unnamed = "grpc"
	// maxOption is how many bytes of an option's id are remembered: it is the agent's to choose.
	maxOption = 4096
)

// Answerer answers questions at a front: a link.
type Answerer interface {
	// Answer is link.Link.Answer.
	Answer(id []byte, a link.Answer, by string) (link.End, error)
}

// Registry holds the questions of all agents. It is safe for concurrent use.
type Registry struct {
	attending atomic.Int64 // watchers that will answer

	mu       sync.Mutex // guards what follows; not held while anybody else is called
	asked    uint64
	ids      map[string]*event.ApprovalIDs // by agent, whose runs are many
	open     map[string]*entry
	recent   map[string]*supervisorv1.ApprovalAnswer
	order    []string // of recent, oldest first
	watchers map[*watcher]struct{}
	closed   bool
}

// entry is a question that waits.
type entry struct {
	desk     *Desk
	question *link.Question
	nth      uint64
	approval *supervisorv1.Approval // without its end; not changed
	expires  time.Time              // guarded by the Registry's mu
	whole    bool                   // its id is a number, or was used before: it is not found by a part of that
	done     chan struct{}          // closed once answer is set
	answer   *supervisorv1.ApprovalAnswer
}

// New returns a Registry of no questions.
func New() *Registry {
	return &Registry{
		ids:      map[string]*event.ApprovalIDs{},
		open:     map[string]*entry{},
		recent:   map[string]*supervisorv1.ApprovalAnswer{},
		watchers: map[*watcher]struct{}{},
	}
}

// Attended tells whether somebody watches who will answer. It never waits.
func (r *Registry) Attended() bool { return r.attending.Load() > 0 }

// Close ends all watching. What waits can still be answered.
func (r *Registry) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for w := range r.watchers {
		w.end(nil)
	}
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
	var found []*entry
	for _, e := range r.open {
		if e.isOf(sessionID) {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b *entry) int { return int(int64(a.nth) - int64(b.nth)) })
	approvals := make([]*supervisorv1.Approval, len(found))
	for i, e := range found {
		approvals[i] = e.shown(attended)
	}
	return approvals
}

// AnswerApproval answers a question. The error is a *fault.Error: NotFound where there is no such question, Precondition
// where it was answered, with the answer that came first if it is still known, Invalid where the question does not offer
// the answer, a form's content does not fit its schema, or the id names several.
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
		return nil, fault.New(fault.Invalid, "answer question %s: %w", e.approval.GetId(), err)
	}
	by := req.GetAnsweredBy()
	if by == "" {
		by = unnamed
	}
	end, err := e.desk.answer(e.question.ID, a, by)
	switch {
	case errors.Is(err, link.ErrNotOpen):
		first := e.await(ctx)
		if first == nil {
			return nil, fault.New(fault.Precondition, "question %s does not wait any more", e.approval.GetId())
		}
		return nil, answered(first)
	case err != nil:
		return nil, fault.New(fault.Invalid, "answer question %s: %w", e.approval.GetId(), err)
	}
	if recorded := e.await(ctx); recorded != nil {
		return recorded, nil
	}
	return e.ended(end), nil
}

// answerOf is an answer as a link takes it.
func answerOf(req *supervisorv1.AnswerApprovalRequest) (link.Answer, error) {
	switch a := req.GetAnswer().(type) {
	case *supervisorv1.AnswerApprovalRequest_OptionId:
		if a.OptionId != "" {
			return link.Answer{Option: a.OptionId}, nil
		}
	case *supervisorv1.AnswerApprovalRequest_Accept:
		return link.Answer{Accept: []byte(a.Accept)}, nil
	case *supervisorv1.AnswerApprovalRequest_Decline:
		if a.Decline {
			return link.Answer{Decline: true}, nil
		}
	case *supervisorv1.AnswerApprovalRequest_Cancel:
		if a.Cancel {
			return link.Answer{Cancel: true}, nil
		}
	}
	return link.Answer{}, fault.New(fault.Invalid, "answer question %s: say one of option_id, accept, decline and cancel", req.GetId())
}

// takes checks a form's content against its schema: an agent may trust what it has asked for. Whether the question offers
// such an answer at all is the link's to say.
func (e *entry) takes(a link.Answer) error {
	form := e.approval.GetElicitation()
	if a.Accept == nil || form.GetMode() == "url" || form.GetRequestedSchema() == "" {
		return nil
	}
	return formschema.Fits([]byte(form.GetRequestedSchema()), a.Accept)
}

// find is the question that waits and has an id, or alone begins with it.
func (r *Registry) find(id string) (*entry, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.open[id]; e != nil {
		return e, nil
	}
	if first := r.recent[id]; first != nil {
		return nil, answered(first)
	}
	var found []*entry
	for _, e := range r.open {
		if id != "" && e.beginsWith(id) {
			found = append(found, e)
		}
	}
	switch len(found) {
	case 0:
		return nil, fault.New(fault.NotFound, "no question %.128q waits: `acphost approvals list` shows those that do", id)
	case 1:
		return found[0], nil
	}
	const most = 8
	var ids []string
	slices.SortFunc(found, func(a, b *entry) int { return int(int64(a.nth) - int64(b.nth)) })
	for i, e := range found {
		if i == most {
			ids = append(ids, "…")
			break
		}
		ids = append(ids, e.approval.GetId())
	}
	return nil, fault.New(fault.Invalid, "%d questions that wait begin with %.128q: %s", len(found), id, strings.Join(ids, ", "))
}

// answered is the error for a question that somebody else has answered.
func answered(first *supervisorv1.ApprovalAnswer) error {
	return &fault.Error{
		Class:   fault.Precondition,
		Message: fmt.Sprintf("question %s does not wait any more: it was %s by %s", first.GetId(), first.GetOutcome(), first.GetAnsweredBy()),
		Answer:  first,
	}
}

// beginsWith tells whether an entry is meant by the begin of its id. A number is not cut short: with the question 1 gone,
// its id must not come to mean 12.
func (e *entry) beginsWith(id string) bool {
	full := e.approval.GetId()
	return strings.HasPrefix(full, id) && (!e.whole || len(id) <= len(e.desk.agent.ID)+1)
}

// isOf tells whether a question is of a session; every one is of the session "".
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
func (e *entry) ended(end link.End) *supervisorv1.ApprovalAnswer {
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
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	select {
	case <-e.done:
		return e.answer
	default:
	}
	select {
	case <-e.done:
		return e.answer
	case <-ctx.Done():
		return nil
	}
}

// Desk is told of the questions of one agent. It implements link.Questions.
type Desk struct {
	registry *Registry
	agent    *frame.Agent
	link     atomic.Pointer[Answerer]

	entries map[*link.Question]*entry // guarded by the Registry's mu
}

var _ link.Questions = (*Desk)(nil)

// Desk returns the desk of an agent. Each run of an agent has its own.
func (r *Registry) Desk(a *frame.Agent) *Desk {
	return &Desk{registry: r, agent: a, entries: map[*link.Question]*entry{}}
}

// id is the id of a question that is asked now.
func (r *Registry) id(agentID string, raw []byte) (id string, use int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := r.ids[agentID]
	if ids == nil {
		ids = &event.ApprovalIDs{}
		r.ids[agentID] = ids
	}
	return ids.Next(agentID, raw)
}

// Bind says which link answers; it must be called before that runs.
func (d *Desk) Bind(l Answerer) { d.link.Store(&l) }

func (d *Desk) answer(id []byte, a link.Answer, by string) (link.End, error) {
	l := d.link.Load()
	if l == nil {
		return link.End{}, link.ErrNotOpen
	}
	return (*l).Answer(id, a, by)
}

// Asked implements link.Questions.
func (d *Desk) Asked(q *link.Question) {
	id, use := d.registry.id(d.agent.ID, q.ID)
	e := &entry{
		desk:     d,
		question: q,
		approval: approvalOf(d.agent.ID, id, q),
		expires:  q.Expires,
		whole:    use > 1 || len(q.ID) > 0 && q.ID[0] != '"',
		done:     make(chan struct{}),
	}
	attended := d.registry.Attended()
	r := d.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, before := range r.open {
		if before.desk != d && before.desk.agent.ID == d.agent.ID { // of a link that is over and has not said so
			r.end(before, link.End{Outcome: link.Withdrawn, By: nobody})
		}
	}
	r.asked++
	e.nth = r.asked
	r.open[id] = e
	d.entries[q] = e
	r.tell(e, &supervisorv1.WatchApprovalsResponse{Change: &supervisorv1.WatchApprovalsResponse_Asked{Asked: e.shown(attended)}})
}

// Expires implements link.Questions.
func (d *Desk) Expires(q *link.Question, at time.Time) {
	d.registry.mu.Lock()
	defer d.registry.mu.Unlock()
	if e := d.entries[q]; e != nil {
		e.expires = at
	}
}

// Ended implements link.Questions.
func (d *Desk) Ended(q *link.Question, end link.End) {
	d.registry.mu.Lock()
	defer d.registry.mu.Unlock()
	if e := d.entries[q]; e != nil {
		d.registry.end(e, end)
	}
}

// end ends a question; mu is held.
func (r *Registry) end(e *entry, end link.End) {
	id := e.approval.GetId()
	delete(r.open, id)
	delete(e.desk.entries, e.question)
	e.answer = e.ended(end)
	if r.recent[id] != nil {
		r.order = slices.DeleteFunc(r.order, func(other string) bool { return other == id })
	}
	r.recent[id] = e.answer
	r.order = append(r.order, id)
	if len(r.order) > maxRecent {
		delete(r.recent, r.order[0])
		r.order = append(r.order[:0], r.order[1:]...)
	}
	close(e.done)
	r.tell(e, &supervisorv1.WatchApprovalsResponse{Change: &supervisorv1.WatchApprovalsResponse_Answered{Answered: e.answer}})
}

// tell tells those who watch; mu is held.
func (r *Registry) tell(e *entry, change *supervisorv1.WatchApprovalsResponse) {
	for w := range r.watchers {
		if e.isOf(w.sessionID) {
			w.add(change)
		}
	}
}
