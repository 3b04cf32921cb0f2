package files

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// leftoverAge is how long nothing was written to a temporary file that nobody will finish.
	leftoverAge = 10 * time.Minute
	// sweptFolders is how many folders are remembered as swept.
	sweptFolders = 1024
	// sweptEntries is how many entries of a folder are looked at.
	sweptEntries = 10000
)

// sweeper removes the temporary files of processes that were killed while writing: once a folder, when it is first
// written to.
type sweeper struct {
	mu   sync.Mutex
	done map[identity]struct{}
}

// sweep looks through an open folder. It is best effort: what fails will be met again by the next process.
func (s *sweeper) sweep(dir int) {
	m, err := fstat(dir)
	if err != nil || !s.first(m.identity) {
		return
	}
	fd, err := openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return
	}
	folder := os.NewFile(uintptr(fd), "")
	defer func() { _ = folder.Close() }()
	oldest := time.Now().Add(-leftoverAge).UnixNano()
	for range sweptEntries / listChunk {
		names, err := folder.Readdirnames(listChunk)
		for _, name := range names {
			if !isTemporaryName(name) {
				continue
			}
			if m, err := lstatAt(fd, name); err == nil && m.isRegular() && m.mtime < oldest {
				_ = unix.Unlinkat(fd, name, 0)
			}
		}
		if err != nil {
			return
		}
	}
}

// first says that a folder was not swept before. When too many are known, all are forgotten.
func (s *sweeper) first(id identity) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.done[id]; known {
		return false
	}
	if s.done == nil || len(s.done) >= sweptFolders {
		s.done = make(map[identity]struct{})
	}
	s.done[id] = struct{}{}
	return true
}
