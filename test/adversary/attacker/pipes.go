//go:build linux

package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/test/adversary/orders"
)

func init() {
	deeds["hold-output"] = holdOutput
	deeds["hold-input"] = holdInput
}

// holdOutput holds the pipe that is the agent's output. A line is written just before, so that somebody comes to read it.
func holdOutput([]string) ([]orders.Try, error) {
	return hold(syscall.Stdout, []byte(`{"jsonrpc":"2.0","method":"_held"}`+"\n"))
}

// holdInput holds the pipe that is the agent's input: its other end can be opened by its name.
func holdInput([]string) ([]orders.Try, error) {
	other, err := unix.Open("/proc/self/fd/0", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return []orders.Try{tried("open the pipe's other end", err)}, nil
	}
	return hold(other, nil)
}

// hold holds the lock of a pipe until the agent ends: splice takes it, and then waits for a socket on which nothing arrives.
// Whoever reads or writes the pipe waits in the kernel from then on.
func hold(pipe int, line []byte) ([]orders.Try, error) {
	silent, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	thread, ended := make(chan int, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		thread <- unix.Gettid()
		_, err := unix.Write(pipe, line)
		if err == nil {
			_, err = unix.Splice(silent[0], nil, pipe, nil, 1<<16, 0)
		}
		ended <- err
	}()
	waiting := fmt.Sprintf("/proc/self/task/%d/", <-thread)
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		select {
		case err := <-ended:
			return []orders.Try{tried("splice", err)}, nil
		default:
		}
		call, err := os.ReadFile(waiting + "syscall")
		if err != nil {
			return nil, err
		}
		// Asleep in splice, where signals reach it: it has the lock. Whoever waits for the lock is out of reach of signals.
		stat, err := os.ReadFile(waiting + "stat")
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(string(call), fmt.Sprint(unix.SYS_SPLICE, " ")) && strings.Contains(string(stat), ") S ") {
			return []orders.Try{tried("hold the pipe", nil)}, nil
		}
	}
	return nil, fmt.Errorf("splice does not wait in %s: this is no pipe, or this kernel lets go of it", waiting)
}
