package files

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// leftoverAge is the age of the last write after which a temporary file counts as abandoned.
	leftoverAge = 10 * time.Minute
	// sweptFolders limits the folders that are remembered as swept.
	sweptFolders = 1024
	// sweptEntries limits the entries of a folder that are checked.
	sweptEntries = 10000
)

// sweeper removes the temporary files of processes that were killed while writing: once per folder, at the first write
// to it.
type sweeper struct {
	mu   sync.Mutex
	done map[identity]struct{}
}

// sweep removes abandoned temporary files from an open folder. It ignores errors: the next process tries again.
func (s *sweeper) sweep(dir int) {
	m, err := fstat(dir)
	if err != nil || !s.firstSweep(m.identity) {
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

// firstSweep reports whether a folder was not swept before, and remembers it. When too many folders are known, it
// clears the memory.
func (s *sweeper) firstSweep(id identity) bool {
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
