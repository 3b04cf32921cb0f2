package conformance_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/sdk/conformance"
	"github.com/acphost/acphost/sdk/handler"
	"github.com/acphost/acphost/sdk/handlertest"
)

// policyFunc is a policy as a function, which is told how many actions it has judged before.
type policyFunc struct {
	permissionv1.UnimplementedPermissionServiceServer
	judged atomic.Int64
	decide func(ctx context.Context, a *permissionv1.Action, judged int64) (*permissionv1.DecideResponse, error)
}

func (p *policyFunc) Decide(ctx context.Context, r *permissionv1.DecideRequest) (*permissionv1.DecideResponse, error) {
	return p.decide(ctx, r.GetAction(), p.judged.Add(1)-1)
}

// forgetful answers Answered with an error of its own.
type forgetful struct{ *policyFunc }

func (forgetful) Answered(context.Context, *permissionv1.AnsweredRequest) (*permissionv1.AnsweredResponse, error) {
	return nil, errors.New("forgotten")
}

func servePolicy(t *testing.T, policy permissionv1.PermissionServiceServer) *grpc.ClientConn {
	t.Helper()
	return handlertest.Serve(t, handler.Handler{
		Name: "policy", Version: "1", Services: []string{"acphost.permission.v1.PermissionService"},
		Register: func(r grpc.ServiceRegistrar) { permissionv1.RegisterPermissionServiceServer(r, policy) },
	})
}

// permissionCase runs one case against a policy.
func permissionCase(t *testing.T, policy permissionv1.PermissionServiceServer, name string) error {
	t.Helper()
	conn := servePolicy(t, policy)
	for _, c := range conformance.Cases(conformance.KindPermission) {
		if c.Name == "permission/"+name {
			return conformance.Suite{Conn: conn, Kind: conformance.KindPermission}.RunCase(t.Context(), c)
		}
	}
	t.Fatalf("there is no case %q", name)
	return nil
}

func asking(context.Context, *permissionv1.Action, int64) (*permissionv1.DecideResponse, error) {
	return &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_ASK}, nil
}

func TestAPolicyOfThreeLinesPasses(t *testing.T) {
	for name, err := range results(t, servePolicy(t, &policyFunc{decide: asking}), conformance.KindPermission) {
		if err != nil && (!errors.Is(err, conformance.ErrSkipped) || name != "permission/Answered is taken, or not known") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEveryDefectOfAPolicyFailsItsCase(t *testing.T) {
	type decide = func(context.Context, *permissionv1.Action, int64) (*permissionv1.DecideResponse, error)
	answer := func(d *permissionv1.DecideResponse) decide {
		return func(context.Context, *permissionv1.Action, int64) (*permissionv1.DecideResponse, error) {
			return d, nil
		}
	}
	ask, allow := permissionv1.Verdict_VERDICT_ASK, permissionv1.Verdict_VERDICT_ALLOW
	refuses := func(when func(*permissionv1.Action) bool) decide {
		return func(ctx context.Context, a *permissionv1.Action, n int64) (*permissionv1.DecideResponse, error) {
			if when(a) {
				return nil, errors.New("cannot judge this")
			}
			return asking(ctx, a, n)
		}
	}
	for defect, tt := range map[string]struct {
		decide decide
		fails  string
	}{
		"no verdict":            {answer(&permissionv1.DecideResponse{}), "Decide answers every kind of action"},
		"a verdict of its own":  {answer(&permissionv1.DecideResponse{Verdict: 9}), "Decide answers every kind of action"},
		"refuses unknown kinds": {refuses(func(a *permissionv1.Action) bool { return a.GetKind() == "." }), "Decide answers kinds that nobody has heard of"},
		"needs an action":       {refuses(func(a *permissionv1.Action) bool { return a == nil }), "Decide answers about actions with little in them"},
		"bounds its input":      {refuses(func(a *permissionv1.Action) bool { return len(a.GetRawInput()) > 1<<19 }), "Decide answers about the largest actions in time"},
		"wants absolute paths":  {refuses(func(a *permissionv1.Action) bool { return len(a.GetPaths()) == 1 && a.Paths[0].Path == ".." }), "Decide answers about odd paths and commands"},
		"rolls dice": {func(_ context.Context, _ *permissionv1.Action, n int64) (*permissionv1.DecideResponse, error) {
			return &permissionv1.DecideResponse{Verdict: ask, Rule: strings.Repeat("x", int(n%7))}, nil
		}, "Decide says the same of the same action"},
		"tires": {func(_ context.Context, _ *permissionv1.Action, n int64) (*permissionv1.DecideResponse, error) {
			return &permissionv1.DecideResponse{Verdict: ask, Rule: strings.Repeat("x", int(n/10%10))}, nil
		}, "Decide does not depend on what was asked before"},
		"a digest without sense": {answer(&permissionv1.DecideResponse{Verdict: ask, PolicyDigest: "sha256:XYZ"}), "Decide names its rule and gives its reason in short"},
		"a rule that is a book":  {answer(&permissionv1.DecideResponse{Verdict: ask, Rule: strings.Repeat("x", 129)}), "Decide names its rule and gives its reason in short"},
		"grants what it allows":  {answer(&permissionv1.DecideResponse{Verdict: allow, Grantable: true}), "Decide lets remembered answers count only where it asks"},
		"panics": {func(context.Context, *permissionv1.Action, int64) (*permissionv1.DecideResponse, error) {
			panic("at once")
		}, "Decide answers many callers at once"},
	} {
		t.Run(defect, func(t *testing.T) {
			if err := permissionCase(t, &policyFunc{decide: tt.decide}, tt.fails); err == nil {
				t.Errorf("%q passes", tt.fails)
			}
		})
	}
	err := permissionCase(t, forgetful{&policyFunc{decide: asking}}, "Answered is taken, or not known")
	if err == nil || errors.Is(err, conformance.ErrSkipped) {
		t.Errorf("a handler that fails in Answered: %v", err)
	}
}
