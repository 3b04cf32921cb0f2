package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/acphost/acphost/internal/yamlproto"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// Check loads a rule file that has been read, as Parse does, and reports every mistake in it. For a file that loads, it
// reports rules that probably do not have the intended effect.
func Check(file string, data []byte, s Surroundings) *permissionv1.CheckResponse {
	l, err := load(file, data, s)
	checked := &permissionv1.CheckResponse{Rules: uint32(len(l.rules.GetRules())), Tests: l.tests} // bounded by the file
	if err != nil {
		checked.Findings = mistakes(l.rules, err)
	} else {
		checked.Findings = l.warnings()
		checked.PolicyDigest = l.policy.digest
	}
	slices.SortStableFunc(checked.Findings, func(a, b *permissionv1.Finding) int {
		return cmp.Or(cmp.Compare(a.GetLine(), b.GetLine()), cmp.Compare(a.GetColumn(), b.GetColumn()))
	})
	return checked
}

// mistakes converts the errors of a file that does not load to findings.
func mistakes(rules *permissionv1.Policy, err error) []*permissionv1.Finding {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*permissionv1.Finding
		for _, one := range several.Unwrap() {
			all = append(all, mistakes(rules, one)...)
		}
		return all
	}
	found := &permissionv1.Finding{Severity: permissionv1.Severity_SEVERITY_ERROR, Message: err.Error()}
	var at *yamlproto.Error
	if errors.As(err, &at) {
		found.Line, found.Column = uint32(max(at.Line, 0)), uint32(max(at.Column, 0)) // bounded by the file
		found.Message = at.Message
		if at.Field != "" {
			found.Message = at.Field + ": " + at.Message
		}
		found.Rule = ruleAt(rules, at.Field)
	}
	return []*permissionv1.Finding{found}
}

// ruleAt returns the id of the rule that a field, "rules[3].path[0]", belongs to; empty if none exists.
func ruleAt(rules *permissionv1.Policy, field string) string {
	i := -1
	if _, err := fmt.Sscanf(field, "rules[%d]", &i); err != nil || i < 0 || i >= len(rules.GetRules()) {
		return ""
	}
	return rules.GetRules()[i].GetId()
}
