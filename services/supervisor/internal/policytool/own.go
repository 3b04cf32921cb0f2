package policytool

import (
	"errors"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
)

// NewGate returns a gate that knows what is acphost's own, as the gate of a supervisor does: files and folders, and the
// files that hold nothing but a key.
func NewGate(protected, keys []string) (*gate.Gate, error) {
	g := gate.New(gate.Options{Protected: protected})
	for _, file := range keys {
		if _, err := g.Protect(file); err != nil && !errors.Is(err, gate.ErrFolder) {
			return nil, err
		}
	}
	return g, nil
}

// decision is acphost's own ruling as a policy would put it; nil for none.
func decision(r *gate.Ruling) *permissionv1.DecideResponse {
	if r == nil {
		return nil
	}
	return &permissionv1.DecideResponse{Verdict: r.Verdict, Rule: r.Rule, Reason: r.Reason}
}
