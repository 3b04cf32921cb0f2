// Package rundir finds the folders with the admin sockets of a user's supervisors, checks whether a folder is safe, and
// finds abandoned sockets.
//
// It knows the file system and connects to sockets. It must not know the protocol on them.
package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// Suffix ends the name of a served socket.
	Suffix = ".sock"
	// SuffixUnready ends the name of a socket that is not served yet. That name begins with a dot.
	SuffixUnready = ".new"
	// unreadyFor is how long a new socket may stay unserved before it counts as abandoned.
	unreadyFor = time.Minute
	// dialTimeout limits the time for connecting to a local socket.
	dialTimeout = 2 * time.Second
	// maxDir is the longest path of a folder for sockets, in bytes. File names such as "/4194304-0011aabb.sock" have up
	// to 23 bytes, and an address of a socket has room for 103 on every system.
	maxDir = 80
)

// Dir returns the folder for new sockets: acphost under $XDG_RUNTIME_DIR if that is a folder of this user (with sudo it
// can be another user's), else acphost-UID under the temporary folder. A container with a read-only root may have no
// such writable folder; then Dir returns one in memory, /run or /dev/shm. It skips a folder whose path is too long for
// the address of a socket. The returned folder need not exist.
func Dir(env func(string) string) string {
	return dirIn(env, writable)
}

// dirIn is Dir with a test for usable folders.
func dirIn(env func(string) string, usable func(dir string) bool) string {
	fits := func(base, own string) bool { return len(own) <= maxDir && (usable(own) || usable(base)) }
	if base := env("XDG_RUNTIME_DIR"); filepath.IsAbs(base) {
		if info, err := os.Stat(base); err == nil && info.IsDir() {
			own := filepath.Join(base, "acphost")
			if owner, known := ownerOf(info); (!known || owner == os.Geteuid()) && fits(base, own) {
				return own
			}
		}
	}
	first := env("TMPDIR")
	if !filepath.IsAbs(first) {
		first = "/tmp"
	} else if _, err := os.Stat(first); err != nil {
		return tempDir(first) // the preferred folder, so that the error explains what is wrong with it
	}
	for _, base := range append([]string{first}, temporaries()...) {
		if own := tempDir(base); fits(base, own) {
			return own
		}
	}
	return tempDir(first)
}

// temporaries are the folders that a supervisor may use for its socket in any environment.
func temporaries() []string { return []string{"/tmp", "/run", "/dev/shm"} }

// Dirs returns every folder in which a supervisor of this user may have created its socket, for any environment: an
// editor started from a desktop and a shell over ssh have different environments.
func Dirs(env func(string) string) []string {
	dirs := []string{Dir(env)}
	add := func(dir string) {
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	add(filepath.Join("/run/user", strconv.Itoa(os.Geteuid()), "acphost"))
	for _, base := range temporaries() {
		add(tempDir(base))
	}
	return dirs
}

func tempDir(tmp string) string {
	return filepath.Join(tmp, "acphost-"+strconv.Itoa(os.Geteuid()))
}

// Check returns an error unless this user owns a folder and other users cannot access it.
func Check(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner, known := ownerOf(info)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder; it must be one of your own, with mode 0700, and no symbolic link", dir)
	case known && owner != os.Geteuid():
		return fmt.Errorf("the folder %s belongs to user %d; it must be your own, with mode 0700", dir, owner)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("the folder %s is open to others (mode %04o); close it: chmod 0700 %s", dir, info.Mode().Perm(), dir)
	}
	return nil
}

// Clean removes the sockets of dead supervisors from a folder of this user. Files that cannot be removed stay.
func Clean(dir string) {
	for _, path := range named(dir) {
		// A dangling link is abandoned, too.
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || Abandoned(path) {
			_ = os.Remove(path)
		}
	}
	unready, _ := filepath.Glob(filepath.Join(escape(dir), ".*"+SuffixUnready))
	for _, path := range unready {
		if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSocket && time.Since(info.ModTime()) > unreadyFor && Abandoned(path) {
			_ = os.Remove(path)
		}
	}
}

// Sockets lists the sockets in a folder in the order of their names, and sockets elsewhere that Link registered there.
func Sockets(dir string) []string {
	var found []string
	for _, path := range named(dir) {
		if to, err := os.Readlink(path); err == nil {
			if path = to; !filepath.IsAbs(path) || Check(filepath.Dir(path)) != nil {
				continue
			}
		}
		if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSocket && !slices.Contains(found, path) {
			found = append(found, path)
		}
	}
	return found
}

// named returns the sockets of a folder, and its symbolic links to sockets.
func named(dir string) []string {
	names, _ := filepath.Glob(filepath.Join(escape(dir), "*"+Suffix))
	return slices.DeleteFunc(names, func(name string) bool {
		info, err := os.Lstat(name)
		return err != nil || info.Mode().Type() != fs.ModeSocket && info.Mode().Type() != fs.ModeSymlink
	})
}

// Link registers a socket at another path in a folder, under a free name. It returns the path of the link, which the
// caller removes with the socket.
func Link(dir, name, socket string) (string, error) {
	link := filepath.Join(dir, name+Suffix)
	return link, os.Symlink(socket, link)
}

// Abandoned reports whether a socket has no listener. A socket whose process is slow or stopped is not abandoned.
func Abandoned(path string) bool {
	conn, err := net.DialTimeout("unix", path, dialTimeout)
	if err == nil {
		_ = conn.Close()
		return false
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// AbandonedOrGone is Abandoned for a socket that may have been removed meanwhile.
func AbandonedOrGone(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist) || Abandoned(path)
}

// escape returns the glob pattern that matches only a folder's name.
func escape(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}
