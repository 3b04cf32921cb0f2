package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/acphost/acphost/internal/proc"
)

// socketPathMax is the length of the longest path of a unix socket that every platform accepts (macOS: 104 bytes with
// the final NUL).
const socketPathMax = 103

// socketNameMax is the length of the path below the base folder: the folder made here, and the child's
// "pluginNNNNNNNNNN".
const socketNameMax = len("/acphost-4294967295/plugin4294967295")

// socketDir makes a folder that only the child's user can enter (nil: this user), with a path short enough for sockets
// in it. If the temporary folder is not writable, as in a container with a read-only root, it uses a folder in memory.
func socketDir(owner *proc.User) (string, error) {
	bases := []string{os.TempDir(), "/tmp", "/run", "/dev/shm"}
	var problems []error
	for i, base := range bases {
		if len(base)+socketNameMax > socketPathMax || slices.Contains(bases[:i], base) {
			continue
		}
		if owner != nil && !canReach(owner, base) {
			problems = append(problems, fmt.Errorf("%s: user %s cannot get there", base, owner))
			continue
		}
		dir, err := os.MkdirTemp(base, "acphost-")
		if err == nil {
			if owner == nil {
				return dir, nil
			}
			if err = os.Chown(dir, int(owner.UID), int(owner.GID)); err == nil {
				return dir, nil
			}
			_ = os.Remove(dir)
		}
		problems = append(problems, err)
	}
	return "", fmt.Errorf("make a folder for its socket, which needs one that can be written: set TMPDIR: %w", errors.Join(problems...))
}

// canReach reports whether a user may search a folder and all its parents, according to their owners and modes.
func canReach(u *proc.User, dir string) bool {
	dir, err := filepath.Abs(dir)
	for err == nil {
		var info fs.FileInfo
		if info, err = os.Stat(dir); err != nil || !canEnter(u, info) {
			return false
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
	return false
}

func canEnter(u *proc.User, info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	mode := info.Mode().Perm()
	switch {
	case st.Uid == u.UID:
		return mode&0o100 != 0
	case st.Gid == u.GID || slices.Contains(u.Groups, st.Gid):
		return mode&0o010 != 0
	}
	return mode&0o001 != 0
}
