package gate

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// policy is a connection to a policy that answers with a function.
type policy func(ctx context.Context) (*permissionv1.DecideResponse, error)

func (p policy) Invoke(ctx context.Context, _ string, _, reply any, _ ...grpc.CallOption) error {
	res, err := p(ctx)
	if err != nil {
		return err
	}
	if out, ok := reply.(*permissionv1.DecideResponse); ok {
		proto.Merge(out, res)
	}
	return nil
}

func (p policy) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.New("no streams")
}

func gateWith(enforced bool, p policy, protected ...string) *Gate {
	return New(Options{
		Chain:     []Policy{{Name: "permission", Conn: func() (grpc.ClientConnInterface, error) { return p, nil }}},
		Methods:   []string{"fs/*", "terminal/create"},
		Enforced:  enforced,
		Protected: protected,
		Logger:    slog.New(slog.DiscardHandler),
	})
}

func answers(v permissionv1.Verdict) policy {
	return func(context.Context) (*permissionv1.DecideResponse, error) {
		return &permissionv1.DecideResponse{Verdict: v, Rule: "r"}, nil
	}
}

func fails(context.Context) (*permissionv1.DecideResponse, error) {
	return nil, status.Error(codes.Unavailable, "it is gone")
}

func TestDecide_Verdicts(t *testing.T) {
	edit := &permissionv1.Action{Kind: "tool.edit"}
	tests := []struct {
		name   string
		gate   *Gate
		action *permissionv1.Action
		want   permissionv1.Verdict
	}{
		{"the policy allows", gateWith(true, answers(Allow)), edit, Allow},
		{"the policy denies", gateWith(true, answers(Deny)), edit, Deny},
		{"the policy asks", gateWith(true, answers(Ask)), edit, Ask},
		{"a policy that was set cannot be reached", gateWith(true, fails), edit, Deny},
		{"no policy was set and permd cannot be reached", gateWith(false, fails), edit, Ask},
		{"the policy gives no verdict", gateWith(true, answers(0)), edit, Deny},
		{"the policy gives a verdict that nobody knows", gateWith(true, answers(77)), edit, Deny},
		{"a change of mode is never the policy's", gateWith(true, answers(Allow)), &permissionv1.Action{Kind: "tool.switch_mode"}, Ask},
		{"acphost's own file, though the policy allows", gateWith(true, answers(Allow)),
			&permissionv1.Action{Kind: "tool.edit", Paths: []*permissionv1.PathAccess{{Path: "/p", Protected: true}}}, Deny},
		{"questions are routed to the client", New(Options{Logger: slog.New(slog.DiscardHandler)}), edit, Ask},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, err := tt.gate.Decide(t.Context(), Request{Action: tt.action})
			if err != nil || d.Verdict != tt.want {
				t.Fatalf("got %+v, %v; want %v", d, err, tt.want)
			}
			if err := tt.gate.Record(d, Outcome{Allowed: d.Verdict == Allow}); err != nil {
				t.Error(err)
			}
			c := tt.gate.Counters()
			if c.GetQuestions() != 1 || c.GetAllowed()+c.GetDenied()+c.GetForwarded() != 1 {
				t.Errorf("counters = %v", c)
			}
		})
	}
}

func TestRecord_HasPlaceOfDecidingRule(t *testing.T) {
	placed := policy(func(context.Context) (*permissionv1.DecideResponse, error) {
		return &permissionv1.DecideResponse{Verdict: Allow, Rule: "look", Place: "rules.yaml:3"}, nil
	})
	for doubt, want := range map[string]string{"": "look at rules.yaml:3", "the rules have changed": RuleReload + " at "} {
		var got string
		g := New(Options{
			Chain: []Policy{{
				Name: "permission", Conn: func() (grpc.ClientConnInterface, error) { return placed, nil }, Doubt: func() string { return doubt },
			}},
			Enforced: true, Logger: slog.New(slog.DiscardHandler),
			Decided: func(r *supervisorv1.AuditRecord) { got = r.GetRule() + " at " + r.GetPlace() },
		})
		d, err := g.Decide(t.Context(), Request{Action: &permissionv1.Action{Kind: "tool.edit"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Record(d, Outcome{Allowed: true}); err != nil || got != want {
			t.Errorf("got %q, want %q (%v)", got, want, err)
		}
	}
}

func TestDecide_DeniesAfterPolicyTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateWith(true, func(ctx context.Context) (*permissionv1.DecideResponse, error) {
			<-ctx.Done()
			return nil, status.FromContextError(ctx.Err()).Err()
		})
		started := time.Now()
		d, err := g.Decide(t.Context(), Request{Action: &permissionv1.Action{Kind: "tool.edit"}})
		if err != nil || d.Verdict != Deny || time.Since(started) != DecideTimeout {
			t.Errorf("got %+v, %v after %v", d, err, time.Since(started))
		}
	})
}

func TestDecide_ReturnsErrorWhenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	g := gateWith(true, func(ctx context.Context) (*permissionv1.DecideResponse, error) {
		cancel()
		return nil, ctx.Err()
	})
	if d, err := g.Decide(ctx, Request{Action: &permissionv1.Action{Kind: "tool.edit"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %+v, %v; want context.Canceled", d, err)
	}
	if n := g.Counters().GetQuestions(); n != 0 {
		t.Errorf("%d questions were counted", n)
	}
}

func TestProtected_ChecksWrittenAndResolvedPaths(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(dir, "own")
	for _, d := range []string{own, filepath.Join(dir, "desk"), filepath.Join(dir, "owner")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(own, filepath.Join(dir, "desk", "link")); err != nil {
		t.Fatal(err)
	}
	g := gateWith(false, fails, own)
	for path, want := range map[string]bool{
		own:                        true,
		own + "/":                  true,
		own + "/config.yaml":       true,
		own + "/../own/new":        true,
		dir + "/desk/link":         true,
		dir + "/desk/link/new/one": true,
		dir + "/owner":             false,
		dir + "/desk/file":         false,
		dir:                        false,
	} {
		if got := g.Protected(path); got != want {
			t.Errorf("Protected(%q) = %v, want %v", path, got, want)
		}
	}
	for text, want := range map[string]bool{"cat own/x": true, "cat " + own + "/x": true, "tool --file=" + own + "/x": true, "ls desk": false} {
		words := map[string][]string{
			"cat own/x":                 {"cat", "own/x"},
			"cat " + own + "/x":         {"cat", own + "/x"},
			"tool --file=" + own + "/x": {"tool", "--file=" + own + "/x"},
			"ls desk":                   {"ls", "desk"},
		}[text]
		c := &permissionv1.Command{Text: text, SubCommands: []*permissionv1.SubCommand{{Argv: words}}}
		if got := protectedCommand(t, g, c, []string{dir}) != ""; got != want {
			t.Errorf("ProtectedCommand(%q) = %v, want %v", text, got, want)
		}
	}
}
