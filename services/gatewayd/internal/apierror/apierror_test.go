package apierror_test

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
	"github.com/acphost/acphost/services/gatewayd/internal/apierror"
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
	for _, k := range []apierror.Kind{
		apierror.NotSignedIn, apierror.NotAllowed, apierror.NotFound, apierror.NotJSON, apierror.Invalid, apierror.BadParams, apierror.Unsupported,
		apierror.Conflict, apierror.TooMany, apierror.TooLong, apierror.Unavailable, apierror.Failed,
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
		want apierror.Kind
	}{
		{relay.InvalidError("w"), apierror.Invalid},
		{relay.LimitError("w"), apierror.TooMany},
		{fmt.Errorf("connect: %w", relay.ErrFull), apierror.TooMany},
		{relay.ErrStreamInUse, apierror.Conflict},
		{relay.ErrTooOld, apierror.Conflict},
		{relay.ErrNotAllowed, apierror.NotSignedIn},
		{relay.ErrClosing, apierror.Unavailable},
		{status.Error(codes.NotFound, "w"), apierror.NotFound},
		{status.Error(codes.PermissionDenied, "w"), apierror.NotAllowed},
		{status.Error(codes.FailedPrecondition, "w"), apierror.Conflict},
		{status.Error(codes.ResourceExhausted, "w"), apierror.TooMany},
		{status.Error(codes.Unavailable, "w"), apierror.Unavailable},
		{status.Error(codes.InvalidArgument, "w"), apierror.BadParams},
		{agents(codes.NotFound, supervisorv1.ErrorKind_ERROR_KIND_SESSION_NOT_FOUND), apierror.NotFound},
		{agents(codes.NotFound, supervisorv1.ErrorKind_ERROR_KIND_COMMAND_NOT_FOUND), apierror.Failed},
		{agents(codes.FailedPrecondition, supervisorv1.ErrorKind_ERROR_KIND_SPAWN_FAILED), apierror.Failed},
		{status.Error(codes.Internal, "w"), apierror.Failed},
		{errors.New("w"), apierror.Failed},
	} {
		if got, text := apierror.Of(context.Background(), c.err); got != c.want || text == "" {
			t.Errorf("%v is %v %q, want %v", c.err, got, text, c.want)
		}
	}
}
