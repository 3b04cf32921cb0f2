//go:build amd64 || arm64

package sandbox

import "golang.org/x/sys/unix"

// setID are the mode bits by which a program runs with the rights of the file's user or group, whoever starts it. A
// confined process that sets one leaves a program that gives its rights to other users, or takes theirs in a folder
// that several users share.
const setID = unix.S_ISUID | unix.S_ISGID

// givesPrivileges reports whether a new mode has a bit of setID that the file lacks. On folders, the bits have another
// meaning: new files get the folder's group.
func givesPrivileges(mode uint32, st unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT != unix.S_IFDIR && mode&setID&^st.Mode != 0
}

// refusePrivileges rejects the call, and notifies the decider.
func (c *call) refusePrivileges() error {
	return c.refuse("a set-user-ID or set-group-ID bit on a file", unix.EPERM)
}

// setsPrivileges reports whether the call gives the file at a place a bit of setID that it lacks.
func (c *call) setsPrivileges(p place) bool {
	var mode uint32
	switch c.data.number {
	case sysChmod, unix.SYS_FCHMOD:
		mode = uint32(c.data.args[1])
	case unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2:
		mode = uint32(c.data.args[2])
	}
	if mode&setID == 0 {
		return false
	}
	st, err := p.stat()
	return err == nil && givesPrivileges(mode, st)
}
