//go:build linux

package main

import (
	"errors"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/test/adversary/orders"
)

func init() { deeds["fork-before"] = forkBefore }

// forkBefore FILE PROGRAM ARGS... has a process make another one, and start a program in its own place then. The other
// one, which is nothing that the program has started, creates the file.
func forkBefore(args []string) ([]orders.Try, error) {
	file, err1 := syscall.BytePtrFromString(args[0])
	program, err2 := syscall.BytePtrFromString(args[1])
	argv, err3 := syscall.SlicePtrFromStrings(args[1:])
	env, err4 := syscall.SlicePtrFromStrings(os.Environ())
	said, theirs, err5 := os.Pipe()
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return nil, err
	}
	defer said.Close()
	pid := forkTwice(file, program, &argv[0], &env[0], int(theirs.Fd()))
	_ = theirs.Close()
	var result [8]byte
	_, err := said.Read(result[:])
	_ = unix.Kill(pid, unix.SIGKILL)
	_, _ = unix.Wait4(pid, nil, 0, nil)
	if err != nil {
		return nil, err
	}
	errno := *(*int64)(unsafe.Pointer(&result))
	if errno != 0 {
		return []orders.Try{tried("create", syscall.Errno(errno))}, nil
	}
	return []orders.Try{tried("create", nil)}, nil
}

// forkTwice makes the two processes. They run no code of Go's runtime.
//
//go:norace
//go:nosplit
func forkTwice(file, program *byte, argv, env **byte, result int) int {
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return int(pid)
	}
	pid, _, _ = syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if pid != 0 {
		_, _, _ = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(program)), uintptr(unsafe.Pointer(argv)), uintptr(unsafe.Pointer(env)))
	} else {
		pause := unix.Timespec{Nsec: int64(300 * time.Millisecond)}
		_, _, _ = syscall.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&pause)), 0, 0)
		cwd := unix.AT_FDCWD
		_, _, errno := syscall.RawSyscall6(unix.SYS_OPENAT, uintptr(cwd), uintptr(unsafe.Pointer(file)), unix.O_WRONLY|unix.O_CREAT, 0o600, 0, 0)
		said := int64(errno)
		_, _, _ = syscall.RawSyscall(unix.SYS_WRITE, uintptr(result), uintptr(unsafe.Pointer(&said)), 8)
	}
	for {
		_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
}
