// Package profile applies a seccomp profile like that of a container to a test's program.
package profile

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// byName are the system calls that Enter accepts by name.
var byName = map[string][]uint32{
	"listener":         {unix.SYS_SECCOMP}, // only with SECCOMP_FILTER_FLAG_NEW_LISTENER
	"landlock":         {unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_ADD_RULE, unix.SYS_LANDLOCK_RESTRICT_SELF},
	"ptrace":           {unix.SYS_PTRACE},
	"process_vm_readv": {unix.SYS_PROCESS_VM_READV},
	"pidfd_open":       {unix.SYS_PIDFD_OPEN},
	"pidfd_getfd":      {unix.SYS_PIDFD_GETFD},
	"openat2":          {unix.SYS_OPENAT2},
	"faccessat2":       {unix.SYS_FACCESSAT2},
	"unshare":          {unix.SYS_UNSHARE},
}

// Enter makes the kernel reject system calls of the calling thread, permanently, and of programs that it executes, like
// a container's seccomp profile. It locks the thread. The caller then executes the contained program with syscall.Exec.
func Enter(errno unix.Errno, calls ...string) error {
	runtime.LockOSThread()
	// Offsets in struct seccomp_data: the number, and the lower half of the second argument.
	const number, flags = 0, 16 + 8
	refuse := unix.SECCOMP_RET_ERRNO | uint32(errno)
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	ret := func(verdict uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: verdict}
	}
	var program []unix.SockFilter
	for _, name := range calls {
		numbers := byName[name]
		if numbers == nil {
			return fmt.Errorf("no system calls are known as %q", name)
		}
		for _, n := range numbers {
			then := []unix.SockFilter{ret(refuse)}
			if name == "listener" {
				then = []unix.SockFilter{
					load(flags), {Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, Jf: 1},
					ret(refuse), ret(unix.SECCOMP_RET_ALLOW),
				}
			}
			program = append(program, load(number), unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: n, Jf: uint8(len(then))})
			program = append(program, then...)
		}
	}
	program = append(program, ret(unix.SECCOMP_RET_ALLOW))
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	fprog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&fprog))); e != 0 {
		return e
	}
	return nil
}
