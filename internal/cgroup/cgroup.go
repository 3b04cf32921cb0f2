// Package cgroup creates control groups (version 2) that limit the processes and the memory of agents.
//
// It needs a control group that belongs to this program alone: the one of a systemd service with Delegate=yes, of a
// scope of the user's systemd with Delegate=yes, or of a container with a writable /sys/fs/cgroup. It works on Linux.
package cgroup

import "errors"

// ErrNotDelegated is wrapped by errors that say why no control groups can be created.
var ErrNotDelegated = errors.New("no control group is delegated to acphost")

// Limits are the limits of a group. 0: no limit.
type Limits struct {
	// Tasks is the maximum number of processes and threads (pids.max). The kernel refuses to start more: EAGAIN.
	Tasks int
	// Memory is the maximum of memory in bytes, without swap space (memory.max). If the group needs more, the kernel
	// ends a process of the group.
	Memory uint64
}

// Group is a control group. Its methods are safe for concurrent use.
type Group struct {
	// Path is the folder of the group.
	Path string
}
