package gate

import (
	"slices"
	"sync"

	"github.com/acphost/acphost/internal/reuse"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// Limits on the stored answers of one policy. The contract states the limits of an answer.
const (
	maxHeld   = 256
	maxExcept = 200
	maxName   = 255
	maxStates = 16
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
}

// asking is a request to a policy whose answer may cover further actions. The answer to the zero value does not.
type asking struct {
	of       *heldAnswers
	resident Resident
	told     uint64
	key      string
	name     string
}

// asking prepares a request about an action. It notes the policy's configuration counter first. An answer is not reused if the
// configuration changed while the policy decided.
func (h *heldAnswers) asking(conn any, a *permissionv1.Action) asking {
	resident, ok := conn.(Resident)
	if !ok || h == nil {
		return asking{}
	}
	name, ok := reuse.Name(a)
	if !ok {
		return asking{}
	}
	told, ok := resident.Told()
	if !ok {
		return asking{}
	}
	return asking{h, resident, told, reuse.Key(a), name}
}

func (q asking) mayReuse() bool { return q.of != nil }

// earlier returns an earlier answer of the policy that covers the action; false: the policy has to be asked.
func (q asking) earlier() (policyAnswer, bool) {
	if !q.mayReuse() {
		return policyAnswer{}, false
	}
	h := q.held()
	if h == nil || reuse.Excepted(q.name, h.answer.GetReuse().GetExcept()) {
		return policyAnswer{}, false
	}
	for _, file := range h.answer.GetReuse().GetFiles() {
		if !reuse.IsStill(file) {
			q.forget()
			return policyAnswer{}, false
		}
	}
	return policyAnswer{
		DecideResponse: &permissionv1.DecideResponse{
			Verdict: Allow, Rule: h.answer.GetRule(), Reason: h.answer.GetReason(), PolicyDigest: h.answer.GetPolicyDigest(),
			NamesPaths: h.answer.GetNamesPaths(), Place: h.answer.GetPlace(),
		},
		plugin: h.plugin, reused: true,
	}, true
}

// keep stores an answer that covers further actions.
func (q asking) keep(s policyAnswer) {
	r := s.GetReuse()
	if !q.mayReuse() || r == nil || s.Verdict != Allow || len(s.GetLeaveOut()) > 0 || s.GetOnlyInRoots() || !holdsHere(r) {
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
	// Fields that belong to one action only, such as Keep, are left out.
	q.of.held[q.key] = &held{&permissionv1.DecideResponse{
		Verdict: Allow, Rule: s.GetRule(), Reason: s.GetReason(), PolicyDigest: s.GetPolicyDigest(), NamesPaths: s.GetNamesPaths(), Place: s.GetPlace(), Reuse: r,
	}, s.plugin}
}

// holdsHere reports whether the supervisor can check the validity of an answer.
func holdsHere(r *permissionv1.Reuse) bool {
	return r.GetView() != "" && r.GetView() == reuse.View() && len(r.GetExcept()) <= maxExcept && len(r.GetFiles()) <= maxStates &&
		!slices.ContainsFunc(r.GetExcept(), func(part string) bool { return len(part) > maxName })
}

func (q asking) held() *held {
	if !q.mayReuse() {
		return nil
	}
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	if !q.currentLocked() {
		return nil
	}
	return q.of.held[q.key]
}

func (q asking) forget() {
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	if q.currentLocked() {
		delete(q.of.held, q.key)
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
