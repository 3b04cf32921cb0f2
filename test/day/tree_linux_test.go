package day

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// tree has the files of a place, by path: the mode, and a hash of the content.
type tree map[string]entry

type entry struct {
	mode    fs.FileMode
	content string
}

// unseen are files and folders of a place whose contents differ with time or by chance, or that are acphost's.
var unseen = []string{
	"config", "home/run", "home/tmp", "home/.cache", "home/.npm", "home/go", "home/.config/go/telemetry", "home/.config/acphost", "home/.local/state/acphost",
	"ws/target/.rustc_info.json",
}

// tree reads all that lies in the place. Objects and indexes of git repositories are compared by what they have, since
// how they are stored differs from run to run.
func (p *place) tree(t testing.TB) tree {
	t.Helper()
	all := tree{}
	err := filepath.WalkDir(p.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(p.root, path)
		info, err := d.Info()
		switch {
		case err != nil:
			return err
		case slices.Contains(unseen, name) && d.IsDir():
			return fs.SkipDir
		case slices.Contains(unseen, name):
			return nil
		}
		content, err := contentOf(path, info)
		all[name] = entry{info.Mode(), content}
		if err == nil && isObjects(path, info) {
			return fs.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// contentOf returns a hash of what a file holds, the target of a link, and the names of a repository's objects and
// indexed files.
func contentOf(path string, info fs.FileInfo) (string, error) {
	switch {
	case isObjects(path, info):
		return git(filepath.Dir(path), "", "cat-file", "--batch-all-objects", "--batch-check")
	case info.Mode()&fs.ModeSymlink != 0:
		return os.Readlink(path)
	case !info.Mode().IsRegular():
		return "", nil
	}
	data, err := os.ReadFile(path)
	if err == nil && info.Name() == "index" && bytes.HasPrefix(data, []byte("DIRC")) {
		return git(filepath.Dir(path), path, "ls-files", "--stage", "-t", "-v")
	}
	return hash(data), err
}

// isObjects reports whether a folder has the objects of a repository.
func isObjects(path string, info fs.FileInfo) bool {
	return info.IsDir() && info.Name() == "objects" && exists(path, "..", "HEAD") && exists(path, "..", "refs")
}

func exists(parts ...string) bool {
	_, err := os.Lstat(filepath.Join(parts...))
	return err == nil
}

func hash(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

// git reads a repository, by its folder and an index of it.
func git(dir, index string, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"--git-dir=" + dir, "--work-tree=" + dir, "-c", "core.fsmonitor=false"}, args...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1")
	if index != "" {
		cmd.Env = append(cmd.Env, "GIT_INDEX_FILE="+index)
	}
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git --git-dir=%s %q: %w", dir, args, err)
	}
	return string(out), nil
}

// Contents of entries that differ from run to run.
const (
	anyContent = "any" // it is there each time
	mayBeThere = "may be there"
)

// stable returns what two runs without acphost have in common: times, keys and random names differ.
func stable(a, b tree) tree {
	both := maps.Clone(a)
	for name, other := range b {
		switch one, is := a[name]; {
		case !is:
			both[name] = entry{other.mode, mayBeThere}
		case one != other:
			both[name] = entry{one.mode, anyContent}
		}
	}
	for name, one := range a {
		if _, is := b[name]; !is {
			both[name] = entry{one.mode, mayBeThere}
		}
	}
	return both
}

// difference returns the paths in which a tree differs from a stable one, with "-" before one that is missing, "+"
// before one that is new, and "!" before one with other content or another mode.
func difference(want, got tree) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		w := want[name]
		g, has := got[name]
		switch {
		case w.content == mayBeThere:
		case !has:
			names = append(names, "-"+name)
		case w.mode != g.mode || w.content != g.content && w.content != anyContent:
			names = append(names, "!"+name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, is := want[name]; !is {
			names = append(names, "+"+name)
		}
	}
	return names
}
