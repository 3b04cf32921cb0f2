package policy_test

import (
	"slices"
	"strings"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/permd/internal/policy"
)

// FuzzParse reads rule files and decides actions by them. Nothing may panic, the decision has to follow from the
// explanation of the rules, and Check has to agree about whether a file loads.
func FuzzParse(f *testing.F) {
	for _, data := range shipped(f) {
		f.Add(data, "fs.read", "cat .env > x", "/ws/.env", "plan")
	}
	f.Add(rules, "terminal.create", "git push && rm -fr $x", "/ws/a", "")
	f.Add(conditionRules, "fs.write", "sudo tee x >$y", "/etc/x", "code")
	f.Add("version: 1\nrules: [{id: a, effect: deny, on: ['*.*'], path: ['/**/[!a]{b,c}?/**'], when: 'true'}]", "tool.edit", "", "/x/bb/c", "")
	f.Fuzz(func(t *testing.T, text, kind, command, file, mode string) {
		around := policy.Surroundings{Home: "/home/u"}
		p, err := policy.Parse("r.yaml", []byte(text), around)
		checked := policy.Check("r.yaml", []byte(text), around)
		mistaken := slices.ContainsFunc(checked.GetFindings(), func(found *permissionv1.Finding) bool {
			return found.GetSeverity() == permissionv1.Severity_SEVERITY_ERROR
		})
		if mistaken != (err != nil) || (checked.GetPolicyDigest() == "") != (err != nil) {
			t.Fatalf("Parse: %v; Check: %v", err, checked)
		}
		if err != nil {
			return
		}
		action := about(kind, func(a *permissionv1.Action) { a.Mode = mode })
		if command != "" {
			line(command)(action)
		}
		if file != "" {
			link(file, file)(action)
		}
		for _, layer := range []permissionv1.Layer{permissionv1.Layer_LAYER_USER, permissionv1.Layer_LAYER_WORKSPACE} {
			explained := policy.Explain([]policy.Part{{Policy: p, Name: "r.yaml", Layer: layer}}, action)
			follows(t, explained, layer, kind)
		}
	})
}

// follows checks that a decision follows from the rules' matches.
func follows(t *testing.T, explained *permissionv1.ExplainResponse, layer permissionv1.Layer, kind string) {
	t.Helper()
	matched := map[string]bool{}
	for _, c := range explained.GetConsidered() {
		if c.GetWhy() == "" || c.GetLine() == 0 {
			t.Fatalf("no reason or line: %v", c)
		}
		if c.GetMatched() != "yes" && strings.HasPrefix(c.GetWhy(), "it matches every action") {
			t.Fatalf("an invalid reason: %v", c)
		}
		matched[c.GetEffect()+" "+c.GetMatched()] = true
	}
	want := ask
	switch got := explained.GetDecision(); {
	case got.GetRule() == policy.Protected, kind == "tool.switch_mode":
		return
	case matched["deny yes"]:
		want = deny
	case matched["deny maybe"], matched["ask yes"], matched["ask maybe"]:
	case layer == permissionv1.Layer_LAYER_USER && matched["allow part"] && !matched["allow yes"]:
		return // several rules may allow it together
	case layer == permissionv1.Layer_LAYER_WORKSPACE, matched["allow yes"]:
		want = allow // a workspace's rules alone are no policy: a call passes
	}
	if got := explained.GetDecision().GetVerdict(); got != want {
		t.Fatalf("got %v, want %v, from %v", got, want, explained)
	}
}
