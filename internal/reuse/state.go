package reuse

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// Of returns the state of the file at an absolute path. With follow, it follows a symbolic link. ok is false if the
// state does not show later changes: the file cannot be read, it is a symbolic link that is not followed, or this
// system does not report when files are changed. Safe for concurrent use.
func Of(path string, follow bool) (state *permissionv1.FileState, ok bool) {
	look := os.Lstat
	if follow {
		look = os.Stat
	}
	state = &permissionv1.FileState{Path: path, Follow: follow}
	info, err := look(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return state, true
	case err != nil, info.Mode().Type() == fs.ModeSymlink:
		return nil, false
	}
	state.Exists, state.Size, state.ModifiedNanos = true, info.Size(), info.ModTime().UnixNano()
	return state, identify(state, info)
}

// IsStill reports whether a file is in the given state now. Safe for concurrent use.
func IsStill(was *permissionv1.FileState) bool {
	now, ok := Of(was.GetPath(), was.GetFollow())
	return ok && now.GetExists() == was.GetExists() && now.GetDevice() == was.GetDevice() && now.GetInode() == was.GetInode() &&
		now.GetSize() == was.GetSize() && now.GetModifiedNanos() == was.GetModifiedNanos() && now.GetChangedNanos() == was.GetChangedNanos()
}

// View identifies how this process sees files: its mount namespace and its root folder. Two processes of one machine
// with the same view find the same file at a path. Empty if unknown. Safe for concurrent use.
func View() string { return view() }
