package files

import (
	"context"
	"errors"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/git"
)

// Written is what a write did.
type Written struct {
	// Digest is "sha256:" and lower-case hexadecimal of the new content. Empty with Bounds.NoDigest.
	Digest string
	// Path is where the path led: absolute, without symbolic links.
	Path string
	// Notes are what a person should know though the write succeeded, one sentence each.
	Notes []string
}

// Write replaces a file's content, or makes the file and the folders on its way (with the umask). expected, if not
// empty, is the digest that the file's content must have.
//
// The new content appears at once or not at all: it is written to a temporary file beside the old one, which it then
// replaces, with the old one's permissions, owner and extended attributes. The set-user-id and set-group-id bits are
// dropped. A file that exists is replaced only after the new content has reached the disk, so that losing power leaves
// the old content or the new; a new file is not waited for. Where a file cannot be replaced (it is a mount point, the folder
// is read-only, the owner would change), it is written in place and a note says so; if that fails half way, the old content
// is put back.
//
// A file with other hard links is written in place too, where all its names lie below the roots and none is git's. One of
// git's is refused under every name. If some of its names are not found, it is replaced, so that they keep the old content,
// and a note says so; or refused, where it cannot be.
//
// A write that has begun runs to its end, whatever becomes of the context: its caller must learn what happened.
//
// A file keeps its textform.Form, if Read would return it whole, and a note says so; not with Config.AsSent.
//
// What is written can be read again: content that is not text, as Read takes it, is refused. So is any content for a file that
// holds something else than text, whose encoding would be lost. A file that can only be written is not looked at.
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
	w := &writer{disk: d, state: s, place: p, content: bytesOf(content), expected: expected, roots: b.Roots, dir: -1, old: -1}
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

// locateLocked locates the path and locks what it leads to.
func (d *Disk) locateLocked(s *state, b Bounds, path string) (*place, func(), error) {
	before, err := s.locate(b, path, toOverwrite)
	if err != nil {
		return nil, nil, err
	}
	unlock := d.locks.lock(before.path)
	if git.Decides(before.path) {
		// Of several writes that make a repository together, each must see what the others have written.
		d.repositories.Lock()
		of := unlock
		unlock = func() { d.repositories.Unlock(); of() }
	}
	// Whoever had the lock may have made what was missing.
	p, err := s.locate(b, path, toOverwrite)
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
	place    *place
	content  []byte
	expected string
	roots    []Root
	notes    []string

	dir  int    // the folder, only for going through; -1: not open
	name string // the file in it
	old  int    // the file; -1: it is not there
	meta meta   // of old
}

func (w *writer) close() {
	for _, fd := range []int{w.dir, w.old} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// exists says that there is an old file.
func (w *writer) exists() bool { return w.old >= 0 }

func (w *writer) write() error {
	if w.expected != "" && !w.place.exists() {
		return errStaleGone(w.place.asked)
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
		switch namesOf(w.meta, w.roots) {
		case gits:
			return errGit(w.place.asked)
		case known:
			return w.writeInPlace("it has other hard links")
		}
	}
	why, err := w.replace()
	switch {
	case err != nil:
		return err
	case linked && why != "":
		return fail(Protected, "the file has other hard links, not all of which lie in the workspace, so that it is not written in place, and %s: %s", why, w.place.asked)
	case linked:
		w.note("it had other hard links, not all of which lie in the workspace: they keep the old content")
	case why != "":
		return w.writeInPlace(why)
	}
	return nil
}

func (w *writer) note(text string) { w.notes = append(w.notes, text) }

// openOld opens the file as it is, for reading too if that is allowed. A file that may not be written is not replaced
// either.
func (w *writer) openOld() error {
	fd, err := openat(w.dir, w.name, unix.O_RDWR|quiet)
	if isPermission(err) {
		fd, err = openat(w.dir, w.name, unix.O_WRONLY|quiet)
	}
	if errors.Is(err, unix.ENOENT) {
		if w.expected != "" {
			return errStaleGone(w.place.asked)
		}
		return nil
	}
	if err != nil {
		return openError(w.place, err)
	}
	w.old = fd
	w.meta, err = w.state.checkOpened(w.place, fd)
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
		return errSystem("compare", w.place.asked, err)
	}
	if digest != w.expected {
		return errStale(w.place.asked)
	}
	return nil
}

// checkOldText refuses to replace a file that is not text: the agent cannot have read it, and its encoding would be lost. It
// reads the file in pieces, whatever its size.
func (w *writer) checkOldText() error {
	if !w.exists() || w.meta.size == 0 {
		return nil
	}
	buffer := make([]byte, min(w.meta.size+1, readAhead))
	kept := 0 // bytes at the beginning of buffer: of a character whose end was not read yet
	for at := int64(0); ; {
		n, err := pread(w.old, buffer[kept:], at)
		if errors.Is(err, unix.EBADF) {
			return nil // it can only be written
		}
		if err != nil {
			return errSystem("read", w.place.asked, err)
		}
		at += int64(n)
		piece := buffer[:kept+n]
		kept = 0
		if n > 0 {
			kept = unfinished(piece)
		}
		if !isText(piece[:len(piece)-kept]) {
			return errOldNotText(w.place.asked)
		}
		if n == 0 {
			return nil
		}
		copy(buffer, piece[len(piece)-kept:])
	}
}

// unfinished returns how many bytes at the end of text are the beginning of a character.
func unfinished(text []byte) int {
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

// openFolder opens the file's folder and makes what is missing of it.
func (w *writer) openFolder() error {
	p := w.place
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
			return errSystem("create the folder of", p.asked, err)
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

// folderError is openError for a folder that was there, or was made, just now.
func folderError(p *place, err error) error {
	if errors.Is(err, unix.ENOENT) {
		return errSwapped(p.asked)
	}
	return openError(p, err)
}
