//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// privileges tries to make files with a set-user-ID or set-group-ID bit by each call that sets modes, and prints the
// errors and the files.
func privileges(dir string) {
	unix.Umask(0)
	name := func(n int) string { return filepath.Join(dir, fmt.Sprint("f", n)) }
	plain := func(n int) string {
		if err := os.WriteFile(name(n), []byte("x"), 0o755); err != nil {
			fmt.Println("plain:", err)
		}
		return name(n)
	}
	opened := func(flags int, path string, mode uint32) error {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, mode)
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	}
	n := 0
	for _, mode := range []uint32{0o4755, 0o2755, 0o6755} {
		for _, call := range []struct {
			name string
			try  func(n int) error
		}{
			{"chmod", func(n int) error { return unix.Chmod(plain(n), mode) }},
			{"fchmodat", func(n int) error { return unix.Fchmodat(unix.AT_FDCWD, plain(n), mode, 0) }},
			{"fchmodat2", func(n int) error {
				path := append([]byte(plain(n)), 0)
				at := unix.AT_FDCWD
				_, _, errno := unix.Syscall6(unix.SYS_FCHMODAT2, uintptr(at), uintptr(unsafe.Pointer(&path[0])), uintptr(mode), 0, 0, 0)
				if errno != 0 {
					return errno
				}
				return nil
			}},
			{"fchmod", func(n int) error {
				fd, err := unix.Open(plain(n), unix.O_RDONLY|unix.O_CLOEXEC, 0)
				if err != nil {
					return err
				}
				defer unix.Close(fd)
				return unix.Fchmod(fd, mode)
			}},
			{"open", func(n int) error { return opened(unix.O_CREAT|unix.O_WRONLY, name(n), mode) }},
			{"open exclusively", func(n int) error { return opened(unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, name(n), mode) }},
			{"temporary file", func(n int) error {
				fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, mode)
				if err != nil {
					return err
				}
				defer unix.Close(fd)
				return unix.Linkat(unix.AT_FDCWD, fmt.Sprint("/proc/self/fd/", fd), unix.AT_FDCWD, name(n), unix.AT_SYMLINK_FOLLOW)
			}},
			{"mknod", func(n int) error { return unix.Mknod(name(n), unix.S_IFREG|mode, 0) }},
		} {
			n++
			err := call.try(n)
			info, _ := os.Stat(name(n))
			has := info != nil && info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0
			fmt.Printf("%s %o: %v, set %t\n", call.name, mode, err, has)
		}
	}
}

// harmlessModes makes the changes of modes that stay allowed, and prints those that fail.
func harmlessModes(dir, owned string) {
	unix.Umask(0)
	folder := filepath.Join(dir, "folder")
	for what, err := range map[string]error{
		"a folder":               os.Mkdir(folder, 0o755),
		"its set-group-ID bit":   unix.Chmod(folder, 0o2775),
		"a bit that is there":    unix.Chmod(owned, 0o4700),
		"the bit removed":        unix.Chmod(owned, 0o700),
		"an ordinary mode":       os.WriteFile(filepath.Join(dir, "plain"), nil, 0o750),
		"an ordinary mode again": unix.Chmod(filepath.Join(dir, "plain"), 0o1755),
	} {
		if err != nil {
			fmt.Println(what, err)
		}
	}
}

func TestPrivileges_RejectsModeBitsOnFiles(t *testing.T) {
	for _, user := range []string{"own", "nobody"} {
		t.Run(user, func(t *testing.T) {
			if user == "nobody" && os.Getuid() != 0 {
				t.Skip("it takes root to become another user")
			}
			y := newYard(t)
			cmd := y.attack(t, "privileges", y.inside)
			if user == "nobody" {
				y.asNobody(t, cmd)
			}
			out := run(t, cmd)
			lines := strings.Split(out, "\n")
			if want := 3 * 8; len(lines) != want {
				t.Errorf("got %d attempts, want %d:\n%s", len(lines), want, out)
			}
			for _, line := range lines {
				if !strings.Contains(line, "operation not permitted, set false") {
					t.Errorf("ATTACK SUCCEEDED: %s", line)
				}
			}
		})
	}
}

func TestPrivileges_AllowsHarmlessModes(t *testing.T) {
	y := newYard(t)
	owned := filepath.Join(y.inside, "owned")
	if err := os.WriteFile(owned, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(owned, 0o700|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	if out := run(t, y.attack(t, "harmlessmodes", y.inside, owned)); out != "" {
		t.Errorf("rejected: %s", out)
	}
}
