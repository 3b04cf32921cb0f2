package policytool

import (
	"context"
	"fmt"
	"io"
	"strings"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// PrintReady lists the rule files that permd contains.
func PrintReady(ctx context.Context, service permissionv1.PolicyServiceClient, w io.Writer, s Style) error {
	all, err := service.ListReadyPolicies(ctx, &permissionv1.ListReadyPoliciesRequest{})
	if err != nil {
		return serverError("list the ready policies", err)
	}
	var rows [][]cell
	for _, p := range all.GetPolicies() {
		rows = append(rows, []cell{{p.GetName(), bold}, {text: strings.Join(strings.Fields(p.GetDescription()), " ")}})
	}
	s.table(w, "", rows)
	return nil
}

// ReadyPolicy returns the rule file of a ready policy.
func ReadyPolicy(ctx context.Context, service permissionv1.PolicyServiceClient, name string) ([]byte, error) {
	all, err := service.ListReadyPolicies(ctx, &permissionv1.ListReadyPoliciesRequest{})
	if err != nil {
		return nil, serverError("list the ready policies", err)
	}
	var known []string
	for _, p := range all.GetPolicies() {
		if p.GetName() == name {
			return p.GetContent(), nil
		}
		known = append(known, p.GetName())
	}
	return nil, fmt.Errorf("no ready policy is called %q; there are: %s", name, strings.Join(known, ", "))
}
