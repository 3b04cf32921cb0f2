package conformance_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	"github.com/acphost/acphost/sdk/conformance"
	"github.com/acphost/acphost/sdk/handler"
	"github.com/acphost/acphost/sdk/handlertest"
)

// policyFunc is a policy as a function, with the number of earlier actions as an argument.
type policyFunc struct {
	permissionv1.UnimplementedPermissionServiceServer
	judged atomic.Int64
	decide func(ctx context.Context, a *permissionv1.Action, judged int64) (*permissionv1.DecideResponse, error)
}

func (p *policyFunc) Decide(ctx context.Context, r *permissionv1.DecideRequest) (*permissionv1.DecideResponse, error) {
	return p.decide(ctx, r.GetAction(), p.judged.Add(1)-1)
}

// forgetful returns an error from Answered.
type forgetful struct{ *policyFunc }

func (forgetful) Answered(context.Context, *permissionv1.AnsweredRequest) (*permissionv1.AnsweredResponse, error) {
	return nil, errors.New("forgotten")
}

func servePolicy(t *testing.T, policy permissionv1.PermissionServiceServer) *grpc.ClientConn {
	t.Helper()
	return handlertest.Serve(t, handler.Handler{
		Name: "policy", Version: "1",
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

func TestPolicy_MinimalPasses(t *testing.T) {
	for name, err := range results(t, servePolicy(t, &policyFunc{decide: asking}), conformance.KindPermission) {
		if err != nil && (!errors.Is(err, conformance.ErrSkipped) || name != "permission/Answered is accepted or unimplemented") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPolicy_DefectFailsItsCase(t *testing.T) {
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
		"an unknown verdict":    {answer(&permissionv1.DecideResponse{Verdict: 9}), "Decide answers every kind of action"},
		"refuses unknown kinds": {refuses(func(a *permissionv1.Action) bool { return a.GetKind() == "." }), "Decide answers for unknown kinds of action"},
		"needs an action":       {refuses(func(a *permissionv1.Action) bool { return a == nil }), "Decide answers for actions with few fields"},
		"bounds its input":      {refuses(func(a *permissionv1.Action) bool { return len(a.GetRawInput()) > 1<<19 }), "Decide answers for the largest actions in time"},
		"wants absolute paths":  {refuses(func(a *permissionv1.Action) bool { return len(a.GetPaths()) == 1 && a.Paths[0].Path == ".." }), "Decide answers for unusual paths and commands"},
		"rolls dice": {func(_ context.Context, _ *permissionv1.Action, n int64) (*permissionv1.DecideResponse, error) {
			return &permissionv1.DecideResponse{Verdict: ask, Rule: strings.Repeat("x", int(n%7))}, nil
		}, "Decide returns the same answer for the same action"},
		"tires": {func(_ context.Context, _ *permissionv1.Action, n int64) (*permissionv1.DecideResponse, error) {
			return &permissionv1.DecideResponse{Verdict: ask, Rule: strings.Repeat("x", int(n/10%10))}, nil
		}, "Decide does not depend on earlier requests"},
		"a digest without sense": {answer(&permissionv1.DecideResponse{Verdict: ask, PolicyDigest: "sha256:XYZ"}), "Decide returns a rule and a short reason"},
		"a rule that is a book":  {answer(&permissionv1.DecideResponse{Verdict: ask, Rule: strings.Repeat("x", 129)}), "Decide returns a rule and a short reason"},
		"rejects large actions":  {refuses(func(a *permissionv1.Action) bool { return len(a.GetRawInput()) > 8<<20 }), "Decide accepts a request of 16 MiB"},
		"does not read the small print": {func(ctx context.Context, a *permissionv1.Action, n int64) (*permissionv1.DecideResponse, error) {
			if len(a.GetCommand().GetSubCommands()) > 0 {
				return &permissionv1.DecideResponse{Verdict: allow}, nil
			}
			return asking(ctx, a, n)
		}, "Decide does not allow by incomplete commands or paths"},
		"takes paths for all there is": {func(ctx context.Context, a *permissionv1.Action, n int64) (*permissionv1.DecideResponse, error) {
			if len(a.GetPaths()) > 0 {
				return &permissionv1.DecideResponse{Verdict: allow}, nil
			}
			return asking(ctx, a, n)
		}, "Decide does not allow by incomplete commands or paths"},
		"denies without a word": {answer(&permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_DENY}), "Decide returns a reason for deny"},
		"asks when unattended": {answer(&permissionv1.DecideResponse{Verdict: ask, Unattended: ask}),
			"Decide returns allow, deny or nothing for an unanswered question"},
		"stops at the first sixty": {func(ctx context.Context, a *permissionv1.Action, n int64) (*permissionv1.DecideResponse, error) {
			if n < 60 {
				return asking(ctx, a, n)
			}
			return nil, errors.New("tired")
		}, "Decide answers many callers at once"},
		"waits forever for callers that are gone": {func(ctx context.Context, a *permissionv1.Action, n int64) (*permissionv1.DecideResponse, error) {
			if n > 0 {
				return nil, errors.New("still busy with the ones before")
			}
			return asking(ctx, a, n)
		}, "Decide works after cancelled calls"},
		"offers grants for allowed actions": {answer(&permissionv1.DecideResponse{Verdict: allow, Grantable: true}), "Decide permits remembered answers only for ask"},
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
	for defect, policy := range map[string]permissionv1.PermissionServiceServer{
		"fails in Answered":                  forgetful{&policyFunc{decide: asking}},
		"knows some outcomes and not others": choosy{policyFunc: &policyFunc{decide: asking}},
	} {
		err := permissionCase(t, policy, "Answered is accepted or unimplemented")
		if err == nil || errors.Is(err, conformance.ErrSkipped) {
			t.Errorf("a policy that %s: %v", defect, err)
		}
	}
}

// choosy accepts only some calls of Answered.
type choosy struct {
	*policyFunc
}

func (choosy) Answered(_ context.Context, r *permissionv1.AnsweredRequest) (*permissionv1.AnsweredResponse, error) {
	if r.GetOutcome() == "cancelled" {
		return nil, status.Error(codes.Unimplemented, "Answered is not implemented")
	}
	return &permissionv1.AnsweredResponse{}, nil
}

func TestPolicy_PartOfRejectedSettingsFails(t *testing.T) {
	var refused atomic.Bool
	conn := handlertest.Serve(t, handler.Handler{
		Name: "hasty", Version: "1",
		Configure: func(_ context.Context, r *pluginv1.ConfigureRequest) ([]string, error) {
			for name := range r.GetSettings().GetFields() {
				refused.Store(true)
				return nil, errors.New(name + ": no such setting")
			}
			return nil, nil
		},
		Register: func(r grpc.ServiceRegistrar) {
			permissionv1.RegisterPermissionServiceServer(r, &policyFunc{
				decide: func(ctx context.Context, a *permissionv1.Action, n int64) (*permissionv1.DecideResponse, error) {
					if refused.Load() {
						return &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_ALLOW}, nil
					}
					return asking(ctx, a, n)
				}})
		},
	})
	suite := conformance.Suite{Conn: conn, Kind: conformance.KindPermission}
	for _, c := range conformance.Cases(conformance.KindPermission) {
		if c.Name != "permission/rejected settings change no decision" {
			continue
		}
		if err := suite.RunCase(t.Context(), c); err == nil {
			t.Errorf("%s passes", c.Name)
		}
	}
}

// TestPolicy_ImpureSkipsRepeatedDecisions: a policy that declares that it depends on more than the action still has to
// pass all other cases.
func TestPolicy_ImpureSkipsRepeatedDecisions(t *testing.T) {
	moody := &policyFunc{decide: func(_ context.Context, _ *permissionv1.Action, n int64) (*permissionv1.DecideResponse, error) {
		return &permissionv1.DecideResponse{Verdict: permissionv1.Verdict(1 + n%3), Rule: "moody"}, nil
	}}
	suite := conformance.Suite{Conn: servePolicy(t, moody), Kind: conformance.KindPermission, Impure: true}
	skipped := 0
	for _, c := range conformance.Cases(conformance.KindPermission) {
		switch err := suite.RunCase(t.Context(), c); {
		case errors.Is(err, conformance.ErrSkipped):
			skipped++
		case err != nil && c.Name != "permission/Decide does not allow by incomplete commands or paths":
			t.Errorf("%s: %v", c.Name, err)
		}
	}
	if skipped < 3 {
		t.Errorf("%d cases were skipped", skipped)
	}
}

// TestSuite_ConfiguresHandlerBeforeEachCase: the settings are in effect in each case, also after a case that changed
// them.
func TestSuite_ConfiguresHandlerBeforeEachCase(t *testing.T) {
	given, err := structpb.NewStruct(map[string]any{"mode": "strict"})
	if err != nil {
		t.Fatal(err)
	}
	var got atomic.Pointer[structpb.Struct]
	conn := handlertest.Serve(t, handler.Handler{
		Name: "set", Version: "1", Register: func(grpc.ServiceRegistrar) {},
		Configure: func(_ context.Context, r *pluginv1.ConfigureRequest) ([]string, error) {
			got.Store(r.GetSettings())
			return nil, nil
		},
	})
	suite := conformance.Suite{Conn: conn, Kind: conformance.KindExtension, Settings: given}
	err = suite.RunCase(t.Context(), conformance.OneCase(func() {
		if !proto.Equal(got.Load(), given) {
			t.Errorf("the handler has %v", got.Load())
		}
	}))
	if err != nil {
		t.Error(err)
	}
}
