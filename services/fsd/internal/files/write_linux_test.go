package files

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// nobody is the id of a user without rights.
const nobody = 65534

// asNobody runs a function on a thread that has lost root's rights over files, if the tests run as root.
func asNobody(t *testing.T, run func()) {
	t.Helper()
	onThread(t, func() bool {
		if os.Getuid() == 0 {
			for _, set := range []func(int) error{unix.Setfsgid, unix.Setfsuid} {
				if err := set(nobody); err != nil {
					t.Error(err)
					return false
				}
			}
		}
		return true
	}, run)
}

// inMounts runs a function on a thread with its own mounts.
func inMounts(t *testing.T, prepare func() error, run func()) {
	t.Helper()
	why := ""
	onThread(t, func() bool {
		err := unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = prepare()
		}
		if err != nil {
			why = err.Error()
		}
		return err == nil
	}, run)
	if why != "" {
		t.Skipf("no mounts of our own here: %s", why)
	}
}

// onThread runs prepare and, if it returns true, run on one thread that is not used afterwards.
func onThread(t *testing.T, prepare func() bool, run func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if prepare() {
			run()
		}
	}()
	<-done
}

// openWorkspace returns a workspace of the user nobody, in a folder that every user may enter.
func openWorkspace(t *testing.T) string {
	t.Helper()
	ws := workspace(t)
	for _, dir := range []string{ws, filepath.Dir(ws)} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	give(t, ws)
	return ws
}

func give(t *testing.T, path string) string {
	t.Helper()
	if os.Getuid() == 0 {
		if err := os.Lchown(path, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func TestWrite_InPlaceInReadOnlyFolder(t *testing.T) {
	ws := openWorkspace(t)
	path := give(t, put(t, ws+"/d/f", "old"))
	give(t, ws+"/d")
	if err := os.Chmod(ws+"/d", 0o555); err != nil {
		t.Fatal(err)
	}
	asNobody(t, func() {
		done, err := write(New(), in(ws), path, "new")
		if err != nil || len(done.Notes) != 1 || !strings.Contains(done.Notes[0], "in place") {
			t.Errorf("got %+v, %v", done, err)
		}
		_, err = write(New(), in(ws), ws+"/d/g", "new")
		wantKind(t, err, Denied)
	})
	if got := contentOf(t, path); got != "new" {
		t.Errorf("the file holds %q", got)
	}
}

func TestWrite_DoesNotReplaceReadOnlyFile(t *testing.T) {
	ws := openWorkspace(t)
	path := give(t, put(t, ws+"/f", "old"))
	if err := os.Chmod(path, 0o444); err != nil {
		t.Fatal(err)
	}
	secret := give(t, put(t, ws+"/secret", "old"))
	if err := os.Chmod(secret, 0o200); err != nil {
		t.Fatal(err)
	}
	asNobody(t, func() {
		_, err := write(New(), in(ws), path, "new")
		wantKind(t, err, Denied)
		_, err = read(New(), in(ws), secret)
		wantKind(t, err, Denied)
		if _, err = write(New(), in(ws), secret, "new"); err != nil {
			t.Errorf("a file that can only be written: %v", err)
		}
		_, err = New().Write(context.Background(), in(ws), secret, "new", "sha256:00")
		wantKind(t, err, Denied)
	})
	if got := contentOf(t, path); got != "old" {
		t.Errorf("the file holds %q", got)
	}
}

func TestWrite_BelowSearchOnlyFolder(t *testing.T) {
	ws := openWorkspace(t)
	give(t, put(t, ws+"/d/e/f", "old"))
	give(t, ws+"/d/e")
	if err := os.Chmod(ws+"/d", 0o711); err != nil {
		t.Fatal(err)
	}
	asNobody(t, func() {
		if _, err := write(New(), in(ws), ws+"/d/e/f", "new"); err != nil {
			t.Error(err)
		}
		if text, err := read(New(), in(ws), ws+"/d/e/f"); err != nil || text.Content != "new" {
			t.Errorf("got %+v, %v", text, err)
		}
		fd, err := openWalking(ws+"/d/e/f", safeOpenFlags)
		if err != nil {
			t.Fatal(err)
		}
		closeFile(t, fd)
	})
}

func TestWrite_KeepsOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make files of another user")
	}
	ws := openWorkspace(t)
	path := put(t, ws+"/f", "old")
	if err := os.Chown(path, 12345, 54321); err != nil {
		t.Fatal(err)
	}
	owner := func() [2]uint32 {
		m, err := stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return [2]uint32{m.uid, m.gid}
	}
	done, err := write(New(), in(ws), path, "new")
	if err != nil || len(done.Notes) != 0 || owner() != [2]uint32{12345, 54321} {
		t.Errorf("got %+v, %v, owner %v", done, err, owner())
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	asNobody(t, func() {
		done, err := write(New(), in(ws), path, "by somebody else")
		if err != nil || len(done.Notes) != 1 || owner() != [2]uint32{12345, 54321} {
			t.Errorf("got %+v, %v, owner %v", done, err, owner())
		}
	})
	if got := contentOf(t, path); got != "by somebody else" {
		t.Errorf("the file holds %q", got)
	}
	wantNoLeftovers(t, ws)
}

func TestWrite_KeepsExtendedAttributes(t *testing.T) {
	ws := workspace(t)
	path := put(t, ws+"/f", "old")
	if err := unix.Setxattr(path, "user.test", []byte("value"), 0); err != nil {
		t.Skipf("no extended attributes here: %v", err)
	}
	if _, err := write(New(), in(ws), path, "new"); err != nil {
		t.Fatal(err)
	}
	value := make([]byte, 16)
	n, err := unix.Getxattr(path, "user.test", value)
	if err != nil || string(value[:n]) != "value" {
		t.Errorf("got %q, %v", value[:max(n, 0)], err)
	}
}

func TestWrite_ObeysUmask(t *testing.T) {
	ws := workspace(t)
	defer unix.Umask(unix.Umask(0o027))
	if _, err := write(New(), in(ws), ws+"/d/f", "x"); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{"/d": 0o750, "/d/f": 0o640} {
		if fi, err := os.Stat(ws + path); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s: %v, want %v", path, fi.Mode().Perm(), want)
		}
	}
}

func TestWrite_BindMountedFileInPlace(t *testing.T) {
	ws := workspace(t)
	path := put(t, ws+"/f", "below the mount")
	source := put(t, ws+"/source", "old")
	inMounts(t, func() error { return unix.Mount(source, path, "", unix.MS_BIND, "") }, func() {
		done, err := write(New(), in(ws), path, "new")
		if err != nil || len(done.Notes) != 1 || !strings.Contains(done.Notes[0], "in place") {
			t.Errorf("got %+v, %v", done, err)
		}
		wantNoLeftovers(t, ws)
	})
	if got := contentOf(t, source); got != "new" {
		t.Errorf("the file holds %q", got)
	}
}

func TestWrite_FullDiskKeepsOldFile(t *testing.T) {
	ws := workspace(t)
	mount := func() error { return unix.Mount("test", ws, "tmpfs", 0, "size=256k") }
	inMounts(t, mount, func() {
		for name, prepare := range map[string]func(path string){
			"replaced": func(string) {},
			"in place": func(path string) {
				if err := os.Link(path, path+".other"); err != nil {
					t.Error(err)
				}
			},
		} {
			old := strings.Repeat("old\n", 8<<10)
			path := put(t, ws+"/"+name, old)
			prepare(path)
			_, err := write(New(), in(ws), path, strings.Repeat("new\n", 128<<10))
			wantKind(t, err, NoSpace)
			if got := contentOf(t, path); got != old {
				t.Errorf("%s: the old file lost its content, %d bytes are left", name, len(got))
			}
			_, err = write(New(), in(ws), ws+"/new", strings.Repeat("new\n", 128<<10))
			wantKind(t, err, NoSpace)
			if _, err := os.Lstat(ws + "/new"); err == nil {
				t.Errorf("%s: half a new file was left", name)
			}
			wantNoLeftovers(t, ws)
			_ = os.Remove(path + ".other")
			_ = os.Remove(path)
		}
	})
}

func TestWrite_InPlaceFailureRestoresContent(t *testing.T) {
	ws := workspace(t)
	// The file has a hole, and the disk has no room to fill it, as on a file system that cannot reserve space.
	mount := func() error { return unix.Mount("test", ws, "tmpfs", 0, "size=128k") }
	inMounts(t, mount, func() {
		path := put(t, ws+"/f", "head")
		if err := os.Truncate(path, 64<<10); err != nil {
			t.Error(err)
			return
		}
		old := contentOf(t, path)
		put(t, ws+"/filler", strings.Repeat("x", 100<<10))
		d := New()
		p, unlock, err := d.locateLocked(d.state.Load(), in(ws), path)
		if err != nil {
			t.Error(err)
			return
		}
		defer unlock()
		w := &writer{disk: d, state: d.state.Load(), target: p, content: []byte(strings.Repeat("n", 64<<10)), dir: -1, old: -1}
		defer w.close()
		if err := w.openFolder(); err != nil {
			t.Error(err)
		}
		if err := w.openOld(); err != nil {
			t.Error(err)
		}
		if err := w.overwriteOrRestore([]byte(old), true); kindOf(err) != NoSpace && kindOf(err) != Failed {
			t.Errorf("got %v", err)
		}
		if got := contentOf(t, path); !strings.HasPrefix(got, "head\x00") {
			t.Errorf("the file begins with %q", got[:8])
		}
	})
}

func TestWrite_ReportsReadOnlyFileSystem(t *testing.T) {
	ws := workspace(t)
	put(t, ws+"/f", "old")
	mount := func() error {
		if err := unix.Mount(ws, ws, "", unix.MS_BIND, ""); err != nil {
			return err
		}
		return unix.Mount("", ws, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
	}
	inMounts(t, mount, func() {
		for _, path := range []string{ws + "/f", ws + "/new", ws + "/d/new"} {
			_, err := write(New(), in(ws), path, "new")
			wantKind(t, err, Denied)
			if err != nil && !strings.Contains(err.Error(), "read-only") {
				t.Errorf("the error does not state why: %v", err)
			}
		}
	})
}
