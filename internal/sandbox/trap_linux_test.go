//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// traps tries what has fooled sandboxes of this kind, and prints what it achieved.
func traps(dir, victim string) {
	tell := func(name string, err error) {
		if err == nil {
			fmt.Println(name)
		}
	}
	// A program in memory.
	if program, err := os.ReadFile("/usr/bin/id"); err == nil {
		if fd, err := unix.MemfdCreate("id", unix.MFD_CLOEXEC); err == nil {
			_, _ = unix.Write(fd, program)
			cmd := exec.Command(fmt.Sprintf("/proc/self/fd/%d", fd))
			tell("(a program in memory)", cmd.Run())
			cmd = exec.Command("/bin/sh", "-c", "echo x >"+victim)
			tell("what another program does", cmd.Run())
		}
	}
	// What the loader starts is seen as what the loader does: its changes are decided on.
	if loaders, _ := filepath.Glob("/lib64/ld-linux-x86-64.so*"); len(loaders) > 0 {
		tell("(a program by the loader)", exec.Command(loaders[0], "/bin/true").Run())
		tell("what a program does that the loader starts", exec.Command(loaders[0], "/bin/cp", "/dev/null", victim).Run())
	}
	// A folder that is exchanged for a link, while it is used.
	own := filepath.Join(dir, "folder")
	if err := os.Mkdir(own, 0o777); err == nil {
		if fd, err := unix.Open(own, unix.O_PATH|unix.O_DIRECTORY, 0); err == nil {
			_ = os.Rename(own, own+"2")
			_ = os.Symlink(filepath.Dir(victim), own)
			_, err = unix.Open(filepath.Join(own, "victim"), unix.O_WRONLY, 0)
			tell("a folder that became a link", err)
			f, err := unix.Openat(fd, "new", unix.O_WRONLY|unix.O_CREAT, 0o600)
			tell("(the folder by its descriptor)", err)
			unix.Close(f)
			_, err = unix.Openat(fd, "../../out/victim", unix.O_WRONLY, 0)
			tell("out of a folder that is held", err)
		}
	}
	// A descriptor that somebody else hands over, only for reading, does not become one for writing.
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		if fd, err := unix.Open(victim, unix.O_RDONLY, 0); err == nil {
			tell("(a descriptor is handed over)", unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(fd), nil, 0))
			oob := make([]byte, unix.CmsgSpace(4))
			_, n, _, _, err := unix.Recvmsg(pair[1], make([]byte, 1), oob, 0)
			if messages, _ := unix.ParseSocketControlMessage(oob[:n]); err == nil && len(messages) == 1 {
				if fds, _ := unix.ParseUnixRights(&messages[0]); len(fds) == 1 {
					_, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fds[0]), unix.O_WRONLY, 0)
					tell("a descriptor that was handed over, opened again", err)
					tell("its mode", unix.Fchmod(fds[0], 0))
				}
			}
		}
	}
	tell("stopping the sandbox", unix.Kill(os.Getppid(), unix.SIGSTOP))
	tell("ending the sandbox", unix.Kill(os.Getppid(), unix.SIGKILL))
	tell("tracing the sandbox", unix.PtraceAttach(os.Getppid()))
	var limit unix.Rlimit
	tell("a limit of the sandbox", unix.Prlimit(os.Getppid(), unix.RLIMIT_CPU, &limit, nil))
	for fd := 3; fd < 64; fd++ {
		if to, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err == nil && strings.Contains(to, "inherited") {
			fmt.Println("a file that the sandbox inherited")
		}
	}
}

// filtered puts a filter of its own on itself, as agents' own sandboxes do, and then works on.
func filtered() int {
	runtime.LockOSThread()
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offsetNumber},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: sysMkdir, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: eperm},
		// What a tracer is to be told of, and nobody traces: such a call does not exist.
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_SYMLINKAT, Jt: 1},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_GETPPID, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_TRACE},
		{Code: unix.BPF_RET | unix.BPF_K, K: allow},
	}
	fprog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	install := func(flags uintptr) error {
		_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&fprog)))
		if errno != 0 {
			return errno
		}
		return nil
	}
	fmt.Println("its own listener:", install(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER))
	fmt.Println("its own filter:", install(0))
	fmt.Println("its own filter, for all threads:", install(unix.SECCOMP_FILTER_FLAG_TSYNC))
	_, _, errno := unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0)
	fmt.Println("what its filter has traced:", errno)
	fmt.Println("likewise, but the sandbox is asked first:", unix.Symlinkat("x", unix.AT_FDCWD, "link"), unix.Symlinkat("x", unix.AT_FDCWD, "../out/link"))
	_, _, errno = unix.Syscall(sysMkdir, cstring("x"), 0o777, 0)
	fmt.Println("what its filter refuses:", errno)
	fd, err := unix.Open("y", unix.O_CREAT|unix.O_WRONLY, 0o600)
	fmt.Println("a file:", err)
	unix.Close(fd)
	pid, err := syscall.ForkExec("/bin/true", []string{"true"}, nil)
	var status unix.WaitStatus
	if err == nil {
		_, err = unix.Wait4(pid, &status, 0, nil)
	}
	fmt.Println("a program:", err, status.ExitStatus())
	return 0
}

func TestTraps_KnownEscapesFail(t *testing.T) {
	needsPrograms(t)
	y := newYard(t)
	inherited, err := os.Create(filepath.Join(y.inside, "inherited"))
	if err != nil {
		t.Fatal(err)
	}
	defer inherited.Close()
	cmd := y.attack(t, "traps", y.inside, y.victim)
	cmd.ExtraFiles = []*os.File{inherited}
	const want = "(a program in memory)\n(a program by the loader)\n(the folder by its descriptor)\n(a descriptor is handed over)"
	if got := run(t, cmd); got != want {
		t.Errorf("the attacker achieved\n%s\nwant\n%s", got, want)
	}
	y.untouched(t)
}

func TestFilter_OwnFilterOfProgramWorks(t *testing.T) {
	y := newYard(t)
	const want = "its own listener: device or resource busy\nits own filter: <nil>\nits own filter, for all threads: <nil>\n" +
		"what its filter has traced: function not implemented\nlikewise, but the sandbox is asked first: <nil> permission denied\n" +
		"what its filter refuses: operation not permitted\n" +
		"a file: <nil>\na program: <nil> 0"
	if got := run(t, y.attack(t, "filtered")); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestRead_IsDecidedIfConfigured(t *testing.T) {
	needsPrograms(t)
	y := newYard(t)
	y.flags = []string{"--deny-read", y.victim}
	for name, line := range map[string]string{
		"a file":              "cat ../out/victim",
		"by a link":           "ln -s ../out/victim l && cat l",
		"by /proc":            "cat /proc/self/cwd/../out/victim",
		"for reading and all": "exec 3<>../out/victim",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := y.confined(t, "sh", "-c", line).CombinedOutput(); err == nil || strings.Contains(string(got), "secret") {
				t.Errorf("got %q, %v, want it refused", got, err)
			}
		})
	}
	if got := run(t, y.confined(t, "sh", "-c", "cat .env; ls / >/dev/null && git --version >/dev/null && echo ok")); got != "secretok" {
		t.Errorf("got %q of what may be read", got)
	}
	y.untouched(t)
}

func TestObserve_RejectsNothing(t *testing.T) {
	y := newYard(t)
	y.flags = []string{"--observe"}
	line := "echo changed >../out/victim && mkdir ../out/d && mv ../out/d ../out/e && id -u >/dev/null && cat ../out/victim"
	if got := run(t, y.confined(t, "sh", "-c", line)); got != "changed" {
		t.Errorf("got %q", got)
	}
	if _, err := exec.LookPath("unshare"); err != nil {
		t.Skip("there is no unshare, to be observed in a namespace of its own")
	}
	if got := run(t, y.confined(t, "unshare", "-U", "sh", "-c", "echo x >n && cat n")); got != "x" {
		t.Errorf("got %q in a user namespace", got)
	}
}
