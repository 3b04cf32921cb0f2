package proc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/proc"
)

// filterProbes are the results of the operations that the filter is for: "ok" or the error.
type filterProbes map[string]string

// refusedCalls are the probes that a filter must refuse, and allowedCalls those that it must not.
var (
	refusedCalls = []string{
		"limit another process", "write into a child by ptrace", "set a child's registers", "an unknown request of ptrace",
		"write into a child's memory", "bpf", "userfaultfd", "type into a terminal", "type into a terminal, with more bits",
		"stop a terminal", "take a file of a process", "lease a file",
	}
	allowedCalls = []string{"limit itself", "read another's limits", "trace a child", "read a child's memory", "ask a terminal", "duplicate a file"}
)

// probeFilter tries every operation on its parent and on its own child.
func probeFilter() filterProbes {
	got := filterProbes{}
	note := func(what string, errno syscall.Errno) {
		got[what] = "ok"
		if errno != 0 {
			got[what] = errno.Error()
		}
	}
	call := func(what string, number uintptr, args ...uintptr) {
		var a [6]uintptr
		copy(a[:], args)
		_, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
		note(what, errno)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &limit); err != nil {
		got["limit itself"] = err.Error()
		return got
	}
	mine := uintptr(unsafe.Pointer(&limit))
	parent := uintptr(os.Getppid())
	call("limit another process", unix.SYS_PRLIMIT64, parent, unix.RLIMIT_CORE, mine, 0)
	call("limit itself", unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CORE, mine, 0)
	call("read another's limits", unix.SYS_PRLIMIT64, uintptr(childOfProbe()), unix.RLIMIT_CORE, 0, mine)
	call("duplicate a file", unix.SYS_FCNTL, 0, unix.F_GETFD)
	// Arguments that are no more than wrong, where a filter is not there: EINVAL, EFAULT, ENOTTY.
	call("bpf", unix.SYS_BPF, 0, 0, 0)
	const noLease = 7
	call("lease a file", unix.SYS_FCNTL, 0, unix.F_SETLEASE, noLease)
	call("userfaultfd", unix.SYS_USERFAULTFD, ^uintptr(0))
	call("type into a terminal", unix.SYS_IOCTL, 0, unix.TIOCSTI, 0)
	call("type into a terminal, with more bits", unix.SYS_IOCTL, 0, unix.TIOCSTI|1<<32, 0)
	call("stop a terminal", unix.SYS_IOCTL, 0, unix.TCXONC, unix.TCOOFF)
	call("take a file of a process", unix.SYS_PIDFD_GETFD, ^uintptr(0), 0, 0)
	var pgrp int32
	call("ask a terminal", unix.SYS_IOCTL, 0, unix.TIOCGPGRP, uintptr(unsafe.Pointer(&pgrp)))
	probeTracing(note)
	return got
}

var probeChild *exec.Cmd

func childOfProbe() int {
	if probeChild == nil {
		probeChild = exec.Command("sleep", "1000")
		if probeChild.Start() != nil {
			return 0
		}
	}
	return probeChild.Process.Pid
}

func probeTracing(note func(string, syscall.Errno)) {
	runtime.LockOSThread()
	pid := childOfProbe()
	defer func() { _ = probeChild.Process.Kill(); _ = probeChild.Wait() }()
	ptrace := func(request, addr, data uintptr) syscall.Errno {
		_, _, errno := unix.Syscall6(unix.SYS_PTRACE, request, uintptr(pid), addr, data, 0, 0)
		return errno
	}
	note("trace a child", ptrace(unix.PTRACE_ATTACH, 0, 0))
	var ws unix.WaitStatus
	_, _ = unix.Wait4(pid, &ws, 0, nil)
	at, err := stackOf(pid)
	if err != nil {
		return
	}
	var word uintptr
	note("read a child's memory", ptrace(unix.PTRACE_PEEKDATA, at, uintptr(unsafe.Pointer(&word))))
	note("write into a child by ptrace", ptrace(unix.PTRACE_POKEDATA, at, word))
	note("an unknown request of ptrace", ptrace(0x7777, 0, 0))
	var registers [64]uint64
	vec := unix.Iovec{Base: (*byte)(unsafe.Pointer(&registers)), Len: uint64(unsafe.Sizeof(registers))}
	const statusRegisters = 1 // NT_PRSTATUS
	if errno := ptrace(unix.PTRACE_GETREGSET, statusRegisters, uintptr(unsafe.Pointer(&vec))); errno == 0 {
		note("set a child's registers", ptrace(unix.PTRACE_SETREGSET, statusRegisters, uintptr(unsafe.Pointer(&vec))))
	}
	local := unix.Iovec{Base: (*byte)(unsafe.Pointer(&word)), Len: 8}
	remote := unix.RemoteIovec{Base: at, Len: 8}
	_, _, errno := unix.Syscall6(unix.SYS_PROCESS_VM_WRITEV, uintptr(pid), uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1, 0)
	note("write into a child's memory", errno)
	_ = ptrace(unix.PTRACE_DETACH, 0, 0)
}

// stackOf is an address in the stack of a process.
func stackOf(pid int) (uintptr, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(maps)) {
		var from, to uintptr
		if strings.Contains(line, "[stack]") {
			_, err := fmt.Sscanf(line, "%x-%x", &from, &to)
			return to - 4096, err
		}
	}
	return 0, errors.New("no stack")
}

func runFilterProbes(t *testing.T, start func(cmd *exec.Cmd) error) filterProbes {
	t.Helper()
	var out bytes.Buffer
	cmd := helper("probe-filter")
	cmd.Stdout = &out
	if err := start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	got := filterProbes{}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestSeccomp_DeniesCallsIntoOtherProcesses(t *testing.T) {
	needsConfine(t)
	got := runFilterProbes(t, func(cmd *exec.Cmd) error { return confined(cmd.Start) })
	for _, what := range refusedCalls {
		if got[what] != unix.EPERM.Error() {
			t.Errorf("%s: %q, want %q", what, got[what], unix.EPERM.Error())
		}
	}
	for _, what := range allowedCalls {
		if got[what] != "ok" && got[what] != unix.ENOTTY.Error() {
			t.Errorf("%s: %q, want ok", what, got[what])
		}
	}
}

// TestSeccomp_CallsSucceedWithoutFilter makes the calls of the test above without a filter, which shows that the filter
// is the reason of their failure. Only root may call bpf and userfaultfd.
func TestSeccomp_CallsSucceedWithoutFilter(t *testing.T) {
	got := runFilterProbes(t, (*exec.Cmd).Start)
	for _, what := range append([]string{"limit another process", "write into a child by ptrace", "write into a child's memory"}, allowedCalls...) {
		if got[what] != "ok" && got[what] != unix.ENOTTY.Error() {
			t.Errorf("%s: %q, want ok", what, got[what])
		}
	}
}

func TestSeccomp_FiltersAreInherited(t *testing.T) {
	needsConfine(t)
	own, err := proc.Filters(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", "setsid sh -c 'grep Seccomp_filters /proc/self/status'")
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := confined(cmd.Start); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("Seccomp_filters:\t%d\n", own+1); out.String() != want {
		t.Errorf("a descendant has %q, want %q", out.String(), want)
	}
	if again, err := proc.Filters(os.Getpid()); err != nil || again != own {
		t.Errorf("this process has %d filters afterwards (%v), %d before", again, err, own)
	}
}

// TestSeccomp_FiltersCallsOf32BitPrograms: a 32-bit program has its own numbers of system calls.
func TestSeccomp_FiltersCallsOf32BitPrograms(t *testing.T) {
	needsConfine(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("the program is one for i386")
	}
	program := i386Prlimit(t)
	run := func(start func(*exec.Cmd) error) int {
		cmd := exec.Command(program)
		if err := start(cmd); errors.Is(err, unix.ENOEXEC) {
			t.Skip("this kernel runs no 32-bit programs")
		} else if err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		return cmd.ProcessState.ExitCode()
	}
	if got := run((*exec.Cmd).Start); got != int(unix.ESRCH) {
		t.Errorf("without a filter it exited with %d, want %d: there is no such process", got, unix.ESRCH)
	}
	if got := run(func(cmd *exec.Cmd) error { return confined(cmd.Start) }); got != int(unix.EPERM) {
		t.Errorf("behind the filter it exited with %d, want %d", got, unix.EPERM)
	}
}

// i386Prlimit makes a program that exits with the error number of prlimit64(0x3fffffff, RLIMIT_CORE, esp, NULL).
func i386Prlimit(t *testing.T) string {
	t.Helper()
	code := []byte{
		0xb8, 0x54, 0x01, 0x00, 0x00, // mov eax, 340: prlimit64
		0xbb, 0xff, 0xff, 0xff, 0x3f, // mov ebx, 0x3fffffff: a pid that no process has
		0xb9, 0x04, 0x00, 0x00, 0x00, // mov ecx, 4: RLIMIT_CORE
		0x83, 0xec, 0x10, // sub esp, 16
		0x89, 0xe2, // mov edx, esp
		0x31, 0xf6, // xor esi, esi
		0xcd, 0x80, // int 0x80
		0xf7, 0xd8, // neg eax
		0x89, 0xc3, // mov ebx, eax
		0xb8, 0x01, 0x00, 0x00, 0x00, // mov eax, 1: exit
		0xcd, 0x80,
	}
	const base, header = 0x08048000, 52 + 32
	le := func(v uint32) []byte { return []byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)} }
	elf := []byte{0x7f, 'E', 'L', 'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 3, 0, 1, 0, 0, 0}
	elf = append(elf, le(base+header)...) // entry
	elf = append(elf, le(52)...)          // program headers
	elf = append(elf, le(0)...)
	elf = append(elf, le(0)...)
	elf = append(elf, 52, 0, 32, 0, 1, 0, 0, 0, 0, 0, 0, 0)
	for _, v := range []uint32{1, 0, base, base, header + uint32(len(code)), header + uint32(len(code)), 5, 0x1000} {
		elf = append(elf, le(v)...)
	}
	file := t.TempDir() + "/prlimit"
	if err := os.WriteFile(file, append(elf, code...), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}
