package sandbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The structures of seccomp user notification, which x/sys lacks; linux/seccomp.h.
type (
	callData struct {
		number      int32
		arch        uint32
		instruction uint64
		args        [6]uint64
	}
	notification struct {
		id    uint64
		pid   uint32
		flags uint32
		data  callData
	}
	response struct {
		id    uint64
		value int64
		err   int32
		flags uint32
	}
	addFD struct {
		id         uint64
		flags      uint32
		source     uint32
		target     uint32
		targetFlag uint32
	}
)

// receivers is how many calls are answered at once. More than processors pay where deciding takes its time.
const receivers = 8

// mostBlocking bounds the calls that wait for another process, or machine.
const mostBlocking = 256

// server answers the calls of what is confined.
type server struct {
	listener int
	options  Options
	decider  Decider
	// holder is the thread of the sandbox that has started the command and is behind the filter itself. What it calls is the
	// sandbox's.
	holder int
	// inDomain are jobs for that thread, which is in the command's Landlock domain.
	inDomain chan func()
	// environment is the sandbox's own, by "NAME=VALUE".
	environment map[string]bool
	// blocking bounds the calls that wait for another process.
	blocking chan struct{}
	// runs: the command runs, and not only what is to become it.
	runs atomic.Bool
	// left is how many calls of the decider were given up and have not returned.
	left atomic.Int32
}

func newServer(listener, holder int, o Options, d Decider) *server {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	s := &server{
		listener: listener, options: o, decider: d, holder: holder, inDomain: make(chan func()),
		environment: map[string]bool{}, blocking: make(chan struct{}, mostBlocking),
	}
	for _, entry := range os.Environ() {
		s.environment[entry] = true
	}
	return s
}

func (s *server) start() {
	for range receivers {
		go s.receive()
	}
}

// call is one system call that waits for its answer.
type call struct {
	*server
	notification
	tgid  int // the process of the thread that calls
	umask int
	// pages are what has been read of the process's memory, by address. Each is read once.
	pages map[uint64][]byte
	// replaced: the decider has kept the calling thread so long that another one receives calls in its place.
	replaced bool
}

// ownThread makes the calling goroutine's thread fit to act for another process, for good. It has a file mode creation
// mask and a working directory of its own. No signal interrupts it: the kernel answers a call with 0 if one arrives
// while a file is handed over, and the caller would take its standard input for the file. The Go runtime sends itself
// such signals.
func ownThread() error {
	runtime.LockOSThread()
	var all unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^uint64(0)
	}
	return errors.Join(unix.PthreadSigmask(unix.SIG_BLOCK, &all, nil), unix.Unshare(unix.CLONE_FS))
}

func (s *server) receive() {
	if err := ownThread(); err != nil {
		return
	}
	for {
		c := &call{server: s}
		switch errno := s.ioctl(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&c.notification)); errno {
		case 0:
			c.serve()
			if c.replaced {
				return
			}
		case unix.EINTR:
		case unix.ENOENT: // the caller was killed, or nothing is left that could call
			p := []unix.PollFd{{Fd: int32(s.listener), Events: unix.POLLIN}}
			if _, err := unix.Poll(p, 0); err == nil && p[0].Revents&unix.POLLHUP != 0 {
				return
			}
		default:
			return
		}
	}
}

func (s *server) ioctl(request uint, p unsafe.Pointer) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(s.listener), uintptr(request), uintptr(p))
	return errno
}

// errAnswered says that the call has its answer, or will have it.
var errAnswered = errors.New("answered")

// errObserved says that the decider was told of the call, and the kernel is to make it.
var errObserved = errors.New("observed")

// serve carries the call out and answers it with the error, or with 0.
func (c *call) serve() {
	if int(c.pid) == c.holder {
		c.proceed()
		return
	}
	err := c.identify()
	if err == nil && !(c.options.Observe && c.elsewhere()) {
		err = c.act()
	}
	if c.options.Observe {
		c.proceed()
		return
	}
	c.answer(err)
}

// elsewhere reports whether the process has another root, or sees other mounts: its paths then mean nothing here. Only who is
// observed can have them.
func (c *call) elsewhere() bool {
	for _, name := range []string{"root", "ns/mnt"} {
		theirs, err1 := readlink(unix.AT_FDCWD, c.proc(name))
		own, err2 := readlink(unix.AT_FDCWD, "/proc/thread-self/"+name)
		if err1 != nil || err2 != nil || theirs != own {
			return true
		}
	}
	return false
}

// later does work for the call that waits for another process, or machine, on a thread of its own, and answers with its
// error.
func (c *call) later(work func() error, clean func()) error {
	select {
	case c.blocking <- struct{}{}:
	default:
		clean()
		return unix.ENFILE
	}
	go func() {
		defer func() { <-c.blocking }()
		defer clean()
		err := ownThread()
		if err == nil {
			err = work()
		}
		c.answer(err)
	}()
	return errAnswered
}

func (c *call) answer(err error) {
	if errors.Is(err, errAnswered) {
		return
	}
	r := response{id: c.id}
	if err != nil {
		errno := unix.EACCES
		_ = errors.As(err, &errno)
		r.err = -int32(errno)
	}
	c.ioctl(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r))
}

// result answers the call with a number.
func (c *call) result(value int64) {
	r := response{id: c.id, value: value}
	c.ioctl(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r))
}

// proceed lets the kernel make the call itself, with arguments that may have changed since.
func (c *call) proceed() {
	r := response{id: c.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	c.ioctl(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r))
}

// valid says that the call still waits: what has been read by the number of its thread was the thread's.
func (c *call) valid() bool {
	id := c.id
	return c.ioctl(unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&id)) == 0
}

// identify finds out whose call it is.
func (c *call) identify() error {
	status, err := slurp(c.proc("status"), make([]byte, 0, page))
	if err != nil {
		return unix.ESRCH
	}
	number := func(name string, base int) (int, error) {
		_, value, _ := strings.Cut(string(status), "\n"+name+":\t")
		value, _, _ = strings.Cut(value, "\n")
		n, err := strconv.ParseInt(value, base, 32)
		return int(n), err
	}
	var err1, err2 error
	c.tgid, err1 = number("Tgid", 10)
	c.umask, err2 = number("Umask", 8)
	if err1 != nil || err2 != nil || !c.valid() {
		return unix.ESRCH
	}
	return nil
}

// proc is a path in the folder that /proc has for the calling thread.
func (c *call) proc(name string) string { return "/proc/" + strconv.Itoa(int(c.pid)) + "/" + name }

// arg is an argument that is an int.
func (c *call) arg(n int) int { return int(int32(c.data.args[n])) }

// allowed asks the decider about everything that the call does, in this order. It is the last step before the call is
// carried out.
func (c *call) allowed(events ...Event) error {
	return c.decide(unix.EACCES, func() error {
		for _, e := range events {
			e.PID, e.Call = c.tgid, c.id
			if !c.decider.Allows(e) && !c.options.Observe {
				return unix.EACCES
			}
		}
		if c.options.Observe {
			return errObserved
		}
		return nil
	})
}

// refuse refuses a call that the sandbox could not follow.
func (c *call) refuse(what string, errno unix.Errno) error {
	return c.decide(errno, func() error {
		c.decider.Refused(c.tgid, what)
		return errno
	})
}

// mostLeft bounds the threads on which a decider is left behind.
const mostLeft = 64

// decide has the decider called. If that takes too long, the caller gets its answer meanwhile, and decide returns errAnswered
// once the decider returns: nothing is carried out. (A timer costs less than a thread that waits for another one.)
func (c *call) decide(late unix.Errno, ask func() error) error {
	if c.left.Load() >= mostLeft {
		if c.options.Observe {
			return errObserved
		}
		return late
	}
	var settled atomic.Bool
	timer := time.AfterFunc(c.options.Timeout, func() {
		if !settled.CompareAndSwap(false, true) {
			return
		}
		c.left.Add(1)
		if c.options.Observe {
			c.proceed()
		} else {
			c.answer(late)
		}
		go c.server.receive()
	})
	defer timer.Stop()
	err := ask()
	if settled.CompareAndSwap(false, true) {
		return err
	}
	c.left.Add(-1)
	c.replaced = true
	return errAnswered
}

// read copies memory of the process.
func (c *call) read(address uint64, b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, err := unix.ProcessVMReadv(int(c.pid), []unix.Iovec{{Base: &b[0], Len: uint64(len(b))}},
		[]unix.RemoteIovec{{Base: uintptr(address), Len: len(b)}}, 0)
	if err != nil || n <= 0 {
		return 0, unix.EFAULT
	}
	return n, nil
}

// readAll copies memory, all of b or nothing.
func (c *call) readAll(address uint64, b []byte) error {
	if n, err := c.read(address, b); err != nil || n != len(b) {
		return unix.EFAULT
	}
	return nil
}

const page = 4096

// page is a page of the process's memory from an address to the page's end. A page is read only once for a call:
// arguments and environment are many short strings beside each other.
func (c *call) page(address uint64) ([]byte, error) {
	start := address &^ (page - 1)
	b, ok := c.pages[start]
	if !ok {
		b = make([]byte, page)
		n, err := c.read(start, b)
		if err != nil || n != page {
			return nil, unix.EFAULT
		}
		if c.pages == nil {
			c.pages = map[uint64][]byte{}
		}
		c.pages[start] = b
	}
	return b[address-start:], nil
}

// text copies a string that ends with a zero byte. longest is what it may have with that byte.
func (c *call) text(address uint64, longest int, tooLong unix.Errno) (string, error) {
	var out []byte
	for len(out) < longest {
		b, err := c.page(address + uint64(len(out))) // the next page may be missing
		if err != nil {
			return "", err
		}
		if end := bytes.IndexByte(b, 0); end >= 0 {
			if len(out)+end >= longest {
				break
			}
			if out == nil {
				return string(b[:end]), nil
			}
			return string(append(out, b[:end]...)), nil
		}
		out = append(out, b...)
	}
	return "", tooLong
}

// name copies a path.
func (c *call) name(n int) (string, error) {
	return c.text(c.data.args[n], unix.PathMax, unix.ENAMETOOLONG)
}

// strings copies an array of strings that ends with a null pointer, and takes what they need from room.
func (c *call) strings(address uint64, room *int) ([]string, error) {
	var out []string
	for ; address != 0; address += 8 {
		p, err := c.word(address)
		if err != nil {
			return nil, err
		}
		if p == 0 {
			break
		}
		s, err := c.text(p, *room, unix.E2BIG)
		if err != nil {
			return nil, err
		}
		*room -= len(s) + 9
		if *room <= 0 {
			return nil, unix.E2BIG
		}
		out = append(out, s)
	}
	return out, nil
}

// word is a pointer in the process's memory.
func (c *call) word(address uint64) (uint64, error) {
	b, err := c.page(address)
	if err != nil {
		return 0, err
	}
	if len(b) < 8 { // it lies across two pages
		var split [8]byte
		next, err := c.page(address + uint64(len(b)))
		if err != nil {
			return 0, err
		}
		copy(split[copy(split[:], b):], next)
		b = split[:]
	}
	return binary.NativeEndian.Uint64(b), nil
}

// slurp reads a file of /proc to its end, behind what b has. os.ReadFile makes twice the calls.
func slurp(name string, b []byte) ([]byte, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	for {
		b = slices.Grow(b, page)
		n, err := unix.Read(fd, b[len(b):cap(b)])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, err
		case n == 0:
			return b, nil
		default:
			b = b[:len(b)+n]
		}
	}
}
