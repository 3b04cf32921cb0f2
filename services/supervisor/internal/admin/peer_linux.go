package admin

import (
	"net"

	"golang.org/x/sys/unix"
)

// callerOn asks the kernel who connected.
func callerOn(conn net.Conn) (caller, error) {
	var cred *unix.Ucred
	err := control(conn, func(fd int) (err error) {
		cred, err = unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		return err
	})
	if err != nil {
		return caller{}, err
	}
	return caller{Known: true, UID: int(cred.Uid), PID: int(cred.Pid)}, nil
}
