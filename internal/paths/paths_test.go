package paths

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

func TestReal_ResolvesLinksAndMissingFiles(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"a", "b"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{
		"a/link": "../b", "a/absolute": filepath.Join(dir, "b"), "a/nowhere": "../b/new/one", "a/chain": "nowhere",
		"a/outside": "/nowhere/at/all", "a/loop": "loop",
	} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"a": "a", "a/new": "a/new", "a/link": "b", "a/link/x": "b/x", "a/absolute/x/y": "b/x/y",
		"a/nowhere": "b/new/one", "a/chain": "b/new/one", "a/nowhere/below": "b/new/one/below", "a/loop": "a/loop",
	} {
		if got := Real(filepath.Join(dir, name)); got != filepath.Join(dir, want) {
			t.Errorf("Real(%s) = %s, want %s", name, got, want)
		}
	}
	if got := Real(filepath.Join(dir, "a/outside")); got != "/nowhere/at/all" {
		t.Errorf("a link out of the folder leads to %s", got)
	}
}

// TestReal_AgreesWithSystem makes random trees of folders, files and symbolic links, some of which lead to missing
// files.
func TestReal_AgreesWithSystem(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	names := []string{"a", "b", "c", "d"}
	some := func() string {
		path := names[r.IntN(len(names))]
		for range r.IntN(4) {
			path = filepath.Join(path, names[r.IntN(len(names))])
		}
		return path
	}
	var followed, missing int
	for range 100 {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Chdir(dir)
		for range 12 { // what cannot be made, since a file is in its way, is left out
			switch path := some(); r.IntN(6) {
			case 0:
				_ = os.WriteFile(path, nil, 0o600)
			case 1, 2:
				_ = os.MkdirAll(path, 0o700)
			case 3:
				_ = os.Symlink(filepath.Join(dir, some()), path)
			case 4:
				_ = os.Symlink("../"+some(), path)
			case 5:
				_ = os.Symlink(some(), path)
			}
		}
		for range 20 {
			path := some() + []string{"", "/", "/../" + some()}[r.IntN(3)]
			for _, path := range []string{path, dir + "/" + path} {
				got := Real(path)
				if want, err := filepath.EvalSymlinks(path); err == nil {
					if followed++; got != want {
						t.Fatalf("Real(%s) = %s, want %s", path, got, want)
					}
					continue
				} else if !errors.Is(err, fs.ErrNotExist) {
					continue
				}
				if os.MkdirAll(got, 0o700) != nil {
					continue
				}
				want, err := filepath.EvalSymlinks(path)
				if errors.Is(err, fs.ErrNotExist) {
					continue // it goes up from what is missing
				}
				if missing++; err != nil || got != want {
					t.Fatalf("Real(%s) = %s; once that was made, the path leads to %s, %v", path, got, want, err)
				}
			}
		}
	}
	if followed < 300 || missing < 300 {
		t.Errorf("%d paths that exist, and %d that do not, were looked at", followed, missing)
	}
}

func TestBelow(t *testing.T) {
	for _, c := range []struct {
		folder, path string
		want         bool
	}{{"/w", "/w", true}, {"/w", "/w/a", true}, {"/w", "/work", false}, {"/", "/x", true}, {"/w/a", "/w", false}} {
		if got := Below(c.folder, c.path); got != c.want {
			t.Errorf("Below(%s, %s) = %v", c.folder, c.path, got)
		}
	}
}

func TestOfProcess_FollowsLinksIntoProc(t *testing.T) {
	dir := t.TempDir()
	for link, to := range map[string]string{"here": "/proc/self/cwd", "up": "here/..", "in": "/dev/stdin", "sub": ".", "loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]bool{
		"/proc/self/cwd": true, "/tmp/../proc/1/root": true, dir + "/here/x": true, dir + "/sub/up": true, dir + "/sub/x/../here/../y": true,
		dir: false, dir + "/x/y": false, dir + "/loop/x": false, dir + "/sub/sub": false, "/process": false,
	} {
		if got := OfProcess(path); got != want {
			t.Errorf("%s: got %t", path, got)
		}
	}
	if _, err := os.Readlink("/dev/stdin"); err == nil && !OfProcess(dir+"/in") {
		t.Error("standard input is of the process")
	}
}
