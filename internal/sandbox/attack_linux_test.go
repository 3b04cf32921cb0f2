//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// play is the attacker. What comes out on standard output is what it achieved.
func play(role string, args []string) int {
	switch role {
	case "calls":
		calls(args[0], args[1], args[2])
	case "privileges":
		privileges(args[0])
	case "harmlessmodes":
		harmlessModes(args[0], args[1])
	case "beginrace":
		return beginRace(args[0])
	case "placerace":
		return placeRace(args[0], args[1])
	case "stages":
		return openStages(args[0], args[1])
	case "race":
		race(args[0], args[1])
	case "execrace":
		execRace(args[0], args[1])
	case "spawn":
		return spawn()
	case "connect":
		connects(args[0], args[1], args[2], args[3])
	case "traps":
		traps(args[0], args[1])
	case "landlocked":
		return landlocked(args[0], args[1], args[2])
	case "asklandlock":
		return askLandlock(args[0], args[1])
	case "sockets":
		sockets(args[0], args[1])
	case "siblings":
		return siblings(args[0], args[1])
	case "manydomains":
		_ = os.Setenv(roleVar, "landlocked")
		return manyDomains(args[0])
	case "rulerace":
		return ruleRace(args[0])
	case "widen":
		runtime.LockOSThread()
		if err := confineTo("/"); err != nil {
			fmt.Println(err)
		}
		calls(args[0], args[1], args[2])
	case "filtered":
		return filtered()
	case "namespaced": // ROLE ARGUMENTS...
		return namespaced(args[0], 0, args[1:])
	case "mounted":
		mounted(args[0], args[1], args[2])
	case "closed":
		fmt.Println(closed(args))
		return 1
	case "chrooted": // FOLDER FILE: write the file where the folder is the root
		err := errors.Join(unix.Chroot(args[0]), unix.Chdir("/"), os.WriteFile(args[1], []byte("x"), 0o600))
		if err != nil {
			fmt.Println(err)
			return 1
		}
	case "reach":
		reach(args)
	case "mountexec":
		mountExec(args[0], args[1])
	case "landlockedmount":
		runtime.LockOSThread()
		if err := confineTo("/"); err != nil {
			fmt.Println(err)
		}
		fmt.Println(unix.Mount("tmpfs", args[0], "tmpfs", 0, ""))
	case "profile": // ERRNO CALL: what Supported says in a container that refuses the call
		if err := inProfile(args); err != nil {
			fmt.Println(err)
			return 1
		}
	case "profiled": // ERRNO CALL ARGUMENTS...: this test binary in such a container
		if err := inProfile(args[:2], args[2:]...); err != nil {
			fmt.Println(err)
			return 1
		}
	case "supported":
		fmt.Println(Supported())
	case "unreaped", "replaced":
		do := replaced
		if role == "unreaped" {
			do = func() error { return unreaped(args[0]) }
		}
		if err := do(); err != nil {
			fmt.Println(err)
			return 1
		}
	case "parent":
		self, err := os.Executable()
		if err != nil {
			return 1
		}
		cmd := exec.Command(self, args...)
		cmd.Env = append(os.Environ(), roleVar+"=wait")
		cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
		_ = cmd.Run()
	case "wait":
		fmt.Println(os.Getpid())
		_, _ = os.Stdin.Read(make([]byte, 1))
		_, err := os.Create(args[0])
		fmt.Println(errors.Is(err, unix.ENOSYS))
	}
	return 0
}

func cstring(s string) uintptr {
	p, err := unix.BytePtrFromString(s)
	if err != nil {
		panic(err)
	}
	return uintptr(unsafe.Pointer(p))
}

// calls makes each call that changes a file by its name, or would let it be changed, and prints which ones succeeded.
func calls(dir, denied, victim string) {
	at := unix.AT_FDCWD
	tell := func(name string, err error) {
		if err == nil {
			fmt.Println(name)
		}
	}
	raw := func(name string, number uintptr, args ...uintptr) {
		var a [6]uintptr
		copy(a[:], args)
		_, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
		if errno == 0 {
			fmt.Println(name)
		}
	}
	link := filepath.Join(dir, "link")
	tell("(symlink)", unix.Symlink(victim, link))
	own := filepath.Join(dir, "own")
	f, err := os.Create(own)
	tell("(create)", err)
	f.Close()
	for _, v := range []string{victim, denied, link, "../out/victim", "../in/../out/new", "/proc/self/root" + victim} {
		for _, flags := range []int{unix.O_WRONLY, unix.O_RDWR, unix.O_RDONLY | unix.O_TRUNC, unix.O_WRONLY | unix.O_CREAT, unix.O_ACCMODE} {
			_, err := unix.Open(v, flags, 0o600)
			tell(fmt.Sprintf("open %s %#x", v, flags), err)
		}
		how := unix.OpenHow{Flags: unix.O_RDWR}
		_, err := unix.Openat2(at, v, &how)
		tell("openat2 "+v, err)
		raw("open(2) "+v, sysOpen, cstring(v), unix.O_RDWR, 0)
		raw("creat "+v, sysCreat, cstring(v), 0o600)
		raw("truncate "+v, unix.SYS_TRUNCATE, cstring(v), 0)
		raw("chmod "+v, sysChmod, cstring(v), 0)
		tell("chmodat "+v, unix.Fchmodat(at, v, 0, 0))
		tell("chown "+v, unix.Chown(v, os.Getuid(), os.Getgid()))
		tell("utimes "+v, unix.Utimes(v, make([]unix.Timeval, 2)))
		tell("utimensat "+v, unix.UtimesNanoAt(at, v, make([]unix.Timespec, 2), 0))
		tell("setxattr "+v, unix.Setxattr(v, "user.x", []byte("x"), 0))
		if fd, err := unix.Open(v, unix.O_PATH, 0); err == nil {
			for _, again := range []string{fmt.Sprintf("/proc/self/fd/%d", fd), fmt.Sprintf("/dev/fd/%d", fd), fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd)} {
				_, err := unix.Open(again, unix.O_RDWR, 0)
				tell("reopen "+v+" by "+again, err)
				raw("truncate by "+again, unix.SYS_TRUNCATE, cstring(again), 0)
			}
		}
		if fd, err := unix.Open(v, unix.O_RDONLY, 0); err == nil {
			tell("fchmod "+v, unix.Fchmod(fd, 0))
			tell("fchown "+v, unix.Fchown(fd, os.Getuid(), os.Getgid()))
			tell("fsetxattr "+v, unix.Fsetxattr(fd, "user.x", []byte("x"), 0))
			raw("futimens "+v, unix.SYS_UTIMENSAT, uintptr(fd), 0, 0, 0)
		}
	}
	for _, v := range []string{victim, denied} {
		tell("unlink "+v, unix.Unlink(v))
		tell("unlinkat "+v, unix.Unlinkat(at, v, 0))
		tell("rename over "+v, unix.Rename(own, v))
		tell("rename "+v, unix.Rename(v, filepath.Join(dir, "other")))
		tell("exchange "+v, unix.Renameat2(at, own, at, v, unix.RENAME_EXCHANGE))
		tell("link "+v, unix.Link(v, filepath.Join(dir, "hard")))
		tell("linkat "+v, unix.Linkat(at, v, at, filepath.Join(dir, "hard"), unix.AT_SYMLINK_FOLLOW))
	}
	tell("rename the folder of a denied file", unix.Rename(dir, dir+"2"))
	outside := filepath.Dir(victim)
	if fd, err := unix.Open(outside, unix.O_PATH|unix.O_DIRECTORY, 0); err == nil {
		below := fmt.Sprintf("/proc/self/fd/%d/", fd)
		_, err := unix.Open(below+filepath.Base(victim), unix.O_RDWR, 0)
		tell("open below an open folder", err)
		tell("make below an open folder", unix.Mkdir(below+"../"+filepath.Base(outside)+"/e", 0o777))
	}
	tell("mkdir", unix.Mkdir(filepath.Join(outside, "d"), 0o777))
	tell("mkfifo", unix.Mkfifo(filepath.Join(outside, "p"), 0o777))
	tell("symlink", unix.Symlink("x", filepath.Join(outside, "l")))
	_, err = unix.Open(outside, unix.O_TMPFILE|unix.O_RDWR, 0o600)
	tell("tmpfile", err)
	if s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0); err == nil {
		tell("bind", unix.Bind(s, &unix.SockaddrUnix{Name: filepath.Join(outside, "s")}))
		tell("(bind)", unix.Bind(s, &unix.SockaddrUnix{Name: filepath.Join(dir, "s")}))
	}
	for _, file := range []string{"/proc/self/mem", "/proc/thread-self/mem", fmt.Sprintf("/proc/%d/mem", os.Getppid()), fmt.Sprintf("/proc/%d/comm", os.Getppid())} {
		_, err = unix.Open(file, unix.O_RDWR, 0)
		tell(file, err)
	}
	raw("io_uring", unix.SYS_IO_URING_SETUP, 8, cstring(strings.Repeat("x", 200)))
	raw("clone3", unix.SYS_CLONE3, 0, 0)
	raw("x32", noCall|unix.SYS_GETPID)
	tell("mount namespace", unix.Unshare(unix.CLONE_NEWNS))
	tell("chroot", unix.Chroot(dir))
	tell("mount", unix.Mount(dir, dir, "", unix.MS_BIND, ""))
	raw("(landlock)", unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	raw("open by handle", unix.SYS_OPEN_BY_HANDLE_AT, uintptr(at), 0, 0)
	tell("(dumpable)", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
	tell("denied program", exec.Command("/usr/bin/id").Run())
	tell("denied program by a link", func() error {
		l := filepath.Join(dir, "harmless")
		if err := os.Symlink("/usr/bin/id", l); err != nil {
			return err
		}
		return exec.Command(l).Run()
	}())
	if fd, err := unix.MemfdCreate("m", 0); err == nil {
		_, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDWR, 0)
		tell("(reopen a memfd)", err)
	}
}

// race opens a path for writing while another thread exchanges it for the victim's, and writes to what it gets.
func race(own, victim string) {
	if len(own) != len(victim) {
		panic("the paths have to be of one length")
	}
	path := append([]byte(own), 0)
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; !stop.Load(); i++ {
			copy(path, []string{own, victim}[i%2])
		}
	})
	at := unix.AT_FDCWD
	for range tries(20000) {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(at), uintptr(unsafe.Pointer(&path[0])), unix.O_WRONLY|unix.O_CREAT, 0o666, 0, 0)
		if errno == 0 {
			_, _ = unix.Write(int(fd), []byte("broken"))
			unix.Close(int(fd))
		}
	}
	stop.Store(true)
	wg.Wait()
	runtime.KeepAlive(path)
}

// execRace executes a path while its parent exchanges the path in memory that both share. The paths are of one length.
func execRace(own, victim string) {
	memory, err := unix.Mmap(-1, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		panic(err)
	}
	copy(memory, own)
	argv := (*[4]uintptr)(unsafe.Pointer(&memory[2048]))
	argv[0], argv[1] = uintptr(unsafe.Pointer(&memory[0])), 0
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; !stop.Load(); i++ {
			copy(memory, []string{own, victim}[i%2])
		}
	})
	runtime.LockOSThread()
	for range tries(500) {
		pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if errno == 0 && pid == 0 {
			unix.RawSyscall(unix.SYS_EXECVE, argv[0], uintptr(unsafe.Pointer(&argv[0])), 0)
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 1, 0, 0)
		}
		if errno == 0 {
			_, _ = unix.Wait4(int(pid), nil, 0, nil)
		}
	}
	stop.Store(true)
	wg.Wait()
}

// tries returns how often an attack is tried: a tenth as often under the race detector, with which processes take
// several times as long to start, and with "go test -short".
func tries(n int) int {
	if os.Getenv(shortVar) != "" || raceDetector {
		return n / 10
	}
	return n
}

// spawn starts programs from eight threads at once.
func spawn() int {
	var failed atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range tries(150) {
				if err := exec.Command("/bin/true").Run(); err != nil {
					failed.Add(1)
					fmt.Println(err)
				}
			}
		})
	}
	wg.Wait()
	return int(min(failed.Load(), 1))
}
