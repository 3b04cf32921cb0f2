//go:build linux

package main

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/test/adversary/orders"
)

func init() {
	deeds["reach"] = reach
	deeds["signal-by-pipe"] = signalByPipe
	deeds["slow"] = slow
	deeds["proc-write"] = procWrite
}

// reach PID tries what would lead into another process: its memory, its files, its end. The signal is one that harms
// nobody: whether it may be sent is what counts.
func reach(args []string) ([]orders.Try, error) {
	pid := number(args[0])
	runtime.LockOSThread() // a tracer is a thread
	defer runtime.UnlockOSThread()
	var all []orders.Try
	try := func(what string, err error) { all = append(all, tried(what, err)) }

	err := unix.PtraceAttach(pid)
	try("ptrace attach", err)
	if err == nil {
		_ = unix.PtraceDetach(pid)
	}
	err = unix.PtraceSeize(pid)
	try("ptrace seize", err)
	if err == nil {
		_ = unix.PtraceDetach(pid)
	}
	word := make([]byte, 8)
	local := []unix.Iovec{{Base: &word[0], Len: 8}}
	remote := []unix.RemoteIovec{{Base: uintptr(0x400000), Len: 8}}
	_, err = unix.ProcessVMReadv(pid, local, remote, 0)
	try("process_vm_readv", err)
	_, err = unix.ProcessVMWritev(pid, local, remote, 0)
	try("process_vm_writev", err)

	fd, err := unix.PidfdOpen(pid, 0)
	if err == nil {
		stolen, err := unix.PidfdGetfd(fd, 0, 0)
		try("pidfd_getfd", err)
		if err == nil {
			_ = unix.Close(stolen)
		}
		try("pidfd_send_signal", unix.PidfdSendSignal(fd, unix.SIGURG, nil, 0))
		try("setns", unix.Setns(fd, unix.CLONE_NEWUTS|unix.CLONE_NEWPID))
		iov := unix.Iovec{Base: &word[0], Len: 8}
		_, _, errno := unix.Syscall6(unix.SYS_PROCESS_MADVISE, uintptr(fd), uintptr(unsafe.Pointer(&iov)), 1, unix.MADV_COLD, 0, 0)
		try("process_madvise", errnoOf(errno))
		_ = unix.Close(fd)
	}
	const kcmpFile = 0
	_, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(os.Getpid()), uintptr(pid), kcmpFile, 0, 0, 0)
	try("kcmp", errnoOf(errno))

	try("kill", unix.Kill(pid, unix.SIGURG))
	try("tgkill", unix.Tgkill(pid, pid, unix.SIGURG))
	info := struct {
		signo, errno, code int32
		_                  [116]byte
	}{signo: int32(unix.SIGURG), code: -1} // SI_QUEUE
	_, _, errno = unix.Syscall(unix.SYS_RT_SIGQUEUEINFO, uintptr(pid), uintptr(unix.SIGURG), uintptr(unsafe.Pointer(&info)))
	try("rt_sigqueueinfo", errnoOf(errno))
	_, _, errno = unix.Syscall6(unix.SYS_RT_TGSIGQUEUEINFO, uintptr(pid), uintptr(pid), uintptr(unix.SIGURG), uintptr(unsafe.Pointer(&info)), 0, 0)
	try("rt_tgsigqueueinfo", errnoOf(errno))

	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{}))}
	event, err := unix.PerfEventOpen(&attr, pid, -1, -1, 0)
	try("perf_event_open", err)
	if err == nil {
		_ = unix.Close(event)
	}
	for _, file := range []string{"environ", "maps", "auxv", "syscall"} {
		_, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		try("read "+file, err)
	}
	for _, file := range []string{"mem", "fd/0"} {
		f, err := os.OpenFile(fmt.Sprintf("/proc/%d/%s", pid, file), os.O_RDWR, 0)
		try("open "+file, err)
		if err == nil {
			_ = f.Close()
		}
	}
	for _, link := range []string{"exe", "cwd", "root"} {
		_, err := os.Readlink(fmt.Sprintf("/proc/%d/%s", pid, link))
		try("follow "+link, err)
	}
	_, err = os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	try("list fd", err)
	return all, nil
}

// signalByPipe PID has a pipe tell another process by SIGKILL that it can be read.
func signalByPipe(args []string) ([]orders.Try, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	defer func() { _, _ = unix.Close(p[0]), unix.Close(p[1]) }()
	var all []orders.Try
	_, err := unix.FcntlInt(uintptr(p[0]), unix.F_SETOWN, number(args[0]))
	all = append(all, tried("F_SETOWN", err))
	_, err = unix.FcntlInt(uintptr(p[0]), unix.F_SETSIG, int(unix.SIGKILL))
	all = append(all, tried("F_SETSIG", err))
	_, err = unix.FcntlInt(uintptr(p[0]), unix.F_SETFL, unix.O_ASYNC)
	all = append(all, tried("O_ASYNC", err))
	_, err = unix.Write(p[1], []byte("x"))
	return append(all, tried("write", err)), nil
}

// slow PID has the kernel run another process last, and on one processor.
func slow(args []string) ([]orders.Try, error) {
	pid := number(args[0])
	var one unix.CPUSet
	one.Set(0)
	var all []orders.Try
	all = append(all, tried("sched_setaffinity", unix.SchedSetaffinity(pid, &one)))
	var zero int32
	_, _, errno := unix.Syscall(unix.SYS_SCHED_SETSCHEDULER, uintptr(pid), unix.SCHED_IDLE, uintptr(unsafe.Pointer(&zero)))
	all = append(all, tried("sched_setscheduler", errnoOf(errno)))
	all = append(all, tried("setpriority", unix.Setpriority(unix.PRIO_PROCESS, pid, 19)))
	const whoProcess, idle = 1, 3 << 13
	_, _, errno = unix.Syscall(unix.SYS_IOPRIO_SET, whoProcess, uintptr(pid), idle)
	return append(all, tried("ioprio_set", errnoOf(errno))), nil
}

// procWrite PID changes what the kernel lets change in /proc.
func procWrite(args []string) ([]orders.Try, error) {
	var all []orders.Try
	for _, w := range []struct{ file, text string }{
		{"oom_score_adj", "1000"}, {"coredump_filter", "0x1ff"}, {"timerslack_ns", "1000000000"}, {"clear_refs", "1"},
		{"comm", "sh"}, {"autogroup", "19"}, {"attr/exec", "unconfined"},
	} {
		f, err := os.OpenFile(fmt.Sprintf("/proc/%s/%s", args[0], w.file), os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteString(w.text)
			_ = f.Close()
		}
		all = append(all, tried("write "+w.file, err))
	}
	return all, nil
}
