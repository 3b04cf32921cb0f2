//go:build linux

// Command init is the first process of the machines of package machine: it prepares the kernel for the tests, runs
// them, and switches the machine off.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/test/machine/words"
)

func main() {
	if err := run(); err != nil {
		fmt.Println(words.Failed, err)
	}
	fmt.Println(words.Over)
	unix.Sync()
	fmt.Println("cannot switch the machine off:", unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF))
	select {} // the kernel panics without a first process
}

func run() error {
	for _, m := range [][2]string{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"devpts", "/dev/pts"}, {"tmpfs", "/tmp"}} {
		if err := os.MkdirAll(m[1], 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m[0], m[1], m[0], 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("mount %s: %w", m[1], err)
		}
	}
	if err := mountGroups(); err != nil {
		return fmt.Errorf("mount %s: %w", groups, err)
	}
	if err := os.Chmod("/tmp", 0o1777); err != nil {
		return err
	}
	if err := os.Symlink("/proc/self/fd", "/dev/fd"); err != nil {
		return err
	}
	for _, folder := range []string{"/bin", "/usr/bin"} { // hard links: each program has its own path
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		if out, err := exec.Command("/busybox", "--install", folder).CombinedOutput(); err != nil {
			return fmt.Errorf("install busybox in %s: %w: %s", folder, err, out)
		}
	}
	if out, err := exec.Command("/bin/ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return fmt.Errorf("set the loopback up: %w: %s", err, out)
	}
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return err
	}
	abi, _, _ := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	fmt.Printf("machine: Linux %s on %s, Landlock %d\n", unix.ByteSliceToString(uts.Release[:]), unix.ByteSliceToString(uts.Machine[:]), int(abi))
	return jobs()
}

// jobs executes the lines of the file of jobs: a setting of the kernel and its value, or a program with its arguments.
func jobs() error {
	file, err := os.Open(words.Jobs)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	env := []string{"PATH=/bin:/usr/bin", "HOME=/tmp", "TMPDIR=/tmp"}
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch name, value, sets := strings.Cut(fields[0], "="); {
		case sets && strings.HasPrefix(name, "/"):
			if err := os.WriteFile(name, []byte(value), 0); err != nil {
				return err
			}
		case sets:
			env = append(env, fields[0])
		default:
			if err := test(fields, env); err != nil {
				return err
			}
		}
	}
	return lines.Err()
}

// groups is where control groups are mounted.
const groups = "/sys/fs/cgroup"

// mountGroups mounts the control groups, and lets each group have its own limits.
func mountGroups() error {
	if err := unix.Mount("cgroup2", groups, "cgroup2", 0, ""); err != nil {
		return err
	}
	return os.WriteFile(groups+"/cgroup.subtree_control", []byte("+pids +memory"), 0)
}

// test runs a program in a separate control group, and reaps all other processes that end meanwhile, as a first process
// must.
func test(args, env []string) error {
	group, err := os.MkdirTemp(groups, "test-")
	if err != nil {
		return fmt.Errorf("create a control group for %s: %w", args[0], err)
	}
	dir, err := os.Open(group)
	if err != nil {
		return fmt.Errorf("open the control group of %s: %w", args[0], err)
	}
	defer dir.Close()
	pid, err := syscall.ForkExec(args[0], args, &syscall.ProcAttr{
		Env: env, Files: []uintptr{0, 1, 2}, Dir: "/tmp",
		Sys: &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())},
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", args[0], err)
	}
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case got == pid && (!status.Exited() || status.ExitStatus() != 0):
			return fmt.Errorf("%s: exit status %d, signal %d", args[0], status.ExitStatus(), status.Signal())
		case got == pid:
			return nil
		}
	}
}
