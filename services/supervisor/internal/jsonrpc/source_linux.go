package jsonrpc

import (
	"io"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	calls "github.com/acphost/acphost/internal/fd"
)

// fileSource reads a file that Go's poller watches, by calls of the kernel that cannot wait. Go's scheduler need not be told of
// such calls: it would wake its monitor thread for each line that ends a pause.
type fileSource struct {
	file *os.File
	raw  syscall.RawConn
	try  func(fd uintptr) bool // made once: a closure for each read would be garbage

	into  [1]unix.Iovec
	n     int
	errno syscall.Errno
	plain bool // the kernel cannot promise not to wait
}

func newSource(r io.Reader) io.Reader {
	f, ok := r.(*os.File)
	if !ok {
		return r
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return r
	}
	s := &fileSource{file: f, raw: raw}
	s.try = func(fd uintptr) bool {
		s.n, s.errno = atOnce(unix.SYS_PREADV2, fd, s.into[:])
		calls.Received(int(fd))
		return s.errno != unix.EAGAIN
	}
	return s
}

// Read implements io.Reader. Whatever goes wrong, the file's own Read is tried, which knows all kinds of files and errors.
func (s *fileSource) Read(p []byte) (int, error) {
	if s.plain || len(p) == 0 {
		return s.file.Read(p)
	}
	s.into[0] = vector(p)
	err := s.raw.Read(s.try)
	s.into[0] = unix.Iovec{}
	switch {
	case err != nil || s.errno != 0:
		s.plain = unsupported(s.errno)
		return s.file.Read(p)
	case s.n == 0:
		return 0, io.EOF
	}
	return s.n, nil
}

func vector(b []byte) unix.Iovec {
	v := unix.Iovec{Base: unsafe.SliceData(b)}
	v.SetLen(len(b))
	return v
}

// atOnce makes a call of the kind of preadv2 that moves what can be moved without waiting; EAGAIN: nothing can.
func atOnce(call, fd uintptr, v []unix.Iovec) (int, syscall.Errno) {
	const here = ^uintptr(0) // -1, in both halves of the offset: where the file is
	n, _, errno := unix.RawSyscall6(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(v))), uintptr(len(v)), here, here, unix.RWF_NOWAIT)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// unsupported reports whether the kernel knows no call of the kind of preadv2 for such a file, or at all. Older container
// runtimes answer EPERM for calls that they do not know.
func unsupported(errno syscall.Errno) bool {
	return errno == unix.EOPNOTSUPP || errno == unix.ENOSYS || errno == unix.EPERM
}
