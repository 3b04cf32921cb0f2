package client

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/acphost/acphost/internal/peer"
)

// DoubtError is the reason why a process that serves a socket is not accepted as a supervisor of this user: an agent of
// the same user can make sockets too, and would receive data for a supervisor.
type DoubtError struct {
	// PID is the id of the process.
	PID int
	// Why is the reason for the doubt.
	Why string
}

// Error describes the doubt and the next step.
func (d *DoubtError) Error() string {
	return fmt.Sprintf("process %d serves it, and may be an agent's: %s; if you know it for a supervisor of yours, name it: --pid %d, or --socket",
		d.PID, d.Why, d.PID)
}

// checkServer returns a *DoubtError if an agent may be at the other end of a connection to a socket. It applies the
// supervisor's checks of callers: the ancestors of the process, and whether it has more seccomp filters than this
// process. If that cannot be determined, vouch returns nil: the processes of a sandboxed agent can always be inspected.
func checkServer(conn net.Conn) error {
	server, err := peer.Of(conn)
	if err != nil {
		server.Close()
		return nil // unknown
	}
	defer server.Close()
	self := os.Getpid()
	if !server.Known || server.PID <= 0 || server.Process == nil || server.PID == self {
		return nil // unknown
	}
	if server.UID == 0 && os.Geteuid() != 0 {
		return nil // agents do not run as root
	}
	why := ""
	if err = server.Process.Alive(); err == nil {
		why, err = peer.ServedBelow(server.PID, self)
	}
	if err == nil && why == "" {
		var has, own int
		if has, own, err = peer.Filters(server.PID, self); has > own {
			why = fmt.Sprintf("it has %d seccomp filters and this process has %d, as if an agent, or a service manager with filters, had started it", has, own)
		}
	}
	if err == nil {
		err = server.Process.Alive()
	}
	switch {
	case errors.Is(err, peer.ErrEnded):
		why = "it has left the socket to another process"
	case err != nil:
		why = fmt.Sprintf("it could not be identified: %v", err)
	}
	if why == "" {
		return nil
	}
	return &DoubtError{PID: server.PID, Why: why}
}
