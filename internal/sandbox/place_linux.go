//go:build amd64 || arm64

package sandbox

import (
	"crypto/rand"
	"encoding/hex"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A process that renames a file can have the file open, and write to it after the decision. So a name whose content is decided on gets
// a new file with the bytes that were decided on. Until the new file has that name, it has a reserved one, by which no process can
// open it for writing.

// source is a file that a process renames to a path of a Placer, in the same folder.
type source struct {
	held    int // keeps the inode number from being reused; must be closed
	stat    unix.Stat_t
	content []byte
}

// isReserved reports whether a path ends with a name that only the sandbox uses.
func isReserved(name string) bool { return strings.HasPrefix(path.Base(name), ReservedPrefix) }

// sourceOf returns the file at p if its content is decided on before it is renamed to q. It returns nil if it is not: the Decider does
// not want the content, or the file is not a regular one in the folder of q that the sandbox can read, remove and hold in memory.
func (c *call) sourceOf(p, q place) *source {
	placer, ok := c.decider.(Placer)
	if !ok || p.base == "" || q.base == "" || !sameFolder(p, q) {
		return nil
	}
	placed := slices.IndexFunc(q.paths(), placer.Places)
	if placed < 0 {
		return nil
	}
	if st, err := p.stat(); err != nil || !placeable(st) {
		return nil
	}
	s := &source{held: -1}
	err := c.runInDomain(func() (err error) {
		s.held, err = c.openPlace(p, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		return err
	})
	if err != nil || !s.read() {
		s.close()
		return nil
	}
	s.content = placer.Content(q.paths()[placed], s.content)
	return s
}

// read reads the content. It returns false if the file is not placeable.
func (s *source) read() bool {
	if unix.Fstat(s.held, &s.stat) != nil || !placeable(s.stat) {
		return false
	}
	content, err := readMost(s.held, MaxPlaced+1)
	s.content = content
	return err == nil && len(content) <= MaxPlaced
}

func sameFolder(p, q place) bool {
	var a, b unix.Stat_t
	return unix.Fstat(p.dir, &a) == nil && unix.Fstat(q.dir, &b) == nil && a.Dev == b.Dev && a.Ino == b.Ino
}

// placeable reports whether a file is a regular one that the sandbox can remove from each folder in which it can make names.
func placeable(st unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFREG && st.Size <= MaxPlaced && int(st.Uid) == unix.Geteuid()
}

// readMost reads a file from its beginning to its end, and at most limit bytes.
func readMost(fd, limit int) ([]byte, error) {
	var all []byte
	for len(all) < limit {
		all = slices.Grow(all, page)
		n, err := unix.Pread(fd, all[len(all):min(cap(all), limit)], int64(len(all)))
		if err != nil || n == 0 {
			return all, err
		}
		all = all[:len(all)+n]
	}
	return all, nil
}

func (s *source) close() {
	if s != nil && s.held >= 0 {
		unix.Close(s.held)
	}
}

// describe adds the content to the events of the name that the file gets.
func (s *source) describe(events []Event, q place) {
	for i := range events {
		if s != nil && slices.Contains(q.paths(), events[i].Path) {
			events[i].Placed, events[i].Content = true, s.content
		}
	}
}

// place gives q a new file with the content, by rename, and removes the source from p.
func (s *source) place(p, q place, rename func(from, to place) error) error {
	made := q
	made.base = reservedName()
	if err := s.write(made); err != nil {
		return err
	}
	if err := rename(made, q); err != nil {
		_ = unix.Unlinkat(made.dir, made.base, 0)
		return err
	}
	if st, err := p.stat(); err == nil && st.Dev == s.stat.Dev && st.Ino == s.stat.Ino { // no other file has the name already
		return unix.Unlinkat(p.dir, p.base, 0)
	}
	return nil
}

func reservedName() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	return ReservedPrefix + hex.EncodeToString(random[:])
}

// write makes a file with the content and the permissions of the source. If it fails, there is no file.
func (s *source) write(made place) error {
	fd, err := unix.Openat(made.dir, made.base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	for rest := s.content; err == nil && len(rest) > 0; {
		var n int
		n, err = unix.Write(fd, rest)
		rest = rest[max(n, 0):]
	}
	if err == nil {
		err = unix.Fchmod(fd, s.mode(fd))
	}
	if closed := unix.Close(fd); err == nil {
		err = closed
	}
	if err != nil {
		_ = unix.Unlinkat(made.dir, made.base, 0)
	}
	return err
}

// mode returns the permissions of the new file. It gives the file the source's group first; without that group, groups have none.
func (s *source) mode(fd int) uint32 {
	mode := s.stat.Mode & 0o775
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Gid != s.stat.Gid && unix.Fchown(fd, -1, int(s.stat.Gid)) != nil {
		mode &^= 0o070
	}
	return mode
}
