package sandbox

import "golang.org/x/sys/unix"

// auditArch is seccomp's number of this architecture.
const auditArch = unix.AUDIT_ARCH_AARCH64

// Calls that this architecture lacks. No call has these numbers.
const (
	sysOpen = noCall + iota
	sysCreat
	sysUnlink
	sysRmdir
	sysMkdir
	sysMknod
	sysSymlink
	sysRename
	sysLink
	sysChmod
	sysChown
	sysLchown
	sysUtime
	sysUtimes
	sysFutimesat
	sysUselib
)
