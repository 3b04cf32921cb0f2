package peer

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/fd"
)

var errHanded = errors.New("another process than the one that connected writes on the connection")

// sender is the process that connected, while it is the only writer. A connection can be inherited or passed on: the
// process that connected may be a person's while an agent writes.
type sender struct {
	Process
	handed atomic.Bool
}

func (s *sender) Alive() error {
	if s.handed.Load() {
		return errHanded
	}
	return s.Process.Alive()
}

// ReportSenders enables SO_PASSCRED, with which the kernel reports the sender of data on a unix socket. Accepted
// connections inherit the setting of the listener. Senders of earlier data are unknown.
func ReportSenders(socket syscall.Conn) error {
	return fd.On(socket, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1) })
}

// BySender returns a connection that checks senders, and the process at its other end. After data of another process
// was read, Alive returns an error.
func BySender(conn net.Conn, c Peer) (net.Conn, Process) {
	plain, ok := conn.(*net.UnixConn)
	if !ok || c.Process == nil {
		return conn, c.Process
	}
	s := &sender{Process: c.Process}
	return &senderConn{UnixConn: plain, sender: s, pid: c.PID}, s
}

// senderConn checks the sender of data that it reads.
type senderConn struct {
	*net.UnixConn
	sender *sender
	pid    int
}

// Read implements net.Conn. The kernel returns data of different processes in different reads.
func (c *senderConn) Read(p []byte) (int, error) {
	// The buffer has room for the sender only, so that the kernel drops files that are passed along.
	room := make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	n, with, _, _, err := c.ReadMsgUnix(p, room)
	if n > 0 && senderOf(room[:with]) != c.pid {
		c.sender.handed.Store(true)
	}
	return max(n, 0), err // n is -1 if the connection was reset
}

// senderOf returns the process id in control messages; -1 if none exists.
func senderOf(control []byte) int {
	messages, err := syscall.ParseSocketControlMessage(control)
	if err != nil || len(messages) != 1 {
		return -1
	}
	credentials, err := syscall.ParseUnixCredentials(&messages[0])
	if err != nil {
		return -1
	}
	return int(credentials.Pid)
}
