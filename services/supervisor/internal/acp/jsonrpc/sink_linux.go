package jsonrpc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxVectors is the maximum number of buffers in a writev (UIO_MAXIOV).
const maxVectors = 1024

// fileSink writes to a file descriptor with writev. It works on pipes, terminals, files and sockets, even if the
// descriptor is non-blocking and not registered in Go's poller: another process that shares a standard stream can make
// it non-blocking at any time.
type fileSink struct {
	file *os.File
	raw  syscall.RawConn
	try  func(fd uintptr) bool // created once, to avoid an allocation in each write

	bufs [][]byte // the bytes that are not written yet
	err  error
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
	// The slice headers are copied, because partial writes shorten them and they belong to the caller.
	s.bufs = append(s.bufs[:0], bufs...)
	left := s.bufs
	defer func() {
		clear(left) // release the caller's buffers
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
		// The write is incomplete, and the poller could not wait: the file was closed, or the poller does not support
		// it.
		if err := s.wait(); err != nil {
			return fmt.Errorf("write %s: %w", s.file.Name(), err)
		}
	}
}

// tryWrite writes until all bytes are written or the write fails. It returns false if the descriptor would block.
func (s *fileSink) tryWrite(fd uintptr) bool {
	for {
		for len(s.bufs) > 0 && len(s.bufs[0]) == 0 {
			s.bufs = s.bufs[1:]
		}
		if len(s.bufs) == 0 {
			return true
		}
		var n int
		var err error
		if len(s.bufs) == 1 {
			n, err = unix.Write(int(fd), s.bufs[0])
		} else {
			n, err = unix.Writev(int(fd), s.bufs[:min(len(s.bufs), maxVectors)])
		}
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
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

// advance removes the n bytes that were written.
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

// wait waits until a descriptor that is not in the poller accepts bytes again. It returns after a limited time, so that
// the closing of the file is noticed.
func (s *fileSink) wait() error {
	var failed error
	err := s.raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		if _, failed = unix.Poll(fds, 500); failed == unix.EINTR {
			failed = nil
		}
	})
	if err != nil {
		return os.ErrClosed // the only possible failure of Control; its own error is not exported
	}
	return failed
}
