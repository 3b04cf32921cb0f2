package files

import (
	"cmp"
	"container/heap"
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
	var kept lastFirst
	for {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		chunk, err := folder.Readdirnames(listChunk)
		for _, name := range chunk {
			switch {
			case len(kept) < limit:
				heap.Push(&kept, name)
			case name < kept[0]:
				truncated = true
				kept[0] = name
				heap.Fix(&kept, 0)
			default:
				truncated = true
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, false, errSystem("list", path, rootCause(err))
		}
	}
	slices.Sort(kept)
	return kept, truncated, nil
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

// lastFirst is a heap of names with the last one in order on top.
type lastFirst []string

func (h lastFirst) Len() int           { return len(h) }
func (h lastFirst) Less(i, j int) bool { return h[i] > h[j] }
func (h lastFirst) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *lastFirst) Push(name any)     { *h = append(*h, name.(string)) }

func (h *lastFirst) Pop() any {
	last := len(*h) - 1
	name := (*h)[last]
	*h = (*h)[:last]
	return name
}
