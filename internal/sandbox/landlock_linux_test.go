//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// everyChange are the rights of Landlock by which something is changed.
const everyChange = landlockFiles &^ (unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR)

// newRuleset makes a ruleset as a process inside does.
func newRuleset(files, net, scopes uint64) (int, error) {
	attr := [3]uint64{files, net, scopes}
	return landlockCall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
}

// permit adds a rule for all that lies below a path.
func permit(ruleset int, path string, access uint64) error {
	fd, err := unix.Open(path, held, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	_, err = landlockCall(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0)
	return err
}

func restrictSelf(ruleset int) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, err := landlockCall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0)
	return err
}

// confineTo puts the calling thread into a domain in which only what is below some folders can be changed.
func confineTo(folders ...string) error {
	ruleset, err := newRuleset(everyChange, 0, 0)
	if err != nil {
		return fmt.Errorf("make a ruleset: %w", err)
	}
	defer unix.Close(ruleset)
	for _, folder := range folders {
		if err := permit(ruleset, folder, everyChange); err != nil {
			return fmt.Errorf("add a rule: %w", err)
		}
	}
	return restrictSelf(ruleset)
}

// changes tries everything that changes files, in a folder that may be changed and in one that may not, and prints each
// result.
func changes(free, closed string) {
	say := func(name string, err error) { fmt.Printf("%s: %v\n", name, err) }
	for _, folder := range []string{free, closed} {
		in := func(name string) string { return filepath.Join(folder, name) }
		what := filepath.Base(folder) + ": "
		open := func(name, path string, flags int) {
			fd, err := unix.Open(path, flags, 0o600)
			say(what+name, err)
			if err == nil {
				say(what+name+", its length", unix.Ftruncate(fd, 0))
				unix.Close(fd)
			}
		}
		open("write", in("file"), unix.O_WRONLY)
		open("write and empty", in("file"), unix.O_RDWR|unix.O_TRUNC)
		open("create", in("new"), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
		open("a file without a name", folder, unix.O_TMPFILE|unix.O_RDWR)
		if dir, err := unix.Open(folder, unix.O_PATH, 0); err == nil {
			open("by an open folder", fmt.Sprintf("/proc/self/fd/%d/file", dir), unix.O_WRONLY)
			unix.Close(dir)
		}
		if file, err := unix.Open(in("file"), unix.O_RDONLY, 0); err == nil {
			open("an open file again", fmt.Sprintf("/proc/self/fd/%d", file), unix.O_WRONLY)
			unix.Close(file)
		}
		open("by a link", filepath.Join(filepath.Dir(folder), "to-"+filepath.Base(folder), "file"), unix.O_WRONLY)
		say(what+"truncate", unix.Truncate(in("file"), 0))
		say(what+"mkdir", unix.Mkdir(in("d"), 0o700))
		say(what+"rmdir", unix.Rmdir(in("d")))
		say(what+"mkfifo", unix.Mkfifo(in("p"), 0o600))
		say(what+"symlink", unix.Symlink("x", in("l")))
		say(what+"link", unix.Link(in("file"), in("hard")))
		say(what+"rename", unix.Rename(in("file"), in("file2")))
		say(what+"rename back", unix.Rename(in("file2"), in("file")))
		say(what+"unlink", unix.Unlink(in("hard")))
		if s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0); err == nil {
			say(what+"bind", unix.Bind(s, &unix.SockaddrUnix{Name: in("s")}))
			unix.Close(s)
		}
		for _, name := range []string{"new", "p", "l", "s"} {
			_ = unix.Unlink(in(name))
		}
	}
	say("out of the one folder", unix.Rename(filepath.Join(free, "file"), filepath.Join(closed, "moved")))
	say("into it", unix.Rename(filepath.Join(closed, "file"), filepath.Join(free, "moved")))
	say("another name for what is closed", unix.Link(filepath.Join(closed, "file"), filepath.Join(free, "hard")))
	say("exchanged", unix.Renameat2(unix.AT_FDCWD, filepath.Join(free, "file"), unix.AT_FDCWD, filepath.Join(closed, "file"), unix.RENAME_EXCHANGE))
	_, err := unix.Open("/dev/null", unix.O_WRONLY, 0)
	say("a device", err)
}

// landlocked enters a domain and tries to change files: itself, and by programs that it starts.
func landlocked(how, free, closed string) int {
	runtime.LockOSThread()
	if how == "changes" {
		changes(free, closed)
		return 0
	}
	program := func(how string, files ...*os.File) *exec.Cmd {
		self, err := os.Executable()
		if err != nil {
			panic(err)
		}
		cmd := exec.Command(self, how, free, closed)
		cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = os.Stdin, os.Stdout, os.Stderr, files
		return cmd
	}
	again := func(how string, files ...*os.File) int {
		if err := program(how, files...).Run(); err != nil {
			fmt.Println(err)
			return 1
		}
		return 0
	}
	confine := func(folders ...string) {
		if err := confineTo(folders...); err != nil {
			fmt.Println("there is no domain:", err)
			os.Exit(1)
		}
	}
	switch how {
	case "one", "stay":
		fmt.Println(confineTo(free))
		if how == "stay" {
			_, _ = os.Stdin.Read(make([]byte, 1))
		}
	case "a shell":
		confine(free)
		fmt.Println(unix.Exec("/bin/sh", []string{"sh", "-c", closed}, os.Environ()))
	case "itself":
		confine(free)
		changes(free, closed)
	case "a child":
		confine(free)
		return again("changes")
	case "a domain in a domain":
		confine(free)
		confine(free, closed) // does not widen it
		return again("changes")
	case "a child's domain":
		confine(free, closed)
		return again("itself")
	case "the program it becomes":
		confine(free)
		cmd := program("changes")
		fmt.Println(unix.Exec(cmd.Path, cmd.Args, os.Environ()))
	case "a ruleset that was handed over":
		ruleset, err := newRuleset(everyChange, 0, 0)
		if err == nil {
			err = permit(ruleset, free, everyChange)
		}
		if err != nil {
			fmt.Println(err)
		}
		return again("handed", os.NewFile(uintptr(ruleset), "ruleset"))
	case "handed":
		if err := restrictSelf(3); err != nil {
			fmt.Println("there is no domain:", err)
		}
		changes(free, closed)
	case "an orphan":
		confine(free)
		over, orphans, err := os.Pipe()
		if err != nil {
			return 1
		}
		status := again("its parent", orphans)
		orphans.Close()
		_, _ = over.Read(make([]byte, 1)) // until the orphan has ended
		return status
	case "its parent":
		ended, own, err := os.Pipe()
		if err != nil || program("orphaned", os.NewFile(3, "over"), ended).Start() != nil {
			return 1
		}
		runtime.KeepAlive(own) // it is closed with this process
	case "orphaned":
		_, _ = os.NewFile(4, "ended").Read(make([]byte, 1))
		changes(free, closed)
	}
	return 0
}

// fields is a yard with a folder in which an inner domain allows changes, and one in which it does not.
func fields(t *testing.T) (y yard, free, closed string) {
	t.Helper()
	y = newYard(t)
	free, closed = filepath.Join(y.inside, "free"), filepath.Join(y.inside, "closed")
	for _, dir := range []string{free, closed} {
		err := os.Mkdir(dir, 0o777)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o666)
		}
		if err == nil {
			err = os.Symlink(dir, filepath.Join(y.inside, "to-"+filepath.Base(dir)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return y, free, closed
}

func TestLandlock_OwnDomainWorksAsOutside(t *testing.T) {
	for _, how := range []string{"itself", "a child", "a domain in a domain", "a child's domain", "the program it becomes", "a ruleset that was handed over", "an orphan"} {
		t.Run(how, func(t *testing.T) {
			y, free, closed := fields(t)
			got := run(t, y.attack(t, "landlocked", how, free, closed))
			y.untouched(t)
			_, free, closed = fields(t)
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			bare := exec.Command(self, how, free, closed)
			bare.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", roleVar+"=landlocked")
			want := run(t, bare)
			if got != want {
				t.Errorf("inside got\n%s\nwant, as outside of the sandbox,\n%s", got, want)
			}
			for _, refused := range []string{"closed: write: permission denied", "out of the one folder: permission denied", "a device: permission denied"} {
				if !strings.Contains(want, refused) {
					t.Errorf("got\n%s\nwant %q in it", want, refused)
				}
			}
			if !strings.Contains(want, "free: create: <nil>") {
				t.Errorf("got\n%s\nwant what may be changed to be changed", want)
			}
		})
	}
}

func TestLandlock_OwnDomainOfUnprivilegedUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("not root: the other test is this one already")
	}
	y, free, closed := fields(t)
	for _, name := range []string{free, closed, filepath.Join(free, "file"), filepath.Join(closed, "file")} {
		if err := os.Chmod(name, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	cmd := y.attack(t, "landlocked", "a child", free, closed)
	y.asNobody(t, cmd)
	got := run(t, cmd)
	for _, want := range []string{"free: create: <nil>", "closed: write: permission denied", "closed: create: permission denied", "exchanged: permission denied"} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %q in it", got, want)
		}
	}
}

// sockets connects and binds in domains that are about the network, and prints each result.
func sockets(allowed, other string) {
	runtime.LockOSThread()
	say := func(name string, err error) { fmt.Printf("%s: %v\n", name, err) }
	listener, err := net.Listen("unix", "@"+filepath.Base(other)+strconv.Itoa(os.Getpid()))
	say("a name that is no path", err)
	byName := func(when string) {
		s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err == nil {
			err = unix.Connect(s, &unix.SockaddrUnix{Name: listener.Addr().String()})
			unix.Close(s)
		}
		say("connect to it "+when, err)
	}
	byName("without a domain")
	const both = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	ruleset, err := newRuleset(0, both, 0)
	say("ruleset", err)
	port, _ := strconv.ParseUint(allowed, 10, 16)
	rule := [2]uint64{unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, port}
	_, err = landlockCall(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), landlockRulePort, uintptr(unsafe.Pointer(&rule)), 0)
	say("rule", err)
	say("domain", restrictSelf(ruleset))
	for name, to := range map[string]string{"the one": allowed, "the other": other} {
		port, _ := strconv.Atoi(to)
		for kind, flags := range map[string]int{"": 0, ", not waiting": unix.SOCK_NONBLOCK} {
			s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|flags, 0)
			if err == nil {
				err = unix.Connect(s, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: port})
			}
			unix.Close(s)
			defer say("connect to "+name+kind, err)
		}
	}
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err == nil {
		err = unix.Bind(s, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	say("bind", err)
	byName("in a domain of ports")
	scoped, err := newRuleset(0, 0, unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET)
	say("ruleset with a scope", err)
	say("domain with a scope", restrictSelf(scoped))
	byName("in a domain with a scope")
}

func TestLandlock_OwnDomainForSockets(t *testing.T) {
	var ports [2]string
	for i := range ports {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		_, ports[i], _ = net.SplitHostPort(l.Addr().String())
	}
	sorted := func(cmd *exec.Cmd) string {
		lines := strings.Split(run(t, cmd), "\n")
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	y := newYard(t)
	cmd := y.attack(t, "sockets", ports[0], ports[1])
	got := sorted(cmd)
	bare := exec.Command(cmd.Path, ports[0], ports[1])
	bare.Env = cmd.Env
	if want := sorted(bare); got != want {
		t.Errorf("inside got\n%s\nwant, as outside of the sandbox,\n%s", got, want)
	}
	for _, want := range []string{
		"connect to the one: <nil>", "connect to the other: permission denied", "connect to the other, not waiting: permission denied", "bind: permission denied",
		"connect to it in a domain of ports: <nil>", "connect to it in a domain with a scope: operation not permitted",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %q in it", got, want)
		}
	}
}

func TestLandlock_DomainAppliesToWaitingPipe(t *testing.T) {
	for name, want := range map[string]string{"free": "through", "closed": "Permission denied"} {
		y, free, _ := fields(t)
		pipe := filepath.Join(y.inside, name, "pipe")
		if err := unix.Mkfifo(pipe, 0o666); err != nil {
			t.Fatal(err)
		}
		line := "exec 2>&1; echo through >" + pipe
		if name == "free" {
			line += " & cat " + pipe + "; wait"
		}
		if got, _ := y.attack(t, "landlocked", "a shell", free, line).Output(); !strings.Contains(string(got), want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestLandlock_OwnDomainWidensNothing(t *testing.T) {
	y := newYard(t)
	if got := run(t, y.attack(t, "widen", y.inside, y.denied, y.victim)); got != harmless {
		t.Errorf("in a domain that allows everything, the attacker achieved\n%s\nwant\n%s", got, harmless)
	}
	y.untouched(t)
}

// siblings has one thread enter a domain, and another one change files, by itself and by a program.
func siblings(free, closed string) int {
	domain, confined := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		domain <- confineTo(free)
		<-confined
	}()
	if err := <-domain; err != nil {
		fmt.Println(err)
	}
	runtime.LockOSThread()
	for _, folder := range []string{free, closed} {
		fd, err := unix.Open(filepath.Join(folder, "file"), unix.O_WRONLY, 0)
		fmt.Printf("another thread, %s: %v\n", filepath.Base(folder), err)
		unix.Close(fd)
		fmt.Printf("its program, %s: %v\n", filepath.Base(folder), exec.Command("/bin/sh", "-c", "exec 2>&1; echo x >"+filepath.Join(folder, "file")).Run())
	}
	close(confined)
	return 0
}

func TestLandlock_DomainOfThreadAppliesToProcess(t *testing.T) {
	y, free, closed := fields(t)
	got := run(t, y.attack(t, "siblings", free, closed))
	if !strings.Contains(got, "another thread, free: <nil>") || !strings.Contains(got, "another thread, closed: permission denied") ||
		strings.Contains(got, "its program, closed: <nil>") {
		t.Errorf("got\n%s", got)
	}
}
