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

// sender is the process that connected, for as long as nobody else writes on the connection: a file can be handed on, and
// inherited, and the process that connected may be a person's while an agent writes.
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

// TellSenders has the kernel say with what comes on a unix socket who has sent it. A listener's connections are as the listener
// is. Of what was sent before, the sender is not known.
func TellSenders(socket syscall.Conn) error {
	return fd.On(socket, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1) })
}

// BySender is a connection that tells senders, and the process at its other end. Once another process than that one has sent
// something that was read, the process counts as no longer alive.
func BySender(conn net.Conn, c Peer) (net.Conn, Process) {
	plain, ok := conn.(*net.UnixConn)
	if !ok || c.Process == nil {
		return conn, c.Process
	}
	s := &sender{Process: c.Process}
	return &senderConn{UnixConn: plain, sender: s, pid: c.PID}, s
}

// senderConn looks who has sent what is read.
type senderConn struct {
	*net.UnixConn
	sender *sender
	pid    int
}

// Read implements net.Conn. What was sent by different processes comes in different reads.
func (c *senderConn) Read(p []byte) (int, error) {
	// There is room for the sender and no more, so that files that come with it are dropped by the kernel.
	room := make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	n, with, _, _, err := c.ReadMsgUnix(p, room)
	if n > 0 && senderOf(room[:with]) != c.pid {
		c.sender.handed.Store(true)
	}
	return max(n, 0), err // it is -1 where the connection was reset
}

// senderOf is the process id in control messages; -1: there is none.
func senderOf(control []byte) int {
	messages, err := syscall.ParseSocketControlMessage(control)
	if err != nil || len(messages) != 1 {
		return -1
	}
	who, err := syscall.ParseUnixCredentials(&messages[0])
	if err != nil {
		return -1
	}
	return int(who.Pid)
}
