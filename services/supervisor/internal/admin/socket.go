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
	"runtime"
	"strconv"

	"github.com/acphost/acphost/internal/peer"
	"github.com/acphost/acphost/internal/rundir"
)

// maxSocketPath is the longest path of a socket in bytes; the address has 108 with its NUL (104 on macOS, where the
// kernel rejects longer paths).
const maxSocketPath = 107

// listen makes the socket and listens on it.
func listen(o Options) (*net.UnixListener, string, error) {
	path := o.Socket
	if path == "" {
		dir := rundir.Dir(o.Env)
		path = filepath.Join(dir, strconv.Itoa(os.Getpid())+"-"+random()+rundir.Suffix)
	}
	dir := filepath.Dir(path)
	if !filepath.IsAbs(path) {
		return nil, "", fmt.Errorf("%s is not an absolute path", path)
	}
	// The longest name that the socket has before it is renamed.
	unready := unreadyIn(dir)
	if n := max(len(path), len(unready)); n > maxSocketPath {
		return nil, "", fmt.Errorf("the path %s needs %d bytes, and an address of a unix socket has room for %d; set admin.socket to a shorter one, or XDG_RUNTIME_DIR to a folder with a shorter path",
			path, n, maxSocketPath)
	}
	if err := privateDir(dir); err != nil {
		return nil, "", err
	}
	if o.Socket == "" {
		rundir.Clean(dir)
	} else if err := vacate(path); err != nil {
		return nil, "", err
	}
	listener, err := listenAt(path, unready)
	return listener, path, err
}

// makeKnown makes a supervisor with a configured socket path discoverable: it links the socket in the default folder.
// It returns the link, to be removed at the end; empty: it failed, and clients must name the socket.
func makeKnown(o Options, path string) string {
	if o.Socket == "" || o.Env == nil {
		return ""
	}
	dir := rundir.Dir(o.Env)
	if filepath.Dir(path) == dir || privateDir(dir) != nil {
		return ""
	}
	rundir.Clean(dir)
	name, err := rundir.Link(dir, strconv.Itoa(os.Getpid())+"-"+random(), path)
	if err != nil {
		return ""
	}
	return name
}

// listenAt listens on a socket at a path and replaces an existing file. unready is its name until it listens.
func listenAt(path, unready string) (*net.UnixListener, error) {
	// Between bind and listen, a socket rejects connections like that of a dead server. It gets its name once it
	// listens, so that no other process removes it in between.
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: unready, Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(unready, 0o600), os.Rename(unready, path)); err != nil {
		_ = listener.Close()
		_ = os.Remove(unready)
		return nil, err
	}
	return listener, nil
}

func unreadyIn(dir string) string { return filepath.Join(dir, "."+random()+rundir.SuffixUnready) }

// listenControl listens on a control socket with a unique name. The name cannot be guessed, so that no other process
// can take it first: abstract sockets have no modes and no owner.
func listenControl() (net.Listener, string, error) {
	if runtime.GOOS != "linux" {
		return nil, "", fmt.Errorf("control socket: %s has no sockets that agents can be kept from", runtime.GOOS)
	}
	name := fmt.Sprintf("@acphost/%d/%d-%s%s", os.Geteuid(), os.Getpid(), random(), random())
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return nil, "", fmt.Errorf("control socket: %w", err)
	}
	if err := peer.ReportSenders(listener); err != nil {
		_ = listener.Close()
		return nil, "", fmt.Errorf("control socket: %w", err)
	}
	return listener, name, nil
}

// privateDir makes sure that a folder exists, belongs to this user, and is closed to others.
func privateDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return rundir.Check(dir)
}

// vacate removes the socket that a dead supervisor has left at a configured path. It returns an error for any other
// file.
func vacate(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s exists and is not a socket", path)
	case !rundir.Abandoned(path):
		return fmt.Errorf("%s is served by another process; give each supervisor a socket of its own, or none in the configuration", path)
	}
	return os.Remove(path)
}

// random returns 32 random bits as hex: enough to make names unique.
func random() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
