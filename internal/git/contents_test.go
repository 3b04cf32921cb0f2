package git_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/git"
)

func TestContentsOf_Commands(t *testing.T) {
	for line, want := range map[string]string{
		"git status -s": "", "git log": "", "git log --oneline -5": "", "git log --stat -n 3": "", "git log --name-only --format=%h": "",
		"git --no-pager log --oneline": "", "git show -s HEAD": "", "git show --stat HEAD": "", "git diff --stat": "", "git diff --name-only HEAD~1": "",
		"git branch -vv": "", "git blame a": "", "git ls-files -s": "", "git cat-file -t abcd": "", "git cat-file -p HEAD": "untold", "git stash list": "",
		"git rev-parse HEAD:a": "", "git reflog": "", "git cat-file --batch-check": "",
		"git diff": "index", "git diff -- a": "index", "git grep x": "index", "git grep -e x -A 3": "index", "git diff-files -p": "index",
		"git log -p": "history", "git log -U3": "history", "git log -S x --oneline": "history", "git log --cc": "history", "git log -1 -u": "history",
		"git diff HEAD": "history", "git diff --cached": "history", "git diff --stat -p HEAD": "history", "git diff --check HEAD": "history",
		"git show": "history", "git show HEAD --oneline": "history", "git grep x HEAD": "history", "git whatchanged -p": "history", "git show --stat -p": "history",
		"git log -p --follow a": "history untold", "git log -p --full-diff a": "history untold", "git log -L 1,2:a": "history untold",
		"git show --stdin": "history untold", "git stash show": "history untold", "git stash show --stat": "", "git stash list -p": "history untold",
		"git reflog -p": "history untold", "git status -v": "history untold", "git status -sv": "history untold", "git range-diff a b c": "history untold",
		"git for-each-ref --format=%(*raw)": "history untold", "git show -U abcd": "history object abcd", "git show --pretty abcd": "history object abcd",
		"git diff -U abcd a": "history object abcd", "git cat-file -p -- abcd": "object abcd untold", "git cat-file -- blob HEAD:a": "named a untold",
		"git diff HEAD:a HEAD~1:a": "history untold", "git grep x HEAD:a": "history untold", "git for-each-ref --format=%(raw)": "history untold",
		"git log -p --format %h:%s": "history", "git grep a:b": "index", "git log -p --grep fix:it": "history",
		"git show HEAD:a/b": "named a/b", "git show HEAD^{/x:y}:a": "named a", "git show :a": "named a", "git show :2:a": "named a",
		"git show :/a:b": "history", "git show HEAD HEAD:a": "history named a", "git show HEAD@{1.day:ago}:./a": "named ./a", "git cat-file blob HEAD:a": "named a untold",
		"git show abcd123": "history object abcd123", "git show ABCD^{tree}": "history object abcd", "git show v1-2-gabcd123": "history object abcd123",
		"git show -s abcd": "object abcd", "git diff abcd..ef01~2": "history object abcd object ef01", "git log -p ^abcd": "history object abcd",
		"git diff abcd...": "history object abcd", "git cat-file -p abcd": "object abcd untold", "git log --oneline abcd": "",
		"git cat-file --batch": "nameless", "git cat-file --batch-all-objects --batch": "nameless", "git push": "history untold", "git": "",
	} {
		c := git.ContentsOf(strings.Fields(line))
		var got []string
		for text, is := range map[string]bool{"index": c.Index, "history": c.History, "nameless": c.Nameless} {
			if is {
				got = append(got, text)
			}
		}
		for _, name := range c.Named {
			got = append(got, "named "+name)
		}
		for _, id := range c.Objects {
			got = append(got, "object "+id)
		}
		if c.Untold {
			got = append(got, "untold")
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
		if c.Any() != (want != "" && want != "untold") {
			t.Errorf("%s: any is %t", line, c.Any())
		}
	}
}

func TestPathspecs_InsertsAfterRevisions(t *testing.T) {
	exists := func(word string) bool { return word == "a" || word == "5" }
	for line, want := range map[string]string{
		"git log -p": "git log -p -- !", "git log -p HEAD": "git log -p HEAD -- !", "git log -p a": "git log -p -- a !", "git log -p HEAD a b": "git log -p HEAD -- a b !",
		"git log -p -n 5 HEAD": "git log -p -n 5 HEAD -- !", "git log -p -- a": "git log -p -- a !", "git grep a": "git grep a -- !", "git grep -e x a": "git grep -e x -- a !",
		"git diff *.go": "git diff -- *.go !", "git log -p --author": "", "git": "",
	} {
		got, ok := git.Pathspecs(strings.Fields(line), []string{"!"}, exists)
		if ok != (want != "") || strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, %t", line, got, ok)
		}
	}
}

// TestHistory_AgreesWithGit compares the names that History reads with the names that git lists.
func TestHistory_AgreesWithGit(t *testing.T) {
	dir := t.TempDir()
	sh := func(lines string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", lines)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=n", "GIT_AUTHOR_EMAIL=e",
			"GIT_COMMITTER_NAME=n", "GIT_COMMITTER_EMAIL=e")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", lines, err, out)
		}
		return string(out)
	}
	sh(`git init -q .; mkdir -p d/e
		for i in 1 2 3 4 5 6 7 8; do for j in 1 2 3 4 5 6 7 8 9; do echo $i$j >d/e/file$i$j; done; git add .; git commit -qm $i; git rm -q d/e/file${i}1; done
		git gc -q; for i in 1 2 3; do echo $i >d/loose$i; git add .; git commit -qm $i; done; git tag -m x annotated`)
	if deltas := sh("git verify-pack -v .git/objects/pack/*.idx | awk '$2 == \"tree\" && NF > 5' | wc -l"); strings.TrimSpace(deltas) == "0" {
		t.Fatal("no folder is made of another in the pack, so that this is not tested")
	}
	want := map[string]bool{}
	for name := range strings.FieldsSeq(sh("for c in $(git log --all --format=%H); do git ls-tree -r -t --name-only $c; done")) {
		want[filepath.Base(name)] = true
	}
	h, got, rounds := git.NewHistory(dir+"/.git"), map[string]bool{}, 0
	for until := time.Now().Add(-time.Hour); !h.Read(until, func(name []byte) { got[string(name)] = true }); rounds++ {
		until = time.Now().Add(time.Millisecond) // the first round has no time
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || len(want) < 50 || rounds == 0 {
		t.Errorf("after %d rounds: got %v\nwant %v", rounds, got, want)
	}
	again := 0
	if !h.Read(time.Now().Add(time.Minute), func([]byte) { again++ }) || again > 0 {
		t.Errorf("%d names are read again", again)
	}
	sh("echo x >d/later; git add .; git commit -qm later")
	if !h.Read(time.Now().Add(time.Minute), func(name []byte) { got[string(name)] = true }) || !got["later"] {
		t.Error("what comes later is not read")
	}
	for name, want := range map[string]string{"HEAD": "commit", "HEAD~5": "commit", "HEAD:d/e": "tree", "HEAD~5:d/e": "tree", "HEAD:d/e/file12": "blob", "annotated": "tag"} {
		id := strings.TrimSpace(sh("git rev-parse " + name))
		for _, prefix := range []string{id, id[:12]} {
			if got, err := h.Types(prefix); err != nil || !slices.Equal(got, []string{want}) {
				t.Errorf("%s: got %q (%v), want %s", name, got, err, want)
			}
		}
	}
	if got, err := h.Types("0000000"); err != nil || len(got) > 0 {
		t.Errorf("no object: got %q (%v)", got, err)
	}
}

func FuzzPack_ReadsWithinBounds(f *testing.F) {
	f.Add([]byte("PACK\x00\x00\x00\x02"), uint32(12))
	f.Add([]byte{0x60, 0x01, 0x78, 0x9c}, uint32(0))
	f.Fuzz(func(t *testing.T, data []byte, offset uint32) {
		dir := t.TempDir()
		if err := os.MkdirAll(dir+"/objects/pack", 0o700); err != nil {
			t.Fatal(err)
		}
		index := append([]byte("\377tOc\x00\x00\x00\x02"), make([]byte, 1024)...)
		for i := range 256 {
			index[8+4*i+3] = 1
		}
		index = append(index, make([]byte, 24)...)
		index = append(index, byte(offset>>24), byte(offset>>16), byte(offset>>8), byte(offset))
		for name, content := range map[string][]byte{"p.idx": index, "p.pack": data} {
			if err := os.WriteFile(dir+"/objects/pack/"+name, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		h := git.NewHistory(dir)
		h.Read(time.Now().Add(time.Second), func([]byte) {})
		_, _ = h.Types("0000")
	})
}
