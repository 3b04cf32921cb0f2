// Package roots checks the target of a path against the limits of a call, as the contract requires of handlers of files
// and of terminals: inside the roots of its CallContext, outside of protected paths, and equal to the target that the
// supervisor resolved.
//
// The package reads the file system and does not change it. Its results can be out of date at once, because an agent
// can replace folders and links: code that opens the path must verify its target again, with os.Root or openat2(2).
package roots

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/git"
	"github.com/acphost/acphost/internal/paths"
	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
)

// Enter returns the target of a path if a call may access it: inside the roots, not protected, and equal to the target
// that the supervisor resolved, if c contains it. With write, the path must not be in a read-only root, nor be a file
// that git trusts in a repository. protected are absolute paths (Host.protected_paths). An error is a gRPC status with
// the contract's text.
func Enter(c *acpv1.CallContext, path string, protected []string, write bool) (*fsv1.ResolveResponse, error) {
	at, err := Resolve(c, path, protected)
	switch {
	case err != nil:
		return nil, err
	case !at.GetInsideRoots():
		return nil, status.Errorf(codes.InvalidArgument, "Path escapes workspace: %s", path)
	case at.GetProtected():
		return nil, status.Errorf(codes.PermissionDenied, "%s belongs to acphost itself", path)
	case write && at.GetReadOnly():
		return nil, status.Errorf(codes.PermissionDenied, "%s lies in %s, which may only be read", path, at.GetRoot())
	case write && (git.Own(at.GetPath()) || git.Own(path) || git.Completes(at.GetPath())):
		return nil, status.Errorf(codes.PermissionDenied, "%s is git's own: git runs what such files say", path)
	case c.GetResolvedPath().GetPath() != "" && c.GetResolvedPath().GetPath() != at.GetPath():
		return nil, status.Errorf(codes.FailedPrecondition, "%s leads elsewhere than when it was allowed", path)
	}
	return at, nil
}

// Resolve returns the target of a path, as FileSystemService/Resolve does. A target outside of the roots is not an
// error. A path that is not absolute or cannot be resolved, and a context without roots, are INVALID_ARGUMENT.
// protected are absolute paths.
func Resolve(c *acpv1.CallContext, path string, protected []string) (*fsv1.ResolveResponse, error) {
	switch {
	case len(c.GetRoots()) == 0:
		return nil, status.Error(codes.InvalidArgument, "context: it has no roots, which say where the call may go")
	case !filepath.IsAbs(path):
		return nil, status.Errorf(codes.InvalidArgument, "%q is not an absolute path", path)
	case strings.ContainsRune(path, 0):
		return nil, status.Errorf(codes.InvalidArgument, "%q has a NUL character in it", path)
	}
	for _, root := range c.GetRoots() {
		if !filepath.IsAbs(root.GetPath()) {
			return nil, status.Errorf(codes.InvalidArgument, "context: the root %q is not an absolute path", root.GetPath())
		}
	}
	at := &fsv1.ResolveResponse{Path: filepath.Clean(path)}
	if leavesRoots(c.GetRoots(), path) { // do not reveal which files exist there
		at.Protected = isProtected(at.GetPath(), path, nil, protected)
		return at, nil
	}
	at.Path = filepath.Clean(paths.Real(path))
	info, err := os.Lstat(at.GetPath())
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		err = syscall.ELOOP
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, status.Errorf(codes.InvalidArgument, "%s cannot be followed: %v", path, reason(err))
	}
	at.Exists = err == nil
	if root := innermost(c.GetRoots(), at.GetPath()); root != nil {
		at.InsideRoots, at.Root, at.ReadOnly = true, root.GetPath(), root.GetReadOnly()
	}
	at.Protected = isProtected(at.GetPath(), path, info, protected)
	return at, nil
}

// leavesRoots reports whether a path, as spelled, leaves the roots at any point, even if it returns to them.
func leavesRoots(roots []*acpv1.Root, path string) bool {
	here := "/"
	for name := range strings.SplitSeq(path, "/") {
		here = filepath.Join(here, name)
		near := func(place string) bool {
			return slices.ContainsFunc(roots, func(root *acpv1.Root) bool {
				spelled, real := filepath.Clean(root.GetPath()), paths.Real(root.GetPath())
				return paths.Below(spelled, place) || paths.Below(place, spelled) || paths.Below(real, place) || paths.Below(place, real)
			})
		}
		if !near(here) && !near(paths.Real(here)) {
			return true
		}
	}
	return false
}

// innermost returns the root that applies to a resolved path: the deepest that contains it, of two spellings of one
// folder the read-only one; nil: none contains it.
func innermost(roots []*acpv1.Root, real string) (best *acpv1.Root) {
	depth := -1
	for _, root := range roots {
		folder := paths.Real(root.GetPath())
		if !paths.Below(folder, real) || len(folder) < depth || len(folder) == depth && !root.GetReadOnly() {
			continue
		}
		best, depth = root, len(folder)
	}
	return best
}

// isProtected reports whether a path is protected or below a protected path: by its name, as spelled or as resolved,
// because it is in the same folder under another name, or as a second hard link.
func isProtected(real, spelled string, info fs.FileInfo, protected []string) bool {
	for _, p := range protected {
		p = filepath.Clean(p)
		if paths.Below(p, real) || paths.Below(paths.Real(p), real) || paths.Below(p, filepath.Clean(spelled)) {
			return true
		}
		own, err := os.Stat(p)
		if err != nil {
			continue
		}
		for place := real; ; place = filepath.Dir(place) {
			if is, err := os.Lstat(place); err == nil && os.SameFile(is, own) {
				return true
			}
			if place == filepath.Dir(place) {
				break
			}
		}
		if hasHardLinks(info) && own.IsDir() && containsFile(p, info) {
			return true
		}
	}
	return false
}

// hasHardLinks reports whether a file has several hard links.
func hasHardLinks(info fs.FileInfo) bool {
	if info == nil || !info.Mode().IsRegular() {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return !ok || st.Nlink > 1
}

// containsFile reports whether a folder contains a file, at any depth. A folder that cannot be searched counts as
// containing it.
func containsFile(folder string, file fs.FileInfo) bool {
	err := filepath.WalkDir(folder+"/", func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return ignoreMissing(err)
		}
		info, err := entry.Info()
		if err == nil && os.SameFile(info, file) {
			return errFound
		}
		return ignoreMissing(err)
	})
	return err != nil
}

var errFound = errors.New("found")

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// reason returns an error without the path, which the caller adds.
func reason(err error) error {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return errno
	}
	return err
}
