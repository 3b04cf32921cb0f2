package link

import (
	"context"
	"flag"
	"fmt"
	"io"
	"path"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"

	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/test/barrage"
)

var (
	barrageFrames = flag.Int("frames", 0, "how many frames a barrage has; 0: as many as a check of each change can take")
	barrageSeed   = flag.Uint64("seed", 0, "the seed of the first barrage; 0: 1")
)

// barrageRig is a link whose policy decides by folders, for a barrage.
func barrageRig(t *testing.T, change ...func(*Options)) *rig {
	t.Helper()
	r := gatedRig(t, append([]func(*Options){func(o *Options) {
		o.Ready = func(context.Context) (*route.Table, error) {
			return route.Build([]route.Claim{
				{Handler: "fs", Kind: route.KindFS, Services: []protoreflect.ServiceDescriptor{fsv1.File_acphost_fs_v1_fs_proto.Services().Get(0)}},
				{Handler: "terminal", Kind: route.KindTerminal, Services: []protoreflect.ServiceDescriptor{terminalv1.File_acphost_terminal_v1_terminal_proto.Services().Get(0)}},
			}, nil)
		}
		o.Limits.MaxMessage = 600_000
	}}, change...)...)
	r.handler.decide = func(_ context.Context, a *permissionv1.Action) (*permissionv1.DecideResponse, error) {
		verdict := gate.Ask
		if len(a.GetPaths()) == 1 {
			switch at := a.GetPaths()[0].GetPath(); {
			case strings.HasPrefix(at, "/w/allow/"):
				verdict = gate.Allow
			case strings.HasPrefix(at, "/w/deny/"):
				verdict = gate.Deny
			}
		}
		return &permissionv1.DecideResponse{Verdict: verdict}, nil
	}
	r.handler.read = func(_ context.Context, req *fsv1.ReadTextFileRequest) (*fsv1.ReadTextFileResponse, error) {
		return &fsv1.ReadTextFileResponse{Content: path.Base(req.GetPath())}, nil
	}
	r.handler.wait = func(ctx context.Context, _ *terminalv1.WaitForExitRequest) (*terminalv1.WaitForExitResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	r.handler.watch = func(_ *terminalv1.WatchRequest, s grpc.ServerStreamingServer[terminalv1.WatchResponse]) error {
		<-s.Context().Done()
		return s.Context().Err()
	}
	return r
}

// barrage runs one barrage.
func (r *rig) barrage(o barrage.Options) (barrage.Stats, error) {
	o.Client, o.Agent = barrage.End{W: r.client.in, R: r.client.raw}, barrage.End{W: r.agent.in, R: r.agent.raw}
	o.Root, o.Gated, o.MaxMessage = "/w", "_x/y", r.opts.Limits.MaxMessage
	o.Wait = func() {
		reason := r.end()
		r.ended <- reason // for the clean-up
		for _, stream := range []any{r.opts.Client.In, r.opts.Client.Out, r.opts.Agent.Stdin(), r.opts.Agent.Stdout()} {
			_ = stream.(io.Closer).Close()
		}
	}
	return barrage.Run(o)
}

// smallest searches roughly for the smallest number of frames that fails in the same way, so that the output is short.
func smallest(err error, frames int, run func(frames int) error) error {
	for n := 64; n < min(frames, 10_000); n *= 4 {
		for range 2 {
			if again := run(n); again != nil {
				return fmt.Errorf("%d frames are enough: %w", n, again)
			}
		}
	}
	return err
}

// TestLink_BarrageOfValidAndBrokenMessages sends messages of every kind between a client and an agent at the same time. -frames sets the
// number of messages in one run, and -seed the first seed.
func TestLink_BarrageOfValidAndBrokenMessages(t *testing.T) {
	frames, seeds := 6_000, uint64(3)
	if *barrageFrames > 0 {
		frames, seeds = *barrageFrames, 1
	}
	for seed := max(*barrageSeed, 1); seed < max(*barrageSeed, 1)+seeds; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			run := func(frames int) (err error) {
				var stats barrage.Stats
				t.Run("", func(t *testing.T) {
					stats, err = barrageRig(t).barrage(barrage.Options{Seed: seed, Frames: frames})
				})
				t.Logf("%+v", stats)
				return err
			}
			if err := run(frames); err != nil {
				t.Error(smallest(err, frames, run))
			}
		})
	}
}

// TestLink_PeerLeavesDuringBarrage closes one peer while requests of both are open in every state.
func TestLink_PeerLeavesDuringBarrage(t *testing.T) {
	for name, leaver := range map[string]barrage.Closer{"the agent": barrage.Agent, "the client": barrage.Client} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(12) {
				t.Run("", func(t *testing.T) {
					_, err := barrageRig(t).barrage(barrage.Options{Seed: seed, Frames: 300 + 50*int(seed), Closer: leaver})
					if err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
}
