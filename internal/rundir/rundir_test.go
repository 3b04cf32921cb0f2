package rundir

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
)

func TestDir_ChoosesWritableFolder(t *testing.T) {
	xdg, tmp := t.TempDir(), t.TempDir()
	for _, c := range []struct {
		name     string
		env      map[string]string
		writable []string
		want     string
	}{
		{"all can be", map[string]string{"XDG_RUNTIME_DIR": xdg, "TMPDIR": tmp}, []string{xdg, tmp, "/tmp", "/run"}, xdg + "/acphost"},
		{"ours in one that cannot", map[string]string{"XDG_RUNTIME_DIR": xdg, "TMPDIR": tmp}, []string{xdg + "/acphost", tmp}, xdg + "/acphost"},
		{"a read-only root", map[string]string{"XDG_RUNTIME_DIR": xdg, "TMPDIR": tmp}, []string{"/run", "/dev/shm"}, "/run/acphost-UID"},
		{"only memory", nil, []string{"/dev/shm"}, "/dev/shm/acphost-UID"},
		{"nothing", nil, nil, "/tmp/acphost-UID"},
		{"nothing, where something was meant", map[string]string{"TMPDIR": tmp}, nil, tmp + "/acphost-UID"},
		{"one that is not there", map[string]string{"TMPDIR": "/not/there"}, []string{"/tmp"}, "/not/there/acphost-UID"},
	} {
		want := strings.Replace(c.want, "UID", strconv.Itoa(os.Geteuid()), 1)
		got := dirIn(func(name string) string { return c.env[name] }, func(dir string) bool { return slices.Contains(c.writable, dir) })
		if got != want {
			t.Errorf("%s: %s, want %s", c.name, got, want)
		}
	}
	everywhere := Dirs(func(string) string { return "" })
	for _, base := range temporaries() {
		if !slices.Contains(everywhere, tempDir(base)) {
			t.Errorf("sockets are not searched for in %s", tempDir(base))
		}
	}
}

func TestWritable_Folders(t *testing.T) {
	dir := t.TempDir()
	if !writable(dir) || writable(filepath.Join(dir, "no")) {
		t.Errorf("%v, %v", writable(dir), writable(filepath.Join(dir, "no")))
	}
}

func TestDir_FollowsEnvironment(t *testing.T) {
	xdg := testkit.ShortDir(t)
	for _, c := range []struct {
		name string
		env  map[string]string
		want string
	}{
		{"the runtime folder", map[string]string{"XDG_RUNTIME_DIR": xdg, "TMPDIR": "/t"}, xdg + "/acphost"},
		{"a runtime folder that is not there", map[string]string{"XDG_RUNTIME_DIR": xdg + "/no", "TMPDIR": "/t"}, "/t/acphost-UID"},
		{"a relative runtime folder", map[string]string{"XDG_RUNTIME_DIR": "."}, "/tmp/acphost-UID"},
		{"nothing", nil, "/tmp/acphost-UID"},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := func(name string) string { return c.env[name] }
			want := strings.Replace(c.want, "UID", strconv.Itoa(os.Geteuid()), 1)
			if got := Dir(env); got != want {
				t.Errorf("the folder is %s, want %s", got, want)
			}
			if dirs := Dirs(env); dirs[0] != want || len(dirs) < 2 {
				t.Errorf("folders are %v, want %s first, and more", dirs, want)
			}
		})
	}
}

func TestDir_SkipsPathsTooLongForSockets(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 100))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, variable := range []string{"XDG_RUNTIME_DIR", "TMPDIR"} {
		got := dirIn(func(name string) string { return map[string]string{variable: long}[name] }, func(string) bool { return true })
		if want := tempDir("/tmp"); got != want {
			t.Errorf("%s is long: got %s, want %s", variable, got, want)
		}
	}
}
