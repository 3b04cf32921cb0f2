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

// listChunk is how many names are read from a folder at a time.
const listChunk = 1024

// EntryType says what an entry of a folder is.
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
	// Name holds U+FFFD in place of bytes that are not UTF-8.
	Name string
	Type EntryType
	// Size is a file's, in bytes; 0 for everything else.
	Size int64
}

// Listing is a folder's entries in byte order of their names.
type Listing struct {
	Entries []Entry
	// Truncated: there are more than were asked for; the first in order are returned.
	Truncated bool
	// Path is where the path led: absolute, without symbolic links.
	Path string
}

// List returns a folder's first limit entries, 1 to MaxListLimit; 0 is DefaultListLimit. Memory is bounded by the
// limit, whatever the size of the folder. A context that ends stops it.
func (d *Disk) List(ctx context.Context, b Bounds, path string, limit uint32) (Listing, error) {
	if err := ctx.Err(); err != nil {
		return Listing{}, err
	}
	limit = cmp.Or(limit, DefaultListLimit)
	if limit > MaxListLimit {
		return Listing{}, fail(Invalid, "%d entries were asked for, 1 to %d can be", limit, MaxListLimit)
	}
	b.Allowed = "" // which is a file's
	p, err := d.state.Load().locate(b, path, toRead)
	if err != nil {
		return Listing{}, err
	}
	if !p.exists() {
		return Listing{}, errMissing(path)
	}
	if !p.meta.isDirectory() {
		return Listing{}, fail(Invalid, "not a directory: %s", path)
	}
	fd, err := openExact(p.path, unix.O_RDONLY|unix.O_DIRECTORY|quiet)
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
			continue // it went away meanwhile
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

// firstNames returns the limit names that come first, in order.
func firstNames(ctx context.Context, folder *os.File, path string, limit int) (names []string, truncated bool, err error) {
	for over := false; !over; {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		chunk, err := folder.Readdirnames(listChunk)
		if over = errors.Is(err, io.EOF); err != nil && !over {
			return nil, false, errSystem("list", path, rootCause(err))
		}
		// Sorting only now and then costs little, and keeps what is held below a bound.
		if names = append(names, chunk...); over || len(names) >= 2*limit+listChunk {
			slices.Sort(names)
			truncated = truncated || len(names) > limit
			names = names[:min(len(names), limit)]
		}
	}
	return names, truncated, nil
}

// rootCause takes the os package's words, which repeat the path, off an error.
func rootCause(err error) error {
	if call, ok := errors.AsType[*os.SyscallError](err); ok {
		return call.Err
	}
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err
	}
	return err
}
