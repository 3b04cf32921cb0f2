package pod

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
)

// theTurn reads a file, as an agent does.
const theTurn = "/read /workspace/a.txt"

// BenchmarkStart measures the time from the Pod's first container to the first answer of its agent.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		r := launch(b, []string{"/opt/agent/demoagent"}, nil)
		a := r.agent()
		r.prompt(a, r.open(a), "repeat x")
		b.StopTimer()
		r.Delete()
		b.StartTimer()
	}
}

// BenchmarkTurn alternates a turn in the Pod with a turn of acphost and its handlers in one process tree on this
// machine, and reports the ratio as "x-alone". It also reports the memory (PSS) of each container.
func BenchmarkTurn(b *testing.B) {
	r := launch(b, []string{"/opt/agent/demoagent"}, nil)
	a := r.agent()
	session := r.open(a)
	r.prompt(a, session, "/write /workspace/a.txt text")
	alone, aloneAgent, aloneSession := startAlone(b, r.ctx)
	alone.prompt(aloneAgent, aloneSession, "/write "+alone.keys+"/a.txt text")
	before := size(r.Volume("state"))
	var inPod, beside time.Duration
	for b.Loop() {
		begun := time.Now()
		if _, how := r.prompt(a, session, theTurn); how != "end_turn" {
			b.Fatal(how)
		}
		inPod += time.Since(begun)
		begun = time.Now()
		if _, how := alone.prompt(aloneAgent, aloneSession, "/read "+alone.keys+"/a.txt"); how != "end_turn" {
			b.Fatal(how)
		}
		beside += time.Since(begun)
	}
	b.ReportMetric(float64(inPod.Microseconds())/float64(b.N)/1000, "ms/turn")
	b.ReportMetric(float64(beside.Microseconds())/float64(b.N)/1000, "ms/turn-alone")
	b.ReportMetric(float64(inPod)/float64(beside), "x-alone")
	b.ReportMetric(float64(size(r.Volume("state"))-before)/float64(b.N), "B-recorded/turn")
	for _, name := range []string{"agent", "fsd", "termd", "permd"} {
		b.ReportMetric(pss(b, r.Container(name).PID())/1024, "MB-"+name)
	}
}

// startAlone starts acphost without a Pod, as this user, with its own handlers as children and the same policy.
func startAlone(b *testing.B, ctx context.Context) (*running, *supervisorv1.Agent, string) {
	b.Helper()
	dir := b.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	cmd := exec.Command(filepath.Join(bin, "acphost"), "serve", "--policy", "workspace", "--socket", socket, "--", filepath.Join(bin, "demoagent"))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+dir+"/state", "XDG_CONFIG_HOME="+dir+"/config", "TMPDIR="+dir)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Signal(os.Interrupt); _ = cmd.Wait() })
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		b.Fatal(err)
	}
	r := &running{t: b, ctx: ctx, keys: work}
	for {
		c, err := client.DialSocket(socket)
		if err == nil {
			if _, err = c.Agents.ListAgents(ctx, &supervisorv1.ListAgentsRequest{}); err == nil {
				r.Client = c
				break
			}
			_ = c.Close()
		}
		select {
		case <-ctx.Done():
			b.Fatalf("acphost does not start: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
	b.Cleanup(func() { _ = r.Client.Close() })
	a := r.agent()
	s, err := r.Sessions.NewSession(ctx, &supervisorv1.NewSessionRequest{AgentId: a.GetId(), Cwd: work})
	if err != nil {
		b.Fatal(err)
	}
	return r, a, s.GetSession().GetSessionId()
}

// size is the length of all files below a folder, in bytes.
func size(dir string) (total int64) {
	_ = filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if info, err := e.Info(); err == nil {
				total += info.Size()
			}
		}
		return nil
	})
	return total
}

// pss is the proportional memory of a process and all below it, without the agent itself, in KiB.
func pss(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		return 0
	}
	total := 0.0
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
			n, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			total += n
		}
	}
	tasks, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	for _, task := range tasks {
		children, _ := os.ReadFile(task)
		for _, child := range strings.Fields(string(children)) {
			if name, _ := os.ReadFile("/proc/" + child + "/comm"); strings.TrimSpace(string(name)) == "demoagent" {
				continue
			}
			n, _ := strconv.Atoi(child)
			total += pss(b, n)
		}
	}
	return total
}
