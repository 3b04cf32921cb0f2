package files

import (
	"context"
	"errors"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/git"
)

// Written is the result of a write.
type Written struct {
	// Digest is "sha256:" and lower-case hexadecimal of the new content. Empty with Bounds.NoDigest.
	Digest string
	// Path is the resolved path: absolute, without symbolic links.
	Path string
	// Notes are messages for people about a successful write, one sentence each.
	Notes []string
}

// Write replaces a file's content, or makes the file and its missing folders (with the umask). If expected is not
// empty, it is the digest that the file's content must have.
//
// Write is atomic: it writes the new content to a temporary file in the same folder, and renames that over the old
// file, with the old file's permissions, owner and extended attributes. It drops the set-user-id and set-group-id bits.
// It replaces an existing file only after the new content was synced to disk, so that after a power loss the file has
// the old content or the new; it does not sync a new file. If a file cannot be replaced (it is a mount point, the
// folder is read-only, the owner would change), Write writes it in place and adds a note; if that fails half way, it
// restores the old content.
//
// Write also writes a file with other hard links in place, if all its names lie below the roots and none belongs to
// git. It rejects a file of git's under every name. If some names are not found, it replaces the file, so that they
// keep the old content, and adds a note; if it cannot replace the file, it rejects the write.
//
// A write that has begun runs to its end even if ctx ends, because its caller must learn the result.
//
// A file keeps its textform.Form if Read would return it whole, and a note reports that; not with Config.AsSent.
//
// Write rejects content that is not text as Read defines it, so that written content can be read again. It rejects any
// content for a file that is not text, because its encoding would be lost. It does not check a file that is not
// readable.
func (d *Disk) Write(ctx context.Context, b Bounds, path, content, expected string) (Written, error) {
	if err := ctx.Err(); err != nil {
		return Written{}, err
	}
	s := d.state.Load()
	p, unlock, err := d.locateLocked(s, b, path)
	if err != nil {
		return Written{}, err
	}
	defer unlock()
	if size := int64(len(content)); size > s.maxContent {
		return Written{}, errContentTooLarge(size, s.maxContent, path)
	}
	if !isText(bytesOf(content)) {
		return Written{}, errNewNotText(path)
	}
	w := &writer{disk: d, state: s, target: p, content: bytesOf(content), expected: expected, roots: b.Roots, dir: -1, old: -1}
	defer w.close()
	if err := w.write(); err != nil {
		return Written{}, err
	}
	done := Written{Path: p.path, Notes: w.notes}
	if !b.NoDigest {
		done.Digest = digestOf(w.content)
	}
	return done, nil
}

// locateLocked locates the path and locks its target.
func (d *Disk) locateLocked(s *state, b Bounds, path string) (*resolvedPath, func(), error) {
	before, err := s.locate(b, path, writeAccess)
	if err != nil {
		return nil, nil, err
	}
	unlock := d.locks.lock(before.path)
	if git.Decides(before.path) {
		// Several writes may complete a repository together, so each must see the results of the others.
		d.repositories.Lock()
		of := unlock
		unlock = func() { d.repositories.Unlock(); of() }
	}
	// The previous holder of the lock may have made missing files.
	p, err := s.locate(b, path, writeAccess)
	if err == nil && p.path != before.path {
		err = errSwapped(path)
	}
	if err == nil && p.exists() {
		err = checkRegular(path, p.meta)
	}
	if err == nil && p.asDirectory {
		err = errTrailingSlash(path)
	}
	if err != nil {
		unlock()
		return nil, nil, err
	}
	return p, unlock, nil
}

// writer writes one file once.
type writer struct {
	disk     *Disk
	state    *state
	target   *resolvedPath
	content  []byte
	expected string
	roots    []Root
	notes    []string

	dir  int    // the folder, for traversal only; -1: not open
	name string // the file in it
	old  int    // the file; -1: it does not exist
	meta meta   // of old
}

func (w *writer) close() {
	for _, fd := range []int{w.dir, w.old} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// exists reports whether there is an old file.
func (w *writer) exists() bool { return w.old >= 0 }

func (w *writer) write() error {
	if w.expected != "" && !w.target.exists() {
		return errStaleGone(w.target.requested)
	}
	if err := w.openFolder(); err != nil {
		return err
	}
	if err := w.openOld(); err != nil {
		return err
	}
	if err := w.checkExpected(); err != nil {
		return err
	}
	if err := w.checkOldText(); err != nil {
		return err
	}
	if err := w.keepForm(); err != nil {
		return err
	}
	if w.exists() && w.meta.privileged() {
		w.note("the set-user-id and set-group-id bits were cleared")
	}
	linked := w.exists() && w.meta.links > 1
	if linked {
		switch findLinks(w.meta, w.roots) {
		case ownedByGit:
			return errGit(w.target.requested)
		case allFound:
			return w.writeInPlace("it has other hard links")
		}
	}
	why, err := w.replace()
	switch {
	case err != nil:
		return err
	case linked && why != "":
		return fail(Protected, "the file has other hard links, not all of which lie in the workspace, so that it is not written in place, and %s: %s", why, w.target.requested)
	case linked:
		w.note("it had other hard links, not all of which lie in the workspace: they keep the old content")
	case why != "":
		return w.writeInPlace(why)
	}
	return nil
}

func (w *writer) note(text string) { w.notes = append(w.notes, text) }

// openOld opens the existing file, also for reading if permitted. A file that is not writable is not replaced either.
func (w *writer) openOld() error {
	fd, err := openat(w.dir, w.name, unix.O_RDWR|safeOpenFlags)
	if isPermission(err) {
		fd, err = openat(w.dir, w.name, unix.O_WRONLY|safeOpenFlags)
	}
	if errors.Is(err, unix.ENOENT) {
		if w.expected != "" {
			return errStaleGone(w.target.requested)
		}
		return nil
	}
	if err != nil {
		return openError(w.target, err)
	}
	w.old = fd
	w.meta, err = w.state.checkOpened(w.target, fd)
	return err
}

func (w *writer) checkExpected() error {
	if w.expected == "" {
		return nil
	}
	digest, err := digestFile(w.old)
	if errors.Is(err, unix.EBADF) {
		err = unix.EACCES // it could only be opened for writing
	}
	if err != nil {
		return errSystem("compare", w.target.requested, err)
	}
	if digest != w.expected {
		return errStale(w.target.requested)
	}
	return nil
}

// checkOldText rejects replacing a file that is not text: the agent cannot have read it, and its encoding would be
// lost. It reads the file in chunks, regardless of its size.
func (w *writer) checkOldText() error {
	if !w.exists() || w.meta.size == 0 {
		return nil
	}
	buffer := make([]byte, min(w.meta.size+1, readAhead))
	kept := 0 // bytes at the start of buffer that belong to an incomplete character
	for at := int64(0); ; {
		n, err := pread(w.old, buffer[kept:], at)
		if errors.Is(err, unix.EBADF) {
			return nil // it is not readable
		}
		if err != nil {
			return errSystem("read", w.target.requested, err)
		}
		at += int64(n)
		piece := buffer[:kept+n]
		kept = 0
		if n > 0 {
			kept = incompleteLen(piece)
		}
		if !isText(piece[:len(piece)-kept]) {
			return errOldNotText(w.target.requested)
		}
		if n == 0 {
			return nil
		}
		copy(buffer, piece[len(piece)-kept:])
	}
}

// incompleteLen returns the number of bytes at the end of text that belong to an incomplete character.
func incompleteLen(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if last := text[len(text)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}

// openFolder opens the file's folder, and makes its missing parts.
func (w *writer) openFolder() error {
	p := w.target
	parent, missing := p.parent, p.missing
	if p.exists() {
		parent, missing = splitPath(p.path)
	}
	w.name = missing[len(missing)-1]
	dir, err := openExact(parent, searchOnly)
	if err != nil {
		return folderError(p, err)
	}
	w.dir = dir
	for _, name := range missing[:len(missing)-1] {
		err := retry(func() error { return unix.Mkdirat(w.dir, name, 0o777) })
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return errSystem("create the folder of", p.requested, err)
		}
		next, err := openat(w.dir, name, searchOnly)
		if err != nil {
			return folderError(p, err)
		}
		_ = unix.Close(w.dir)
		w.dir = next
	}
	return nil
}

// folderError is openError for a folder that existed, or was made, just before.
func folderError(p *resolvedPath, err error) error {
	if errors.Is(err, unix.ENOENT) {
		return errSwapped(p.requested)
	}
	return openError(p, err)
}
