package sandbox

import "golang.org/x/sys/unix"

// auditArch is how seccomp calls this architecture.
const auditArch = unix.AUDIT_ARCH_AARCH64

// The calls that this architecture does without. No call has these numbers.
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
