// Package peer asks the kernel who is at the other end of a unix socket, and tells of a process whether it is an
// agent's.
//
// It knows sockets, processes and the marks that acphost leaves on what it starts. It must not know what the process
// may do.
package peer

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/acphost/acphost/internal/fd"
)

// Peer is the process at the other end of a connection, as the kernel knows it. It cannot be forged.
type Peer struct {
	// Known is false where the system does not tell; the rest is then empty.
	Known bool
	// UID is the effective user id that it connected or listened with.
	UID int
	// PID is its process id at that time; 0 if it lives where we cannot see it.
	PID int
	// Process is a hold of that process, which never means another one; nil: there is none.
	Process Process
}

// Process is a hold of a process. It is safe for concurrent use.
type Process interface {
	// Alive returns an error if it has ended, so that its number may be another process's. The error is ErrEnded where
	// nothing else went wrong.
	Alive() error
	// Close lets go of it.
	Close()
}

// ErrEnded says that a process that was held is gone.
var ErrEnded = errors.New("the process that connected has ended")

// ErrUnsupported is wrapped where the platform cannot tell who is at the other end.
var ErrUnsupported = fmt.Errorf("the platform does not tell a unix socket's peer: %w", errors.ErrUnsupported)

// Close lets go of the process that is held, if one is.
func (p Peer) Close() {
	if p.Process != nil {
		p.Process.Close()
	}
}

// UID returns the effective user id of the process at the other end of a connection. See Of.
func UID(conn net.Conn) (uint32, error) {
	p, err := Of(conn)
	p.Close()
	switch {
	case err != nil:
		return 0, fmt.Errorf("ask for the peer's user id: %w", err)
	case !p.Known:
		return 0, fmt.Errorf("ask for the peer's user id: %w", ErrUnsupported)
	}
	return uint32(p.UID), nil
}

// onSocket runs f on a unix connection's file descriptor.
func onSocket(conn net.Conn, f func(fd int) error) error {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return fmt.Errorf("%T is not a socket", conn)
	}
	return fd.On(socket, f)
}
