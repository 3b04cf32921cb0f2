//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/test/adversary/orders"
)

func init() {
	deeds["processes"] = processes
	deeds["hoard"] = hoard
	deeds["fill"] = fill
	deeds["burst"] = burst
	deeds["create"] = create
}

// kept are what a hand holds until it ends.
var kept []io.Closer

// processes N starts N processes that live as long as this one.
func processes(args []string) ([]orders.Try, error) {
	n := 0
	var err error
	for range number(args[0]) {
		cmd := exec.Command("/bin/cat")
		var in io.WriteCloser
		if in, err = cmd.StdinPipe(); err != nil {
			break
		}
		if err = cmd.Start(); err != nil {
			break
		}
		kept = append(kept, in)
		n++
	}
	if n == 0 {
		return nil, err
	}
	return []orders.Try{got("processes", fmt.Sprint(n), nil)}, nil
}

// hoard takes what the kernel counts for all processes of a user: files in flight, pipes' pages, inotify instances.
func hoard([]string) ([]orders.Try, error) {
	var all []orders.Try
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	rights := unix.UnixRights(int(null.Fd()), int(null.Fd()), int(null.Fd()), int(null.Fd()))
	n := 0
	for ; n < 4096; n++ {
		if unix.Sendmsg(pair[0], []byte("x"), rights, nil, 0) != nil {
			break
		}
	}
	all = append(all, got("files in flight", fmt.Sprint(4*n), nil))
	for n = 0; n < 400; n++ {
		var p [2]int
		if unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK) != nil {
			break
		}
		_, _ = unix.FcntlInt(uintptr(p[1]), unix.F_SETPIPE_SZ, 1<<20) // as large as it may be
	}
	all = append(all, got("pipes", fmt.Sprint(n), nil))
	for n = 0; n < 2000; n++ {
		if fd, _ := unix.InotifyInit1(unix.IN_CLOEXEC); fd < 0 {
			break
		}
	}
	return append(all, got("inotify", fmt.Sprint(n), nil)), nil
}

// fill DIR writes until nothing more fits, or 64 MiB.
func fill(args []string) ([]orders.Try, error) {
	f, err := os.Create(filepath.Join(args[0], "filling"))
	if err != nil {
		return []orders.Try{tried("fill", err)}, nil
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	n := 0
	for range 1024 {
		m, err := f.Write(block)
		n += m
		if err != nil {
			return []orders.Try{got("fill", fmt.Sprint(n), nil)}, nil
		}
	}
	return nil, fmt.Errorf("%s took %d bytes and is not full", args[0], n)
}

// burst N FILE COMMAND... runs a command N times at once, each with its number as a last argument, and appends what
// they say to a file.
func burst(args []string) ([]orders.Try, error) {
	out, err := os.OpenFile(args[1], os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	var all []orders.Try
	var started []*exec.Cmd
	for i := range number(args[0]) {
		cmd := exec.Command(args[2], append(slices.Clone(args[3:]), fmt.Sprint(i))...)
		cmd.Stdout = out
		if err := cmd.Start(); err != nil {
			all = append(all, tried("start", err))
			continue
		}
		started = append(started, cmd)
	}
	for _, cmd := range started {
		all = append(all, tried("run", cmd.Wait()))
	}
	return all, nil
}

// create DIR makes files, one after the other, until there is one of the name "enough" or 100,000 were tried. It brings
// how many it made, and how many were refused with each error.
func create(args []string) ([]orders.Try, error) {
	times := map[string]int{"": 0}
	for i := range 100_000 {
		if unix.Access(filepath.Join(args[0], "enough"), unix.F_OK) == nil {
			break
		}
		fd, err := unix.Open(filepath.Join(args[0], fmt.Sprint(i)), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
		if err == nil && fd <= syscall.Stderr {
			err = errors.New("a file that was open already")
		}
		times[nameOf(err)]++
		if err == nil {
			_ = unix.Close(fd)
		}
	}
	var all []orders.Try
	for err, n := range times {
		all = append(all, orders.Try{What: "create", Err: err, Got: fmt.Sprint(n)})
	}
	return all, nil
}
