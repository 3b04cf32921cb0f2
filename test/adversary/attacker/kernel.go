//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/test/adversary/orders"
)

func init() {
	deeds["child"] = child
	deeds["kernel"] = kernel
	deeds["io_uring"] = ioUring
	deeds["odd-limit"] = oddLimit
	deeds["cgroup"] = cgroup
	deeds["tty"] = tty
	deeds["status"] = selfStatus
	deeds["namespace"] = namespace
	deeds["enclose"] = enclose
	deeds["apart"] = apart
}

// child writes into the memory of a process of its own: so would a command leave the filter that it was started under, if
// one could be talked to that is under none.
func child([]string) ([]orders.Try, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command(self, "idle")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer func() { _ = in.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	pid := cmd.Process.Pid
	word := make([]byte, 8)
	local := []unix.Iovec{{Base: &word[0], Len: 8}}
	_, err = unix.ProcessVMWritev(pid, local, []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&word[0])), Len: 8}}, 0)
	all := []orders.Try{tried("process_vm_writev", err)}
	err = unix.PtraceAttach(pid)
	all = append(all, tried("ptrace attach", err))
	if err == nil {
		var ws unix.WaitStatus
		_, _ = unix.Wait4(pid, &ws, 0, nil)
	}
	var regs unix.PtraceRegs
	at := uintptr(0)
	if err == nil && unix.PtraceGetRegs(pid, &regs) == nil {
		at = stackOf(&regs)
		_, _ = unix.PtracePeekData(pid, at, word)
	}
	_, err = unix.PtracePokeData(pid, at, word)
	all = append(all, tried("ptrace pokedata", err))
	_ = unix.PtraceDetach(pid)
	return all, nil
}

// kernel asks the kernel for what leads around its walls.
func kernel([]string) ([]orders.Try, error) {
	var all []orders.Try
	attr := [128]byte{}
	const mapCreate, progLoad = 0, 5
	binary.NativeEndian.PutUint32(attr[0:], 2) // BPF_MAP_TYPE_ARRAY
	binary.NativeEndian.PutUint32(attr[4:], 4)
	binary.NativeEndian.PutUint32(attr[8:], 4)
	binary.NativeEndian.PutUint32(attr[12:], 1)
	fd, _, errno := unix.Syscall(unix.SYS_BPF, mapCreate, uintptr(unsafe.Pointer(&attr)), uintptr(len(attr)))
	all = append(all, opened("bpf", fd, errno))
	fd, _, errno = unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
	all = append(all, opened("userfaultfd", fd, errno))
	for _, file := range []string{"/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/dev/mem", "/dev/kmsg"} {
		f, err := os.OpenFile(file, os.O_WRONLY, 0) // opened is enough
		all = append(all, tried("open "+file, err))
		if err == nil {
			_ = f.Close()
		}
	}
	return all, nil
}

func opened(what string, fd uintptr, errno syscall.Errno) orders.Try {
	if errno == 0 {
		_ = unix.Close(int(fd))
	}
	return tried(what, errnoOf(errno))
}

// ioUring @NAME connects to an abstract socket by io_uring, which no filter of system calls sees.
func ioUring(args []string) ([]orders.Try, error) {
	err := connectByRing(strings.TrimPrefix(args[0], "@"))
	return []orders.Try{tried("io_uring connect", err)}, nil
}

// connectByRing sets a ring of one entry up, and submits one connect.
func connectByRing(name string) error {
	params := [120]byte{} // struct io_uring_params
	r, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
	if errno != 0 {
		return errno
	}
	ring := int(r)
	defer unix.Close(ring)
	u32 := func(at int) int { return int(binary.NativeEndian.Uint32(params[at:])) }
	const sq, cq = 40, 80 // sq_off and cq_off
	sqTail, sqArray := u32(sq+4), u32(sq+24)
	cqHead, cqes := u32(cq), u32(cq+20)
	rings, err := unix.Mmap(ring, 0, max(sqArray+4, cqes+32), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Munmap(rings) }()
	const offSQEs = 0x10000000
	sqe, err := unix.Mmap(ring, offSQEs, 64, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Munmap(sqe) }()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	address := make([]byte, 3+len(name)) // family, NUL, name
	binary.NativeEndian.PutUint16(address, unix.AF_UNIX)
	copy(address[3:], name)
	const opConnect = 16
	sqe[0] = opConnect
	binary.NativeEndian.PutUint32(sqe[4:], uint32(fd))
	binary.NativeEndian.PutUint64(sqe[8:], uint64(len(address)))                          // addr2
	binary.NativeEndian.PutUint64(sqe[16:], uint64(uintptr(unsafe.Pointer(&address[0])))) // addr
	binary.NativeEndian.PutUint32(rings[sqArray:], 0)
	binary.NativeEndian.PutUint32(rings[sqTail:], 1)
	const getEvents = 1
	if _, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(ring), 1, 1, getEvents, 0, 0); errno != 0 {
		return errno
	}
	runtime.KeepAlive(address)
	at := cqes + 16*int(binary.NativeEndian.Uint32(rings[cqHead:])&1)
	if result := int32(binary.NativeEndian.Uint32(rings[at+8:])); result < 0 {
		return syscall.Errno(-result)
	}
	return nil
}

// oddLimit PID sets a limit of another process by the system calls of other architectures, which a filter may not look at.
func oddLimit(args []string) ([]orders.Try, error) {
	pid := number(args[0])
	low, err := unix.MmapPtr(-1, 0, nil, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|map32bit)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.MunmapPtr(low, 4096) }()
	*(*unix.Rlimit)(low) = unix.Rlimit{Cur: 1, Max: 1}
	return foreign(pid, uintptr(low)), nil
}

// cgroup PID looks for a cgroup that can be written, and would freeze or kill another process in it.
func cgroup(args []string) ([]orders.Try, error) {
	roots, err := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
	if err != nil {
		return nil, err
	}
	roots = append(roots, "/sys/fs/cgroup/cgroup.procs")
	own, err := os.ReadFile("/proc/" + args[0] + "/cgroup")
	if err != nil {
		return nil, err
	}
	files := map[string]bool{}
	for _, root := range roots {
		files[root] = true
		for line := range strings.Lines(string(own)) {
			if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 {
				for _, name := range []string{"cgroup.procs", "cgroup.freeze", "cgroup.kill", "freezer.state"} {
					files[filepath.Join(filepath.Dir(root), f[2], name)] = true
				}
			}
		}
	}
	all := []orders.Try{tried("look for cgroups", nil)}
	for file := range files {
		f, err := os.OpenFile(file, os.O_WRONLY, 0) // opened is enough
		switch {
		case err == nil:
			_ = f.Close()
			all = append(all, tried("open "+file, nil))
		case !errors.Is(err, os.ErrNotExist):
			all = append(all, tried("open "+file, err))
		}
	}
	return all, nil
}

// sitAt makes a terminal this process's own.
func sitAt(terminal string) error {
	if _, err := unix.Setsid(); err != nil && !errors.Is(err, unix.EPERM) { // leads a session already
		return err
	}
	fd, err := unix.Open(terminal, unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	return unix.IoctlSetInt(fd, unix.TIOCSCTTY, 0)
}

// tty PATH puts a line into a person's terminal, as if it had been typed.
func tty(args []string) ([]orders.Try, error) {
	fd, err := unix.Open(args[0], unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	all := []orders.Try{tried("open", err)}
	if err != nil {
		return all, nil
	}
	defer unix.Close(fd)
	all = append(all, tried("TIOCSCTTY", unix.IoctlSetInt(fd, unix.TIOCSCTTY, 1)))
	for _, c := range []byte("echo typed\n") {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCSTI, uintptr(unsafe.Pointer(&c)))
		if errno != 0 || c == '\n' {
			all = append(all, tried("TIOCSTI", errnoOf(errno)))
			break
		}
	}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TCXONC, unix.TCOOFF)
	return append(all, tried("TCXONC", errnoOf(errno))), nil
}

// selfStatus NAME... says what /proc/self/status says of this process.
func selfStatus(args []string) ([]orders.Try, error) {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	var all []orders.Try
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(line, ":")
		if slices.Contains(args, name) {
			all = append(all, got(name, strings.TrimSpace(value), nil))
		}
	}
	return all, nil
}

// enclose FOLDER puts this thread, and what it starts, into a Landlock domain in which files are changed below a folder
// alone.
func enclose(args []string) ([]orders.Try, error) {
	runtime.LockOSThread()
	const changes = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_REFER
	folder, err := unix.Open(args[0], unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	handled := uint64(changes)
	ruleset, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&handled)), unsafe.Sizeof(handled), 0)
	rule := unix.LandlockPathBeneathAttr{Allowed_access: changes, Parent_fd: int32(folder)}
	if errno == 0 {
		_, _, errno = unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, ruleset, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	}
	if errno == 0 {
		_ = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		_, _, errno = unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0, 0)
	}
	if errno != 0 {
		return nil, errno
	}
	return []orders.Try{tried("enclose", nil)}, nil
}

// namespace HAND starts a hand as root of a user namespace, in which it has every capability, and as process 1.
func namespace(args []string) ([]orders.Try, error) {
	cmd := exec.Command(self, "hand", args[0])
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Setsid:      true,
	}
	if err := cmd.Start(); err != nil {
		return []orders.Try{got("unshare", fmt.Sprint(err), err)}, nil
	}
	go func() { _ = cmd.Wait() }()
	return []orders.Try{tried("unshare", nil)}, nil
}

// apart PROGRAM ARGUMENT... runs a program as root of user and mount namespaces of its own.
func apart(args []string) ([]orders.Try, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	return []orders.Try{got("run apart", string(out), err)}, nil
}
