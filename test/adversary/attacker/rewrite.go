//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/adversary/orders"
)

func init() {
	deeds["victim"] = startVictim
	deeds["rewrite"] = rewrite
	deeds["outcome"] = outcome
}

// victim is a process of the attacker's own that makes one system call, with arguments in memory that the attacker can
// write.
var victim struct {
	cmd    *exec.Cmd
	memory []byte
	goOn   *os.File // a byte has it make the call
	said   *bytes.Buffer
	traced int // its thread that this process traces; 0: none
}

// The shared memory holds the path and, in another half, a program's argument.
const (
	sharedSize = 8192
	argumentAt = 4096
)

// startVictim open|exec PATH ARGUMENT starts the process, which waits before the call.
func startVictim(args []string) ([]orders.Try, error) {
	fd, err := unix.MemfdCreate("shared", unix.MFD_CLOEXEC)
	if err == nil {
		err = unix.Ftruncate(fd, sharedSize)
	}
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "shared")
	defer file.Close()
	if victim.memory, err = unix.Mmap(fd, 0, sharedSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, err
	}
	share(args[1], args[2])
	in, goOn, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	ready, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	victim.goOn, victim.said, victim.traced = goOn, &bytes.Buffer{}, 0
	victim.cmd = exec.Command(self, "victim", args[0])
	victim.cmd.Stdin, victim.cmd.Stdout, victim.cmd.Stderr = in, victim.said, victim.said
	victim.cmd.ExtraFiles = []*os.File{file, theirs}
	err = victim.cmd.Start()
	_, _ = in.Close(), theirs.Close()
	if err != nil {
		return nil, err
	}
	if _, err := ready.Read(make([]byte, 1)); err != nil {
		return nil, fmt.Errorf("the victim: %w", err)
	}
	return []orders.Try{got("victim", fmt.Sprint(victim.cmd.Process.Pid), nil)}, nil
}

// share puts what the call is about into the memory.
func share(path, argument string) {
	copy(victim.memory, path+"\x00")
	copy(victim.memory[argumentAt:], argument+"\x00")
}

// playVictim open|exec is the process.
func playVictim(call string) error {
	memory, err := unix.Mmap(3, 0, sharedSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	path, argument := uintptr(unsafe.Pointer(&memory[0])), uintptr(unsafe.Pointer(&memory[argumentAt]))
	argv, env := []uintptr{path, argument, 0}, []uintptr{0}
	unix.CloseOnExec(3)
	ready := os.NewFile(4, "ready")
	if _, err := ready.Write([]byte("x")); err != nil {
		return err
	}
	_ = ready.Close()
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
		return err
	}
	var errno syscall.Errno
	if call == "exec" {
		// Stuck threads of Go's do not matter: the process is replaced, or reports and ends.
		_, _, errno = syscall.Syscall(unix.SYS_EXECVE, path, uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&env[0])))
	} else {
		var fd uintptr
		at := unix.AT_FDCWD
		fd, _, errno = syscall.Syscall6(unix.SYS_OPENAT, uintptr(at), path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC, 0o600, 0, 0)
		if errno == 0 {
			_, err = unix.Write(int(fd), []byte("written"))
			errno, _ = errors.AsType[syscall.Errno](err)
		}
	}
	runtime.KeepAlive(argv)
	fmt.Printf("errno %d\n", int(errno))
	return nil
}

// rewrite PATH ARGUMENT HOW has the victim make its call, waits until the sandbox holds it, and writes other arguments
// into it: into the memory, and unless HOW is "memory" also by all that tracers have.
func rewrite(args []string) ([]orders.Try, error) {
	if _, err := victim.goOn.Write([]byte("x")); err != nil {
		return nil, err
	}
	pid := victim.cmd.Process.Pid
	thread := 0
	for deadline := time.Now().Add(testkit.Scale(answerTimeout)); thread == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return nil, errors.New("the victim's call is not held")
		}
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/wchan", pid))
		if err != nil {
			return nil, err
		}
		for _, file := range tasks {
			if at, _ := os.ReadFile(file); strings.Contains(string(at), "seccomp") {
				thread = number(filepath.Base(filepath.Dir(file)))
			}
		}
	}
	share(args[0], args[1])
	all := []orders.Try{tried("other arguments in memory", nil)}
	if args[2] == "memory" {
		return all, nil
	}
	runtime.LockOSThread() // for good: a tracer is a thread
	try := func(what string, err error) { all = append(all, tried(what, err)) }
	err := unix.PtraceSeize(thread)
	all = append(all, tried("(seize)", err))
	if err == nil {
		victim.traced = thread
		_ = unix.PtraceInterrupt(thread)
		word := make([]byte, 8)
		var regs unix.PtraceRegs
		address := uintptr(unsafe.Pointer(&victim.memory[0]))
		_, err = unix.PtracePokeData(thread, address, word)
		try("pokedata", err)
		try("setregs", unix.PtraceSetRegs(thread, &regs))
		request := func(name string, number uintptr) {
			_, _, errno := unix.Syscall6(unix.SYS_PTRACE, number, uintptr(thread), 0, uintptr(unsafe.Pointer(&regs)), 0, 0)
			try(name, errnoOf(errno))
		}
		request("pokeuser", unix.PTRACE_POKEUSR)
		request("setregset", unix.PTRACE_SETREGSET)
		request("sysemu", 31)
		request("set_syscall_info", 0x4212)
		request("setsiginfo", unix.PTRACE_SETSIGINFO)
		const suspendSeccomp = 1 << 21
		_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SETOPTIONS, uintptr(thread), 0, suspendSeccomp, 0, 0)
		try("suspend seccomp", errnoOf(errno))
	}
	word := make([]byte, 8)
	_, err = unix.ProcessVMWritev(pid, []unix.Iovec{{Base: &word[0], Len: 8}}, []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&victim.memory[0])), Len: 8}}, 0)
	try("process_vm_writev", err)
	return all, nil
}

// outcome lets the victim go, waits for its end, and brings what it said and how it ended.
func outcome([]string) ([]orders.Try, error) {
	if victim.traced != 0 {
		var status unix.WaitStatus
		if _, err := unix.Wait4(victim.traced, &status, unix.WALL, nil); err != nil {
			return nil, err
		}
		if err := unix.PtraceDetach(victim.traced); err != nil {
			return nil, err
		}
	}
	err := victim.cmd.Wait()
	how := "ended"
	if status := victim.cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		how = status.Signal().String()
	}
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		return nil, err
	}
	return []orders.Try{got(how, victim.said.String(), nil)}, nil
}
