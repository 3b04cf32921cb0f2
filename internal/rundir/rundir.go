// Package rundir knows the folders in which a user's supervisors have their admin sockets: where they are, whether one can be
// trusted, and which sockets in them were left behind.
//
// It knows the file system and connects to sockets. It must not know what is spoken on them.
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
	// Suffix ends the name of a socket that is served.
	Suffix = ".sock"
	// SuffixUnready ends the name of one that is being made, which begins with a dot.
	SuffixUnready = ".new"
	// unreadyFor is how long a socket may take from its making to its being served, before it counts as left behind.
	unreadyFor = time.Minute
	// dialTimeout is how long a local socket has to take a connection.
	dialTimeout = 2 * time.Second
	// maxDir is the longest path of a folder for sockets, in bytes. Names in it, such as "/4194304-0011aabb.sock", have up
	// to 23, and addresses of sockets room for 103 on every system.
	maxDir = 80
)

// Dir returns the folder that sockets are made in: acphost under $XDG_RUNTIME_DIR where that is a folder of this user's
// (sudo can leave another's there), else acphost-UID under the temporary folder. A container with a read-only root may
// have none that can be written; then what is in memory counts, /run and /dev/shm. A folder whose path leaves
// no room for the name of a socket in an address is passed over in the same way. The folder itself need not exist.
func Dir(env func(string) string) string {
	return dirIn(env, writable)
}

// dirIn is Dir where usable folders can be written.
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
		return tempDir(first) // it was meant, and the error says what is wrong with it
	}
	for _, base := range append([]string{first}, temporaries()...) {
		if own := tempDir(base); fits(base, own) {
			return own
		}
	}
	return tempDir(first)
}

// temporaries are the folders in which a supervisor may find room for its socket, whatever its environment.
func temporaries() []string { return []string{"/tmp", "/run", "/dev/shm"} }

// Dirs returns every folder in which a supervisor of this user may have made its socket, whatever its environment was:
// an editor started from a desktop and a shell over ssh do not have the same one.
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

// Check returns an error unless a folder is ours and closed to others.
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

// Clean removes what dead supervisors have left in a folder of ours. What cannot be removed stays.
func Clean(dir string) {
	for _, path := range named(dir) {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || Abandoned(path) { // a link that leads nowhere is left behind, too
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

// Sockets lists the sockets in a folder, in the order of their names, and those elsewhere that Link made known there.
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

// named are the sockets of a folder, and its symbolic links with the name of one.
func named(dir string) []string {
	names, _ := filepath.Glob(filepath.Join(escape(dir), "*"+Suffix))
	return slices.DeleteFunc(names, func(name string) bool {
		info, err := os.Lstat(name)
		return err != nil || info.Mode().Type() != fs.ModeSocket && info.Mode().Type() != fs.ModeSymlink
	})
}

// Link makes a socket at another path known in a folder, by a name that is free there. It returns the name, to be removed with the
// socket.
func Link(dir, name, socket string) (string, error) {
	link := filepath.Join(dir, name+Suffix)
	return link, os.Symlink(socket, link)
}

// Abandoned reports whether nobody listens on a socket. One that is only slow, or stopped, is not abandoned.
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

// escape makes a folder's name mean itself in a pattern.
func escape(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}
