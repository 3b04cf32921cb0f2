// Package peer identifies the process at the other end of a unix socket, and reports whether a process belongs to an
// agent.
//
// It knows sockets, processes and the marks that acphost leaves on processes that it starts. It must not know what the
// process may do.
package peer

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/acphost/acphost/internal/fd"
)

// Peer is the process at the other end of a connection, as reported by the kernel. It cannot be forged.
type Peer struct {
	// Known is false if the system does not report the peer. The other fields are then empty.
	Known bool
	// UID is the effective user id with which it connected or listened.
	UID int
	// PID is its process id at that time; 0 if it is in a process namespace that this process cannot see.
	PID int
	// Process is a handle of that process, which never refers to another one; nil if none exists.
	Process Process
}

// Process is a handle of a process. Safe for concurrent use.
type Process interface {
	// Alive returns an error if the process has ended, so that its id may have been reused. The error is ErrEnded if
	// nothing else went wrong.
	Alive() error
	// Close releases the handle.
	Close()
}

// ErrEnded means that a process with a handle has ended.
var ErrEnded = errors.New("the process that connected has ended")

// ErrUnsupported is wrapped on platforms that do not report peers.
var ErrUnsupported = fmt.Errorf("the platform does not report the peer of a unix socket: %w", errors.ErrUnsupported)

// Close releases the handle of the process, if any.
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
