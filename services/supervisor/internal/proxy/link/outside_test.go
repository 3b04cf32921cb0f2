package link

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/acphost/acphost/internal/paths"
	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
)

// outsideRig has a folder /out outside of the roots, which /w/link leads to. at resolves paths.
func outsideRig(t *testing.T, at *atomic.Pointer[intent.Place]) (*rig, <-chan *acpv1.CallContext) {
	t.Helper()
	r := gatedRig(t, func(o *Options) {
		o.Place = func(context.Context, string, *paths.Cache) PlaceFunc {
			return func(string) intent.Place { return *at.Load() }
		}
	})
	called := make(chan *acpv1.CallContext, 8)
	r.handler.read = func(_ context.Context, q *fsv1.ReadTextFileRequest) (*fsv1.ReadTextFileResponse, error) {
		called <- q.GetContext()
		return &fsv1.ReadTextFileResponse{Content: "x"}, nil
	}
	r.open(`{}`)
	return r, called
}

const readOut = `{"jsonrpc":"2.0","id":1,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/w/link"}}`

func TestCall_OutsideRootsUsesAllowedPath(t *testing.T) {
	outside, inside := intent.Place{Resolved: "/out/f"}, intent.Place{Resolved: "/w/f", Inside: true}
	for name, tt := range map[string]struct {
		at      intent.Place
		verdict permissionv1.Verdict
		names   bool
		want    string
	}{
		"a person allows it":               {outside, permissionv1.Verdict_VERDICT_ASK, false, "/out/f"},
		"a rule that names it allows it":   {outside, permissionv1.Verdict_VERDICT_ALLOW, true, "/out/f"},
		"a rule that names nothing does":   {outside, permissionv1.Verdict_VERDICT_ALLOW, false, ""},
		"a person allows a file inside":    {inside, permissionv1.Verdict_VERDICT_ASK, false, ""},
		"a rule allows a file inside":      {inside, permissionv1.Verdict_VERDICT_ALLOW, true, ""},
		"it is not known where it leads":   {intent.Place{}, permissionv1.Verdict_VERDICT_ASK, false, ""},
		"a rule, and nobody knows, either": {intent.Place{}, permissionv1.Verdict_VERDICT_ALLOW, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			at := &atomic.Pointer[intent.Place]{}
			at.Store(&tt.at)
			r, called := outsideRig(t, at)
			r.handler.decide = func(context.Context, *permissionv1.Action) (*permissionv1.DecideResponse, error) {
				return &permissionv1.DecideResponse{Verdict: tt.verdict, NamesPaths: tt.names}, nil
			}
			r.agent.send(readOut)
			if tt.verdict == permissionv1.Verdict_VERDICT_ASK {
				r.client.send(choose(r.asked().ID, acp.AllowOnce))
			}
			if m := parse(t, r.agent.next()); m.Error != nil {
				t.Fatalf("the agent got %+v", m.Error)
			}
			if got := (<-called).GetAllowedPath(); got != tt.want {
				t.Errorf("the handler was told %q, want %q", got, tt.want)
			}
		})
	}
}

func TestCall_OutsideRootsResolvesPathAfterAnswer(t *testing.T) {
	for name, now := range map[string]intent.Place{
		"it leads elsewhere":          {Resolved: "/out/other"},
		"it leads inside":             {Resolved: "/w/f", Inside: true},
		"it is acphost's own by now":  {Resolved: "/out/f", Protected: true},
		"nobody knows where it leads": {},
	} {
		t.Run(name, func(t *testing.T) {
			at := &atomic.Pointer[intent.Place]{}
			at.Store(&intent.Place{Resolved: "/out/f"})
			r, called := outsideRig(t, at)
			r.handler.decide = answer(permissionv1.Verdict_VERDICT_ASK)
			r.agent.send(readOut)
			asked := r.asked()
			at.Store(&now)
			r.client.send(choose(asked.ID, acp.AllowOnce))
			r.agent.wantError("1", -32603, "leads elsewhere than when the user was asked")
			select {
			case cc := <-called:
				t.Errorf("the handler was called with %v", cc)
			default:
			}
		})
	}
}

func TestCall_OutsideRootsUnreachableIsNotAsked(t *testing.T) {
	at := &atomic.Pointer[intent.Place]{}
	at.Store(&intent.Place{Resolved: "/proc/7/mem"})
	r, _ := outsideRig(t, at)
	r.handler.decide = answer(permissionv1.Verdict_VERDICT_ASK)
	r.agent.send(readOut)
	r.agent.wantError("1", -32603, "rule acphost/outside")
}
