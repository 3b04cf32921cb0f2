package gate

import (
	"slices"
	"sync"

	"github.com/acphost/acphost/internal/reuse"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// Bounds of what is kept of one policy's answers. The contract states those of an answer.
const (
	maxHeld   = 256
	maxExcept = 200
	maxName   = 255
	maxStates = 16
)

// Resident is a connection to a policy whose answers may be used again, since acphost started it.
type Resident interface {
	// Told counts how often the policy was told what to go by: it changes before and after each time. ok is false if the
	// policy goes by what acphost does not know of: a sidecar.
	Told() (n uint64, ok bool)
}

// heldAnswers are those that one policy said hold for further actions, and that still hold. Safe for concurrent use.
type heldAnswers struct {
	mu       sync.Mutex
	resident Resident
	told     uint64
	held     map[string]*held // by reuse.Key
}

// held is an answer to allow. It does not change.
type held struct {
	answer *permissionv1.DecideResponse
	plugin string
}

// asking is a question to a policy whose answer may hold for further actions. The zero value is one whose answer does not.
type asking struct {
	of       *heldAnswers
	resident Resident
	told     uint64
	key      string
	name     string
}

// asking prepares to ask about an action. What the policy was told is noted before it is asked: an answer that was under way
// when the policy was told something else is not used again.
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

// earlier is what the policy said earlier that holds for the action, too; false if it has to be asked.
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

// keep keeps an answer that holds for further actions.
func (q asking) keep(s policyAnswer) {
	r := s.GetReuse()
	if !q.mayReuse() || r == nil || s.Verdict != Allow || len(s.GetLeaveOut()) > 0 || !holdsHere(r) {
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
	// Not with what only its own action needed, like Keep.
	q.of.held[q.key] = &held{&permissionv1.DecideResponse{
		Verdict: Allow, Rule: s.GetRule(), Reason: s.GetReason(), PolicyDigest: s.GetPolicyDigest(), NamesPaths: s.GetNamesPaths(), Place: s.GetPlace(), Reuse: r,
	}, s.plugin}
}

// holdsHere reports whether how far an answer holds can be told here.
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

// currentLocked reports whether the question is to the policy as it is now. It drops the answers of what was before.
func (q asking) currentLocked() bool {
	if told, ok := q.resident.Told(); !ok || told != q.told {
		return false
	}
	if q.of.resident != q.resident || q.of.told != q.told {
		q.of.resident, q.of.told, q.of.held = q.resident, q.told, map[string]*held{}
	}
	return true
}
