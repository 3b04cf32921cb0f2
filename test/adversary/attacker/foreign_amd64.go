//go:build linux

package main

import (
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/test/adversary/orders"
)

const map32bit = unix.MAP_32BIT

// int80 is a system call as a program of 32 bits makes it. Pointers lie below 4 GiB.
func int80(number, a, b, c, d uint32) int32

// int80Error makes a system call by int80, and returns its error. A kernel that runs no programs of 32 bits ends a process
// that tries: here that is ENOSYS.
func int80Error(number, a, b, c, d uint32) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			err = unix.ENOSYS
		}
	}()
	return errnoOf(syscall.Errno(-int80(number, a, b, c, d)))
}

// foreign sets RLIMIT_AS of a process as i386 and as x32 do.
func foreign(pid int, limit uintptr) []orders.Try {
	const prlimit386, x32 = 340, 1 << 30
	all := []orders.Try{tried("int 0x80 prlimit64", int80Error(prlimit386, uint32(pid), unix.RLIMIT_AS, uint32(limit), 0))}
	_, _, errno := unix.Syscall6(unix.SYS_PRLIMIT64|x32, uintptr(pid), unix.RLIMIT_AS, limit, 0, 0, 0)
	return append(all, tried("x32 prlimit64", errnoOf(errno)))
}

func stackOf(regs *unix.PtraceRegs) uintptr { return uintptr(regs.Rsp) }
