package policytool

import (
	"errors"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
)

// NewGate returns a gate with acphost's own files and folders, as in a supervisor. keys are files that contain only a
// key.
func NewGate(protected, keys []string) (*gate.Gate, error) {
	g := gate.New(gate.Options{Protected: protected})
	for _, file := range keys {
		if _, err := g.Protect(file); err != nil && !errors.Is(err, gate.ErrFolder) {
			return nil, err
		}
	}
	return g, nil
}

// decision converts acphost's own ruling to the response of a policy. Nil returns nil.
func decision(r *gate.Ruling) *permissionv1.DecideResponse {
	if r == nil {
		return nil
	}
	return &permissionv1.DecideResponse{Verdict: r.Verdict, Rule: r.Rule, Reason: r.Reason}
}
