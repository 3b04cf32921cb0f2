package programs_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/paths"
	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	"github.com/acphost/acphost/sdk/programs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// look calls Look, and checks that a Resolver with a snapshot returns the same results, unless a file has
// changed.
func look(t *testing.T, r programs.Resolver, commands []*acpv1.SimpleCommand) []*acpv1.Found {
	t.Helper()
	want := r.Look(commands)
	r.Seen = paths.NewCache()
	for range 2 {
		if got := r.Look(commands); !slices.EqualFunc(got, want, func(a, b *acpv1.Found) bool { return proto.Equal(a, b) }) {
			t.Errorf("by what has been seen: %v, want %v", got, want)
		}
	}
	return want
}

func TestFind_ReturnsSameProgramAgain(t *testing.T) {
	system, work := machine(t)
	r := programs.Resolver{Environ: []string{"PATH=" + work + "/bin:" + system}, Roots: []string{work}, Seen: paths.NewCache()}
	if got, want := r.Find("ls", work), system+"/ls"; got != want {
		t.Fatalf("ls is %s, want %s", got, want)
	}
	if err := os.Chmod(work+"/bin/ls", 0o700); err != nil {
		t.Fatal(err)
	}
	if got, want := r.Find("ls", work), system+"/ls"; got != want {
		t.Errorf("the same question finds another program: %s, want %s", got, want)
	}
	next := r
	for _, next.Seen = range []*paths.Cache{paths.NewCache(), nil} {
		if got, want := next.Find("ls", work), work+"/bin/ls"; got != want {
			t.Errorf("the next question finds %s, want %s", got, want)
		}
	}
	if got, want := r.Find("git", work), work+"/bin/git"; got != want {
		t.Errorf("another name means %s, want %s", got, want)
	}
	r.Environ = []string{"PATH=" + work + "/bin"}
	if got := r.Find("ls", work); got != "" {
		t.Errorf("with another PATH, and what was seen, ls is %s", got)
	}
}

// machine is a system's folder and a workspace, with some programs in each.
func machine(t *testing.T) (system, work string) {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	system, work = base+"/system", base+"/work"
	for name, text := range map[string]string{
		"system/ls": "\x7fELF\x00", "system/env": "\x7fELF\x00", "system/egrep": "#!/bin/sh\n", "system/rg": "\x7fELF\x00",
		"system/odd": "#!" + work + "/bin/interpreter\n", "work/bin/git": "\x7fELF\x00", "work/bin/interpreter": "\x7fELF\x00",
		"work/tool": "\x7fELF\x00",
	} {
		file := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"system/led": "../work/tool", "system/through": "../work/back", "work/back": "../system/ls"} {
		if err := os.Symlink(to, filepath.Join(base, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(work+"/bin/ls", nil, 0o600); err != nil { // not executable
		t.Fatal(err)
	}
	return system, work
}

func TestFind_FollowsPATH(t *testing.T) {
	system, work := machine(t)
	for _, c := range []struct {
		name, path    string
		argv, under   []string
		shell         bool
		want          string // the path; "builtin", "missing"
		inside        bool
		doubt         string
		wrapperInside bool
	}{
		{name: "the system's", path: system, argv: []string{"ls"}, want: system + "/ls"},
		{name: "past a file that cannot be executed", path: work + "/bin:" + system, argv: []string{"ls"}, want: system + "/ls"},
		{name: "the workspace's, by PATH", path: work + "/bin:" + system, argv: []string{"git"}, want: work + "/bin/git", inside: true},
		{name: "the workspace's, by a relative PATH", path: "bin:" + system, argv: []string{"git"}, want: work + "/bin/git", inside: true},
		{name: "the workspace's, by an empty folder", path: ":" + system, argv: []string{"tool"}, want: work + "/tool", inside: true},
		{name: "a link into the workspace", path: system, argv: []string{"led"}, want: system + "/led", inside: true},
		{name: "a link through the workspace", path: system, argv: []string{"through"}, want: system + "/through", inside: true},
		{name: "an interpreter of the workspace", path: system, argv: []string{"odd"}, want: system + "/odd", inside: true},
		{name: "a script where PATH has the workspace", path: system + ":" + work + "/bin", argv: []string{"egrep"}, want: system + "/egrep", doubt: "script"},
		{name: "a script where it has not", path: system, argv: []string{"egrep"}, want: system + "/egrep"},
		{name: "a builtin", path: work + "/bin", argv: []string{"cd", "x"}, shell: true, want: "builtin"},
		{name: "a builtin without a shell", path: system, argv: []string{"cd", "x"}, want: "missing"},
		{name: "a builtin's name after env", path: system, argv: []string{"echo"}, under: []string{"env"}, shell: true, want: "missing"},
		{name: "one that is not there", path: system, argv: []string{"jest"}, shell: true, want: "missing"},
		{name: "one that can be put there", path: system + ":" + work + "/bin", argv: []string{"jest"}, shell: true, want: "missing", doubt: work + "/bin"},
		{name: "one that can be put where the line runs", path: system + ":", argv: []string{"jest"}, shell: true, want: "missing", doubt: "PATH has ., a folder"},
		{name: "one that is not there by its path", path: "", argv: []string{"./jest"}, want: "missing"},
		{name: "one that a shell finds without a PATH", path: "", argv: []string{"jest"}, shell: true, want: "missing", doubt: "no PATH"},
		{name: "a wrapper of the workspace", path: work + ":" + system, argv: []string{"ls"}, under: []string{"tool"}, shell: true, want: system + "/ls", wrapperInside: true},
		{name: "rg with settings of the workspace", path: system, argv: []string{"rg"}, want: system + "/rg", doubt: "RIPGREP_CONFIG_PATH"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := programs.Resolver{Environ: []string{"PATH=" + c.path, "RIPGREP_CONFIG_PATH=rc"}, Roots: []string{work}}
			got := look(t, s, []*acpv1.SimpleCommand{{Argv: c.argv, Wrappers: c.under, Cwd: work, Shell: c.shell}})[0]
			path := got.GetProgram().GetPath()
			if got.GetProgram().GetBuiltin() {
				path = "builtin"
			}
			if got.GetProgram().GetMissing() {
				path = "missing"
			}
			if path != c.want || got.GetProgram().GetInsideRoots() != c.inside || !strings.Contains(got.GetProgram().GetDoubt(), c.doubt) ||
				c.doubt == "" && got.GetProgram().GetDoubt() != "" {
				t.Errorf("got %v, want %q, inside %t, doubt %q", got.GetProgram(), c.want, c.inside, c.doubt)
			}
			if workspace := strings.Contains(got.GetProgram().GetDoubt(), "workspace"); got.GetProgram().GetDoubtInsideRoots() != workspace {
				t.Errorf("doubt_inside_roots is %t", got.GetProgram().GetDoubtInsideRoots())
			}
			if len(got.GetWrapperPrograms()) != len(c.under) || len(c.under) > 0 && got.GetWrapperPrograms()[0].GetInsideRoots() != c.wrapperInside {
				t.Errorf("the wrappers: %v", got.GetWrapperPrograms())
			}
		})
	}
}

func TestLook_RepositoryOfRoot(t *testing.T) {
	_, work := machine(t)
	for _, dir := range []string{"", "nested", "bare"} {
		at := filepath.Join(work, dir)
		if dir != "bare" {
			at = filepath.Join(at, ".git")
		}
		for _, name := range []string{"HEAD", "objects", "refs"} {
			if err := os.MkdirAll(filepath.Join(at, name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		dir    string
		env    []string
		atRoot bool
		doubt  bool
	}{
		{dir: work, atRoot: true}, {dir: work + "/bin", atRoot: true}, {dir: work + "/nested"}, {dir: work + "/bare"}, {dir: "", doubt: true},
		{dir: work, env: []string{"GIT_DIR=nested/.git"}, doubt: true}, {dir: work, env: []string{"GIT_EXEC_PATH=/x"}, doubt: true},
	} {
		s := programs.Resolver{Environ: append([]string{"PATH=/nowhere"}, c.env...), Roots: []string{work}}
		got := look(t, s, []*acpv1.SimpleCommand{{Argv: []string{"git", "status"}, Cwd: c.dir}})[0].GetRepository()
		if got.GetAtRoot() != c.atRoot || (got.GetDoubt() != "") != c.doubt {
			t.Errorf("in %q with %q: %v", c.dir, c.env, got)
		}
	}
}

func TestLook_DoubtsEverythingWithoutEnvironment(t *testing.T) {
	s := programs.Resolver{Roots: []string{"/w"}}
	got := look(t, s, []*acpv1.SimpleCommand{{Argv: []string{"git", "status"}, Cwd: "/w"}})[0]
	if got.GetProgram().GetDoubt() == "" || got.GetRepository().GetDoubt() == "" {
		t.Errorf("got %v", got)
	}
}
