package proc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
)

// needsConfine skips where the kernel cannot; the reason is in the output.
func needsConfine(t *testing.T) {
	t.Helper()
	if err := proc.ConfineSupported(); err != nil {
		t.Skip(err)
	}
}

// confined starts something behind all walls.
func confined(start func() error) error {
	return proc.Confine(proc.Confinement{}, func(w proc.Restrictions) error {
		if !w.Landlock || !w.Seccomp || !w.Capabilities {
			return fmt.Errorf("not all restrictions are active: %+v", w)
		}
		return start()
	})
}

// stranger listens on an abstract and on a pathname socket.
func stranger(t *testing.T) (abstract, dir string) {
	t.Helper()
	dir = t.TempDir()
	abstract = "proc-test-" + strconv.Itoa(os.Getpid()) + t.Name()
	for _, address := range []string{"@" + abstract, filepath.Join(dir, "sock")} {
		l, err := net.Listen("unix", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
	}
	return abstract, dir
}

func TestConfine_CannotReachProcessesOutside(t *testing.T) {
	needsConfine(t)
	abstract, dir := stranger(t)
	var out bytes.Buffer
	cmd := helper("probe", strconv.Itoa(os.Getpid()), abstract, dir)
	cmd.Stdout = &out
	if err := confined(cmd.Start); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	var got probes
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for what, result := range map[string]string{
		"signal its parent":                         got.SignalStranger,
		"open its parent's stdin":                   got.WriteFD,
		"open its parent's memory":                  got.WriteMem,
		"read its parent's memory":                  got.ReadMem,
		"connect to an abstract socket":             got.Abstract,
		"signal its parent from a detached session": got.GrandchildKill,
	} {
		if result == "ok" {
			t.Errorf("a confined process could %s", what)
		}
	}
	if got.ReadEnviron == "ok" {
		t.Error("a confined process could read its parent's environment")
	}
	for what, result := range map[string]string{
		"kill its own child":           got.KillOwnChild,
		"connect to a pathname socket": got.Pathname,
		"write a file":                 got.WriteFile,
	} {
		if result != "ok" {
			t.Errorf("a confined process could not %s: %s", what, result)
		}
	}
}

// TestConfine_ProbesSucceedWithoutDomain runs the probes of the test above without a domain, which shows that the
// domain is the reason of their failure.
func TestConfine_ProbesSucceedWithoutDomain(t *testing.T) {
	abstract, dir := stranger(t)
	out, err := helper("probe", strconv.Itoa(os.Getpid()), abstract, dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	var got probes
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	for what, result := range map[string]string{
		"signal": got.SignalStranger, "environ": got.ReadEnviron, "abstract": got.Abstract, "grandchild": got.GrandchildKill,
	} {
		if result != "ok" {
			t.Errorf("%s: %s, want ok", what, result)
		}
	}
}

func TestConfine_RestrictsOnlyStartingThread(t *testing.T) {
	needsConfine(t)
	outside := exec.Command("sleep", "1000") // started outside: threads in the domain could not signal it
	if err := outside.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = outside.Process.Kill(); _ = outside.Wait() }()
	pid := outside.Process.Pid

	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := confined(func() error {
				if err := unix.Kill(pid, 0); !errors.Is(err, unix.EPERM) {
					t.Errorf("inside: %v, want EPERM", err)
				}
				if unix.Gettid() == unix.Getpid() {
					t.Error("the first thread was put into the domain")
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if err := unix.Kill(pid, 0); err != nil {
				t.Errorf("outside: %v", err)
			}
		})
	}
	wg.Wait()
	for range 100 {
		wg.Go(func() {
			if err := unix.Kill(pid, 0); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
	wg.Wait()
}

func TestConfine_DiscardsThread(t *testing.T) {
	needsConfine(t)
	var tid int
	if err := confined(func() error { tid = unix.Gettid(); return nil }); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the thread in the domain ends", func() bool {
		_, err := os.Stat("/proc/self/task/" + strconv.Itoa(tid))
		return os.IsNotExist(err)
	})
}

func TestConfine_ReturnsErrorOfStart(t *testing.T) {
	needsConfine(t)
	cmd := exec.Command("/does/not/exist")
	if err := confined(cmd.Start); !errors.Is(err, os.ErrNotExist) || errors.Is(err, proc.ErrUnsupported) {
		t.Errorf("error = %v, want that the program does not exist", err)
	}
}

func TestConfine_OlderKernelProtectsFilesAndMemory(t *testing.T) {
	needsConfine(t)
	abstract, top := stranger(t)
	var all []proc.Capability // else it is for want of them that a process of root's cannot look at this one
	for c := range proc.Capability(41) {
		all = append(all, c)
	}
	for abi, opens := range map[int]bool{1: true, 2: false, 5: false} {
		dir := filepath.Join(top, strconv.Itoa(abi))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, folder := range []string{"a", "b"} {
			if err := os.Mkdir(filepath.Join(dir, folder), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		var out bytes.Buffer
		cmd := helper("probe", strconv.Itoa(os.Getpid()), abstract, dir)
		cmd.Stdout = &out
		move := exec.Command("sh", "-ec", "cd "+dir+"; echo x >a/x; ln a/x b/y; mv -n a/x b/x; test ! -e a/x; rm b/x b/y; mkdir a/d; mv a/d b; cat /etc/passwd >b/d/p")
		// mv would copy where it cannot move: so does not the kernel.
		rename := helper("rename", filepath.Join(dir, "b/d/p"), filepath.Join(dir, "a/p"))
		proc.WithLandlock(abi, func() {
			err := proc.Confine(proc.Confinement{NoSeccomp: true, Keep: all}, func(w proc.Restrictions) error {
				if w.Landlock || len(w.Notes) != 2 {
					t.Errorf("version %d: %+v; want no full domain, and a note of it", abi, w)
				}
				if err := cmd.Start(); err != nil {
					return err
				}
				if err := move.Run(); err != nil {
					return fmt.Errorf("move files: %w", err)
				}
				return rename.Run()
			})
			if err != nil {
				t.Fatal(err)
			}
		})
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		var got probes
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		for what, result := range map[string]string{"the open files": got.WriteFD, "the memory": got.ReadMem} {
			if !opens && result == "ok" {
				t.Errorf("version %d: %s of a process outside: %s", abi, what, result)
			}
		}
		if opens && got.WriteFD != "ok" { // its memory may be closed to all but its parents (yama)
			t.Errorf("without a domain, the open files of a process outside: %s", got.WriteFD)
		}
	}
}

// TestConfine_ConnectsToOnePort also checks that a process without a port connects to none.
func TestConfine_ConnectsToOnePort(t *testing.T) {
	needsConfine(t)
	var ports []int
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	connect := func(port int) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	}
	for _, allowed := range []int{ports[0], 0} {
		err := proc.Confine(proc.Confinement{OnePort: true, Port: uint16(allowed)}, func(w proc.Restrictions) error {
			if !w.OnePort || !w.Landlock {
				return fmt.Errorf("not all restrictions are active: %+v", w)
			}
			for _, port := range ports {
				want := error(unix.EACCES)
				if port == allowed {
					want = nil
				}
				if err := connect(port); !errors.Is(err, want) {
					t.Errorf("one port, %d: connecting to %d: %v, want %v", allowed, port, err, want)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if err := connect(ports[1]); err != nil {
		t.Errorf("outside: %v", err)
	}
}
