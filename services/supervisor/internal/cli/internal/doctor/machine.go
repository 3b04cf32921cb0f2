package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/acphost/acphost/internal/ownfile"
	"github.com/acphost/acphost/internal/rundir"
	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/services/supervisor/internal/config"
)

// Bytes that should be free in the folders of acphost.
const (
	littleSpace = 100 << 20
	noSpace     = 10 << 20
)

// Names of sockets have at most "." or a process id, a dash, 8 digits and an extension.
const (
	maxSocketPath = 107 // limit of a unix socket's path without its NUL, on Linux
	socketName    = len("/4194304-00000000.sock")
)

func (d *doctor) machine() {
	in := d.in(Machine)
	kernel(in)
	if err := sandbox.Supported(); err != nil {
		in.warn("sandbox", err.Error()+": agents run without it (sandbox.mode), or not at all (sandbox.require)", adviceSandbox)
	} else {
		in.ok("sandbox", "it can be had: --sandbox enforce, or sandbox.mode, has rules decide about what agents do by themselves")
	}
	d.folder(in, "configuration", config.Folder(d.Env), 0o022)
	state := ownfile.StateDir(d.Env)
	d.folder(in, "state", state, 0o077)
	if state != "" {
		space(in, existing(state))
	}
	sockets := rundir.Dir(d.Env)
	d.folder(in, "sockets", sockets, 0o077)
	if n := len(sockets) + socketName; n > maxSocketPath {
		in.problem("socket path", fmt.Sprintf("%s makes paths of %d bytes, and a unix socket's address holds %d", sockets, n, maxSocketPath),
			"set XDG_RUNTIME_DIR to a folder with a shorter path, or admin.socket in the configuration")
	}
}

// folder checks one of acphost's own folders. closed are the permissions that others must not have.
func (d *doctor) folder(in area, what, dir string, closed fs.FileMode) {
	check := what + " folder"
	if dir == "" {
		in.problem(check, "neither $HOME nor an XDG variable says where it is", "set HOME to an absolute path")
		return
	}
	info, err := os.Stat(dir)
	ours := func() bool {
		owner, _, known := ownfile.Owner(info)
		return !known || owner == os.Geteuid()
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		parent := existing(dir)
		if info, err := os.Stat(parent); err == nil && !info.IsDir() {
			in.problem(check, fmt.Sprintf("%s cannot be made, because %s is a file", dir, parent), "move "+parent+" away, or set "+variable(what)+" to another folder")
		} else if writable(parent) {
			in.ok(check, dir+", made when it is needed")
		} else {
			in.problem(check, fmt.Sprintf("%s does not exist, and cannot be made in %s", dir, parent), "make it, make "+parent+" writable to you, or set "+variable(what)+" to another folder")
		}
	case err != nil:
		in.problem(check, err.Error(), "make it readable to you")
	case !info.IsDir():
		in.problem(check, dir+" is not a folder", "move it away")
	case !ours():
		in.problem(check, dir+" belongs to another user", fmt.Sprintf("chown %d %s", os.Geteuid(), dir))
	case info.Mode().Perm()&closed != 0:
		in.problem(check, fmt.Sprintf("%s is open to others (mode %04o)", dir, info.Mode().Perm()), fmt.Sprintf("chmod %04o %s", info.Mode().Perm()&^closed, dir))
	case what != "configuration" && !writable(dir):
		in.problem(check, dir+" cannot be written", "chmod u+rwx "+dir+", or mount it writable")
	default:
		in.ok(check, fmt.Sprintf("%s (mode %04o)", dir, info.Mode().Perm()))
	}
}

// variable returns the environment variable for the parent of one of acphost's own folders.
func variable(folder string) string {
	switch folder {
	case "configuration":
		return "XDG_CONFIG_HOME"
	case "sockets":
		return "XDG_RUNTIME_DIR"
	}
	return "XDG_STATE_HOME"
}

// existing returns the path itself, or the nearest parent folder that exists.
func existing(path string) string {
	for {
		if _, err := os.Stat(path); err == nil || path == filepath.Dir(path) {
			return path
		}
		path = filepath.Dir(path)
	}
}

// size formats a number of bytes for users.
func size(n uint64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 1<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}
