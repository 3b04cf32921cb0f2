package files

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// replace writes the content to a temporary file and renames it over the old one. If the file can only be written in
// place, it returns the reason, and has changed nothing.
func (w *writer) replace() (why string, err error) {
	temporary := temporaryName()
	fd, err := w.createTemporary(temporary)
	if err != nil {
		if w.exists() && isPermission(err) {
			return "nothing can be created in its folder (" + systemText(err) + ")", nil
		}
		return "", w.createError(err)
	}
	moved := false
	defer func() {
		_ = unix.Close(fd)
		if !moved {
			_ = unix.Unlinkat(w.dir, temporary, 0)
		}
	}()
	if err := writeAll(fd, w.content, 0); err != nil {
		return "", errSystem("write", w.target.requested, err)
	}
	if w.exists() {
		if err := copyMetadata(fd, w.old, w.meta); err != nil {
			return "its owner or attributes would be lost (" + systemText(err) + ")", nil
		}
		if err := retry(func() error { return unix.Fsync(fd) }); err != nil {
			return "", errSystem("write", w.target.requested, err)
		}
		if err := w.checkUnchanged(); err != nil {
			return "", err
		}
	}
	err = retry(func() error { return unix.Renameat(w.dir, temporary, w.dir, w.name) })
	switch {
	case err == nil:
		moved = true
		w.disk.swept.sweep(w.dir)
		return "", nil
	case w.exists() && (isPermission(err) || errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EXDEV)):
		return "it cannot be replaced (" + systemText(err) + ")", nil
	case errors.Is(err, unix.EISDIR), errors.Is(err, unix.EEXIST):
		return "", errDirectory(w.target.requested)
	}
	return "", errSystem("write", w.target.requested, err)
}

// createTemporary makes an empty file that other users cannot read until it gets the old file's permissions.
func (w *writer) createTemporary(name string) (fd int, err error) {
	mode := uint32(0o666)
	if w.exists() {
		mode = 0o600
	}
	return retried(func() (int, error) {
		return unix.Openat(w.dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|safeOpenFlags, mode)
	})
}

func (w *writer) createError(err error) error {
	if len(w.name) > maxName {
		return errNameTooLong(w.target.requested)
	}
	return errSystem("create", w.target.requested, err)
}

// maxName is the limit of a file name in the usual file systems, in bytes.
const maxName = 255

// checkUnchanged minimizes the time in which another process's write between the check of the digest and the rename is
// lost. Without an expected digest the last writer wins.
func (w *writer) checkUnchanged() error {
	if w.expected == "" {
		return nil
	}
	now, err := lstatAt(w.dir, w.name)
	if errors.Is(err, unix.ENOENT) {
		return errStaleGone(w.target.requested)
	}
	if err != nil {
		return errSystem("examine", w.target.requested, err)
	}
	if !now.sameContent(w.meta) {
		return errStale(w.target.requested)
	}
	return nil
}

// copyMetadata gives a new file the owner, permissions and extended attributes of the old one.
func copyMetadata(fd, old int, m meta) error {
	now, err := fstat(fd)
	if err != nil {
		return err
	}
	if now.uid != m.uid || now.gid != m.gid {
		if err := retry(func() error { return unix.Fchown(fd, int(m.uid), int(m.gid)) }); err != nil {
			return err
		}
	}
	if err := copyAttributes(fd, old); err != nil {
		return err
	}
	return retry(func() error { return unix.Fchmod(fd, m.permissions()) })
}

const (
	temporaryPrefix = ".acphost-"
	temporarySuffix = ".tmp"
	temporaryRandom = 16 // hexadecimal digits between the two
)

// temporaryName returns a random name. It does not contain the file's own name, which may have the maximum length
// already.
func temporaryName() string {
	var random [temporaryRandom / 2]byte
	_, _ = rand.Read(random[:]) // never fails
	return temporaryPrefix + hex.EncodeToString(random[:]) + temporarySuffix
}

func isTemporaryName(name string) bool {
	random, ok := strings.CutPrefix(name, temporaryPrefix)
	if !ok {
		return false
	}
	random, ok = strings.CutSuffix(random, temporarySuffix)
	return ok && len(random) == temporaryRandom && strings.Trim(random, "0123456789abcdef") == ""
}

func writeAll(fd int, content []byte, offset int64) error {
	for len(content) > 0 {
		n, err := retried(func() (int, error) { return unix.Pwrite(fd, content, offset) })
		if err != nil {
			return err
		}
		content, offset = content[n:], offset+int64(n)
	}
	return nil
}

// bytesOf returns the bytes of a string without a copy. They must not be written.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) } //nolint:gosec // the bytes are not written to

func splitPath(path string) (folder string, name []string) {
	i := strings.LastIndexByte(path, '/')
	if i == 0 {
		return "/", []string{path[1:]}
	}
	return path[:i], []string{path[i+1:]}
}
