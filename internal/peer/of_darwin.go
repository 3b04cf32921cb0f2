package peer

import (
	"net"

	"golang.org/x/sys/unix"
)

// Of returns the process at the other end of a connected unix stream socket: the process that connected or, on the
// connecting side, the process that listens. It has no handle of the process here.
func Of(conn net.Conn) (Peer, error) {
	var cred *unix.Xucred
	var pid int
	err := onSocket(conn, func(fd int) (err error) {
		if cred, err = unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED); err != nil {
			return err
		}
		pid, err = unix.GetsockoptInt(fd, unix.SOL_LOCAL, unix.LOCAL_PEERPID)
		return err
	})
	if err != nil {
		return Peer{}, err
	}
	return Peer{Known: true, UID: int(cred.Uid), PID: pid}, nil
}
