package policy_test

import (
	"strings"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/permd/internal/policy"
)

func TestCondition_MistakeHasPlace(t *testing.T) {
	for name, tt := range map[string]struct{ when, want string }{
		"plain":         {"when: action.knd == 'x'", "r.yaml:5:15: "},
		"double quotes": {`when: "action.knd == 'x'"`, "r.yaml:5:16: "},
		"literal block": {"when: |\n    true &&\n      action.knd == 'x'", "r.yaml:7:13: "},
		"folded block":  {"when: >-\n    true &&\n    action.knd == 'x'", "r.yaml:7:11: "},
		"no truth":      {"when: action.kind", "r.yaml:5:9: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := policy.Parse("r.yaml", []byte("version: 1\nrules:\n- id: a\n  effect: deny\n  "+tt.when+"\n"), policy.Surroundings{})
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestCondition_FailureDoesNotLoosen(t *testing.T) {
	for effect, want := range map[string]permissionv1.Verdict{"allow": ask, "ask": ask, "deny": ask} {
		text := "version: 1\nrules: [{id: a, on: [fs.read], effect: " + effect + ", when: \"action.paths[7].inside_roots\"}]"
		p, err := policy.Parse("r.yaml", []byte(text), policy.Surroundings{})
		if err != nil {
			t.Fatal(err)
		}
		if got := decide(p, about("fs.read", path("/ws/a"))); got.GetVerdict() != want {
			t.Errorf("%s: got %v", effect, got)
		}
	}
}

func TestParse_FailedTestRejectsFile(t *testing.T) {
	text := "version: 1\nrules:\n- id: a\n  effect: allow\n  command: [git diff]\n  tests:\n    match:\n    - command: git diff --output=x\n"
	_, err := policy.Parse("r.yaml", []byte(text), policy.Surroundings{})
	if err == nil || !strings.HasPrefix(err.Error(), "r.yaml:8:7: rules[0].tests.match[0]: expected that rule a matches, and it does not: git ") {
		t.Errorf("got %v", err)
	}
}
