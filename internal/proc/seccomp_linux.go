package proc

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// The filter rejects, with EPERM, the system calls by which a process accesses others of the same user regardless of
// file modes, and those that agents' programs do not need and that are most often used to exploit kernels:
//
//   - prlimit64 that sets a limit of another process: a limit of 1 ends it as surely as SIGKILL. Neither
//     PR_SET_DUMPABLE nor Landlock prevents that.
//   - ptrace requests that write, so that debuggers can only read. Requests that are not known to be harmless count
//     as writing.
//   - process_vm_writev, bpf, userfaultfd, and pidfd_getfd, which copies open files of another process.
//   - ioctl TIOCSTI and TIOCLINUX, which type into a terminal, and TCXONC (tcflow), which stops its output: a process
//     that writes to it, such as a supervisor that logs there, blocks from then on. A person's ^S still works.
//   - fcntl F_SETLEASE, which delays other processes, acphost's or the user's, by a minute when they open the file.
//
// 32-bit programs have their own table of numbers, which is filtered too. System calls of architectures without a table
// fail with ENOSYS.

// Offsets into struct seccomp_data; seccomp(2). All supported architectures are little-endian.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

// x32Bit marks system calls of the x32 interface, which shares the architecture of amd64.
const x32Bit = 0x40000000

// table contains the numbers of the filtered system calls on one architecture.
type table struct {
	arch                                                             uint32
	ptrace, prlimit64, vmWritev, bpf, userfaultfd, ioctl, pidfdGetfd uint32
	fcntl, fcntl64                                                   uint32 // equal if there is only one
}

// The numbers are part of the kernel's interface: arch/x86/entry/syscalls/syscall_32.tbl and
// arch/arm/tools/syscall.tbl.
var (
	tableI386  = table{unix.AUDIT_ARCH_I386, 26, 340, 348, 357, 374, 54, 438, 55, 221}
	tableARM   = table{unix.AUDIT_ARCH_ARM, 26, 369, 377, 386, 388, 54, 438, 55, 221}
	nativeArch = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64, "riscv64": unix.AUDIT_ARCH_RISCV64}
)

// tables returns the tables for programs of this machine, the native one first; none: the machine is unknown.
func tables() []table {
	arch, ok := nativeArch[runtime.GOARCH]
	if !ok {
		return nil
	}
	all := []table{{
		arch, unix.SYS_PTRACE, unix.SYS_PRLIMIT64, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_BPF, unix.SYS_USERFAULTFD, unix.SYS_IOCTL, unix.SYS_PIDFD_GETFD,
		unix.SYS_FCNTL, unix.SYS_FCNTL,
	}}
	switch runtime.GOARCH {
	case "amd64":
		all = append(all, tableI386)
	case "arm64":
		all = append(all, tableARM)
	}
	return all
}

// harmlessTraces are the requests of ptrace that do not change the memory or the registers of the traced process.
var harmlessTraces = []uint32{
	unix.PTRACE_TRACEME, unix.PTRACE_PEEKTEXT, unix.PTRACE_PEEKDATA, unix.PTRACE_PEEKUSR, unix.PTRACE_CONT, unix.PTRACE_KILL,
	unix.PTRACE_SINGLESTEP, 12 /* GETREGS */, 14 /* GETFPREGS */, unix.PTRACE_ATTACH, unix.PTRACE_DETACH, unix.PTRACE_SYSCALL,
	unix.PTRACE_SETOPTIONS, unix.PTRACE_GETEVENTMSG, unix.PTRACE_GETSIGINFO, unix.PTRACE_GETREGSET, unix.PTRACE_SEIZE,
	unix.PTRACE_INTERRUPT, unix.PTRACE_LISTEN, unix.PTRACE_PEEKSIGINFO, unix.PTRACE_GETSIGMASK, 0x420e, /* GET_SYSCALL_INFO */
}

const (
	allow = unix.SECCOMP_RET_ALLOW
	eperm = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	// enosys is the answer of a kernel that lacks a call.
	enosys = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
)

// filter returns the seccomp program for the architectures of this machine.
func filter(all []table) ([]bpf.RawInstruction, error) {
	var program []bpf.Instruction
	for _, t := range all {
		rules := t.rules()
		program = append(program, load(offsetArch))
		program = append(program, bpf.JumpIf{Cond: bpf.JumpEqual, Val: t.arch, SkipTrue: 1}, bpf.Jump{Skip: uint32(len(rules))})
		program = append(program, rules...)
	}
	return bpf.Assemble(append(program, bpf.RetConstant{Val: enosys}))
}

// rules returns the instructions for one architecture. They end with a return.
func (t table) rules() []bpf.Instruction {
	var rules []bpf.Instruction
	if t.arch == unix.AUDIT_ARCH_X86_64 {
		rules = append(rules, load(offsetNumber),
			bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: x32Bit, SkipFalse: 1}, bpf.RetConstant{Val: enosys})
	}
	on := func(number uint32, then ...bpf.Instruction) {
		rules = append(rules, load(offsetNumber), bpf.JumpIf{Cond: bpf.JumpEqual, Val: number, SkipTrue: 1}, bpf.Jump{Skip: uint32(len(then))})
		rules = append(rules, then...)
	}
	on(t.prlimit64, // (pid, resource, new, old): its own limits, or only reading
		load(argument(0)), bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 4},
		load(argument(2)), bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: 3},
		load(argument(2)+4), bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: 1},
		bpf.RetConstant{Val: allow}, bpf.RetConstant{Val: eperm})
	on(t.ptrace, oneOf(argument(0), harmlessTraces, allow, eperm)...)
	on(t.ioctl, oneOf(argument(1), []uint32{unix.TIOCSTI, unix.TIOCLINUX, unix.TCXONC}, eperm, allow)...)
	const setDelegation = unix.F_SETLEASE + 16 // F_SETDELEG of Linux 6.19
	for _, number := range []uint32{t.fcntl, t.fcntl64} {
		on(number, oneOf(argument(1), []uint32{unix.F_SETLEASE, setDelegation}, eperm, allow)...)
	}
	for _, number := range []uint32{t.vmWritev, t.bpf, t.userfaultfd, t.pidfdGetfd} {
		on(number, bpf.RetConstant{Val: eperm})
	}
	return append(rules, bpf.RetConstant{Val: allow})
}

// oneOf returns one of two verdicts, depending on whether the lower half of an argument is among the values. For an
// ioctl command and a ptrace request, the kernel uses only that half, or rejects the rest itself.
func oneOf(offset uint32, values []uint32, is, isNot uint32) []bpf.Instruction {
	rules := []bpf.Instruction{load(offset)}
	for i, v := range values {
		rules = append(rules, bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipTrue: uint8(len(values) - i)})
	}
	return append(rules, bpf.RetConstant{Val: isNot}, bpf.RetConstant{Val: is})
}

func load(offset uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: offset, Size: 4} }

// argument returns the offset of the lower half of a system call's argument.
func argument(n uint32) uint32 { return offsetArgs + 8*n }

var errNoTable = fmt.Errorf("seccomp: %w: no numbers of system calls are known for %s", ErrUnsupported, runtime.GOARCH)

// FilterSupported returns why Confine cannot install a seccomp filter here, or why Filters cannot count it, without
// trying it; nil: both work.
func FilterSupported() error {
	if tables() == nil {
		return errNoTable
	}
	action := uint32(unix.SECCOMP_RET_ERRNO)
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action))); errno != 0 {
		return fmt.Errorf("seccomp: %w: %w", ErrUnsupported, errno)
	}
	_, err := Filters(os.Getpid())
	return err
}

// installFilter installs the filter on the calling thread.
func installFilter() error {
	all := tables()
	if all == nil {
		return errNoTable
	}
	raw, err := filter(all)
	if err != nil {
		return fmt.Errorf("seccomp: assemble the filter: %w", err)
	}
	program := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		program[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	if err := noNewPrivs(); err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	fprog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&fprog))); errno != 0 {
		return fmt.Errorf("seccomp: %w: install the filter: %w", ErrUnsupported, errno)
	}
	return nil
}

// Filters returns the number of seccomp filters of a process. The number never decreases, and children inherit the
// filters. It fails if the process is gone or not visible, or the kernel is older than Linux 5.9.
func Filters(pid int) (int, error) {
	data, err := readProc(pid, "status")
	if err != nil {
		return 0, fmt.Errorf("seccomp filters of process %d: %w", pid, err)
	}
	for line := range bytes.Lines(data) {
		if value, ok := bytes.CutPrefix(line, []byte("Seccomp_filters:")); ok {
			n, err := strconv.Atoi(string(bytes.TrimSpace(value)))
			if err != nil {
				return 0, fmt.Errorf("seccomp filters of process %d: %w", pid, err)
			}
			return n, nil
		}
	}
	return 0, fmt.Errorf("seccomp filters of process %d: %w: this kernel does not count them (linux 5.9 does)", pid, ErrUnsupported)
}
