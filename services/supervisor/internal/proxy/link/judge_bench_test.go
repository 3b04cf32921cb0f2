package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/sandbox/decisions"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/session"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
	"github.com/acphost/acphost/services/supervisor/internal/sandbox/containment"
	"github.com/acphost/acphost/services/supervisor/internal/sandbox/kernel"
)

// allowing is a policy that allows everything, and keeps the last action that it was asked about.
type allowing struct{ asked *permissionv1.Action }

func (a *allowing) Invoke(_ context.Context, _ string, args, reply any, _ ...grpc.CallOption) error {
	a.asked = args.(*permissionv1.DecideRequest).GetAction()
	proto.Merge(reply.(*permissionv1.DecideResponse), &permissionv1.DecideResponse{Verdict: gate.Allow, Rule: "run"})
	return nil
}

func (*allowing) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.New("no streams")
}

// startRig is a link whose agent's processes start programs in a workspace, with a PATH of eight folders. The last but one is a link, and
// has the programs.
type startRig struct {
	*Link
	decider *containment.Decider
	policy  *allowing
	dir, ws string
	environ []string
}

func newStartRig(tb testing.TB, change ...func(*Options)) *startRig {
	tb.Helper()
	dir, err := filepath.EvalSymlinks(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	r := &startRig{policy: &allowing{}, dir: dir, ws: dir + "/ws"}
	var folders []string
	for i := range 8 {
		folder := dir + "/p" + strconv.Itoa(i)
		folders = append(folders, folder+"/bin")
		if i == 6 {
			err = errors.Join(os.MkdirAll(dir+"/usr/bin", 0o700), os.Mkdir(folder, 0o700), os.Symlink("../usr/bin", folder+"/bin"))
		} else {
			err = os.MkdirAll(folder+"/bin", 0o700)
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	for _, name := range []string{"true", "cc"} {
		err = errors.Join(err, os.WriteFile(dir+"/usr/bin/"+name, append([]byte("\x7fELF"), make([]byte, 4096)...), 0o700))
	}
	err = errors.Join(err, os.MkdirAll(r.ws+"/src", 0o700), os.MkdirAll(r.ws+"/out", 0o700), os.WriteFile(r.ws+"/src/file.c", nil, 0o600))
	if err != nil {
		tb.Fatal(err)
	}
	r.environ = []string{"PATH=" + strings.Join(folders, ":"), "HOME=" + dir + "/home"}
	for i := range 30 {
		r.environ = append(r.environ, fmt.Sprintf("VARIABLE_%d=value", i))
	}
	own := []string{"/etc/acphost", dir + "/config", dir + "/state/audit.jsonl"}
	for i := range 20 {
		own = append(own, dir+"/state/audit.jsonl."+strconv.Itoa(i))
	}
	log := slog.New(slog.DiscardHandler)
	table := session.New(session.Options{})
	table.Opening("1", acp.MethodSessionNew, acp.Opening{Cwd: r.ws})
	table.Opened("1", acp.Opened{SessionID: "s"}, false)
	table.Prompted("2", "s", false)
	g := gate.New(gate.Options{Logger: log, Protected: own, Enforced: true, Chain: []gate.Policy{{
		Name: "permission", Conn: func() (grpc.ClientConnInterface, error) { return r.policy, nil },
	}}})
	in, out := io.Pipe()
	tb.Cleanup(func() { _ = out.Close() })
	o := Options{
		Client: Client{In: in, Out: discard{}}, Agent: pipes{in, out}, Sessions: table, Gate: g, Logger: log, AgentName: "agent", AgentEnviron: r.environ,
		Local: true, RealRoots: func(roots []string) []string { return roots },
		Place: func(_ context.Context, _ string, seen *paths.Cache) PlaceFunc {
			return func(path string) intent.Place {
				at := intent.Place{Resolved: seen.Real(path)}
				at.Inside = paths.Below(r.ws, path) && paths.Below(r.ws, at.Resolved)
				at.Protected = g.By(seen).ProtectedName(path) || g.By(seen).ProtectedName(at.Resolved)
				at.NoFolder = seen.NoFolder(at.Resolved)
				return at
			}
		},
	}
	for _, c := range change {
		c(&o)
	}
	contained(&containment.Sandbox{Mine: kernel.NewOwn([]string{"~/.agent/**"}, r.environ)}, containment.Proxy{})(&o)
	r.Link = New(o)
	r.decider = o.Containment.(*containment.Decider)
	r.decider.Bind(r.Link)
	tb.Cleanup(func() { _ = r.toClient.Close() })
	return r
}

// starts is a request about a program that is started in the workspace.
func (r *startRig) starts(args ...string) decisions.Asked {
	return decisions.Asked{Program: "/bin/sh", Event: sandbox.Event{
		Operation: sandbox.Execute, PID: os.Getpid(), Path: r.dir + "/usr/bin/" + args[0], Args: args, Dir: r.ws,
		Env: []string{"SHLVL=1", "PWD=" + r.ws},
	}}
}

// BenchmarkJudgeStart decides about programs that a process starts, without a policy. Each start has other arguments, like those of
// compilers and test runners. docs/performance.md has the figures of the whole system.
func BenchmarkJudgeStart(b *testing.B) {
	for name, args := range map[string][]string{
		"true":     {"true"},
		"compiler": {"cc", "-O2", "-Iinclude", "-c", "-o", "out/file.o", "src/file.c"},
	} {
		b.Run(name, func(b *testing.B) {
			r := newStartRig(b)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				asked := r.starts(append(args, "n"+strconv.Itoa(n))...)
				asked.Call = uint64(n)
				if got := r.decider.Judge(context.Background(), asked); !got.Allowed {
					b.Fatal(got.Why)
				}
			}
		})
	}
}
