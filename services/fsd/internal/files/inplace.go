package files

import "golang.org/x/sys/unix"

// writeInPlace overwrites the open old file. It reserves space first, if the file system supports that. If writing
// fails nevertheless, it restores the old content.
func (w *writer) writeInPlace(why string) error {
	// Two paths can lead to the same file here; the lock on the path does not serialize them.
	defer w.disk.locks.lock(w.meta.identity)()
	if err := w.checkExpected(); err != nil {
		return err
	}
	saved, whole := w.save()
	if err := reserve(w.old, int64(len(w.content))); err != nil {
		return errSystem("write", w.target.requested, err)
	}
	if err := w.overwriteOrRestore(saved, whole); err != nil {
		return err
	}
	if w.meta.privileged() {
		if err := retry(func() error { return unix.Fchmod(w.old, w.meta.permissions()) }); err != nil {
			return errSystem("clear the set-user-id bit of", w.target.requested, err)
		}
	}
	w.note("written in place, not at once: " + why)
	return nil
}

// save reads the old content, if it is readable and within MaxMaxContent. whole means that content is complete. The
// file can be written without it.
func (w *writer) save() (content []byte, whole bool) {
	m, err := fstat(w.old)
	if err != nil || m.size > MaxMaxContent {
		return nil, false
	}
	content, err = w.readBytes(m.size)
	return content, err == nil // it is not readable, or is shrinking
}

// overwriteOrRestore writes the new content. If that fails half way, it restores the saved content, if that is
// complete.
func (w *writer) overwriteOrRestore(saved []byte, whole bool) error {
	err := overwrite(w.old, w.content)
	if err == nil {
		return nil
	}
	if !whole || overwrite(w.old, saved) != nil {
		return errPartialWrite(w.target.requested, err)
	}
	return errSystem("write", w.target.requested, err)
}

// overwrite replaces the file's content and syncs it to disk.
func overwrite(fd int, content []byte) error {
	if err := writeAll(fd, content, 0); err != nil {
		return err
	}
	if err := retry(func() error { return unix.Ftruncate(fd, int64(len(content))) }); err != nil {
		return err
	}
	return retry(func() error { return unix.Fsync(fd) })
}
