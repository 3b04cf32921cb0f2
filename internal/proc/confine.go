package proc

// Confinement says which walls a process is started behind. The zero value is all of them, and no capability.
type Confinement struct {
	// NoLandlock leaves out the Landlock domain.
	NoLandlock bool
	// NoSeccomp leaves out the seccomp filter.
	NoSeccomp bool
	// Keep are the capabilities that the process may have, if the calling process has them. Default: none.
	Keep []Capability
	// ChangesUser says that the process is started as another user (SysProcAttr.Credential). The kernel takes all
	// capabilities from a process that gives up user 0, and Keep then means nothing.
	ChangesUser bool
}

// Walls says which walls a process was started behind.
type Walls struct {
	// Landlock: it and its descendants can signal and trace only one another, and can connect to no abstract unix socket
	// that was made outside. False as well where only a lesser domain could be had, of which a note tells.
	Landlock bool
	// Seccomp: they cannot make the system calls that reach into other processes; see seccomp_linux.go.
	Seccomp bool
	// Capabilities: they have none, but for those of Confinement.Keep.
	Capabilities bool
	// Notes say which walls are missing and why, one sentence each.
	Notes []string
}
