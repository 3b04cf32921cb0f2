// Package roots judges where a path leads by what a call is held to, as the contract demands of handlers of files and of
// terminals: inside the roots of its CallContext, away from protected paths, and where the supervisor saw it lead.
//
// It looks at the file system and changes nothing there. What it says may be out of date at once, since an agent can swap
// folders and links: who opens the path makes sure that it still leads there, with os.Root or openat2(2).
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

// Enter returns where a path leads if a call may go there: inside the roots, to nothing protected, and, where c says what
// the supervisor saw, there and nowhere else. With write it must lie in no read-only root, and be nothing that git
// believes about a repository. protected are absolute paths (Host.protected_paths). An error is a gRPC status in the words
// of the contract.
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

// Resolve returns where a path leads, as FileSystemService/Resolve answers. That it leads out of the roots is an answer; a
// path that is not absolute or cannot be followed, and a context without roots, are INVALID_ARGUMENT. protected are
// absolute paths.
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
	if strays(c.GetRoots(), path) { // what lies there is nobody's business
		at.Protected = guarded(at.GetPath(), path, nil, protected)
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
	at.Protected = guarded(at.GetPath(), path, info, protected)
	return at, nil
}

// strays reports whether a path as it is spelled leaves the roots on its way, even if it comes back.
func strays(roots []*acpv1.Root, path string) bool {
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

// innermost is the root that decides about a real path: the deepest that holds it, of two spellings of one folder the
// read-only one; nil: none holds it.
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

// guarded reports whether a path is a protected one or lies below one: by its name, as spelled or as it really is, because
// a folder on its way is the same one under another name, or as a second hard link.
func guarded(real, spelled string, info fs.FileInfo, protected []string) bool {
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
		if linked(info) && own.IsDir() && holds(p, info) {
			return true
		}
	}
	return false
}

// linked reports whether a file has several names.
func linked(info fs.FileInfo) bool {
	if info == nil || !info.Mode().IsRegular() {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return !ok || st.Nlink > 1
}

// holds reports whether one of the files below a folder is that file. A folder that cannot be searched may hold it.
func holds(folder string, file fs.FileInfo) bool {
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

// reason is an error without the path, which is said already.
func reason(err error) error {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return errno
	}
	return err
}
