package decisions

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/sandbox"
)

// Dial returns the Decider of a sandbox that asks on a descriptor. It owns the descriptor from then on.
func Dial(fd int, o sandbox.Options) (sandbox.Decider, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("take the socket for decisions: %w", err)
	}
	timeout := answerTimeout
	if o.Observe {
		timeout = observeTimeout
	}
	c := newClient(&descriptor{fd: fd}, timeout)
	c.environ = o.Environ
	return c, nil
}

// descriptor is a socket whose callers block on their own threads. Go's poller would wake a second thread for each answer, which
// would then wake the waiting thread of the sandbox. One goroutine may read while another writes.
type descriptor struct {
	fd               int
	reading, writing time.Time // deadlines
	read             bool      // a read has succeeded
	came             []int     // descriptors received with the first read
}

// open implements lender.
func (d *descriptor) open() bool {
	p := []unix.PollFd{{Fd: int32(d.fd)}}
	n, err := unix.Poll(p, 0)
	return err == nil && n == 0
}

// lent implements lender.
func (d *descriptor) lent() []int {
	came := d.came
	d.came = nil
	return came
}

// receive reads. The first data may come with descriptors.
func (d *descriptor) receive(b []byte) (int, error) {
	if d.read {
		return unix.Read(d.fd, b)
	}
	rights := make([]byte, unix.CmsgSpace(4*4))
	n, got, _, _, err := unix.Recvmsg(d.fd, b, rights, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return 0, err
	}
	d.read = true
	messages, _ := unix.ParseSocketControlMessage(rights[:got])
	for _, m := range messages {
		fds, _ := unix.ParseUnixRights(&m)
		d.came = append(d.came, fds...)
	}
	return n, nil
}

func (d *descriptor) SetReadDeadline(t time.Time) error  { d.reading = t; return nil }
func (d *descriptor) SetWriteDeadline(t time.Time) error { d.writing = t; return nil }

// Close shuts the connection down. It keeps the descriptor's number, because another thread may be about to use it.
func (d *descriptor) Close() error { return unix.Shutdown(d.fd, unix.SHUT_RDWR) }

func (d *descriptor) Read(b []byte) (int, error) {
	for {
		if err := d.wait(unix.POLLIN, d.reading); err != nil {
			return 0, err
		}
		n, err := d.receive(b)
		switch {
		case err == nil && n == 0:
			return 0, io.EOF
		case err == nil:
			return n, nil
		case !again(err):
			return 0, err
		}
	}
}

func (d *descriptor) Write(b []byte) (int, error) {
	written := 0
	for written < len(b) {
		n, err := unix.SendmsgN(d.fd, b[written:], nil, nil, unix.MSG_NOSIGNAL)
		switch {
		case err == nil:
			written += n
		case !again(err):
			return written, err
		default:
			if err := d.wait(unix.POLLOUT, d.writing); err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

func again(err error) bool { return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) }

// wait waits until the socket is readable or writable, or has ended.
func (d *descriptor) wait(events int16, deadline time.Time) error {
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return os.ErrDeadlineExceeded
		}
		p := []unix.PollFd{{Fd: int32(d.fd), Events: events}}
		switch n, err := unix.Poll(p, int(left.Milliseconds())+1); {
		case err != nil && !errors.Is(err, unix.EINTR):
			return err
		case n > 0:
			return nil
		}
	}
}
