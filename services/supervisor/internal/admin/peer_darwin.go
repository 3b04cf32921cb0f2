package admin

import (
	"net"

	"golang.org/x/sys/unix"
)

// callerOn asks the kernel who connected. It cannot hold a process here: verbs are refused.
func callerOn(conn net.Conn) (caller, error) {
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
		return caller{}, err
	}
	return caller{Known: true, UID: int(cred.Uid), PID: pid}, nil
}
