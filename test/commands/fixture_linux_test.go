package commands

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// fixture is a workspace, a folder outside of it and a home, with texts in them that no command may show.
type fixture struct {
	base, ws, outside, home string

	canary string // in files outside of the workspace
	secret string // in the workspace's .env
	listed string // the name of a file outside of the workspace
	port   int    // somebody listens there
	victim int    // a process
}

// basics are the files of every workspace that git knows.
var basics = map[string]string{
	"README.md":               "# Project\n\nTODO: say more.\n",
	"notes.txt":               "beta\nalpha\ngamma\n",
	"main.go":                 "package main\n\n// TODO: work\nfunc main() {}\n",
	"src/a.txt":               "one\ntwo\n",
	"src/b.txt":               "three\nfour\n",
	"docs/guide.md":           "# Guide\n\nSee lib/util.ts.\n",
	"lib/app.ts":              "import { add } from './util';\n\nconsole.log(add(1, 2)); // TODO: more\n",
	"lib/util.ts":             "export function add(a: number, b: number): number {\n  return a + b;\n}\n",
	"lib/util.test.ts":        "import { add } from './util';\n\nif (add(1, 2) !== 3) throw new Error('add');\n",
	"go.mod":                  "module example.com/project\n\ngo 1.21\n",
	"pkg/store/store.go":      "// Package store keeps things.\npackage store\n\n// Store keeps.\ntype Store struct{}\n\nfunc New() *Store { return &Store{} }\n",
	"pkg/store/store_test.go": "package store\n\nimport \"testing\"\n\nfunc TestNew(t *testing.T) { New() }\n",
	"package.json":            "{\"name\": \"project\", \"scripts\": {\"test\": \"touch ran\", \"start\": \"touch ran\"}}\n",
	"tool":                    "#!/bin/sh\n: > ran\n",
	"script.sh":               "touch ran\n",
	".gitignore":              ".env\n",
}

// repository makes the folder .git that fixtures get a copy of: two commits of basics.
func repository(t testing.TB) string {
	t.Helper()
	s := fixture{base: t.TempDir()}
	s.ws, s.home = filepath.Join(s.base, "ws"), filepath.Join(s.base, "home")
	s.write(t, "../home/.gitconfig", gitconfig)
	s.write(t, "notes.txt", "alpha\n")
	s.shell(t, "git init -q -b main . && git add . && git commit -q -m 'Begin'")
	for name, text := range basics {
		s.write(t, name, text)
	}
	s.shell(t, "git add . && git commit -q -m 'Add the rest' && git tag v1 && rm -rf .git/hooks")
	return filepath.Join(s.ws, ".git")
}

const gitconfig = "[user]\n\tname = n\n\temail = e@example.com\n"

// newFixture makes a fixture in a folder. home empty: the fixture has its own.
func newFixture(t testing.TB, base, home, git string) *fixture {
	t.Helper()
	s := &fixture{
		base: base, ws: filepath.Join(base, "ws"), outside: filepath.Join(base, "outside"), home: home,
		canary: "outside" + token(), secret: "secret" + token(), listed: "listed" + token(),
	}
	if home == "" {
		s.home = filepath.Join(base, "home")
		s.furnish(t)
	}
	for name, text := range basics {
		s.write(t, name, text)
	}
	s.write(t, ".env", s.secret+"=KEY\n")
	s.write(t, "sub/keep", "")
	s.write(t, "empty/", "")
	s.write(t, "../outside/canary.txt", s.canary+"\n")
	s.write(t, "../outside/sub/deep.txt", s.canary+"\n")
	s.write(t, "../outside/"+s.listed, "")
	s.write(t, "../tmp/", "")
	if err := os.CopyFS(filepath.Join(s.ws, ".git"), os.DirFS(git)); err != nil {
		t.Fatal(err)
	}
	return s
}

// memory is the folder that Linux keeps in memory, for programs.
const memory = "/dev/shm"

// folder makes a folder for a fixture that one line changes, and removes it after the test. It is in memory if programs may run
// there and 1 GiB is free, else it is a temporary one of the test. ext4 without a journal does not use an inode again that was
// freed in the last minutes, and searches for another: for 1,700 fixtures, this takes longer than all else.
func folder(t testing.TB) string {
	t.Helper()
	var in unix.Statfs_t
	if unix.Statfs(memory, &in) != nil || in.Type != unix.TMPFS_MAGIC || in.Flags&unix.ST_NOEXEC != 0 || in.Bavail*uint64(in.Bsize) < 1<<30 {
		return t.TempDir()
	}
	base, err := os.MkdirTemp(memory, "acphost-fixture-") //nolint:usetesting // t.TempDir is on the disk
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(base); err != nil {
			t.Errorf("the fixture cannot be removed: %v", err)
		}
	})
	return base
}

// furnish puts into the home what commands may look for there.
func (s *fixture) furnish(t testing.TB) {
	t.Helper()
	for name, text := range map[string]string{
		".gitconfig": gitconfig, "notes.txt": s.canary + "\n", ".ssh/id_ed25519": s.canary + "\n",
		".config/go/telemetry/mode": "off", // or the go command leaves a process behind that writes there after it has ended
	} {
		s.writeAt(t, filepath.Join(s.home, name), text, false)
	}
}

// prepare adds what an entry needs.
func (s *fixture) prepare(t testing.TB, e *entry) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(e.Files)) {
		s.write(t, s.expand(name), s.expand(e.Files[name]))
	}
	if e.Setup != "" {
		s.shell(t, s.expand(e.Setup))
	}
}

// expand replaces the names of what is in the fixture.
func (s *fixture) expand(text string) string {
	return strings.NewReplacer("${ws}", s.ws, "${outside}", s.outside, "${home}", s.home, "${port}", strconv.Itoa(s.port),
		"${victim}", strconv.Itoa(s.victim), "${canary}", s.canary, "${secret}", s.secret, "${pad}", strings.Repeat(" ", 6000)).Replace(text)
}

func (s *fixture) expandAll(texts []string) []string {
	var all []string
	for _, text := range texts {
		all = append(all, s.expand(text))
	}
	return all
}

// cwd is the folder in which an entry's line runs.
func (s *fixture) cwd(e *entry) string {
	if e.Cwd == "" {
		return s.ws
	}
	return s.expand(e.Cwd)
}

// write writes a file into the workspace; see entry.Files.
func (s *fixture) write(t testing.TB, name, text string) {
	t.Helper()
	s.writeAt(t, filepath.Join(s.ws, name), text, strings.HasSuffix(name, "/"))
}

func (s *fixture) writeAt(t testing.TB, name, text string, folder bool) {
	t.Helper()
	parent := name
	if !folder {
		parent = filepath.Dir(name)
	}
	err := os.MkdirAll(parent, 0o755)
	target, link := strings.CutPrefix(text, "-> ")
	switch {
	case err != nil || folder:
	case link:
		err = os.Symlink(target, name)
	case strings.HasPrefix(text, "#!"):
		if err = os.WriteFile(name, []byte(text), 0o600); err == nil { // #nosec G306 -- it is to be run
			err = os.Chmod(name, 0o755) // #nosec G302 -- likewise
		}
	default:
		err = os.WriteFile(name, []byte(text), 0o644) // #nosec G306 -- a workspace's files are no secrets
	}
	if err != nil {
		t.Fatal(err)
	}
}

// environ is the environment of what runs in the fixture without acphost.
func (s *fixture) environ(more ...string) []string {
	return append([]string{
		"PATH=" + searched(), "HOME=" + s.home, "TMPDIR=" + filepath.Join(s.base, "tmp"), "LANG=C.UTF-8", "TERM=dumb",
		"GIT_CONFIG_NOSYSTEM=1",
	}, more...)
}

// searched is PATH without folders of the user's home: what is there may need that home.
func searched() string {
	home, _ := os.UserHomeDir()
	return strings.Join(slices.DeleteFunc(filepath.SplitList(os.Getenv("PATH")), func(dir string) bool {
		return home != "" && strings.HasPrefix(dir, home+"/")
	}), ":")
}

// shell runs lines in the workspace; they must succeed.
func (s *fixture) shell(t testing.TB, lines string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", lines)
	cmd.Dir, cmd.Env = s.ws, s.environ()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", lines, err, out)
	}
}

// digest says what is in the fixture: each file's name, kind, permissions and content, but for git's index and what programs
// keep for themselves in a cache.
func (s *fixture) digest(t testing.TB) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, top := range []string{s.ws, s.outside, s.home} {
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			if path == filepath.Join(s.ws, ".git", "index") {
				return nil
			}
			if d.IsDir() && strings.HasPrefix(path, s.home) {
				if name := strings.TrimPrefix(path, s.home); slices.Contains([]string{"/.cache", "/.npm"}, name) {
					return fs.SkipDir
				}
				return nil
			}
			what := info.Mode().String()
			switch {
			case info.Mode().IsRegular():
				content, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				what += fmt.Sprintf(" %x", sha256.Sum256(content))
			case info.Mode()&fs.ModeSymlink != 0:
				target, err := os.Readlink(path)
				if err != nil {
					return err
				}
				what += " " + target
			}
			all[strings.TrimPrefix(path, s.base)] = what
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// changed are the names that two digests differ in.
func changed(before, after map[string]string) []string {
	names := map[string]bool{}
	for name, what := range before {
		if after[name] != what {
			names[name] = true
		}
	}
	for name, what := range after {
		if before[name] != what {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// token is text that nothing else contains, of letters that no program changes.
func token() string {
	var raw [12]byte
	_, _ = rand.Read(raw[:]) // never fails
	for i, b := range raw {
		raw[i] = 'a' + b%26
	}
	return string(raw[:])
}
