package policytool

import (
	"fmt"
	"io"
	"strings"

	"github.com/acphost/acphost/internal/yamlproto"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// Allows returns the rules of a rule file that allow.
func Allows(file *permissionv1.PolicyFile) ([]*permissionv1.Rule, error) {
	policy := &permissionv1.Policy{}
	if err := yamlproto.Unmarshal(file.GetName(), file.GetContent(), policy); err != nil {
		return nil, err
	}
	var rules []*permissionv1.Rule
	for _, r := range policy.GetRules() {
		if r.GetEffect() == "allow" {
			r.Tests = nil
			rules = append(rules, r)
		}
	}
	return rules, nil
}

// PrintAllows prints the rules of a workspace's rule file that allow.
func PrintAllows(w io.Writer, s Style, name string, rules []*permissionv1.Rule) error {
	fmt.Fprintf(w, "%s allows what %s %s:\n\n", safetext.Exact(name), map[bool]string{true: "this rule matches", false: "these rules match"}[len(rules) == 1],
		s.paint(bold, "without asking"))
	text, err := yamlproto.Marshal(&permissionv1.Policy{Rules: rules})
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); line != "rules:" {
			fmt.Fprintln(w, safetext.Exact(line))
		}
	}
	return nil
}
