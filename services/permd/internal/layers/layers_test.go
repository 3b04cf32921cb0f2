package layers

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"

	"github.com/acphost/acphost/services/permd/internal/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	allow = permissionv1.Verdict_VERDICT_ALLOW
	deny  = permissionv1.Verdict_VERDICT_DENY
	ask   = permissionv1.Verdict_VERDICT_ASK
)

// bench is a folder for rule files and a workspace.
type bench struct {
	t   *testing.T
	dir string
	log bytes.Buffer
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, dir: dir}
	if err := os.MkdirAll(filepath.Join(b.root(), ".acphost"), 0o700); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) root() string            { return filepath.Join(b.dir, "ws") }
func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }
func (b *bench) workspace() string       { return filepath.Join(b.root(), ".acphost", "policy.yaml") }

// write replaces a file as editors do.
func (b *bench) write(path, rules string) {
	b.t.Helper()
	if err := os.WriteFile(path+".new", []byte("version: 1\nrules:\n"+rules), 0o600); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) load(settings *permissionv1.Settings) *Files {
	b.t.Helper()
	settings.WorkspacePolicy = ".acphost/policy.yaml"
	f, err := Load(settings, nil, policy.Surroundings{}, slog.New(slog.NewTextHandler(&b.log, nil)))
	if err != nil {
		b.t.Fatal(err)
	}
	return f
}

func (b *bench) access(door permissionv1.Door, name string) *permissionv1.Action {
	path := filepath.Join(b.root(), name)
	return &permissionv1.Action{Kind: "fs.write", Door: door, Roots: []string{b.root()}, ResolvedRoots: []string{b.root()},
		Paths: []*permissionv1.PathAccess{{Path: path, ResolvedPath: path, Access: permissionv1.Access_ACCESS_WRITE, InsideRoots: true}}}
}

func (b *bench) want(f *Files, name string, want permissionv1.Verdict) *permissionv1.DecideResponse {
	b.t.Helper()
	d := f.Decide(b.access(permissionv1.Door_DOOR_CALL, name))
	if d.GetVerdict() != want {
		b.t.Errorf("%s: got %v by %q (%s), want %v", name, d.GetVerdict(), d.GetRule(), d.GetReason(), want)
	}
	return d
}

const (
	allowAll = "  - {id: all, effect: allow, path: [\"${root}/**\"]}\n"
	denyA    = "  - {id: no-a, effect: deny, path: [\"**/a\"]}\n"
	askB     = "  - {id: ask-b, effect: ask, path: [\"**/b\"]}\n"
)

func TestLayers_StrictestRuleWins(t *testing.T) {
	b := newBench(t)
	b.write(b.path("admin.yaml"), denyA)
	b.write(b.path("user.yaml"), allowAll)
	b.write(b.workspace(), askB)
	f := b.load(&permissionv1.Settings{Policy: b.path("user.yaml"), AdminPolicy: b.path("admin.yaml")})
	b.want(f, "a", deny)
	b.want(f, "b", ask)
	b.want(f, "c", allow)
	if notes := strings.Join(f.Notes(), "\n"); !strings.Contains(notes, "user.yaml") || !strings.Contains(notes, "admin.yaml") {
		t.Errorf("the notes are %s", notes)
	}
}

func TestWorkspace_LoosensOnlyIfTrusted(t *testing.T) {
	b := newBench(t)
	b.write(b.path("user.yaml"), "  - {id: read, effect: allow, on: [fs.read], path: [\"${root}/**\"]}\n")
	b.write(b.workspace(), allowAll+denyA)
	settings := &permissionv1.Settings{Policy: b.path("user.yaml"), Trust: b.path("trust.json")}
	f := b.load(settings)
	b.want(f, "a", deny)
	b.want(f, "c", ask)

	data, err := os.ReadFile(b.workspace())
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	store := fmt.Sprintf(`{"files":[{"path":%q,"sha256":%q}]}`, b.workspace(), hex.EncodeToString(sum[:]))
	if err := os.WriteFile(b.path("trust.json"), []byte(store), 0o600); err != nil {
		t.Fatal(err)
	}
	b.want(f, "c", ask) // trust loosens, so it waits
	f = b.load(settings)
	b.want(f, "a", deny)
	b.want(f, "c", allow)

	b.write(b.workspace(), allowAll) // other content: it is not what was trusted
	b.want(f, "a", deny)
	b.want(f, "c", ask)
}

func TestLayers_WithoutPolicy(t *testing.T) {
	b := newBench(t)
	f := b.load(&permissionv1.Settings{})
	if d := b.want(f, "a", allow); d.GetRule() != policy.NoPolicy {
		t.Errorf("the rule is %q", d.GetRule())
	}
	if d := f.Decide(b.access(permissionv1.Door_DOOR_REQUEST, "a")); d.GetVerdict() != ask {
		t.Errorf("a question was answered %v", d)
	}
	b.write(b.workspace(), denyA+allowAll)
	b.want(f, "a", deny)
	b.want(f, "c", allow) // by no policy, not by the workspace's rule
	if d := f.Decide(b.access(permissionv1.Door_DOOR_REQUEST, "c")); d.GetVerdict() != ask {
		t.Errorf("the workspace answered a question: %v", d)
	}
}

func TestReload_LoosensOnlyAfterReload(t *testing.T) {
	b := newBench(t)
	b.write(b.path("user.yaml"), allowAll)
	settings := &permissionv1.Settings{Policy: b.path("user.yaml")}
	f := b.load(settings)
	b.want(f, "a", allow)
	b.write(b.path("user.yaml"), allowAll+denyA)
	b.want(f, "a", deny)
	if e := f.Explain(b.access(permissionv1.Door_DOOR_CALL, "a")); e.GetDecision().GetVerdict() != deny || len(e.GetConsidered()) != 1 {
		t.Errorf("the explanation is %v", e)
	}
	b.want(f, "b", allow)
	b.write(b.path("user.yaml"), allowAll+askB)
	b.want(f, "a", deny) // what tightened does not loosen again
	b.want(f, "b", ask)
	if err := os.Remove(b.path("user.yaml")); err != nil {
		t.Fatal(err)
	}
	b.want(f, "a", deny)
	b.want(f, "c", allow)
	b.write(b.path("user.yaml"), allowAll)
	b.want(f, "a", deny)
	b.want(b.load(settings), "a", allow)
}

func TestAdmin_NewFileTightensAtOnce(t *testing.T) {
	b := newBench(t)
	b.write(b.path("user.yaml"), allowAll)
	f := b.load(&permissionv1.Settings{Policy: b.path("user.yaml"), AdminPolicy: b.path("admin.yaml")})
	b.want(f, "a", allow)
	b.write(b.path("admin.yaml"), denyA)
	b.want(f, "a", deny)
	b.want(f, "c", allow)
}

func TestReload_InvalidFileIsReportedOnce(t *testing.T) {
	b := newBench(t)
	b.write(b.path("user.yaml"), allowAll)
	f := b.load(&permissionv1.Settings{Policy: b.path("user.yaml")})
	b.write(b.path("user.yaml"), "  - {id: x, efect: deny}\n")
	for range 3 {
		b.want(f, "a", allow)
	}
	if n := strings.Count(b.log.String(), "user.yaml:3:"); n != 1 {
		t.Errorf("it was reported %d times:\n%s", n, b.log.String())
	}
	if _, err := Load(&permissionv1.Settings{Policy: b.path("user.yaml")}, nil, policy.Surroundings{}, slog.New(slog.DiscardHandler)); err == nil ||
		!strings.Contains(err.Error(), "user.yaml:3:") {
		t.Errorf("loading it: %v", err)
	}
}

func TestWorkspace_UnreadableFileAsks(t *testing.T) {
	for name, spoil := range map[string]func(b *bench) error{
		"no rules": func(b *bench) error { return os.WriteFile(b.workspace(), []byte("rules: 5\n"), 0o600) },
		"a fifo":   func(b *bench) error { return syscall.Mkfifo(b.workspace(), 0o600) },
		"a link":   func(b *bench) error { return os.Symlink(b.path("user.yaml"), b.workspace()) },
		"a link in its folder's place": func(b *bench) error {
			if err := os.Mkdir(b.path("elsewhere"), 0o700); err != nil {
				return err
			}
			b.write(b.path("elsewhere/policy.yaml"), allowAll)
			return relink(b, b.path("elsewhere"))
		},
		"a link that leads nowhere in its folder's place": func(b *bench) error { return relink(b, b.path("nowhere")) },
		"a folder":  func(b *bench) error { return os.Mkdir(b.workspace(), 0o700) },
		"too large": func(b *bench) error { return os.WriteFile(b.workspace(), make([]byte, maxFile+1), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.write(b.path("user.yaml"), allowAll+denyA)
			if err := spoil(b); err != nil {
				t.Fatal(err)
			}
			f := b.load(&permissionv1.Settings{Policy: b.path("user.yaml")})
			if d := b.want(f, "c", ask); d.GetRule() != RuleUnreadable || d.GetGrantable() {
				t.Errorf("got %v", d)
			}
			b.want(f, "a", deny)
		})
	}
}

// relink puts a link in the place of the folder of the workspace's rules.
func relink(b *bench, to string) error {
	folder := filepath.Dir(b.workspace())
	return errors.Join(os.Remove(folder), os.Symlink(to, folder))
}

func TestLoad_RejectsInvalidSettings(t *testing.T) {
	b := newBench(t)
	b.write(b.path("open.yaml"), allowAll)
	if err := os.Chmod(b.path("open.yaml"), 0o602); err != nil {
		t.Fatal(err)
	}
	for want, s := range map[string]*permissionv1.Settings{
		"neither an absolute path": {Policy: "policy.yaml"},
		"gone.yaml":                {Policy: b.path("gone.yaml")},
		"all users may write":      {Policy: b.path("open.yaml")},
		"stays below":              {WorkspacePolicy: "../policy.yaml"},
		"regular file":             {Trust: b.dir},
	} {
		if _, err := Load(s, nil, policy.Surroundings{}, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want an error with %q", s, err, want)
		}
	}
	if _, err := Load(&permissionv1.Settings{Policy: "workspace", AdminPolicy: b.path("none")}, nil, policy.Surroundings{Home: b.dir}, slog.New(slog.DiscardHandler)); err != nil {
		t.Error(err)
	}
}

func TestReload_ConstantlyChangingFileAsks(t *testing.T) {
	b := newBench(t)
	b.write(b.path("user.yaml"), allowAll)
	f := b.load(&permissionv1.Settings{Policy: b.path("user.yaml")})
	for i := range maxVersions + 2 {
		b.write(b.path("user.yaml"), fmt.Sprintf("%s  - {id: n%d, effect: deny, path: [\"**/n%d\"]}\n", allowAll, i, i))
		f.Decide(b.access(permissionv1.Door_DOOR_CALL, "c"))
	}
	if d := b.want(f, "c", ask); d.GetRule() != RuleReload {
		t.Errorf("got %v", d)
	}
	b.want(f, "n0", deny)
}

func TestDecide_RacesWithChanges(t *testing.T) {
	b := newBench(t)
	b.write(b.path("user.yaml"), allowAll+denyA)
	f := b.load(&permissionv1.Settings{Policy: b.path("user.yaml")})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				if d := f.Decide(b.access(permissionv1.Door_DOOR_CALL, "a")); d.GetVerdict() != deny {
					t.Errorf("got %v", d)
				}
			}
		})
	}
	for i := range 10 {
		b.write(b.path("user.yaml"), fmt.Sprintf("%s  - {id: n%d, effect: ask, path: [\"**/n%d\"]}\n", allowAll, i, i))
		b.write(b.workspace(), askB)
	}
	wg.Wait()
}

// again returns the files of a new permd after an unexpected end of the old one.
func (b *bench) again(f *Files, settings *permissionv1.Settings) *Files {
	b.t.Helper()
	state, digest := f.State()
	if sum := sha256.Sum256(state); !bytes.Equal(sum[:], digest) {
		b.t.Error("the digest is not that of the belief")
	}
	f, err := Load(settings, state, policy.Surroundings{}, slog.New(slog.NewTextHandler(&b.log, nil)))
	if err != nil {
		b.t.Fatal(err)
	}
	return f
}

func TestTrust_SurvivesCrash(t *testing.T) {
	b := newBench(t)
	const strict = "  - {id: strict, effect: deny, path: [\"**/x\"]}\n"
	const loose = "  - {id: loose, effect: allow, path: [\"/**\"]}\n"
	settings := &permissionv1.Settings{
		Policy: b.path("user.yaml"), AdminPolicy: b.path("admin.yaml"), WorkspacePolicy: ".acphost/policy.yaml", Trust: b.path("trust"),
	}
	b.write(b.path("user.yaml"), strict)
	f, err := Load(settings, nil, policy.Surroundings{}, slog.New(slog.NewTextHandler(&b.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	x := &permissionv1.Action{
		Kind: "fs.write", Roots: []string{b.root()},
		Paths: []*permissionv1.PathAccess{{Path: b.path("ws/x"), ResolvedPath: b.path("ws/x"), Access: permissionv1.Access_ACCESS_WRITE, InsideRoots: true}},
	}
	verdict := func(want permissionv1.Verdict) {
		t.Helper()
		if got := f.Decide(x); got.GetVerdict() != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	b.write(b.path("user.yaml"), loose)
	b.write(b.workspace(), loose)
	sum := sha256.Sum256([]byte("version: 1\nrules:\n" + loose))
	if err := os.WriteFile(b.path("trust"), fmt.Appendf(nil, `{"files": [{"path": %q, "sha256": "%x"}]}`, b.workspace(), sum), 0o600); err != nil {
		t.Fatal(err)
	}
	f = b.again(f, settings)
	verdict(deny)
	before, _ := f.State()
	verdict(deny)
	if after, _ := f.State(); !bytes.Equal(before, after) {
		t.Error("the state changes without a change of a file")
	}
	b.write(b.path("admin.yaml"), strict) // which was not there
	verdict(deny)
	if err := os.Remove(b.path("admin.yaml")); err != nil {
		t.Fatal(err)
	}
	f = b.again(f, settings)
	verdict(deny)
	if f, err = Load(settings, nil, policy.Surroundings{}, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	verdict(allow)
	t.Run("also that there was too much to keep", func(t *testing.T) {
		for i := range maxVersions {
			b.write(b.path("user.yaml"), fmt.Sprintf("  - {id: r%d, effect: allow, path: [\"/**\"]}\n", i))
			f.Decide(x)
		}
		f = b.again(f, settings)
		if got := f.Decide(x); got.GetRule() != RuleReload {
			t.Errorf("got %v", got)
		}
	})
	t.Run("but an invalid state is rejected", func(t *testing.T) {
		if _, err := Load(settings, []byte("none"), policy.Surroundings{}, slog.New(slog.DiscardHandler)); err == nil {
			t.Error("it was taken")
		}
	})
}

func TestTrust_FileOfUserAndWorkspace(t *testing.T) {
	b := newBench(t)
	b.write(b.workspace(), "  - {id: loose, effect: allow, path: [\"/**\"]}\n")
	settings := &permissionv1.Settings{Policy: b.workspace(), WorkspacePolicy: ".acphost/policy.yaml"}
	f, err := Load(settings, nil, policy.Surroundings{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if got := f.Decide(b.access(permissionv1.Door_DOOR_REQUEST, "a")); got.GetVerdict() != allow {
			t.Errorf("after %d ends: got %v", i, got)
		}
		f = b.again(f, settings)
	}
}
