//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/proc"
)

// This filter is added to the one of package proc, which confines every agent and command already. The kernel applies the stricter of
// two verdicts.

// Offsets into struct seccomp_data; seccomp(2).
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

// noCall is larger than the number of any call. On amd64, this bit marks calls of the x32 interface.
const noCall = 0x40000000

const (
	allow   = unix.SECCOMP_RET_ALLOW
	ask     = unix.SECCOMP_RET_USER_NOTIF
	success = unix.SECCOMP_RET_ERRNO // with error 0
	eperm   = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	enosys  = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	// eopnotsupp is the answer of a kernel without Landlock.
	eopnotsupp = unix.SECCOMP_RET_ERRNO | uint32(unix.EOPNOTSUPP)
)

// tmpfileBit is the bit of O_TMPFILE that O_DIRECTORY does not have.
const tmpfileBit = unix.O_TMPFILE &^ unix.O_DIRECTORY

// writing are the flags of open that change a file or make changes possible.
const writing = unix.O_ACCMODE | unix.O_CREAT | unix.O_TRUNC | tmpfileBit

// absent are calls that programs can do without. io_uring makes calls that no filter sees. The flags of clone3 and the whole request
// of openat2 are in memory, which a filter cannot read; libraries fall back to clone and openat. Keyrings hold secrets of
// the user, and the kernel starts a program as root for some types of keys, which looks names up (request-key).
var absent = []uint32{
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_CLONE3, unix.SYS_OPENAT2,
	sysUselib, unix.SYS_FILE_SETATTR, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
	unix.SYS_SETXATTRAT, unix.SYS_REMOVEXATTRAT,
}

// refused are calls that reach files other than by their names.
var refused = []uint32{
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_BPF, unix.SYS_USERFAULTFD, unix.SYS_PIDFD_GETFD,
	unix.SYS_SWAPON, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
}

// namespaceCalls are calls that change what paths mean. The sandbox rejects them and notifies the decider (Decider.Refused), unless a
// process makes them in its own namespace.
var namespaceCalls = []uint32{
	unix.SYS_CHROOT, unix.SYS_PIVOT_ROOT, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_MOVE_MOUNT,
	unix.SYS_OPEN_TREE, unix.SYS_FSOPEN, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_OPEN_TREE_ATTR,
}

// landlock are the calls that make a Landlock domain. The sandbox applies the domain also to the calls that it carries out itself.
var landlock = []uint32{unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_ADD_RULE, unix.SYS_LANDLOCK_RESTRICT_SELF}

// asked are the calls that the sandbox answers regardless of their arguments.
var asked = []uint32{
	unix.SYS_EXECVE, unix.SYS_EXECVEAT, sysCreat,
	sysUnlink, unix.SYS_UNLINKAT, sysRmdir, sysRename, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2,
	sysLink, unix.SYS_LINKAT, sysSymlink, unix.SYS_SYMLINKAT, sysMkdir, unix.SYS_MKDIRAT,
	sysMknod, unix.SYS_MKNODAT, sysChmod, unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2,
	sysChown, sysLchown, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_TRUNCATE,
	sysUtime, sysUtimes, sysFutimesat, unix.SYS_UTIMENSAT,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR,
	unix.SYS_BIND, unix.SYS_CONNECT,
}

// filter returns the seccomp program. It allows every call that it does not name.
func filter(o Options) ([]bpf.RawInstruction, error) {
	foreign := enosys // calls of another ABI, with other numbers
	if o.Observe {
		foreign = allow
	}
	f := assembly{
		load(offsetArch), bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1}, bpf.RetConstant{Val: foreign},
		load(offsetNumber), bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: noCall, SkipFalse: 1}, bpf.RetConstant{Val: foreign},
	}
	f.open(unix.SYS_OPENAT, 2, o.Reads) // the most frequent calls first
	f.open(sysOpen, 1, o.Reads)
	// prctl(PR_SET_DUMPABLE, 0) is answered with success and not done: the sandbox reads the arguments of calls in the process's
	// memory.
	f.on(unix.SYS_PRCTL,
		load(argument(0)), bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.PR_SET_DUMPABLE, SkipFalse: 2},
		load(argument(1)), bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1},
		bpf.RetConstant{Val: allow}, bpf.RetConstant{Val: success})
	f.on(unix.SYS_SENDTO, // with an address
		load(argument(4)), bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipFalse: 2},
		load(argument(4)+4), bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1},
		bpf.RetConstant{Val: ask}, bpf.RetConstant{Val: allow})
	f.all(ask, asked)
	if o.Observe {
		f.all(ask, []uint32{unix.SYS_OPENAT2})
		return bpf.Assemble(append(f, bpf.RetConstant{Val: allow}))
	}
	const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUSER
	f.on(unix.SYS_CLONE, load(argument(0)),
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: namespaces, SkipTrue: 3},
		// Another process that shares the working directory could change it after the decision on a program.
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.CLONE_FS, SkipFalse: 1},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.CLONE_THREAD, SkipFalse: 2},
		bpf.RetConstant{Val: allow}, bpf.RetConstant{Val: ask}, bpf.RetConstant{Val: eperm})
	f.bits(unix.SYS_UNSHARE, 0, namespaces, ask)
	// sendmsg connects with an address in memory, but for TCP only with this flag.
	f.bits(unix.SYS_SENDMSG, 2, unix.MSG_FASTOPEN, eopnotsupp)
	f.bits(unix.SYS_SENDMMSG, 3, unix.MSG_FASTOPEN, eopnotsupp)
	f.all(ask, namespaceCalls)
	f.all(ask, landlock)
	// The limit that stores the process's domain may be read, but not set.
	f.on(unix.SYS_SETRLIMIT,
		load(argument(0)), bpf.JumpIf{Cond: bpf.JumpEqual, Val: rlimitLocks, SkipFalse: 1},
		bpf.RetConstant{Val: eperm}, bpf.RetConstant{Val: allow})
	f.on(unix.SYS_PRLIMIT64,
		load(argument(1)), bpf.JumpIf{Cond: bpf.JumpEqual, Val: rlimitLocks, SkipFalse: 4},
		load(argument(2)), bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipFalse: 3},
		load(argument(2)+4), bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipFalse: 1},
		bpf.RetConstant{Val: allow}, bpf.RetConstant{Val: eperm})
	f.all(enosys, absent)
	f.all(eperm, refused)
	if o.Streams {
		f.streams()
	}
	return bpf.Assemble(append(f, bpf.RetConstant{Val: allow}))
}

// assembly is a filter under construction. The call's number is loaded before each part.
type assembly []bpf.Instruction

// on adds the instructions for a call, unless this architecture lacks the call. They must end with a return.
func (f *assembly) on(number uint32, then ...bpf.Instruction) {
	if number >= noCall {
		return
	}
	*f = append(*f, bpf.JumpIf{Cond: bpf.JumpEqual, Val: number, SkipFalse: uint8(len(then))})
	*f = append(*f, then...)
}

func (f *assembly) all(verdict uint32, numbers []uint32) {
	for _, n := range numbers {
		f.on(n, bpf.RetConstant{Val: verdict})
	}
}

// bits adds a verdict on a call that has one of the bits set in an argument. Without them the call is allowed.
func (f *assembly) bits(number, arg, bits, verdict uint32) {
	f.on(number, load(argument(arg)), bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: bits, SkipFalse: 1},
		bpf.RetConstant{Val: verdict}, bpf.RetConstant{Val: allow})
}

// open adds notification of opens that write or, with reads, of all opens without O_PATH.
func (f *assembly) open(number, arg uint32, reads bool) {
	if reads {
		f.bits(number, arg, unix.O_PATH, allow)
		last := len(*f) - 1
		(*f)[last] = bpf.RetConstant{Val: ask}
		return
	}
	f.on(number, load(argument(arg)),
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.O_PATH, SkipTrue: 1},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: writing, SkipTrue: 1},
		bpf.RetConstant{Val: allow}, bpf.RetConstant{Val: ask})
}

// streams allows only sockets of AF_UNIX, of TCP, and of the kernel's network settings (NETLINK_ROUTE).
func (f *assembly) streams() {
	equal := func(v uint32, isTrue, isFalse uint8) bpf.Instruction {
		return bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipTrue: isTrue, SkipFalse: isFalse}
	}
	const sockTypeMask = 0xf // net.h: the rest are SOCK_CLOEXEC and SOCK_NONBLOCK
	f.on(unix.SYS_SOCKET,
		load(argument(0)), equal(unix.AF_UNIX, 14, 0), equal(unix.AF_INET, 5, 0), equal(unix.AF_INET6, 4, 0),
		equal(unix.AF_NETLINK, 0, 2),
		load(argument(2)), equal(unix.NETLINK_ROUTE, 9, 0),
		bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)},
		load(argument(1)), bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: sockTypeMask}, equal(unix.SOCK_STREAM, 0, 4),
		load(argument(2)), equal(0, 3, 0), equal(unix.IPPROTO_TCP, 2, 0), equal(unix.IPPROTO_MPTCP, 1, 0),
		bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.EACCES)},
		bpf.RetConstant{Val: allow})
	for _, o := range routeOptions {
		f.refuseOption(o.level, o.name)
	}
}

// routeOptions are options of sockets, by their level, that choose the route of packets. A packet to the loopback
// interface can then go to another machine, with data if it opens a connection (TCP_FASTOPEN_CONNECT).
var routeOptions = []struct{ level, name uint32 }{
	{unix.SOL_SOCKET, unix.SO_BINDTODEVICE},
	{unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX},
	{unix.IPPROTO_IP, unix.IP_OPTIONS},
	{unix.IPPROTO_IPV6, unix.IPV6_RTHDR},
	{unix.IPPROTO_IPV6, unix.IPV6_2292RTHDR},
	{unix.IPPROTO_IPV6, unix.IPV6_2292PKTOPTIONS},
}

// refuseOption adds the refusal to set a socket option.
func (f *assembly) refuseOption(level, name uint32) {
	*f = append(*f,
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_SETSOCKOPT, SkipFalse: 6},
		load(argument(1)), bpf.JumpIf{Cond: bpf.JumpEqual, Val: level, SkipFalse: 3},
		load(argument(2)), bpf.JumpIf{Cond: bpf.JumpEqual, Val: name, SkipFalse: 1},
		bpf.RetConstant{Val: eperm}, load(offsetNumber))
}

func load(offset uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: offset, Size: 4} }

// argument returns the offset of the lower half of a system call's argument.
func argument(n uint32) uint32 { return offsetArgs + 8*n }

// listen installs the filter on the calling thread, and returns the descriptor by which its calls are answered. Only a signal that
// kills interrupts a call that the sandbox has received: otherwise the sandbox would be asked again and again by a program that
// handles many signals.
func listen(o Options) (int, error) {
	raw, err := filter(o)
	if err != nil {
		return -1, fmt.Errorf("assemble the filter: %w", err)
	}
	program := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		program[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	fprog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&fprog)))
	if errno == unix.EBUSY {
		return -1, fmt.Errorf("%w: a seccomp filter that asks is there already, of another sandbox's or of the container's, and there can be only one", ErrUnsupported)
	}
	if errno != 0 {
		return -1, fmt.Errorf("%w: install a seccomp filter that asks: %w (it needs Linux 5.19, and a container that allows it)",
			ErrUnsupported, errno)
	}
	// The kernel wakes the waiting side on the same processor, which is then free. Since Linux 6.6.
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
	return int(fd), nil
}

// kernelSupported returns why this kernel cannot confine a program, without a trial. nil: it can, unless a container rejects the
// calls.
func kernelSupported() error {
	if err := errors.Join(proc.ConfineSupported(), proc.FilterSupported()); err != nil {
		return err
	}
	action := uint32(unix.SECCOMP_RET_USER_NOTIF)
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action))); errno != 0 {
		return fmt.Errorf("%w: seccomp filters that ask: %w", ErrUnsupported, errno)
	}
	return mayTrace()
}

// mayTrace returns an error if Yama, a Linux security module, keeps unprivileged processes from tracing their own descendants.
func mayTrace() error {
	const file = "/proc/sys/kernel/yama/ptrace_scope"
	if scope, err := proc.Slurp(file, nil); err == nil && len(scope) > 0 && scope[0] > '1' {
		return fmt.Errorf("%w: nobody may look into processes without privileges, as %s is %c: set it to 1, or to 0", ErrUnsupported, file, scope[0])
	}
	return nil
}
