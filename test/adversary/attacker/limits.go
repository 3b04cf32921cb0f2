//go:build linux

package main

import (
	"os/exec"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/test/adversary/orders"
)

func init() {
	deeds["limit"] = limit
	deeds["storm"] = storm
}

// resources are limits of a process, and the values by which it ends or starves.
var resources = []struct {
	name  string
	what  int
	value uint64
}{
	{"AS", unix.RLIMIT_AS, 1}, {"DATA", unix.RLIMIT_DATA, 1}, {"STACK", unix.RLIMIT_STACK, 1}, {"CPU", unix.RLIMIT_CPU, 0},
	{"NOFILE", unix.RLIMIT_NOFILE, 0}, {"FSIZE", unix.RLIMIT_FSIZE, 0}, {"NPROC", unix.RLIMIT_NPROC, 0},
	{"CORE", unix.RLIMIT_CORE, 0}, {"MEMLOCK", unix.RLIMIT_MEMLOCK, 0}, {"SIGPENDING", rlimitSigpending, 0}, {"NICE", rlimitNice, 0},
}

const (
	rlimitSigpending = 11
	rlimitNice       = 13
)

// limit PID NAME... sets limits of another process, soft and hard; no names: all of them.
func limit(args []string) ([]orders.Try, error) {
	pid := number(args[0])
	var tries []orders.Try
	for _, r := range resources {
		if len(args) > 1 && !slices.Contains(args[1:], r.name) {
			continue
		}
		tries = append(tries, tried("prlimit "+r.name, unix.Prlimit(pid, r.what, &unix.Rlimit{Cur: r.value, Max: r.value}, nil)))
	}
	return tries, nil
}

// storm N leaves N orphans that have ended to whoever adopts them: a guard that must reap them works, and needs memory.
func storm(args []string) ([]orders.Try, error) {
	for range number(args[0]) {
		if err := exec.Command("/bin/sh", "-c", "true & exit 0").Run(); err != nil {
			return nil, err
		}
	}
	return []orders.Try{got("storm", strconv.Itoa(number(args[0])), nil)}, nil
}
