package proc

import (
	"fmt"
	"strings"
)

// Confinement selects the restrictions of a process. The zero value selects all of them except Unreadable and OnePort,
// and no capability.
type Confinement struct {
	// NoLandlock omits the Landlock domain.
	NoLandlock bool
	// NoSeccomp omits the seccomp filter.
	NoSeccomp bool
	// Unreadable are absolute paths of files and folders that confined processes cannot read, write, remove or rename.
	// The Landlock domain enforces this, and then also restricts files. In a folder above them, and above a symbolic
	// link on the way to them, no name can be made, removed or renamed directly, and a file that was made later cannot
	// be read. Mounting is not possible. A file that has a hard link elsewhere cannot be made unreadable. The caller
	// must check Restrictions.Unreadable. Default: none.
	Unreadable []string
	// OnePort lets the process connect over TCP only to Port, at any address; Port 0: to no port. It is part of the
	// Landlock domain. Multipath TCP, UDP, other sockets and listening are not restricted. The caller must check
	// Restrictions.OnePort.
	OnePort bool
	Port    uint16
	// Keep are the capabilities that the process may have, if the calling process has them. Default: none.
	Keep []Capability
	// ChangesUser means that the process is started as another user (SysProcAttr.Credential). The kernel removes all
	// capabilities from a process that changes from user 0 to another, so Keep has no effect.
	ChangesUser bool
}

// CheckUnreadable returns an error if c makes files unreadable and that restriction could not be applied.
func (w Restrictions) CheckUnreadable(c Confinement) error {
	if len(c.Unreadable) == 0 || w.Unreadable {
		return nil
	}
	return fmt.Errorf("%s must be unreadable to it, and cannot be made so: %s", strings.Join(c.Unreadable, ", "), strings.Join(w.Notes, "; "))
}

// Restrictions are the restrictions that were applied to a process.
type Restrictions struct {
	// Landlock: the process and its descendants can signal and trace only one another, and cannot connect to abstract
	// unix sockets that were made outside. It is false also for a weaker domain, which a note then names.
	Landlock bool
	// Unreadable: the processes cannot read the files of Confinement.Unreadable. It is false if there are none.
	Unreadable bool
	// OnePort: the processes connect over TCP only to Confinement.Port. It is false if Confinement.OnePort is.
	OnePort bool
	// Seccomp: the processes cannot make the system calls that access other processes; see seccomp_linux.go.
	Seccomp bool
	// Capabilities: the processes have no capabilities except those of Confinement.Keep.
	Capabilities bool
	// Notes describe the missing restrictions and the reasons, one sentence each.
	Notes []string
}
