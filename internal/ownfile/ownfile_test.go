//go:build unix

package ownfile

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func appended(t *testing.T, file string) *os.File {
	t.Helper()
	f, err := Append(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestOpen_RejectsOtherFileTypes(t *testing.T) {
	for name, place := range map[string]func(file string) error{
		"a pipe, whose other end nobody has": func(f string) error { return syscall.Mkfifo(f, 0o600) },
		"a link to a file":                   func(f string) error { return errors.Join(os.WriteFile(f+"2", nil, 0o600), os.Symlink(f+"2", f)) },
		"a link to nothing":                  func(f string) error { return os.Symlink(f+"2", f) },
		"a folder":                           func(f string) error { return os.Mkdir(f, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "f")
			if err := place(file); err != nil {
				t.Fatal(err)
			}
			for _, open := range []func(string) (*os.File, error){Append, Read} {
				if f, err := open(file); err == nil {
					_ = f.Close()
					t.Error("it was opened")
				}
			}
			if _, err := os.Stat(file + "2"); name == "a link to nothing" && !errors.Is(err, fs.ErrNotExist) {
				t.Error("a file was made where the link leads")
			}
		})
	}
	if _, err := Append("relative"); err == nil {
		t.Error("a relative path was opened")
	}
}

func TestRead_CreatesNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "folder", "f")
	if _, err := Read(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Dir(file)); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the folder was made")
	}
}

func TestLock_ExcludesOthers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	one, two := appended(t, file), appended(t, file)
	soon := func() time.Time { return time.Now().Add(5 * time.Millisecond) }
	if err := Lock(one, soon()); err != nil {
		t.Fatal(err)
	}
	if err := Lock(two, soon()); !errors.Is(err, ErrLocked) {
		t.Errorf("got %v", err)
	}
	Unlock(one)
	if err := Lock(two, soon()); err != nil {
		t.Error(err)
	}
	_ = two.Close()
	if err := Lock(one, soon()); err != nil {
		t.Errorf("after the other was closed: %v", err)
	}
}

func TestCurrent_UntilRenamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	f := appended(t, file)
	if !Current(f) {
		t.Error("not current at first")
	}
	if err := os.Rename(file, file+".1"); err != nil {
		t.Fatal(err)
	}
	if Current(f) {
		t.Error("current without a name")
	}
	appended(t, file)
	if Current(f) {
		t.Error("current though another has its name")
	}
}

func TestTail_FindsPartialLine(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	for _, tt := range []struct{ content, tail string }{
		{"", ""}, {"a\n", ""}, {"a", "a"}, {"a\nb", "b"}, {"a\n\n", ""}, {"\n", ""},
		{"a\n" + long, long}, {long, long}, {long + "\n", ""}, {long + "\nb", "b"},
	} {
		f := appended(t, filepath.Join(t.TempDir(), "f"))
		if err := AppendAll(f, []byte(tt.content)); err != nil {
			t.Fatal(err)
		}
		tail, at, err := TornTail(f)
		if err != nil || !bytes.Equal(tail, []byte(tt.tail)) || at != int64(len(tt.content)-len(tt.tail)) {
			t.Errorf("%.10q… (%d): got %d bytes at %d, %v", tt.content, len(tt.content), len(tail), at, err)
		}
	}
}

func TestStateFolder_FromEnvironment(t *testing.T) {
	for _, tt := range []struct{ state, home, want string }{
		{"/s", "/h", "/s/acphost"}, {"", "/h", "/h/.local/state/acphost"}, {"relative", "/h", "/h/.local/state/acphost"}, {"", "", ""},
	} {
		env := map[string]string{"XDG_STATE_HOME": tt.state, "HOME": tt.home}
		if got := StateDir(func(name string) string { return env[name] }); got != tt.want {
			t.Errorf("%v: got %q", tt, got)
		}
	}
}

func TestWrite_ReplacesOnlyIfForced(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "policy.yaml")
	text := func(content string) func(io.Writer) error {
		return func(w io.Writer) error {
			_, err := io.WriteString(w, content)
			return err
		}
	}
	if err := Write(name, false, text("one")); err != nil {
		t.Fatal(err)
	}
	if err := Write(name, false, text("two")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("error is %v, want that it is there", err)
	}
	if got, _ := os.ReadFile(name); string(got) != "one" {
		t.Errorf("the file holds %q", got)
	}
	if err := Write(name, true, text("three")); err != nil {
		t.Fatal(err)
	}
	if err := Write(name, true, func(io.Writer) error { return io.ErrUnexpectedEOF }); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error is %v, want why it was not written", err)
	}
	if got, _ := os.ReadFile(name); string(got) != "three" {
		t.Errorf("the file holds %q", got)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 1 {
		t.Errorf("there are %v, want the one file", left)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".acphost-*")); len(left) != 0 {
		t.Errorf("there are leftovers: %v", left)
	}
}
