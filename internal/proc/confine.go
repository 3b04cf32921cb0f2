package proc

import (
	"fmt"
	"strings"
)

// Confinement says which walls a process is started behind. The zero value is all of them, and no capability.
type Confinement struct {
	// NoLandlock leaves out the Landlock domain.
	NoLandlock bool
	// NoSeccomp leaves out the seccomp filter.
	NoSeccomp bool
	// Unreadable are files and folders, absolute, that no process behind the walls can read, write, remove or rename: by the
	// Landlock domain, which for this is about files as well. Directly in a folder above them, and above a symbolic link on the
	// way to them, nothing can be made, removed or renamed, nor can a file be read that was made later; and nothing can be
	// mounted. A file that has a hard link elsewhere cannot be made unreadable. Who starts a process has to look whether the
	// wall stands (Walls.Unreadable). Default: none.
	Unreadable []string
	// OnePort has the process connect over TCP to Port alone, at any address; 0: to none. It is part of the Landlock
	// domain. Multipath TCP, UDP and other sockets are as before, and so is listening. Who starts a process has to look
	// whether the wall stands (Walls.OnePort).
	OnePort bool
	Port    uint16
	// Keep are the capabilities that the process may have, if the calling process has them. Default: none.
	Keep []Capability
	// ChangesUser says that the process is started as another user (SysProcAttr.Credential). The kernel takes all
	// capabilities from a process that gives up user 0, and Keep then means nothing.
	ChangesUser bool
}

// Closed returns an error unless the files that c makes unreadable are.
func (w Walls) Closed(c Confinement) error {
	if len(c.Unreadable) == 0 || w.Unreadable {
		return nil
	}
	return fmt.Errorf("%s must be unreadable to it, and cannot be made so: %s", strings.Join(c.Unreadable, ", "), strings.Join(w.Notes, "; "))
}

// Walls says which walls a process was started behind.
type Walls struct {
	// Landlock: it and its descendants can signal and trace only one another, and can connect to no abstract unix socket
	// that was made outside. False as well where only a lesser domain could be had, of which a note tells.
	Landlock bool
	// Unreadable: they cannot read the files of Confinement.Unreadable. False where there are none, too.
	Unreadable bool
	// OnePort: they connect over TCP to no port but that of Confinement.Port. False where that was not wanted, too.
	OnePort bool
	// Seccomp: they cannot make the system calls that reach into other processes; see seccomp_linux.go.
	Seccomp bool
	// Capabilities: they have none, but for those of Confinement.Keep.
	Capabilities bool
	// Notes say which walls are missing and why, one sentence each.
	Notes []string
}
