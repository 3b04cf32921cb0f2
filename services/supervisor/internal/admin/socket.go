package admin

import (
	"crypto/rand"
	"encoding/hex"
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
	// maxSocketPath is the longest path of a socket in bytes; the address has 108 with its NUL (104 on macOS, where
	// the kernel refuses the rest).
	maxSocketPath = 107
	// suffix ends the name of a socket that is served; a new one has another until it is.
	suffix        = ".sock"
	suffixUnready = ".new"
	// unreadyFor is how long a socket may take from its making to its being served, before it counts as left behind.
	unreadyFor = time.Minute
)

// Dir returns the folder that sockets are made in: acphost under $XDG_RUNTIME_DIR where that is a folder of this user's
// (sudo can leave another's there), else acphost-UID under the temporary folder. A container with a read-only root may
// have none that can be written; then what is in memory counts, /run and /dev/shm. The folder itself need not exist.
func Dir(env func(string) string) string {
	return dirIn(env, writable)
}

// dirIn is Dir where usable folders can be written.
func dirIn(env func(string) string, usable func(dir string) bool) string {
	fits := func(base, own string) bool { return usable(own) || usable(base) }
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

// listen makes the socket and listens on it.
func listen(o Options) (net.Listener, string, error) {
	path := o.Socket
	if path == "" {
		dir := Dir(o.Env)
		path = filepath.Join(dir, strconv.Itoa(os.Getpid())+"-"+random()+suffix)
	}
	dir := filepath.Dir(path)
	if !filepath.IsAbs(path) {
		return nil, "", fmt.Errorf("%s is not an absolute path", path)
	}
	// The longest name it has on its way.
	unready := filepath.Join(dir, "."+random()+suffixUnready)
	if n := max(len(path), len(unready)); n > maxSocketPath {
		return nil, "", fmt.Errorf("the path %s needs %d bytes, and an address of a unix socket has room for %d; set admin.socket to a shorter one, or XDG_RUNTIME_DIR to a folder with a shorter path",
			path, n, maxSocketPath)
	}
	if err := privateDir(dir); err != nil {
		return nil, "", err
	}
	if o.Socket == "" {
		clean(dir)
	} else if err := vacate(path); err != nil {
		return nil, "", err
	}
	// Between bind and listen a socket refuses connections as one does whose server is dead. It gets its name once it
	// is served, so that nobody cleans it away in between.
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: unready, Net: "unix"})
	if err != nil {
		return nil, "", err
	}
	listener.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(unready, 0o600), os.Rename(unready, path)); err != nil {
		_ = listener.Close()
		_ = os.Remove(unready)
		return nil, "", err
	}
	return listener, path, nil
}

// privateDir makes sure that a folder is there, is ours, and is closed to others.
func privateDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return checkDir(dir)
}

// checkDir returns an error unless a folder is ours and closed to others.
func checkDir(dir string) error {
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

// vacate removes the socket that a dead supervisor has left at a configured path. Anything else there stays.
func vacate(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s exists and is not a socket", path)
	case !abandoned(path):
		return fmt.Errorf("%s is served by another process; give each supervisor a socket of its own, or none in the configuration", path)
	}
	return os.Remove(path)
}

// clean removes what dead supervisors have left in a folder of ours. What cannot be removed stays.
func clean(dir string) {
	for _, path := range sockets(dir) {
		if abandoned(path) {
			_ = os.Remove(path)
		}
	}
	unready, _ := filepath.Glob(filepath.Join(escape(dir), ".*"+suffixUnready))
	for _, path := range unready {
		if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSocket && time.Since(info.ModTime()) > unreadyFor && abandoned(path) {
			_ = os.Remove(path)
		}
	}
}

// sockets lists the sockets in a folder, in the order of their names.
func sockets(dir string) []string {
	names, _ := filepath.Glob(filepath.Join(escape(dir), "*"+suffix))
	var found []string
	for _, name := range names {
		if info, err := os.Lstat(name); err == nil && info.Mode().Type() == fs.ModeSocket {
			found = append(found, name)
		}
	}
	return found
}

// abandoned reports whether nobody listens on a socket. One that is only slow, or stopped, is not abandoned.
func abandoned(path string) bool {
	conn, err := net.DialTimeout("unix", path, dialTimeout)
	if err == nil {
		_ = conn.Close()
		return false
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// abandonedOrGone is abandoned for a socket that may have been removed meanwhile.
func abandonedOrGone(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist) || abandoned(path)
}

// escape makes a folder's name mean itself in a pattern.
func escape(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

// random returns 32 bits, enough for names that only have to differ.
func random() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
