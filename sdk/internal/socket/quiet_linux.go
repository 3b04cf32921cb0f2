package socket

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	calls "github.com/acphost/acphost/internal/fd"
)

// Quiet takes a connection over a Unix domain socket and returns it as one that wakes this process less often; conn must
// not be used any more. If that cannot be done, or conn is no such connection, Quiet returns conn itself.
//
// Go's poller asks the kernel about both directions of a socket, and the kernel says that a socket can be written to
// whenever the peer has read: a process that waits for an answer wakes up because its request was read, and finds nothing to
// do. The result waits with epoll instances of its own: one for what can be read, and one that is only asked while a write
// has to wait. Go's poller watches these two. The kernel is called in a way that cannot wait (MSG_DONTWAIT), so Go's
// scheduler need not be told of the calls, which would wake its monitor thread.
//
// Deadlines and concurrent use are as with any net.Conn.
func Quiet(from net.Conn) net.Conn {
	socket, ok := from.(*net.UnixConn)
	if !ok {
		return from
	}
	fd, err := duplicate(socket)
	if err != nil {
		return from
	}
	c := &conn{fd: fd, local: from.LocalAddr(), remote: from.RemoteAddr()}
	if c.in, err = watch(fd, unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLET); err == nil {
		c.out, err = watch(fd, 0)
	}
	if err != nil {
		_ = c.release()
		return from
	}
	_ = from.Close()
	return c
}

func duplicate(socket *net.UnixConn) (fd int, err error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	failed := raw.Control(func(old uintptr) { fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) })
	return fd, errors.Join(failed, err)
}

// conn is a Unix domain socket. fd is used only while in or out is held, so that closing these waits for its users.
type conn struct {
	fd            int
	in, out       *watcher
	local, remote net.Addr
	once          sync.Once
}

// A watcher is an epoll instance that Go's poller watches.
type watcher struct {
	file *os.File
	raw  syscall.RawConn
	fd   int
}

// watch makes a watcher that tells of events of a socket.
func watch(fd int, events uint32) (*watcher, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := errors.Join(unix.SetNonblock(epoll, true),
		unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events})); err != nil {
		_ = unix.Close(epoll)
		return nil, err
	}
	w := &watcher{file: os.NewFile(uintptr(epoll), "epoll"), fd: epoll}
	if err := w.file.SetDeadline(time.Time{}); err != nil { // Go's poller does not watch it
		_ = w.file.Close()
		return nil, err
	}
	w.raw, err = w.file.SyscallConn()
	return w, err
}

// do calls try until it reports that it is done; in between it waits for the watcher's events.
func (w *watcher) do(try func(uintptr) bool) error {
	err := w.raw.Read(try)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return net.ErrClosed // it fails for nothing else, but says so with an error that is not exported
	}
	return err
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	var n int
	var errno syscall.Errno
	err := c.in.do(func(uintptr) bool {
		n, errno = transfer(unix.SYS_RECVFROM, c.fd, p, 0)
		calls.Received(c.fd)
		return errno != unix.EAGAIN
	})
	switch {
	case err != nil:
		return 0, c.failed("read", err)
	case errno != 0:
		return 0, c.failed("read", os.NewSyscallError("recvfrom", errno))
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (written int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	var errno syscall.Errno
	err = c.out.do(func(uintptr) bool {
		calls.Sending(c.fd)
		for written < len(p) {
			var n int
			if n, errno = transfer(unix.SYS_SENDTO, c.fd, p[written:], unix.MSG_NOSIGNAL); errno == unix.EAGAIN {
				again := unix.EpollEvent{Events: unix.EPOLLOUT | unix.EPOLLONESHOT}
				if err := unix.EpollCtl(c.out.fd, unix.EPOLL_CTL_MOD, c.fd, &again); err != nil {
					errno, _ = errors.AsType[syscall.Errno](err)
				}
			}
			if errno != 0 {
				return errno != unix.EAGAIN
			}
			written += n
		}
		return true
	})
	switch {
	case err != nil:
		return written, c.failed("write", err)
	case errno != 0:
		return written, c.failed("write", os.NewSyscallError("sendto", errno))
	}
	return written, nil
}

// transfer moves bytes between p and a socket, without waiting.
func transfer(call uintptr, fd int, p []byte, flags uintptr) (int, syscall.Errno) {
	for {
		n, _, errno := unix.RawSyscall6(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)),
			unix.MSG_DONTWAIT|flags, 0, 0)
		switch errno {
		case 0:
			return int(n), 0
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}

func (c *conn) failed(what string, err error) error {
	return &net.OpError{Op: what, Net: c.local.Network(), Source: c.local, Addr: c.remote, Err: err}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	err := c.failed("close", net.ErrClosed)
	c.once.Do(func() { err = c.release() })
	return err
}

// release closes what c holds, once nobody uses it.
func (c *conn) release() error {
	for _, w := range []*watcher{c.in, c.out} {
		if w != nil {
			_ = w.file.Close()
		}
	}
	return os.NewSyscallError("close", unix.Close(c.fd))
}

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error { return c.in.file.SetReadDeadline(t) }

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.out.file.SetReadDeadline(t) }
