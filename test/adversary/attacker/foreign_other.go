//go:build linux && !amd64

package main

import (
	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/test/adversary/orders"
)

const map32bit = 0

// foreign: this architecture has no other system calls that are tried.
func foreign(pid int, _ uintptr) []orders.Try {
	return []orders.Try{tried("prlimit64", unix.Prlimit(pid, unix.RLIMIT_AS, &unix.Rlimit{Cur: 1, Max: 1}, nil))}
}

func stackOf(*unix.PtraceRegs) uintptr { return 0 }
