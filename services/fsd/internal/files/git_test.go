package files

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestGit_OwnFilesAreReadOnly(t *testing.T) {
	ws := workspace(t)
	put(t, ws+"/.git/config", "config")
	put(t, ws+"/store/HEAD", "ref: x")
	put(t, ws+"/store/objects/x", "")
	put(t, ws+"/store/refs/x", "")
	link(t, ".git", ws+"/alias")
	link(t, "store", ws+"/shop")
	d, b := New(), in(ws)
	for _, name := range []string{"/.git/config", "/.git/hooks/new", "/alias/config", "/sub/.git", "/.GIT/config", "/store/config", "/shop/hooks/x", "/store/HEAD"} {
		_, err := write(d, b, ws+name, "x")
		wantKind(t, err, Protected)
		if err != nil && !strings.Contains(err.Error(), "git") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := read(d, b, ws+"/.git/config"); err != nil {
		t.Errorf("reading: %v", err)
	}
	for _, name := range []string{"/.gitignore", "/config", "/HEAD", "/store/work/file"} {
		if _, err := write(d, b, ws+name, "x"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestGit_ConcurrentWritesMakeNoRepository(t *testing.T) {
	ws := workspace(t)
	d, b := New(), in(ws)
	for i := range 50 {
		dir := filepath.Join(ws, fmt.Sprint("bare", i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		failed := make(chan error, 3)
		for _, name := range []string{"/HEAD", "/objects/x", "/refs/x"} {
			all.Go(func() {
				if _, err := write(d, b, dir+name, "x"); err != nil {
					failed <- err
				}
			})
		}
		all.Wait()
		if len(failed) != 1 {
			t.Fatalf("%d of three writes that make a repository were refused, want one", len(failed))
		}
	}
}

func TestGit_OwnFilesUnderOtherNames(t *testing.T) {
	outer := workspace(t)
	ws := outer + "/ws"
	put(t, ws+"/nested/deep/.git/config", "config")
	put(t, ws+"/store/HEAD", "ref: x")
	put(t, ws+"/store/objects/x", "")
	put(t, ws+"/store/refs/x", "")
	put(t, ws+"/store/hooks/run", "hook")
	put(t, ws+"/plain", "plain")
	put(t, outer+"/else/.git/config", "config")
	for name, to := range map[string]string{
		"/a": "/nested/deep/.git/config", "/b": "/store/hooks/run", "/c": "/plain", "/d": "/../else/.git/config",
	} {
		if err := os.Link(ws+to, ws+name); err != nil {
			t.Fatal(err)
		}
	}
	d, b := New(), in(ws)
	for _, name := range []string{"/a", "/b"} {
		_, err := write(d, b, ws+name, "x")
		wantKind(t, err, Protected)
	}
	done, err := write(d, b, ws+"/c", "x")
	if err != nil || contentOf(t, ws+"/plain") != "x" || len(done.Notes) != 1 {
		t.Errorf("a file with two names in the workspace: %v, %q", err, done.Notes)
	}
	done, err = write(d, b, ws+"/d", "x")
	if err != nil || contentOf(t, ws+"/d") != "x" || contentOf(t, outer+"/else/.git/config") != "config" || len(done.Notes) != 1 {
		t.Errorf("a file with a name elsewhere: %v, %q; that name holds %q", err, done.Notes, contentOf(t, outer+"/else/.git/config"))
	}
	if got := contentOf(t, ws+"/nested/deep/.git/config") + contentOf(t, ws+"/store/hooks/run"); got != "confighook" {
		t.Errorf("git's own: %q", got)
	}
}

func TestGit_RootInsideRepositoryFolder(t *testing.T) {
	ws := workspace(t)
	put(t, ws+"/.git/hooks/x.sample", "")
	put(t, ws+"/store/HEAD", "ref: x")
	put(t, ws+"/store/objects/x", "")
	put(t, ws+"/store/refs/x", "")
	put(t, ws+"/store/hooks/x.sample", "")
	link(t, ".git/hooks", ws+"/elsewhere")
	d := New()
	for root, names := range map[string][]string{
		"/.git/hooks": {"/pre-commit", "/sub/new"}, "/.git": {"/config", "/new", "/hooks/x"}, "/elsewhere": {"/pre-commit", "/x.sample"},
		"/store/hooks": {"/pre-commit", "/x.sample"}, "/store": {"/config", "/hooks/new"},
	} {
		for _, name := range names {
			_, err := write(d, in(ws+root), ws+root+name, "x")
			wantKind(t, err, Protected)
		}
	}
}
