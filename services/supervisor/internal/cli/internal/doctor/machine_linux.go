package doctor

import (
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/proc"
)

// minFiles is the number of open files that a supervisor with a few sessions needs.
const minFiles = 1024

// kernel checks the features of the kernel that confine agents.
func kernel(in area) {
	in.ok("system", "linux "+release())
	if err := proc.ConfineSupported(); err != nil {
		opens := ": agents can signal and trace other processes of yours, and answer in your editor's place"
		if proc.TraceConfineSupported() == nil {
			opens = ": agents can signal other processes of yours, and not mount (bwrap, rootless containers)"
		}
		in.warn("landlock", err.Error()+opens,
			"use Linux 6.12 or later with landlock among its security modules (lsm= on the kernel's command line)")
	} else {
		in.ok("landlock", "agents can be kept from other processes")
	}
	if err := proc.FilterSupported(); err != nil {
		in.warn("seccomp", err.Error()+": agents can set limits on other processes of yours",
			"use Linux 5.9 or later on amd64, arm64 or riscv64, with seccomp filters")
	} else {
		in.ok("seccomp", "agents can be kept from calls that reach into other processes")
	}
	if fd, err := unix.PidfdOpen(os.Getpid(), 0); err != nil {
		in.problem("pidfd", fmt.Sprintf("process handles cannot be had: %v", err), "use Linux 5.3 or later; in a container, allow pidfd_open and pidfd_send_signal")
	} else {
		_ = unix.Close(fd)
		in.ok("pidfd", "processes can be ended without hitting others")
	}
	var is int32
	if _, _, errno := unix.Syscall(unix.SYS_PRCTL, unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&is)), 0); errno != 0 {
		in.problem("subreaper", fmt.Sprintf("what an agent detaches cannot be adopted: %v", errno), "in a container, allow prctl")
	} else {
		in.ok("subreaper", "what an agent detaches is found")
	}
	processes(in)
	if err := proc.Undumpable(); err != nil {
		in.warn("undumpable", err.Error()+": other programs of yours can trace acphost", "in a container, allow prctl")
	} else {
		in.ok("undumpable", "acphost cannot be traced by other programs of yours")
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err == nil && files.Max < minFiles {
		in.warn("open files", fmt.Sprintf("at most %d", files.Max), fmt.Sprintf("raise the limit to %d: ulimit -n %d", minFiles, minFiles))
	}
}

// processes checks /proc, which is needed to find descendants.
func processes(in area) {
	if _, err := proc.Descendants(os.Getpid()); err != nil {
		in.problem("/proc", fmt.Sprintf("processes cannot be found, and calls that change something are refused: %v", err),
			"mount proc at /proc, in the pid namespace that acphost runs in")
		return
	}
	if _, err := os.Stat("/proc/1/stat"); err != nil && os.Geteuid() != 0 {
		in.warn("/proc", "processes of other users are hidden: an agent that runs as another user (agent.user) is not seen", "mount /proc without hidepid, if you need that")
		return
	}
	in.ok("/proc", "processes can be found")
}

func release() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "of an unknown version"
	}
	return strings.TrimSpace(unix.ByteSliceToString(u.Release[:]) + " " + unix.ByteSliceToString(u.Machine[:]))
}
