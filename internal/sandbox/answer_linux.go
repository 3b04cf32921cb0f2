//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/proc"
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
	// arrivals is an epoll descriptor of the listener. Of the threads that wait there one is woken for a call. The
	// kernel wakes all that wait to receive from the listener itself (recv_wait_event in kernel/seccomp.c).
	arrivals int
	options  Options
	decider  Decider
	// holder is the thread of the sandbox that has started the command and is behind the filter itself. What it calls is
	// the sandbox's.
	holder int
	// inDomain are jobs for that thread, which is in the command's Landlock domain.
	inDomain chan func()
	// environment is the sandbox's own, by "NAME=VALUE".
	environment map[string]bool
	// blocking bounds the calls that wait for another process.
	blocking chan struct{}
	// runs: the command runs, and not only what is to become it.
	runs atomic.Bool
	// domains are those of Landlock that processes inside have made.
	domains domains
	// namespaces are those of users and mounts that processes inside have made.
	namespaces  namespaces
	mountPoints mountPoints
	// moves are those that are decided on, and the last ones.
	moves moves
	// left is how many threads have others in their place, as a decider or the start of a program has not returned.
	left atomic.Int32
}

func newServer(listener, holder int, o Options, d Decider) (*server, error) {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	arrivals, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("wait for calls: %w", err)
	}
	s := &server{
		listener: listener, arrivals: arrivals, options: o, decider: d, holder: holder, inDomain: make(chan func()),
		environment: map[string]bool{}, blocking: make(chan struct{}, mostBlocking),
	}
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	for _, entry := range o.Environ {
		s.environment[entry] = true
	}
	if err := s.arm(unix.EPOLL_CTL_ADD); err != nil {
		return nil, fmt.Errorf("wait for calls: %w", err)
	}
	return s, nil
}

// arm has one thread woken if a call waits to be received, or as soon as one does.
func (s *server) arm(op int) error {
	return unix.EpollCtl(s.arrivals, op, s.listener, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT, Fd: int32(s.listener)})
}

// start has calls received. An error says that they are not: each would wait for ever.
func (s *server) start() error {
	ready := make(chan error)
	for range receivers {
		go s.receive(ready)
	}
	var err error
	for range receivers {
		err = errors.Join(err, <-ready)
	}
	if err != nil {
		return fmt.Errorf("%w: start a thread that answers: %w", ErrUnsupported, err)
	}
	return nil
}

// call is one system call that waits for its answer.
type call struct {
	*server
	notification
	tgid  int // the process of the thread that calls
	umask int
	about []byte // its file status in /proc
	// domain is the one of Landlock that the process has made, or one that it was started in; nil: none.
	domain *domain
	// pages are what has been read of the process's memory, by address. Each is read once.
	pages map[uint64][]byte
	// since is how many moves there were before its paths were followed.
	since uint64
	// replaced: the decider has kept the calling thread so long that another one receives calls in its place.
	replaced bool
	// lost, to observe: what the call is about cannot be told, as it is not known, or as nothing of the process can be
	// seen.
	lost bool
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

// receive answers calls. ready is told once whether it can; nil: nobody is told.
func (s *server) receive(ready chan<- error) {
	err := ownThread()
	if ready != nil {
		ready <- err
	}
	if err != nil {
		return
	}
	for {
		var event [1]unix.EpollEvent
		switch n, err := unix.EpollWait(s.arrivals, event[:], -1); {
		case errors.Is(err, unix.EINTR), err == nil && n == 0:
			continue
		case err != nil:
			return
		}
		c := &call{server: s}
		errno := unix.ENOENT
		if event[0].Events&unix.EPOLLIN != 0 {
			errno = s.ioctl(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&c.notification))
		}
		if s.arm(unix.EPOLL_CTL_MOD) != nil {
			return
		}
		switch errno {
		case 0:
			c.serve()
			if c.replaced {
				return
			}
		case unix.EINTR, unix.ENOENT: // the caller was killed
			if event[0].Events&unix.EPOLLHUP != 0 { // nothing is left that could call
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

// serve carries the call out and answers it with the error, or with 0. To observe, the kernel makes it.
func (c *call) serve() {
	switch {
	case int(c.pid) == c.holder:
		c.proceed()
	case c.options.Observe:
		_ = c.decide(0, c.observe)
		c.proceed()
	default:
		err := c.identify()
		if err == nil {
			err = c.anew(c.act)
		}
		c.answer(err)
	}
}

// observe has the decider told what the call is about. Whatever it looks at is bounded in time with what the decider
// does: a file system whose process is inside may wait for another call.
func (c *call) observe() error {
	err := c.identify()
	if err != nil {
		return err
	}
	if !c.namespaces.made.Load() && c.elsewhere() { // nobody was asked when it was made
		c.namespaces.made.Store(true)
	}
	err = c.act()
	if c.lost || errors.Is(err, unix.ELOOP) { // by a magic link of /proc
		c.decider.Refused(c.tgid, "a call of which it is not known which file it is about")
	}
	return err
}

// elsewhere reports whether the process has another root, or sees other mounts: its paths then mean nothing here.
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

// later does work for the call that waits for another process, or machine, on a thread of its own in the process's
// domain, and answers with its error.
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
		if err == nil && c.domain != nil {
			err = c.domain.join()
		}
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
	status, err := proc.Slurp(c.proc("status"), make([]byte, 0, page))
	if err != nil {
		return unix.ESRCH
	}
	c.about = status
	number := func(name string, base int) (int, error) {
		n, err := strconv.ParseInt(c.status(name), base, 32)
		return int(n), err
	}
	var err1, err2 error
	c.tgid, err1 = number("Tgid", 10)
	c.umask, err2 = number("Umask", 8)
	var err3 error
	if err1 == nil {
		c.domain, err3 = c.domainOf(c.tgid)
	}
	if err1 != nil || err2 != nil || !c.valid() {
		return unix.ESRCH
	}
	return err3
}

// status is what /proc says of the calling thread under a name.
func (c *call) status(name string) string { return statusLine(c.about, name) }

// statusLine is what a file status of /proc says under a name.
func statusLine(status []byte, name string) string {
	_, value, _ := strings.Cut(string(status), "\n"+name+":\t")
	value, _, _ = strings.Cut(value, "\n")
	return value
}

// proc is a path in the folder that /proc has for the calling thread.
func (c *call) proc(name string) string { return "/proc/" + strconv.Itoa(int(c.pid)) + "/" + name }

// arg is an argument that is an int.
func (c *call) arg(n int) int { return int(int32(c.data.args[n])) }

// allowed asks the decider about everything that the call does, in this order. It is the last step before the call is
// carried out.
func (c *call) allowed(events ...Event) error {
	ask := func() error {
		for _, e := range events {
			e.PID, e.Call = c.tgid, c.id
			if !c.decider.Allows(e) && !c.options.Observe {
				return unix.EACCES
			}
		}
		return nil
	}
	if c.options.Observe {
		_ = ask() // which is bounded with all of the call
		return errObserved
	}
	return c.decide(unix.EACCES, ask)
}

// refuse refuses a call that the sandbox could not follow.
func (c *call) refuse(what string, errno unix.Errno) error {
	return c.decide(errno, func() error {
		c.decider.Refused(c.tgid, what)
		return errno
	})
}

// mostLeft bounds the threads that have others in their place.
const mostLeft = 64

// decide has the decider called. If that takes too long, the caller gets its answer meanwhile, and decide returns
// errAnswered once the decider returns: nothing is carried out. (A timer costs less than a thread that waits for
// another one.)
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
		go c.server.receive(nil)
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

// relieve has another thread receive calls in this one's place if what follows takes too long, for which such threads
// are counted as those are on which a decider is left behind. end is to be called after it.
func (c *call) relieve() (end func()) {
	var settled atomic.Bool
	timer := time.AfterFunc(c.options.Timeout, func() {
		if settled.CompareAndSwap(false, true) {
			c.left.Add(1)
			go c.server.receive(nil)
		}
	})
	return func() {
		if timer.Stop(); !settled.CompareAndSwap(false, true) {
			c.left.Add(-1)
			c.replaced = true
		}
	}
}

// read copies memory of the process.
func (c *call) read(address uint64, b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, err := unix.ProcessVMReadv(int(c.pid), []unix.Iovec{{Base: &b[0], Len: uint64(len(b))}},
		[]unix.RemoteIovec{{Base: uintptr(address), Len: len(b)}}, 0)
	if err != nil || n <= 0 {
		c.lost = c.lost || errors.Is(err, unix.EPERM)
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
