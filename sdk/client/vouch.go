package client

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/acphost/acphost/internal/peer"
)

// DoubtError says why a process that serves a socket is not taken for a supervisor of this user's own: an agent of the same
// user can make sockets too, and would be told what is meant for a supervisor.
type DoubtError struct {
	// PID is the process's.
	PID int
	// Why is what speaks against it.
	Why string
}

// Error says what to do.
func (d *DoubtError) Error() string {
	return fmt.Sprintf("process %d serves it, and may be an agent's: %s; if you know it for a supervisor of yours, name it: --pid %d, or --socket",
		d.PID, d.Why, d.PID)
}

// vouch returns a *DoubtError where an agent may be at the other end of a connection to a socket. It asks what a
// supervisor asks of its callers: what stands above the process, and whether it has more seccomp filters than who asks.
// Where that cannot be seen there is nothing to say: an agent that is confined here can be seen.
func vouch(conn net.Conn) error {
	server, err := peer.Of(conn)
	if err != nil {
		server.Close()
		return nil // nothing is known
	}
	defer server.Close()
	self := os.Getpid()
	if !server.Known || server.PID <= 0 || server.Process == nil || server.PID == self {
		return nil // nothing is known
	}
	if server.UID == 0 && os.Geteuid() != 0 {
		return nil // no agent of ours is root
	}
	why := ""
	if err = server.Process.Alive(); err == nil {
		why, err = peer.ServedBelow(server.PID, self)
	}
	if err == nil && why == "" {
		var has, own int
		if has, own, err = peer.Filters(server.PID, self); has > own {
			why = fmt.Sprintf("it has %d seccomp filters and who asks has %d, as if an agent had started it, or a service manager that filters", has, own)
		}
	}
	if err == nil {
		err = server.Process.Alive()
	}
	switch {
	case errors.Is(err, peer.ErrEnded):
		why = "it has left the socket to another process"
	case err != nil:
		why = fmt.Sprintf("it cannot be told what it is: %v", err)
	}
	if why == "" {
		return nil
	}
	return &DoubtError{PID: server.PID, Why: why}
}
