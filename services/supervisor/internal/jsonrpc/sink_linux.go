package jsonrpc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	calls "github.com/acphost/acphost/internal/fd"
)

// maxVectors is how many buffers the kernel takes at once (UIO_MAXIOV).
const maxVectors = 1024

// fileSink writes to a file descriptor with writev. It works on pipes, terminals, files and sockets, also where the
// descriptor is non-blocking and Go's poller does not watch it: another process that shares a standard stream can make
// it so at any time.
type fileSink struct {
	file *os.File
	raw  syscall.RawConn
	try  func(fd uintptr) bool // made once: a closure for each write would be garbage

	bufs  [][]byte // what is left to write
	from  [8]unix.Iovec
	plain bool // the kernel cannot promise not to wait
	err   error
}

func newFileSink(f *os.File) sink {
	raw, err := f.SyscallConn()
	if err != nil {
		return &plainSink{w: f}
	}
	s := &fileSink{file: f, raw: raw}
	s.try = s.tryWrite
	return s
}

func (s *fileSink) ready() bool {
	ready := false
	err := s.raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		n, err := unix.Poll(fds, 0)
		ready = err == nil && n == 1
	})
	return err == nil && ready
}

func (s *fileSink) write(bufs [][]byte) error {
	// The headers are copied because partial writes shorten them and they are the caller's.
	s.bufs = append(s.bufs[:0], bufs...)
	left := s.bufs
	defer func() {
		clear(left) // keep nothing of the caller's alive
		s.bufs = left[:0]
		s.err = nil
	}()
	for {
		waited := s.raw.Write(s.try)
		if s.err != nil {
			return fmt.Errorf("write %s: %w", s.file.Name(), s.err)
		}
		if len(s.bufs) == 0 {
			return nil
		}
		if waited == nil {
			continue
		}
		if errors.Is(waited, os.ErrDeadlineExceeded) {
			return fmt.Errorf("write %s: %w", s.file.Name(), waited)
		}
		// Not done, and the poller could not wait: the file was closed, or it is none that the poller knows.
		if err := s.wait(); err != nil {
			return fmt.Errorf("write %s: %w", s.file.Name(), err)
		}
	}
}

// tryWrite writes until all is written, it fails, or the descriptor would block (false).
func (s *fileSink) tryWrite(fd uintptr) bool {
	for {
		for len(s.bufs) > 0 && len(s.bufs[0]) == 0 {
			s.bufs = s.bufs[1:]
		}
		if len(s.bufs) == 0 {
			return true
		}
		n, err := s.transfer(fd)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return false
		case err != nil:
			s.err = err
			return true
		case n == 0:
			s.err = io.ErrUnexpectedEOF
			return true
		}
		s.advance(n)
	}
}

// transfer writes some of bufs: what can be written without waiting, or as the descriptor does it. The kernel call that
// cannot wait comes first; see fileSource.
func (s *fileSink) transfer(fd uintptr) (int, error) {
	if !s.plain && len(s.bufs) <= len(s.from) {
		from := s.from[:len(s.bufs)]
		for i, b := range s.bufs {
			from[i] = vector(b)
		}
		calls.Sending(int(fd))
		n, errno := atOnce(unix.SYS_PWRITEV2, fd, from)
		clear(from)
		if errno == 0 {
			return n, nil
		}
		s.plain = unsupported(errno)
	}
	if len(s.bufs) == 1 {
		return unix.Write(int(fd), s.bufs[0])
	}
	return unix.Writev(int(fd), s.bufs[:min(len(s.bufs), maxVectors)])
}

// advance drops the n bytes that were written.
func (s *fileSink) advance(n int) {
	for n > 0 {
		if n < len(s.bufs[0]) {
			s.bufs[0] = s.bufs[0][n:]
			return
		}
		n -= len(s.bufs[0])
		s.bufs = s.bufs[1:]
	}
}

// wait waits a moment for a descriptor that the poller does not watch to take bytes again. It returns from time to time
// so that closing the file is noticed.
func (s *fileSink) wait() error {
	var failed error
	err := s.raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		if _, failed = unix.Poll(fds, 500); failed == unix.EINTR {
			failed = nil
		}
	})
	if err != nil {
		return os.ErrClosed // Control fails for nothing else, but says so with an error that is not exported
	}
	return failed
}
