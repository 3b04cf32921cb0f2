package files

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// listChunk is the number of names that are read from a folder at a time.
const listChunk = 1024

// EntryType is the type of a folder's entry.
type EntryType string

// The types of entries. Symbolic links are not followed.
const (
	TypeFile      EntryType = "file"
	TypeDirectory EntryType = "directory"
	TypeSymlink   EntryType = "symlink"
	TypeOther     EntryType = "other"
)

// Entry is one entry of a folder.
type Entry struct {
	// Name contains U+FFFD in place of bytes that are not UTF-8.
	Name string
	Type EntryType
	// Size is the size of a file in bytes; 0 for other types.
	Size int64
}

// Listing is a list of a folder's entries in byte order of their names.
type Listing struct {
	Entries []Entry
	// Truncated: the folder has more entries than the limit; the first in order are returned.
	Truncated bool
	// Path is the resolved path: absolute, without symbolic links.
	Path string
}

// List returns a folder's first limit entries, 1 to MaxListLimit; 0 means DefaultListLimit. Memory is bounded by the
// limit, regardless of the size of the folder. It stops when ctx ends.
func (d *Disk) List(ctx context.Context, b Bounds, path string, limit uint32) (Listing, error) {
	if err := ctx.Err(); err != nil {
		return Listing{}, err
	}
	limit = cmp.Or(limit, DefaultListLimit)
	if limit > MaxListLimit {
		return Listing{}, fail(Invalid, "%d entries were asked for, 1 to %d can be", limit, MaxListLimit)
	}
	b.Allowed = "" // which is a file
	p, err := d.state.Load().locate(b, path, readAccess)
	if err != nil {
		return Listing{}, err
	}
	if !p.exists() {
		return Listing{}, errMissing(path)
	}
	if !p.meta.isDirectory() {
		return Listing{}, fail(Invalid, "not a directory: %s", path)
	}
	fd, err := openExact(p.path, unix.O_RDONLY|unix.O_DIRECTORY|safeOpenFlags)
	if err != nil {
		return Listing{}, openError(p, err)
	}
	folder := os.NewFile(uintptr(fd), p.path)
	defer func() { _ = folder.Close() }()

	names, truncated, err := firstNames(ctx, folder, path, int(limit))
	if err != nil {
		return Listing{}, err
	}
	list := Listing{Entries: make([]Entry, 0, len(names)), Truncated: truncated, Path: p.path}
	for _, name := range names {
		m, err := lstatAt(fd, name)
		if errors.Is(err, unix.ENOENT) {
			continue // it was removed meanwhile
		}
		if err != nil {
			return Listing{}, errSystem("list", path, err)
		}
		list.Entries = append(list.Entries, entryOf(name, m))
	}
	return list, nil
}

func entryOf(name string, m meta) Entry {
	e := Entry{Name: strings.ToValidUTF8(name, "\uFFFD"), Type: TypeOther}
	switch {
	case m.isRegular():
		e.Type, e.Size = TypeFile, m.size
	case m.isDirectory():
		e.Type = TypeDirectory
	case m.isLink():
		e.Type = TypeSymlink
	}
	return e
}

// firstNames returns the first limit names, in order.
func firstNames(ctx context.Context, folder *os.File, path string, limit int) (names []string, truncated bool, err error) {
	for over := false; !over; {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		chunk, err := folder.Readdirnames(listChunk)
		if over = errors.Is(err, io.EOF); err != nil && !over {
			return nil, false, errSystem("list", path, rootCause(err))
		}
		// Sorting only occasionally costs little, and keeps the memory bounded.
		if names = append(names, chunk...); over || len(names) >= 2*limit+listChunk {
			slices.Sort(names)
			truncated = truncated || len(names) > limit
			names = names[:min(len(names), limit)]
		}
	}
	return names, truncated, nil
}

// rootCause strips the os package's text, which repeats the path, from an error.
func rootCause(err error) error {
	if call, ok := errors.AsType[*os.SyscallError](err); ok {
		return call.Err
	}
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err
	}
	return err
}
