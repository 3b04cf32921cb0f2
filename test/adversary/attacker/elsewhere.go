//go:build linux

package main

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/test/adversary/orders"
)

func init() {
	deeds["start-elsewhere"] = startElsewhere
	deeds["start-and-leave"] = startAndLeave
	deeds["run-as"] = runAs
}

// startElsewhere FOLDER-OR-SCRIPT PAUSE PROGRAM NAME ARGS... puts a program in place of this process, and goes to
// another folder after a pause, while that is decided on. If the program is a script, this process has it open, and
// puts the other script in its place. There is an answer only if nothing is started.
func startElsewhere(args []string) ([]orders.Try, error) {
	runtime.LockOSThread()
	pause, err := time.ParseDuration(args[1])
	if err != nil {
		return nil, err
	}
	script, err := unix.Open(args[2], unix.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	argv, err1 := syscall.SlicePtrFromStrings(args[3:])
	env, err2 := syscall.SlicePtrFromStrings(os.Environ())
	if err1 != nil || err2 != nil {
		return nil, syscall.EINVAL
	}
	info, err := os.Stat(args[0])
	if err != nil {
		return nil, err
	}
	other, err := unix.Open(args[0], unix.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	go func() {
		runtime.LockOSThread()
		time.Sleep(pause)
		if info.IsDir() {
			_ = unix.Fchdir(other)
		} else {
			_ = unix.Dup2(other, script)
		}
	}()
	_, _, errno := syscall.Syscall6(unix.SYS_EXECVEAT, uintptr(script), uintptr(unsafe.Pointer(&[1]byte{})),
		uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&env[0])), unix.AT_EMPTY_PATH, 0)
	return []orders.Try{tried("start elsewhere", errno)}, nil
}

// startAndLeave FOLDER OTHER PROGRAM NAME ARGS... starts a program in a folder that the two share, and goes to another
// one as soon as the program has begun.
func startAndLeave(args []string) ([]orders.Try, error) {
	if err := os.Chdir(args[0]); err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{Path: args[2], Args: args[3:], SysProcAttr: &syscall.SysProcAttr{Cloneflags: unix.CLONE_FS}}
	err := cmd.Start()
	if err == nil {
		if err := os.Chdir(args[1]); err != nil {
			return nil, err
		}
		err = cmd.Wait()
	}
	return []orders.Try{tried("start and leave", err)}, os.Chdir(args[0])
}

// runAs PROGRAM NAME ARGS... runs a program by a name of the attacker's choice.
func runAs(args []string) ([]orders.Try, error) {
	cmd := exec.Cmd{Path: args[0], Args: args[1:]}
	out, err := cmd.CombinedOutput()
	return []orders.Try{got("run as "+args[1], string(out), err)}, nil
}
