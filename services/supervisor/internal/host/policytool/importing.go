package policytool

import (
	"context"
	"fmt"
	"io"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// Import makes permd convert another program's permissions to a rule file. If format is empty, permd detects it by the
// name and the content.
func Import(
	ctx context.Context, service permissionv1.PolicyServiceClient, format, name string, content []byte,
) (*permissionv1.ImportResponse, error) {
	answer, err := service.Import(ctx, &permissionv1.ImportRequest{Format: format, Name: name, Content: content})
	if err != nil {
		return nil, serverError("import "+name, err)
	}
	return answer, nil
}

// PrintDropped lists the permissions that could not be converted.
func PrintDropped(w io.Writer, s Style, name string, answer *permissionv1.ImportResponse) {
	dropped := answer.GetDropped()
	switch len(dropped) {
	case 0:
		fmt.Fprintf(w, "%s (%s): all of it was carried over.\n", safetext.Exact(name), safetext.Exact(answer.GetFormat()))
		return
	case 1:
		fmt.Fprintf(w, "%s (%s): 1 entry could not be carried over; the policy is stricter there:\n", safetext.Exact(name), safetext.Exact(answer.GetFormat()))
	default:
		fmt.Fprintf(w, "%s (%s): %s entries could not be carried over; the policy is stricter there:\n",
			safetext.Exact(name), safetext.Exact(answer.GetFormat()), safetext.Number(len(dropped)))
	}
	for _, d := range dropped {
		s.table(w, "\n  ", [][]cell{{{safetext.Fit(safetext.Exact(d.GetEntry()), 200), yellow}}})
		s.table(w, "    ", [][]cell{{{text: d.GetWhy()}}})
	}
}
