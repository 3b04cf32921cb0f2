package proc_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/proc"
)

// closedTo runs a shell script behind a wall around files, and returns what it printed.
func closedTo(t *testing.T, script string, closed ...string) string {
	t.Helper()
	var out []byte
	c := proc.Confinement{Unreadable: closed}
	err := proc.Confine(c, func(w proc.Restrictions) error {
		if err := w.CheckUnreadable(c); err != nil {
			return err
		}
		var err error
		out, err = exec.Command("sh", "-c", script).CombinedOutput()
		return err
	})
	if errors.Is(proc.TraceConfineSupported(), proc.ErrUnsupported) {
		if err == nil {
			t.Error("without Landlock, a process was started all the same")
		}
		t.Skip("this kernel has no Landlock that can close files")
	}
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	return string(out)
}

func TestUnreadable_FilesAreClosedToConfinedProcess(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"keys/..1/client.key", "keys/other", "beside/file", "link/file"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("text of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("..1/client.key", filepath.Join(dir, "keys/client.key")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../keys", filepath.Join(dir, "link/keys")); err != nil {
		t.Fatal(err)
	}
	out := closedTo(t, `cd `+dir+`
		for f in keys/client.key keys/..1/client.key link/keys/other /proc/self/root`+dir+`/keys/other /proc/$$/cwd/keys/other; do
			cat $f 2>/dev/null && echo "$f was read"
		done
		ln keys/other beside/other 2>/dev/null && cat beside/other && echo "a link was read"
		mv keys/other beside/moved 2>/dev/null && cat beside/moved && echo "a moved file was read"
		(cat < keys/other) 2>/dev/null && echo "an opened file was read"
		unshare -rm mount --bind keys beside 2>/dev/null && echo mounted
		cat beside/file link/file; echo made > beside/made; cat beside/made
		mv beside/made link/made; cat link/made; cat /etc/passwd >/dev/null && ls keys`, filepath.Join(dir, "keys"))
	if want := "text of beside/filetext of link/filemade\nmade\nclient.key\nother\n"; out != want {
		t.Errorf("it printed %q, want %q", out, want)
	}
}

// aroundKeys is a folder with a key in a folder, a key beside it, and a link to the folder.
func aroundKeys(t *testing.T) (dir string) {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(top, "a/b")
	err = errors.Join(os.MkdirAll(filepath.Join(dir, "keys"), 0o700), os.Mkdir(filepath.Join(dir, "beside"), 0o700),
		os.WriteFile(filepath.Join(dir, "keys/ca.crt"), []byte("secret\n"), 0o600), os.WriteFile(filepath.Join(dir, "key"), []byte("secret\n"), 0o600),
		os.Symlink("keys", filepath.Join(dir, "link")))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestUnreadable_AppliesToFoldersMadeLater(t *testing.T) {
	t.Parallel()
	dir := aroundKeys(t)
	key := filepath.Join(dir, "key")
	// A renewed key replaces the old one under a new name, as a renewal of a Kubernetes Secret does.
	var out []byte
	c := proc.Confinement{Unreadable: []string{key}}
	err := proc.Confine(c, func(w proc.Restrictions) error {
		if err := w.CheckUnreadable(c); err != nil {
			return err
		}
		renewed := make(chan error) // by a thread outside of the wall
		go func() {
			renewed <- errors.Join(os.WriteFile(key+".new", []byte("new"), 0o600), os.Rename(key+".new", key))
		}()
		if err := <-renewed; err != nil {
			return err
		}
		out, _ = exec.Command("sh", "-c", "cat "+key+" 2>/dev/null || echo closed").CombinedOutput()
		return nil
	})
	if proc.TraceConfineSupported() != nil {
		t.Skip("this kernel has no Landlock that can close files")
	}
	if err != nil || string(out) != "closed\n" {
		t.Errorf("it printed %q (%v)", out, err)
	}
}

// TestUnreadable_ProcessCannotOpenFilesForNext: changes by one confined process must not let a later one read the
// closed files, and acphost must not mistake a file of the process for its own.
func TestUnreadable_ProcessCannotOpenFilesForNext(t *testing.T) {
	t.Parallel()
	for name, try := range map[string]struct{ closed, script string }{
		"a file that is written":                   {"keys", "echo mine > keys/ca.crt"},
		"a file that is added to":                  {"keys", "echo mine >> keys/ca.crt"},
		"a file that is emptied":                   {"keys", "truncate -s 0 keys/ca.crt"},
		"a file that is replaced":                  {"keys", "echo mine > beside/f; mv -f beside/f keys/ca.crt; ln -sf ../beside/f keys/ca.crt"},
		"a file that is removed":                   {"keys", "rm -f keys/ca.crt"},
		"a folder that is renamed":                 {"keys", "mv keys moved; mkdir keys"},
		"a folder above that is renamed":           {"keys", "cd ../..; mv a moved; mkdir -p a/b/keys"},
		"a hard link beside it":                    {"key", "ln key other"},
		"a hard link in a folder":                  {"key", "ln key beside/other"},
		"a link to it that is changed":             {"link", "ln -sfn beside link"},
		"a link to it that is replaced":            {"link", "rm link; mkdir link"},
		"a slash at the end":                       {"keys/", "mv keys moved; mkdir keys"},
		"dots on the way":                          {"beside/../link/../keys/.", "mv keys moved; mkdir keys"},
		"a folder above a link that is renamed":    {"../../a/b/link", "cd ../..; mv a moved; mkdir -p a/b/link"},
		"a file in a folder that is moved with it": {"link/ca.crt", "mv keys moved; mkdir keys; echo mine > keys/ca.crt"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := aroundKeys(t)
			closed := dir + "/" + try.closed
			closedTo(t, "exec >/dev/null 2>&1; cd "+dir+"; "+try.script+"; true", closed)
			out := closedTo(t, "cat $(find "+filepath.Dir(filepath.Dir(dir))+" -type f -name '"+map[bool]string{true: "*", false: "ca.crt"}[try.closed == "key"]+"') 2>/dev/null; true", closed)
			file := filepath.Join(dir, "keys/ca.crt")
			if try.closed == "key" {
				file, out = filepath.Join(dir, "key"), strings.Replace(out, "secret\n", "", 1) // keys/ca.crt, which is open here
			}
			if strings.Contains(out, "secret") {
				t.Errorf("the next one reads %q", out)
			}
			if text, err := os.ReadFile(file); err != nil || string(text) != "secret\n" {
				t.Errorf("acphost reads %q (%v)", text, err)
			}
		})
	}
}

func TestUnreadable_ReportsFilesThatStayOpen(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"/", filepath.Join(t.TempDir(), "missing")} {
		c := proc.Confinement{Unreadable: []string{name}}
		err := proc.Confine(c, func(w proc.Restrictions) error { return w.CheckUnreadable(c) })
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	dir := aroundKeys(t)
	if err := os.Link(filepath.Join(dir, "keys/ca.crt"), filepath.Join(dir, "beside/ca.crt")); err != nil {
		t.Fatal(err)
	}
	linked := proc.Confinement{Unreadable: []string{dir + "/keys"}}
	if err := proc.Confine(linked, func(w proc.Restrictions) error { return w.CheckUnreadable(linked) }); err == nil || !strings.Contains(err.Error(), "keys/ca.crt has 2 names") {
		t.Errorf("a file with a hard link: error %v", err)
	}
	twice := proc.Confinement{Unreadable: []string{dir + "/keys", dir + "/keys/ca.crt", dir + "/keys/"}} // a name that is closed twice is one name
	if err := proc.Confine(twice, func(w proc.Restrictions) error { return w.CheckUnreadable(twice) }); err == nil || !strings.Contains(err.Error(), "keys/ca.crt has 2 names") {
		t.Errorf("a file with a hard link, closed twice: error %v", err)
	}
	inside := aroundKeys(t) // both names are closed
	if err := os.Link(filepath.Join(inside, "keys/ca.crt"), filepath.Join(inside, "keys/again.crt")); err != nil {
		t.Fatal(err)
	}
	both := proc.Confinement{Unreadable: []string{inside + "/keys"}}
	if err := proc.Confine(both, func(w proc.Restrictions) error { return w.CheckUnreadable(both) }); err != nil && !errors.Is(err, proc.ErrUnsupported) {
		t.Errorf("a file with both names inside: error %v", err)
	}
	c := proc.Confinement{Unreadable: []string{"/etc"}, NoLandlock: true}
	if err := proc.Confine(c, func(w proc.Restrictions) error { return w.CheckUnreadable(c) }); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without Landlock: error %v", err)
	}
}
