package sandbox

import "golang.org/x/sys/unix"

// auditArch is seccomp's number of this architecture.
const auditArch = unix.AUDIT_ARCH_X86_64

// Calls that newer architectures lack: other calls replace them.
const (
	sysOpen      = unix.SYS_OPEN
	sysCreat     = unix.SYS_CREAT
	sysUnlink    = unix.SYS_UNLINK
	sysRmdir     = unix.SYS_RMDIR
	sysMkdir     = unix.SYS_MKDIR
	sysMknod     = unix.SYS_MKNOD
	sysSymlink   = unix.SYS_SYMLINK
	sysRename    = unix.SYS_RENAME
	sysLink      = unix.SYS_LINK
	sysChmod     = unix.SYS_CHMOD
	sysChown     = unix.SYS_CHOWN
	sysLchown    = unix.SYS_LCHOWN
	sysUtime     = unix.SYS_UTIME
	sysUtimes    = unix.SYS_UTIMES
	sysFutimesat = unix.SYS_FUTIMESAT
	sysUselib    = unix.SYS_USELIB
)
