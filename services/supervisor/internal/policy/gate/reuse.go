package gate

import (
	"slices"
	"sync"

	"github.com/acphost/acphost/internal/pathglob"
	"github.com/acphost/acphost/internal/reuse"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// Limits on the stored answers of one policy. The contract states the limits of an answer.
const (
	maxHeld   = 256
	maxExcept = 400
	maxName   = 255
	maxStates = 16
	maxAsked  = 400
)

// Resident is a connection to a policy whose answers may be reused, because acphost started it.
type Resident interface {
	// Told returns a counter of configuration changes of the policy. It changes before and after each change. ok is false if the policy may
	// depend on state that acphost does not know, as a sidecar may.
	Told() (n uint64, ok bool)
}

// heldAnswers are the answers of one policy that cover further actions and are still valid. It is safe for concurrent use.
type heldAnswers struct {
	mu       sync.Mutex
	resident Resident
	told     uint64
	held     map[string]*held // by reuse.Key
}

// held is a stored answer to allow. It is immutable.
type held struct {
	answer *permissionv1.DecideResponse
	plugin string
	asked  pathglob.Set // with Reuse.EveryFile
}

// asking is a request to a policy whose answer may cover further actions. The answer to the zero value does not.
type asking struct {
	of       *heldAnswers
	resident Resident
	told     uint64
	key      string // of answers that cover other names in the place of name; empty: none do
	name     string
	reads    string // of answers that cover every file that processes read; empty: the action is no such read
	paths    [2]string
}

// asking prepares a request about an action. It notes the policy's configuration counter first. An answer is not reused if the
// configuration changed while the policy decided.
func (h *heldAnswers) asking(conn any, a *permissionv1.Action) asking {
	resident, ok := conn.(Resident)
	if !ok || h == nil {
		return asking{}
	}
	q := asking{of: h, resident: resident}
	if name, ok := reuse.Name(a); ok {
		q.key, q.name = reuse.Key(a), name
	}
	if reuse.IsProcessRead(a) {
		p := a.GetPaths()[0]
		q.reads, q.paths = reuse.KeyOfReads(a), [2]string{p.GetPath(), p.GetResolvedPath()}
	}
	if q.key == "" && q.reads == "" {
		return asking{}
	}
	if q.told, ok = resident.Told(); !ok {
		return asking{}
	}
	return q
}

func (q asking) mayReuse() bool { return q.of != nil }

// earlier returns an earlier answer of the policy that covers the action; false: the policy has to be asked.
func (q asking) earlier() (policyAnswer, bool) {
	h, key := q.covering()
	if h == nil {
		return policyAnswer{}, false
	}
	for _, file := range h.answer.GetReuse().GetFiles() {
		if !reuse.IsStill(file) {
			q.forget(key)
			return policyAnswer{}, false
		}
	}
	answer := reusable(h.answer)
	answer.Reuse = nil
	return policyAnswer{DecideResponse: answer, plugin: h.plugin, reused: true}, true
}

// reusable returns an answer with the fields that hold for further actions. Others, such as Keep, belong to one action only.
func reusable(a *permissionv1.DecideResponse) *permissionv1.DecideResponse {
	return &permissionv1.DecideResponse{
		Verdict: Allow, Rule: a.GetRule(), Reason: a.GetReason(), Detail: a.GetDetail(), PolicyDigest: a.GetPolicyDigest(), NamesPaths: a.GetNamesPaths(), Place: a.GetPlace(),
		Processes: a.GetProcesses(), Contained: a.GetContained(), Reuse: a.GetReuse(),
	}
}

// keep stores an answer that covers further actions.
func (q asking) keep(s policyAnswer) {
	r := s.GetReuse()
	if !q.mayReuse() || r == nil || s.Verdict != Allow || len(s.GetLeaveOut()) > 0 || s.GetOnlyInRoots() || !holdsHere(r) {
		return
	}
	key := q.key
	if r.GetEveryFile() {
		key = q.reads
	}
	asked, ok := pathglob.NewSet(r.GetAsked())
	if key == "" || !ok {
		return
	}
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	if !q.currentLocked() {
		return
	}
	if len(q.of.held) >= maxHeld {
		clear(q.of.held)
	}
	q.of.held[key] = &held{reusable(s.DecideResponse), s.plugin, asked}
}

// holdsHere reports whether the supervisor can check the validity of an answer.
func holdsHere(r *permissionv1.Reuse) bool {
	return r.GetView() != "" && r.GetView() == reuse.View() && len(r.GetExcept()) <= maxExcept && len(r.GetFiles()) <= maxStates &&
		len(r.GetAsked()) <= maxAsked &&
		!slices.ContainsFunc(r.GetExcept(), func(part string) bool { return len(part) > maxName })
}

// held returns the stored answer that covers the action; nil: none does.
func (q asking) held() *held {
	h, _ := q.covering()
	return h
}

// covering returns the stored answer that covers the action, and its key; nil: none does.
func (q asking) covering() (*held, string) {
	if !q.mayReuse() {
		return nil, ""
	}
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	if !q.currentLocked() {
		return nil, ""
	}
	if h := q.of.held[q.reads]; h != nil && q.reads != "" && !slices.ContainsFunc(q.paths[:], h.asked.MayMatch) {
		return h, q.reads
	}
	if h := q.of.held[q.key]; h != nil && q.key != "" && !reuse.Excepted(q.name, h.answer.GetReuse().GetExcept()) {
		return h, q.key
	}
	return nil, ""
}

func (q asking) forget(key string) {
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	if q.currentLocked() {
		delete(q.of.held, key)
	}
}

// currentLocked reports whether the policy is unchanged since the request was prepared. It drops answers of an earlier state.
func (q asking) currentLocked() bool {
	if told, ok := q.resident.Told(); !ok || told != q.told {
		return false
	}
	if q.of.resident != q.resident || q.of.told != q.told {
		q.of.resident, q.of.told, q.of.held = q.resident, q.told, map[string]*held{}
	}
	return true
}
