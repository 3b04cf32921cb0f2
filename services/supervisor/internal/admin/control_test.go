package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// failing fails every order the same way.
type failing struct{ err error }

func (f failing) RestartHandler(context.Context, *supervisorv1.RestartHandlerRequest) (*supervisorv1.RestartHandlerResponse, error) {
	return nil, f.err
}

func (f failing) SwapHandler(context.Context, *supervisorv1.SwapHandlerRequest) (*supervisorv1.SwapHandlerResponse, error) {
	return nil, f.err
}

func (f failing) ReloadPolicy(context.Context, *supervisorv1.ReloadPolicyRequest) (*supervisorv1.ReloadPolicyResponse, error) {
	return nil, f.err
}

func (f failing) RevokeGrants(context.Context, *supervisorv1.RevokeGrantsRequest) (*supervisorv1.RevokeGrantsResponse, error) {
	return nil, f.err
}

func TestControl_ErrorCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		code codes.Code
		text string
	}{
		{errors.New("policy.yaml:3:1: no effect"), codes.FailedPrecondition, "policy.yaml:3:1: no effect"},
		{fmt.Errorf("grant x is %w", fault.New(fault.NotFound, "not there")), codes.NotFound, "grant x is not there"},
		{status.Error(codes.Unavailable, "handler permission is stopped"), codes.Unavailable, "handler permission is stopped"},
		{fmt.Errorf("the start was given up: %w", context.Canceled), codes.Canceled, "the start was given up: context canceled"},
		{fmt.Errorf("another swap is under way: %w", context.DeadlineExceeded), codes.DeadlineExceeded, "another swap is under way: context deadline exceeded"},
	} {
		if s := status.Convert(asStatus(c.err)); s.Code() != c.code || s.Message() != c.text {
			t.Errorf("%v: %v %q, want %v %q", c.err, s.Code(), s.Message(), c.code, c.text)
		}
	}
}

func TestControl_RejectsIncompleteRequests(t *testing.T) {
	swap := func(req *supervisorv1.SwapHandlerRequest) error { return checkRequest(req) }
	restart := checkRequest(&supervisorv1.RestartHandlerRequest{})
	revoke := checkRequest(&supervisorv1.RevokeGrantsRequest{})
	digest := strings.Repeat("0", 64)
	for name, err := range map[string]error{
		"a restart of nothing":         restart,
		"a revocation of nothing":      revoke,
		"a swap of nothing":            swap(&supervisorv1.SwapHandlerRequest{Command: []string{"/x"}}),
		"a swap for nothing":           swap(&supervisorv1.SwapHandlerRequest{Name: "x"}),
		"a swap for two":               swap(&supervisorv1.SwapHandlerRequest{Name: "x", Command: []string{"/x"}, Address: "unix:///x"}),
		"a program without a name":     swap(&supervisorv1.SwapHandlerRequest{Name: "x", Command: []string{""}}),
		"half a digest":                swap(&supervisorv1.SwapHandlerRequest{Name: "x", Command: []string{"/x"}, Sha256: digest[:32]}),
		"no digest at all":             swap(&supervisorv1.SwapHandlerRequest{Name: "x", Command: []string{"/x"}, Sha256: strings.Repeat("x", 64)}),
		"the digest of a sidecar":      swap(&supervisorv1.SwapHandlerRequest{Name: "x", Address: "unix:///x", Sha256: digest}),
		"a sidecar that cannot do TLS": swap(&supervisorv1.SwapHandlerRequest{Name: "x", Address: "unix:///x", NoTls: true}),
	} {
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v, want INVALID_ARGUMENT", name, err)
		}
	}
	if err := swap(&supervisorv1.SwapHandlerRequest{Name: "x", Command: []string{"/x"}, Sha256: digest}); err != nil {
		t.Errorf("a complete swap: %v", err)
	}
}
