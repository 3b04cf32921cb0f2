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
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/testkit"
)

// asUser has a command run as a user without privileges: the kernel lets root without capabilities map no users.
func (y yard) asUser(t *testing.T, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	if os.Getuid() != 0 {
		return cmd
	}
	self := filepath.Join(filepath.Dir(y.inside), "self")
	if _, err := os.Stat(self); err != nil {
		// Not by this process: one that another test starts meanwhile would have the file open to write, and then
		// nobody starts it.
		if out, err := exec.Command("cp", cmd.Path, self).CombinedOutput(); err != nil {
			t.Fatalf("copy this program: %v %s", err, out)
		}
		if err := os.Chmod(self, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for i, arg := range cmd.Args {
		if arg == cmd.Path {
			cmd.Args[i] = self
		}
	}
	cmd.Path = self
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	return cmd
}

// needsNamespaces skips a test where a user cannot make namespaces, outside of any sandbox, or where there is no
// bubblewrap.
func needsNamespaces(t *testing.T) {
	t.Helper()
	cmd := exec.Command("bwrap", "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "true")
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("no user can make namespaces here: %v %s", err, out)
	}
}

// walls are what agents start bubblewrap with.
var walls = []string{
	"bwrap", "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--new-session", "--die-with-parent",
}

// bwrap is a line in bubblewrap, in which one folder can be written. Not all that is mounted is shown there: bubblewrap
// fails if one of these mounts goes meanwhile.
func (y yard) bwrap(more ...string) []string {
	args := slices.Clone(walls)
	for _, dir := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc"} {
		args = append(args, "--ro-bind-try", dir, dir)
	}
	top := filepath.Dir(y.inside)
	args = append(args, "--ro-bind", top, top, "--bind", y.inside, y.inside, "--dev", "/dev", "--proc", "/proc", "--chdir", y.inside)
	return append(args, more...)
}

func TestBubblewrap_BindsWholeTree(t *testing.T) {
	needsNamespaces(t)
	y := newYard(t)
	line := append(slices.Clone(walls), "--ro-bind", "/", "/", "--bind", y.inside, y.inside, "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/mnt",
		"sh", "-c", "echo hi >"+y.inside+"/new; echo x >"+y.denied+"; echo x >"+y.outside+"/new; true")
	var out []byte
	if !testkit.Poll(func() bool { // something may be unmounted outside meanwhile, without any sandbox, too
		var err error
		out, err = y.asUser(t, y.confined(t, line...)).CombinedOutput()
		return err == nil
	}) {
		t.Fatalf("it never worked: %s", out)
	}
	if got, err := os.ReadFile(filepath.Join(y.inside, "new")); err != nil || string(got) != "hi\n" {
		t.Errorf("got %q, %v of a file that may be written", got, err)
	}
	y.untouched(t)
}

func TestBubblewrap_Works(t *testing.T) {
	needsNamespaces(t)
	for name, c := range map[string]struct {
		more       []string
		line, want string
	}{
		"a file that may be written":        {nil, "echo hi >new && cat new", "hi"},
		"a file that may not":               {nil, "echo x >.env || echo refused", "refused"},
		"a file outside":                    {nil, "echo x >../out/new || echo refused", "refused"},
		"a program that may not be started": {nil, "id || echo refused", "refused"},
		"git":                               {nil, "git init -q r && cd r && echo x >f && git add f && git status --short", "A  f"},
		"files by all calls":                {nil, "mkdir d && echo a >d/a && mv d/a d/b && ln d/b d/c && ln -s c d/l && chmod 600 d/l && touch d/l && rm -r d && echo ok", "ok"},
		"a folder in memory":                {[]string{"--tmpfs", "/mnt", "--dir", "/mnt/a", "--symlink", "a", "/mnt/b", "--perms", "0700", "--dir", "/mnt/c"}, "echo hi >/mnt/b/f && cat /mnt/a/f && stat -c %a /mnt/c", "hi\n700"},
		"a folder that became read-only":    {[]string{"--tmpfs", "/mnt", "--remount-ro", "/mnt"}, "echo hi >/mnt/f || echo refused", "refused"},
		"a file that bubblewrap does not":   {nil, "(LC_ALL=C; echo x >../out/new) 2>&1 | grep -o 'Read-only'", "Read-only"},
		"its own PID namespace":             {nil, "readlink /proc/self >/dev/null && ls -d /proc/1 && test $$ -lt 9 && echo small", "/proc/1\nsmall"},
		"its own name in /proc":             {nil, "echo hi >/proc/self/comm && cat /proc/$$/comm | tail -1; echo 7 >/proc/self/oom_score_adj && cat /proc/self/oom_score_adj", ""},
		"the devices":                       {nil, "echo x >/dev/null && head -c 1 /dev/zero | wc -c", "1"},
		"a script with an interpreter":      {nil, "printf '#!/bin/sh\\necho ran $1\\n' >s && chmod +x s && ./s there", "ran there"},
		"a program in memory":               {[]string{"--tmpfs", "/mnt"}, "cp /bin/echo /mnt/e && /mnt/e ran", "ran"},
		"a descriptor of the process":       {nil, "exec 5>>kept; echo a >>/proc/self/fd/5; echo b >>/dev/fd/5; cat kept | wc -l", "2"},
		"the standard output by its name":   {nil, "(echo hi >/dev/stdout) | cat", "hi"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			needsPrograms(t)
			y := newYard(t)
			got, err := y.asUser(t, y.confined(t, append(y.bwrap(c.more...), "sh", "-c", c.line+" 2>/dev/null")...)).Output()
			if text := strings.TrimSpace(string(got)); err != nil || c.want != "" && text != c.want {
				t.Errorf("got %q, %v, want %q", text, err, c.want)
			}
			y.untouched(t)
		})
	}
}

// TestNamespace_WritesAreDecidedByOutsidePath writes files that bubblewrap mounts under other names.
func TestNamespace_WritesAreDecidedByOutsidePath(t *testing.T) {
	needsNamespaces(t)
	for name, c := range map[string]struct {
		more []string
		line string
	}{
		"a file":                    {[]string{"--bind", "DENIED", "IN/x.txt"}, "echo broken >x.txt"},
		"a file, appended":          {[]string{"--bind", "DENIED", "IN/x.txt"}, "echo broken >>x.txt"},
		"a file's mode":             {[]string{"--bind", "DENIED", "IN/x.txt"}, "chmod 600 x.txt"},
		"a file's times":            {[]string{"--bind", "DENIED", "IN/x.txt"}, "touch x.txt"},
		"a file's size":             {[]string{"--bind", "DENIED", "IN/x.txt"}, "truncate -s 0 x.txt"},
		"a file's link":             {[]string{"--bind", "DENIED", "IN/x.txt"}, "ln x.txt y.txt && echo broken >y.txt"},
		"a folder":                  {[]string{"--bind", "OUT", "IN/d"}, "echo broken >d/victim"},
		"a new file in a folder":    {[]string{"--bind", "OUT", "IN/d"}, "echo x >d/new"},
		"a folder's file, removed":  {[]string{"--bind", "OUT", "IN/d"}, "rm -f d/victim"},
		"a folder's file, renamed":  {[]string{"--bind", "OUT", "IN/d"}, "mv d/victim d/other"},
		"a folder's file, moved":    {[]string{"--bind", "OUT", "IN/d"}, "mv d/victim ."},
		"into a folder":             {[]string{"--bind", "OUT", "IN/d"}, "echo x >x && mv x d/victim"},
		"a folder above":            {[]string{"--bind", "TOP", "/mnt"}, "echo broken >/mnt/out/victim; echo broken >/mnt/in/.env; mv /mnt/in /mnt/in2"},
		"the folder of both":        {[]string{"--bind", "IN", "/mnt"}, "echo broken >/mnt/.env; rm -f /mnt/.env; mv /mnt/.env /mnt/x; ln /mnt/.env /mnt/y && echo x >/mnt/y"},
		"a link out of memory":      {[]string{"--tmpfs", "/mnt", "--symlink", "OUT", "/mnt/l", "--symlink", "DENIED", "/mnt/e"}, "echo broken >/mnt/l/victim; echo x >/mnt/l/new; echo broken >/mnt/e"},
		"memory over a folder":      {[]string{"--tmpfs", "OUT", "--bind", "OUT", "IN/d"}, "echo broken >d/victim; echo x >d/new"},
		"by an open folder":         {[]string{"--bind", "OUT", "IN/d"}, "cd d && echo broken >victim; echo broken >./../d/victim; exec 3<. ; echo broken >/proc/self/fd/3/victim"},
		"by an open file":           {[]string{"--bind", "DENIED", "IN/x.txt"}, "exec 3<x.txt; echo broken >/proc/self/fd/3; echo broken >/dev/fd/3; chmod 0 /dev/fd/3"},
		"a program":                 {[]string{"--bind", "/usr/bin/id", "IN/harmless"}, "./harmless && echo broken >&2 && exit 3"},
		"a program's folder":        {[]string{"--bind", "/usr/bin", "IN/d"}, "d/id && exit 3; IN/d/id && exit 3"},
		"its own memory":            {[]string{"--proc", "IN/p"}, "exec 3<>p/self/mem && exit 3; exec 3<>p/thread-self/mem && exit 3; exec 3<>p/$$/mem && exit 3; exec 3<>p/1/mem && exit 3"},
		"its own memory, bound":     {[]string{"--bind", "/proc", "IN/p"}, "exec 3<>p/self/mem && exit 3"},
		"the kernel's settings":     {[]string{"--proc", "IN/p"}, "echo x >p/sys/kernel/domainname && exit 3"},
		"another bubblewrap inside": {nil, "bwrap --bind / / --dev /dev --proc /proc --bind OUT IN/d sh -c 'echo broken >d/victim; echo x >d/new'"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newYard(t)
			fill := strings.NewReplacer("DENIED", y.denied, "IN", y.inside, "OUT", y.outside, "TOP", filepath.Dir(y.inside))
			var more []string
			for _, arg := range c.more {
				more = append(more, fill.Replace(arg))
			}
			cmd := y.asUser(t, y.confined(t, append(y.bwrap(more...), "bash", "-c", fill.Replace(c.line)+"; echo done")...))
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "done") {
				t.Errorf("got %q, %v, want that it came to its end", out, err)
			}
			y.untouched(t)
			if _, err := os.Stat(filepath.Join(y.inside, "victim")); err == nil {
				t.Error("the victim was moved")
			}
		})
	}
}

// TestNamespace_ReadsAreDecidedByOutsidePath reads files that are mounted under other names, with decisions about
// reads.
func TestNamespace_ReadsAreDecidedByOutsidePath(t *testing.T) {
	needsNamespaces(t)
	y := newYard(t)
	y.flags = []string{"--deny-read", y.victim}
	for name, line := range map[string]string{"by another name": "cat d/victim", "as a file": "cat f", "by a link": "ln -s d/victim l; cat l"} {
		cmd := y.asUser(t, y.confined(t, append(y.bwrap("--bind", y.outside, y.inside+"/d", "--bind", y.victim, y.inside+"/f"), "sh", "-c", line)...))
		if got, err := cmd.CombinedOutput(); err == nil || strings.Contains(string(got), "secret") {
			t.Errorf("%s: got %q, %v, want it refused", name, got, err)
		}
	}
	line := "cat .env /proc/cpuinfo /proc/self/status >/dev/null; ls / >/dev/null && git --version >/dev/null && echo ok"
	if got := run(t, y.asUser(t, y.confined(t, append(y.bwrap("--tmpfs", "/mnt"), "sh", "-c", line)...))); got != "ok" {
		t.Errorf("got %q of what may be read", got)
	}
}

// reach connects to unix sockets, and listens on the last one itself before.
func reach(paths []string) {
	own := paths[len(paths)-1]
	if listener, err := net.Listen("unix", own); err != nil {
		fmt.Println("listen:", err)
	} else {
		defer listener.Close()
	}
	for _, path := range paths {
		s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err == nil {
			err = unix.Connect(s, &unix.SockaddrUnix{Name: path})
		}
		fmt.Println(filepath.Base(path), err)
	}
}

// TestNamespace_SocketsAreDecidedByOutsidePath: a socket on a file system in memory belongs to the processes in the
// namespace, and every other one is decided.
func TestNamespace_SocketsAreDecidedByOutsidePath(t *testing.T) {
	needsNamespaces(t)
	y := newYard(t)
	folder := filepath.Join(filepath.Dir(y.inside), "sockets")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"allowed", "denied"} {
		listener, err := net.Listen("unix", filepath.Join(folder, name))
		if err == nil {
			t.Cleanup(func() { _ = listener.Close() })
			err = os.Chmod(filepath.Join(folder, name), 0o777)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	y.flags = []string{"--deny-connect", filepath.Join(folder, "denied")}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d := filepath.Join(y.inside, "d")
	cmd := y.confined(t, append(y.bwrap("--tmpfs", "/mnt", "--bind", folder, d), self, d+"/allowed", d+"/denied", "/mnt/own")...)
	cmd.Env = append(cmd.Env, roleVar+"=reach")
	y.asUser(t, cmd)
	if got := run(t, cmd); got != "allowed <nil>\ndenied permission denied\nown <nil>" {
		t.Errorf("got\n%s", got)
	}
}

// namespaced starts this test binary in new user and mount namespaces, as a program of Go's does.
func namespaced(role string, flags uintptr, args []string) int {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), roleVar+"="+role)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | flags,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	if err := cmd.Run(); err != nil {
		fmt.Println("namespaced:", err)
		return 1
	}
	return 0
}

// mounted does in its namespaces what would make a mount of more than may be, and prints what it achieved.
func mounted(dir, denied, victim string) {
	tell := func(name string, err error) {
		if err == nil {
			fmt.Println(name)
		}
	}
	must := func(name string, err error) {
		if err != nil {
			fmt.Println(name, err)
		}
	}
	out := filepath.Dir(victim)
	for _, d := range []string{"up", "work", "work/work", "m", "n", "o"} {
		must(d, os.MkdirAll(filepath.Join(dir, d), 0o700))
	}
	m, n := filepath.Join(dir, "m"), filepath.Join(dir, "n")
	must("kept", os.WriteFile(filepath.Join(dir, "work/work/kept"), []byte("x"), 0o600))
	must("memory", unix.Mount("tmpfs", n, "tmpfs", 0, "mode=0755,size=1m"))
	must("a file in memory", os.WriteFile(filepath.Join(n, "x"), []byte("x"), 0o600))
	must("a file that is called as one of /proc", os.WriteFile(filepath.Join(n, "uid_map"), []byte("x"), 0o600))

	tell("overlay", unix.Mount("o", m, "overlay", 0, "lowerdir="+n+",upperdir="+dir+"/up,workdir="+dir+"/work"))
	tell("overlay onto the outside", unix.Mount("o", m, "overlay", 0, "lowerdir="+n+",upperdir="+out+",workdir="+dir+"/work"))
	for _, kind := range []string{"sysfs", "cgroup2", "mqueue", "ramfs", "ext4", "fuse", "9p", "binfmt_misc", "securityfs", "bpf", "", "tmpfs\x00"} {
		tell(kind, mountRaw(m, kind, 0, ""))
	}
	for _, options := range []string{"upperdir=" + out, "source=" + out, "mode", "size=1m,context=x", strings.Repeat("mode=0,", 40)} {
		tell("options "+options, unix.Mount("tmpfs", m, "tmpfs", 0, options))
	}
	tell("a superblock's flags", unix.Mount("", n, "", unix.MS_REMOUNT, "size=2m"))
	tell("moving", unix.Mount(n, m, "", unix.MS_MOVE, ""))
	tell("chroot", unix.Chroot(dir))
	_, err := unix.Fsopen("tmpfs", 0)
	tell("fsopen", err)
	fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE)
	tell("open_tree", err)
	tell("move_mount", unix.MoveMount(fd, "", unix.AT_FDCWD, m, unix.MOVE_MOUNT_F_EMPTY_PATH))
	tell("mount_setattr", unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}))
	if ns, err := unix.Open("/proc/self/ns/mnt", unix.O_RDONLY, 0); err == nil {
		tell("setns", unix.Setns(ns, 0))
	}
	// A mount of the outside, and all that changes files there.
	must("bind", unix.Mount(out, m, "", unix.MS_BIND, ""))
	v := filepath.Join(m, "victim")
	for _, flags := range []int{unix.O_WRONLY, unix.O_RDWR, unix.O_RDONLY | unix.O_TRUNC, unix.O_WRONLY | unix.O_CREAT, unix.O_WRONLY | unix.O_NOFOLLOW} {
		_, err := unix.Open(v, flags, 0o600)
		tell(fmt.Sprintf("open %#x", flags), err)
	}
	_, err = unix.Open(m, unix.O_TMPFILE|unix.O_RDWR, 0o600)
	tell("tmpfile", err)
	tell("chmod", unix.Chmod(v, 0))
	tell("lchown", unix.Lchown(v, 0, 0))
	tell("utimes", unix.Utimes(v, make([]unix.Timeval, 2)))
	tell("setxattr", unix.Setxattr(v, "user.x", []byte("x"), 0))
	tell("lsetxattr", unix.Lsetxattr(v, "user.x", []byte("x"), 0))
	tell("truncate", unix.Truncate(v, 0))
	tell("unlink", unix.Unlink(v))
	tell("rename", unix.Rename(v, filepath.Join(m, "v2")))
	tell("link", unix.Link(v, filepath.Join(m, "v2")))
	tell("mkdir", unix.Mkdir(filepath.Join(m, "d"), 0o700))
	tell("symlink", unix.Symlink("x", filepath.Join(m, "l")))
	tell("mkfifo", unix.Mkfifo(filepath.Join(m, "p"), 0o600))
	if s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0); err == nil {
		tell("bind a socket", unix.Bind(s, &unix.SockaddrUnix{Name: filepath.Join(m, "s")}))
	}
	folder, err := unix.Open(m, unix.O_PATH|unix.O_DIRECTORY, 0)
	must("hold", err)
	tell("unmounting what is held", unix.Unmount(m, 0))
	must("unmount", unix.Unmount(m, unix.MNT_DETACH))
	must("bind", unix.Mount(out, m, "", unix.MS_BIND, ""))
	must("unmount what nothing holds", unix.Unmount(m, 0))
	_, err = unix.Openat(folder, "victim", unix.O_WRONLY, 0)
	tell("by a folder that is not mounted any more", err)
	// A temporary file that gets its name later.
	if fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY, 0o600); err != nil {
		fmt.Println("a temporary file", err)
	} else {
		by := fmt.Sprintf("/proc/self/fd/%d", fd)
		tell("a name that is denied", unix.Linkat(unix.AT_FDCWD, by, unix.AT_FDCWD, filepath.Join(out, "named"), unix.AT_SYMLINK_FOLLOW))
		must("name it", unix.Linkat(unix.AT_FDCWD, by, unix.AT_FDCWD, filepath.Join(dir, "named"), unix.AT_SYMLINK_FOLLOW))
		unix.Close(fd)
	}
	// A file that is mounted over another one, while it is opened: what was decided on is opened, or nothing is.
	cover := filepath.Join(dir, "cover")
	must("cover", os.WriteFile(cover, nil, 0o600))
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !stop.Load() {
			_ = unix.Mount(denied, cover, "", unix.MS_BIND, "")
			_ = unix.Unmount(cover, unix.MNT_DETACH)
		}
	})
	for range tries(250) {
		for _, flags := range []int{unix.O_WRONLY | unix.O_CREAT, unix.O_WRONLY | unix.O_NOFOLLOW} {
			if fd, err := unix.Open(cover, flags, 0o600); err == nil {
				_, _ = unix.Write(fd, []byte("broken"))
				unix.Close(fd)
			}
		}
		_ = unix.Lchown(cover, 0, 0)
		_ = unix.Chmod(cover, 0o640)
	}
	stop.Store(true)
	wg.Wait()
	_ = unix.Unmount(cover, unix.MNT_DETACH)
	// The strings of a mount, exchanged during the call: the kind that was judged is mounted, or nothing is.
	kind, other := append([]byte("tmpfs"), 0, 0, 0), append([]byte("overlay"), 0)
	option := append([]byte("mode=0755"), make([]byte, 300)...)
	overlay := []byte("lowerdir=" + n + ",upperdir=" + dir + "/up,workdir=" + dir + "/work")
	stop.Store(false)
	wg.Go(func() {
		for i := 0; !stop.Load(); i++ {
			copy(kind, [][]byte{other, []byte("tmpfs\x00\x00\x00")}[i%2])
			copy(option, [][]byte{overlay, []byte("mode=0755\x00")}[i%2])
		}
	})
	target := append([]byte(filepath.Join(dir, "o")), 0)
	for range tries(80) {
		_, _, errno := unix.Syscall6(unix.SYS_MOUNT, uintptr(unsafe.Pointer(&kind[0])), uintptr(unsafe.Pointer(&target[0])),
			uintptr(unsafe.Pointer(&kind[0])), 0, uintptr(unsafe.Pointer(&option[0])), 0)
		if errno == 0 {
			_ = unix.Unmount(filepath.Join(dir, "o"), unix.MNT_DETACH)
		}
	}
	stop.Store(true)
	wg.Wait()
	runtime.KeepAlive(kind)
	if _, err := os.Stat(filepath.Join(dir, "work/work/kept")); err != nil {
		fmt.Println("an overlay has emptied a folder")
	}
	// Another root, which leads elsewhere.
	must("a new root", unix.Mount(n, n, "", unix.MS_BIND, ""))
	must("a place for the old root", os.Mkdir(filepath.Join(n, "old"), 0o700))
	must("pivot_root", unix.PivotRoot(n, filepath.Join(n, "old")))
	must("chdir", unix.Chdir("/"))
	if _, err := os.Stat("/x"); err != nil {
		fmt.Println("the root is not the new one:", err)
	}
	must("write at the new root", os.WriteFile("/y", []byte("x"), 0o600))
	tell("through the old root", os.WriteFile("/old"+victim, []byte("broken"), 0o600))
	tell("through the old root, denied", os.WriteFile("/old"+denied, []byte("broken"), 0o600))
	tell("above the root", os.WriteFile("/../../.."+victim, []byte("broken"), 0o600))
	must("through the old root, allowed", os.WriteFile("/old"+filepath.Join(dir, "after"), []byte("x"), 0o600))
	must("end", unix.Unmount("/old", unix.MNT_DETACH))
	must("write where nothing of the outside is", os.WriteFile("/z", []byte("x"), 0o600))
	fmt.Println("end")
}

func mountRaw(target, kind string, flags uintptr, options string) error {
	_, _, errno := unix.Syscall6(unix.SYS_MOUNT, cstring("none"), cstring(target), uintptr(unsafe.Pointer(&append([]byte(kind), 0)[0])), flags,
		uintptr(unsafe.Pointer(&append([]byte(options), 0)[0])), 0)
	return orNil(errno)
}

func TestNamespace_GivesNoRights(t *testing.T) {
	needsNamespaces(t)
	y := newYard(t)
	got := run(t, y.asUser(t, y.attack(t, "namespaced", "mounted", y.inside, y.denied, y.victim)))
	if got != "tmpfs\x00\nend" {
		t.Errorf("got %q, want that all is refused but a file system in memory", got)
	}
	y.untouched(t)
	if _, err := os.Stat(filepath.Join(y.inside, "after")); err != nil {
		t.Errorf("a file that may be written: %v", err)
	}
}

// TestNamespace_CallsCannotChangeDeniedFiles tries the calls of TestConfine_CallsCannotChangeDeniedFiles in new
// namespaces.
func TestNamespace_CallsCannotChangeDeniedFiles(t *testing.T) {
	needsNamespaces(t)
	y := newYard(t)
	got := run(t, y.asUser(t, y.attack(t, "namespaced", "calls", y.inside, y.denied, y.victim)))
	if want := strings.Replace(harmless, "(bind)\n", "(bind)\nmount namespace\nmount\n", 1); got != want {
		t.Errorf("the attacker achieved\n%s\nwant\n%s", got, want)
	}
	y.untouched(t)
	own := filepath.Join(y.inside, strings.Repeat("a", len(y.victim)-len(y.inside)-1))
	cmd := y.asUser(t, y.attack(t, "namespaced", "race", own, y.victim))
	cmd.Env = append(cmd.Env, shortVar+"=1") // each call takes longer than outside
	run(t, cmd)
	y.untouched(t)
	if got, err := os.ReadFile(own); err != nil || string(got) != "broken" {
		t.Errorf("got %q, %v: this race never opened the file that may be changed", got, err)
	}
}

// TestNamespace_ProgramSwappedAfterDecision replaces a program, or mounts another file over it, after the decision.
// Neither runs.
func TestNamespace_ProgramSwappedAfterDecision(t *testing.T) {
	needsNamespaces(t)
	needsPrograms(t)
	y := newYard(t)
	own, denied := y.programs(t)
	if got := run(t, y.asUser(t, y.attack(t, "namespaced", "execrace", own, denied))); got != "" {
		t.Errorf("the denied program ran and said %q", got)
	}
	if got := run(t, y.asUser(t, y.attack(t, "namespaced", "mountexec", own, denied))); got != "" {
		t.Errorf("the denied program ran and said %q", got)
	}
}

// mountExec executes a program while another one is mounted over it.
func mountExec(own, denied string) {
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !stop.Load() {
			_ = unix.Mount(denied, own, "", unix.MS_BIND, "")
			_ = unix.Unmount(own, unix.MNT_DETACH)
		}
	})
	for range tries(300) {
		cmd := exec.Command(own)
		cmd.Stdout = os.Stdout
		_ = cmd.Run()
	}
	stop.Store(true)
	wg.Wait()
}

// TestLandlock_DomainAppliesInNamespaces: the calls that the sandbox makes for a process in a namespace respect the
// Landlock domain of that process.
func TestLandlock_DomainAppliesInNamespaces(t *testing.T) {
	needsNamespaces(t)
	y, free, closed := fields(t)
	for _, name := range []string{free, closed, filepath.Join(free, "file"), filepath.Join(closed, "file")} {
		if err := os.Chmod(name, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	got := run(t, y.asUser(t, y.attack(t, "namespaced", "landlocked", "a child", free, closed)))
	for _, want := range []string{"free: create: <nil>", "closed: write: permission denied", "closed: create: permission denied", "exchanged: permission denied"} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %q in it", got, want)
		}
	}
}

// TestBubblewrap_ManyAtOnce starts several at once, each of which has to work and to leave nothing behind.
func TestBubblewrap_ManyAtOnce(t *testing.T) {
	needsNamespaces(t)
	y := newYard(t)
	line := "for i in $(seq 10); do " + strings.Join(y.bwrap(), " ") + " sh -c 'echo x >f'$i' && echo x >.env; true' 2>>errors & done; wait; ls f* | wc -l"
	if got := run(t, y.asUser(t, y.confined(t, "sh", "-c", line))); got != "10" {
		errors, _ := os.ReadFile(filepath.Join(y.inside, "errors"))
		t.Errorf("got %s files of 10:\n%s", got, errors)
	}
	y.untouched(t)
}

// TestNamespace_MountsEndWithSandbox: when the sandbox ends, its mounts and the processes of bubblewrap end, too.
func TestNamespace_MountsEndWithSandbox(t *testing.T) {
	needsNamespaces(t)
	y := newYard(t)
	cmd := y.asUser(t, y.confined(t, append(y.bwrap("--tmpfs", "/mnt"), "sh", "-c", "echo hi >/mnt/f; echo ready; sleep 600")...))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if !testkit.Poll(func() bool {
		found, _ := filepath.Glob("/proc/[0-9]*/cwd")
		for _, cwd := range found {
			if to, _ := os.Readlink(cwd); to == y.inside {
				return false
			}
		}
		return true
	}) {
		t.Error("a process in the namespaces lives on")
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), y.inside) {
		t.Errorf("got %v, and mounts that stay:\n%s", err, mounts)
	}
}

// closed executes a sandbox in a domain of Landlock's about files, as stands around an agent with closed files.
func closed(args []string) error {
	runtime.LockOSThread()
	if err := confineTo("/"); err != nil {
		return err
	}
	_ = os.Unsetenv(roleVar)
	return unix.Exec("/proc/self/exe", append([]string{"sandbox", Command}, args...), os.Environ())
}

// TestLandlock_DomainAroundSandboxForbidsMounts: the kernel rejects mounts by a sandbox that is in a Landlock domain,
// also those that it makes for a confined process.
func TestLandlock_DomainAroundSandboxForbidsMounts(t *testing.T) {
	needsNamespaces(t)
	y := newYard(t)
	cmd := y.asUser(t, y.confined(t, append(y.bwrap(), "touch", "mounted")...))
	cmd.Args = slices.Delete(cmd.Args, 1, 2) // it becomes the sandbox only then
	cmd.Env = append(cmd.Env, roleVar+"=closed")
	got, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(got), "bwrap: ") || !strings.Contains(string(got), "not permitted") {
		t.Errorf("got %q, %v, want that bubblewrap cannot mount", got, err)
	}
	if _, err := os.Stat(filepath.Join(y.inside, "mounted")); err == nil {
		t.Error("the command ran")
	}
}

// TestLandlock_DomainForFilesForbidsMounts: the kernel rejects mounts in a Landlock domain for files, also those that
// the sandbox makes for the process.
func TestLandlock_DomainForFilesForbidsMounts(t *testing.T) {
	needsNamespaces(t)
	y := newYard(t)
	got := run(t, y.asUser(t, y.attack(t, "namespaced", "landlockedmount", y.inside)))
	if got != "operation not permitted" {
		t.Errorf("got %q, want that the kernel refuses it", got)
	}
}
