// Command enter becomes the user of a container, with the rights that its manifest gives it, and then the container's
// command. It runs inside of the container: enter UID GID GROUPS CAPABILITIES NO_NEW_PRIVS DIR COMMAND...
package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func main() {
	runtime.LockOSThread() // capabilities and no_new_privs are a thread's
	if err := enter(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "enter:", err)
		os.Exit(126)
	}
}

func enter(args []string) error {
	if len(args) < 7 {
		return fmt.Errorf("expected UID GID GROUPS CAPABILITIES NO_NEW_PRIVS DIR COMMAND, got %q", args)
	}
	uid, gid, groups := number(args[0]), number(args[1]), []int(nil)
	for _, g := range fields(args[2]) {
		groups = append(groups, number(g))
	}
	var kept uint64
	for _, c := range fields(args[3]) {
		kept |= 1 << number(c)
	}
	for c := 0; ; c++ {
		if kept&(1<<c) != 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err == unix.EINVAL {
			break // the kernel knows no more
		} else if err != nil {
			return fmt.Errorf("drop the capability %d: %w", c, err)
		}
	}
	// These are for all threads.
	if err := syscall.Setgroups(groups); err != nil {
		return fmt.Errorf("set the groups: %w", err)
	}
	if err := syscall.Setresgid(gid, gid, gid); err != nil {
		return fmt.Errorf("become the group %d: %w", gid, err)
	}
	if err := syscall.Setresuid(uid, uid, uid); err != nil {
		return fmt.Errorf("become the user %d: %w", uid, err)
	}
	if args[4] == "true" {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("set no_new_privs: %w", err)
		}
	}
	// bubblewrap has asked for this, and the kernel forgets it when the user changes: without it, a test that is cut
	// short leaves its containers.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("end with who has started this: %w", err)
	}
	if err := os.Chdir(args[5]); err != nil {
		return err
	}
	program, err := exec.LookPath(args[6])
	if err != nil {
		return err
	}
	return fmt.Errorf("start %s: %w", program, syscall.Exec(program, args[6:], os.Environ()))
}

func fields(s string) []string {
	if s == "-" {
		return nil
	}
	return strings.Split(s, ",")
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}
