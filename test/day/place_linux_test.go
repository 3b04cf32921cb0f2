package day

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

// place is where the runs of one step happen, one after another and all at the same path.
type place struct {
	*e2e.Place
	root, start string // the folder of a run, and the copy from which it begins
}

// base is the origin of all start states: a run of base.sh, and the compiled packages of Go's library.
type base struct{ dir, goCache string }

func newBase(t testing.TB, steps []step) *base {
	t.Helper()
	dir := testkit.ShortDir(t)
	made := placeAt(filepath.Join(dir, "base"))
	if err := os.Mkdir(made.root, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := made.shell(made.root, baseScript); err != nil {
		t.Fatalf("base.sh: %v\n%s", err, out)
	}
	b := &base{dir: made.root}
	if slices.ContainsFunc(steps, func(s step) bool { return s.usesGo() && len(s.lacks()) == 0 }) {
		warm := placeAt(filepath.Join(dir, "warm"))
		copyTree(t, b.dir, warm.root)
		if out, err := warm.shell(warm.Work, "go vet ./... && go test ./... && go build -o /dev/null ."); err != nil {
			t.Fatalf("fill Go's cache: %v\n%s", err, out)
		}
		b.goCache = warm.goCache()
	}
	return b
}

func (p *place) goCache() string { return filepath.Join(p.Home, ".cache", "go-build") }

func placeAt(root string) *place {
	return &place{Place: &e2e.Place{Place: &wire.Place{Home: filepath.Join(root, "home"), Work: filepath.Join(root, "ws")}}, root: root}
}

// newPlace makes the start state of a step.
func (b *base) newPlace(t testing.TB, s *step) *place {
	t.Helper()
	dir := testkit.ShortDir(t)
	p := placeAt(filepath.Join(dir, "p"))
	p.start = filepath.Join(dir, "start")
	copyTree(t, b.dir, p.root)
	if s.usesGo() {
		if err := os.Mkdir(filepath.Dir(p.goCache()), 0o755); err != nil {
			t.Fatal(err)
		}
		copyTree(t, b.goCache, p.goCache())
	}
	if out, err := p.shell(p.Work, "git remote set-url origin '"+filepath.Join(p.root, "remote.git")+"'\n"+s.Setup); err != nil {
		t.Fatalf("setup: %v\n%s", err, out)
	}
	copyTree(t, p.root, p.start)
	return p
}

// restore restores the start state.
func (p *place) restore(t testing.TB) {
	t.Helper()
	if err := os.RemoveAll(p.root); err != nil {
		t.Fatal(err)
	}
	copyTree(t, p.start, p.root)
}

// environ returns the additional environment of all runs, besides that of wire.Place. The times make commits the same
// in each run.
func (p *place) environ() []string {
	const noon = "2027-01-02T12:00:00Z"
	return []string{
		"PATH=" + searched(), "TERM=dumb", "PAGER=cat", "TZ=UTC", "TMUX_TMPDIR=" + filepath.Join(p.Home, "tmp"),
		"GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_DATE=" + noon, "GIT_COMMITTER_DATE=" + noon,
	}
}

// shell runs lines without acphost, up to the first that fails.
func (p *place) shell(dir, lines string) ([]byte, error) {
	cmd := exec.Command("sh", "-ec", lines)
	cmd.Dir, cmd.Env = dir, p.Env(p.environ()...)
	return cmd.CombinedOutput()
}

// begin starts what the user runs beside a step. The caller calls end after the step.
func (p *place) begin(t testing.TB, s *step) (end func()) {
	t.Helper()
	if s.Beside == "" {
		return func() {}
	}
	cmd := exec.Command("sh", "-ec", s.Beside)
	cmd.Dir, cmd.Env, cmd.Stderr = p.Work, p.Env(p.environ()...), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if said, err := bufio.NewReader(out).ReadString('\n'); said != "ready\n" {
		t.Fatalf("what runs beside the step is not ready: %q (%v)", said, err)
	}
	return func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Fatalf("end what runs beside the step: %v", err)
		}
	}
}

// bare runs the step without acphost.
func (p *place) bare(t testing.TB, s *step) result {
	t.Helper()
	p.restore(t)
	end := p.begin(t, s)
	cmd := exec.Command("sh", "-c", s.Run)
	cmd.Dir, cmd.Env = p.Work, p.Env(p.environ()...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	end()
	p.ExpectNobody(t, nil)
	return result{status: cmd.ProcessState.ExitCode(), output: string(out), tree: p.tree(t)}
}

func copyTree(t testing.TB, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("copy the state of a step: %v\n%s", err, out)
	}
}
