// Package profile puts a test's program into what is a container as far as its seccomp profile is concerned.
package profile

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// byName are the system calls that Enter knows by name.
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

// Enter has the kernel refuse system calls to the calling thread, for good, and to what it executes: as a container's
// seccomp profile does. It locks the thread. Afterwards syscall.Exec what is to run in the container.
func Enter(errno unix.Errno, calls ...string) error {
	runtime.LockOSThread()
	const number, flags = 0, 16 + 8 // in struct seccomp_data: the call, and the lower half of its second argument
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
