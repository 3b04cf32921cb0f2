package refusal_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/gatewayd/internal/refusal"
	"github.com/acphost/acphost/services/gatewayd/internal/relay"
)

// TestTable_MatchesPage compares the table in docs/gateway-api.md, row by row.
func TestTable_MatchesPage(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/gateway-api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rows, _ := strings.Cut(string(page), "| reason | HTTP | JSON-RPC | WebSocket |\n|---|---|---|---|\n")
	rows, _, _ = strings.Cut(rows, "\n\n")
	var got []string
	for row := range strings.SplitSeq(rows, "\n") {
		_, numbers, _ := strings.Cut(strings.TrimPrefix(row, "|"), "|")
		got = append(got, strings.TrimSpace(numbers))
	}
	var want []string
	for _, k := range []refusal.Kind{
		refusal.NotSignedIn, refusal.NotAllowed, refusal.NotFound, refusal.NotJSON, refusal.Invalid, refusal.BadParams, refusal.Unsupported,
		refusal.Conflict, refusal.TooMany, refusal.TooLong, refusal.Unavailable, refusal.Failed,
	} {
		want = append(want, fmt.Sprintf("%d | %d | %d |", k.HTTP, k.RPC, k.Close))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the page has\n%s\nand the table\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestOf_ClassifiesErrors(t *testing.T) {
	agents := func(code codes.Code, kind supervisorv1.ErrorKind) error {
		st, err := status.New(code, "w").WithDetails(&supervisorv1.AgentError{Kind: kind})
		if err != nil {
			t.Fatal(err)
		}
		return st.Err()
	}
	for _, c := range []struct {
		err  error
		want refusal.Kind
	}{
		{relay.Problem("w"), refusal.Invalid},
		{relay.Excess("w"), refusal.TooMany},
		{fmt.Errorf("connect: %w", relay.ErrFull), refusal.TooMany},
		{relay.ErrTaken, refusal.Conflict},
		{relay.ErrTooOld, refusal.Conflict},
		{relay.ErrNotAllowed, refusal.NotSignedIn},
		{relay.ErrClosing, refusal.Unavailable},
		{status.Error(codes.NotFound, "w"), refusal.NotFound},
		{status.Error(codes.PermissionDenied, "w"), refusal.NotAllowed},
		{status.Error(codes.FailedPrecondition, "w"), refusal.Conflict},
		{status.Error(codes.ResourceExhausted, "w"), refusal.TooMany},
		{status.Error(codes.Unavailable, "w"), refusal.Unavailable},
		{status.Error(codes.InvalidArgument, "w"), refusal.BadParams},
		{agents(codes.NotFound, supervisorv1.ErrorKind_ERROR_KIND_SESSION_NOT_FOUND), refusal.NotFound},
		{agents(codes.NotFound, supervisorv1.ErrorKind_ERROR_KIND_COMMAND_NOT_FOUND), refusal.Failed},
		{agents(codes.FailedPrecondition, supervisorv1.ErrorKind_ERROR_KIND_SPAWN_FAILED), refusal.Failed},
		{status.Error(codes.Internal, "w"), refusal.Failed},
		{errors.New("w"), refusal.Failed},
	} {
		if got, words := refusal.Of(context.Background(), c.err); got != c.want || words == "" {
			t.Errorf("%v is %v %q, want %v", c.err, got, words, c.want)
		}
	}
}
