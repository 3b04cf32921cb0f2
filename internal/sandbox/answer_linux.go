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
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/proc"
)

// The structures of seccomp user notification (linux/seccomp.h), which x/sys lacks.
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

// maxBlocking limits the calls that wait for another process or machine.
const maxBlocking = 256

// server answers the system calls of the confined processes.
type server struct {
	listener int
	turn     *turn
	options  Options
	decider  Decider
	// holder is the thread of the sandbox that has started the command and is behind the filter itself. Its calls are the sandbox's
	// own.
	holder int
	// inDomain passes jobs to that thread, which is in the command's Landlock domain.
	inDomain chan func()
	// environment is the environment that the command starts with, by "NAME=VALUE".
	environment map[string]bool
	// blocking limits the calls that wait for another process.
	blocking chan struct{}
	// runs is set when the command's program runs, and not only the process that will execute it.
	runs atomic.Bool
	// domains are the Landlock domains that confined processes have made.
	domains domains
	// namespaces holds the user and mount namespaces that confined processes have made.
	namespaces  namespaces
	mountPoints mountPoints
	// stages holds the files that processes write before the decider decides on them.
	stages stages
	// moves holds the renames that are being decided on, and the last ones.
	moves moves
	// left is the number of threads that were replaced because a decider or the start of a program did not return.
	left atomic.Int32
}

func newServer(listener, holder int, o Options, d Decider) (*server, error) {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	turn, err := newTurn()
	if err != nil {
		return nil, fmt.Errorf("wait for calls: %w", err)
	}
	s := &server{
		listener: listener, turn: turn, options: o, decider: d, holder: holder, inDomain: make(chan func()),
		environment: map[string]bool{}, blocking: make(chan struct{}, maxBlocking),
	}
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	for _, entry := range o.Environ {
		s.environment[entry] = true
	}
	return s, nil
}

// call is a system call that waits for its answer.
type call struct {
	*server
	notification
	serving uint64 // see turn
	process identity
	// domain is the Landlock domain that the process has made or inherited; nil: none.
	domain *domain
	// pages caches the process's memory by address. Each page is read once.
	pages map[uint64][]byte
	// since is the number of moves before the call's paths were resolved.
	since uint64
	// replaced: the decider has blocked the calling thread so long that another thread receives calls in its place.
	replaced bool
	// lost, for Observe: the sandbox cannot tell which file the call is about, because the file is unknown or the process is not
	// visible.
	lost bool
}

// identity is what identify reads about the calling process.
type identity struct {
	known  bool
	err    error
	tgid   int // the process of the calling thread
	umask  int
	status []byte // the file status in /proc of the calling thread
}

// ownThread locks the goroutine to its thread for good, and prepares the thread to act for another process. The thread gets its own
// umask and working directory. It blocks all signals, among them those that the Go runtime sends itself: if a signal arrives while a
// file is handed over, the kernel answers the call with 0, and the caller would use its standard input as the file.
func ownThread() error {
	runtime.LockOSThread()
	var all unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^uint64(0)
	}
	return errors.Join(unix.PthreadSigmask(unix.SIG_BLOCK, &all, nil), unix.Unshare(unix.CLONE_FS))
}

func (s *server) ioctl(request uint, p unsafe.Pointer) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(s.listener), uintptr(request), uintptr(p))
	return errno
}

// errAnswered says that the call has been answered, or will be.
var errAnswered = errors.New("answered")

// errObserved says that the decider has been notified of the call, and that the kernel makes it.
var errObserved = errors.New("observed")

// serve carries the call out and answers it with the error, or with 0. With Observe, the kernel makes the call.
func (c *call) serve() {
	switch {
	case int(c.pid) == c.holder:
		c.proceed()
	case c.options.Observe:
		_ = c.decide(0, c.observe)
		c.proceed()
	default:
		c.settle()
		var err error
		if c.domains.made.Load() {
			c.domain, err = c.domainOf(c.tgid())
		}
		if err == nil {
			err = c.retryMoved(c.act)
		}
		c.answer(err)
	}
}

// observe notifies the decider of the call. The timeout of the decider covers everything that observe reads, because a file system
// whose process is confined may wait for another call.
func (c *call) observe() error {
	if err := c.identify(); err != nil {
		return err
	}
	if !c.namespaces.made.Load() && c.viewDiffers() { // the decider was not asked when the namespace was made
		c.namespaces.made.Store(true)
	}
	err := c.act()
	if c.lost || errors.Is(err, unix.ELOOP) { // by a magic link of /proc
		c.decider.Refused(c.tgid(), "a call of which it is not known which file it is about")
	}
	return err
}

// viewDiffers reports whether the process has another root or other mounts than the sandbox. The sandbox cannot resolve its paths
// directly then.
func (c *call) viewDiffers() bool {
	for _, name := range []string{"root", "ns/mnt"} {
		theirs, err1 := readlink(unix.AT_FDCWD, c.proc(name))
		own, err2 := readlink(unix.AT_FDCWD, "/proc/thread-self/"+name)
		if err1 != nil || err2 != nil || theirs != own {
			return true
		}
	}
	return false
}

// answerLater runs work that waits for another process or machine, on its own thread in the process's domain, and answers the call with the
// resulting error.
func (c *call) answerLater(work func() error, clean func()) error {
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

// proceed lets the kernel make the call itself, with arguments that may have changed since they were read.
func (c *call) proceed() {
	r := response{id: c.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	c.ioctl(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r))
}

// valid reports whether the call still waits. If so, everything read so far by the thread's number belonged to that thread.
func (c *call) valid() bool {
	id := c.id
	return c.ioctl(unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&id)) == 0
}

// identify reads the identity of the calling process, once. Most calls that only read need none of it.
func (c *call) identify() error {
	if p := &c.process; !p.known {
		*p = identity{known: true, tgid: -1}
		p.err = c.readIdentity()
	}
	return c.process.err
}

func (c *call) readIdentity() error {
	p := &c.process
	status, err := proc.Slurp(c.proc("status"), make([]byte, 0, page))
	if err != nil {
		return unix.ESRCH
	}
	tgid, err1 := strconv.ParseInt(statusLine(status, "Tgid"), 10, 32)
	umask, err2 := strconv.ParseInt(statusLine(status, "Umask"), 8, 32)
	if err1 != nil || err2 != nil || !c.valid() {
		return unix.ESRCH
	}
	p.tgid, p.umask, p.status = int(tgid), int(umask), status
	return nil
}

// tgid returns the process of the calling thread; -1: it has ended.
func (c *call) tgid() int {
	_ = c.identify()
	return c.process.tgid
}

// setUmask gives the thread the umask of the calling process, for a call that makes a file.
func (c *call) setUmask() error {
	err := c.identify()
	if err == nil {
		unix.Umask(c.process.umask)
	}
	return err
}

// status returns a value from the file status in /proc of the calling thread.
func (c *call) status(name string) string {
	_ = c.identify()
	return statusLine(c.process.status, name)
}

// statusLine returns the value of a name in the text of a file status of /proc.
func statusLine(status []byte, name string) string {
	_, value, _ := bytes.Cut(status, []byte("\n"+name+":\t"))
	value, _, _ = bytes.Cut(value, []byte("\n"))
	return string(value)
}

// proc returns a path in the directory of the calling thread in /proc.
func (c *call) proc(name string) string { return "/proc/" + strconv.Itoa(int(c.pid)) + "/" + name }

// arg returns an argument of type int.
func (c *call) arg(n int) int { return int(int32(c.data.args[n])) }

// allowed asks the decider about each event of the call, in order. It is the last step before the call is carried out.
func (c *call) allowed(events ...Event) error {
	for i := range events {
		if e := &events[i]; e.Operation == Write && e.Leaves == LeavesAny {
			e.Leaves = c.leaves()
		}
	}
	if c.allowedAtOnce(events) {
		return nil
	}
	if err := c.identify(); err != nil {
		return err
	}
	ask := func() error {
		for _, e := range events {
			e.PID, e.Call = c.tgid(), c.id
			if !c.decider.Allows(e) && !c.options.Observe {
				return unix.EACCES
			}
		}
		return nil
	}
	if c.options.Observe {
		_ = ask() // decide has the timeout for the whole call
		return errObserved
	}
	return c.decide(unix.EACCES, ask)
}

// allowedAtOnce reports whether the decider allows all events without waiting.
func (c *call) allowedAtOnce(events []Event) bool {
	q, ok := c.decider.(Quick)
	if !ok || c.options.Observe {
		return false
	}
	for _, e := range events {
		if e.Operation != Read && !OpensDevice(e) {
			if c.identify() != nil {
				return false
			}
			e.PID = c.tgid()
		}
		if !q.AllowsAtOnce(e) {
			return false
		}
	}
	return true
}

// refuse rejects a call that no decision allows, and notifies the decider.
func (c *call) refuse(what string, errno unix.Errno) error {
	return c.decide(errno, func() error {
		c.decider.Refused(c.tgid(), what)
		return errno
	})
}

// maxLeft limits the threads that were replaced.
const maxLeft = 64

// decide runs ask, which calls the decider. If ask takes longer than the timeout, decide answers the call with late, and returns
// errAnswered when ask returns: the call is not carried out. (A timer costs less than a second thread that waits.)
func (c *call) decide(late unix.Errno, ask func() error) error {
	c.pass()
	if c.left.Load() >= maxLeft {
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

// replaceIfSlow starts another receiving thread if the caller's work exceeds the timeout. Such threads count as replaced threads (left).
// The caller must call end afterwards.
func (c *call) replaceIfSlow() (end func()) {
	c.pass()
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
	own := unix.Iovec{Base: &b[0], Len: uint64(len(b))}
	theirs := unix.RemoteIovec{Base: uintptr(address), Len: len(b)}
	// unix.ProcessVMReadv would move b to the heap.
	n, _, errno := unix.Syscall6(unix.SYS_PROCESS_VM_READV, uintptr(c.pid), uintptr(unsafe.Pointer(&own)), 1, uintptr(unsafe.Pointer(&theirs)), 1, 0)
	if errno != 0 || n == 0 {
		c.lost = c.lost || errno == unix.EPERM
		return 0, unix.EFAULT
	}
	return int(n), nil
}

// readAll copies memory of the process: all of b, or it fails.
func (c *call) readAll(address uint64, b []byte) error {
	if n, err := c.read(address, b); err != nil || n != len(b) {
		return unix.EFAULT
	}
	return nil
}

const page = 4096

// page returns the process's memory from an address to the end of its page. Each page is read once per call, because arguments and
// environment are many adjacent short strings.
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

// text copies a string that ends with a zero byte. longest limits its length with that byte.
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

// name copies the path that an argument points to.
func (c *call) name(n int) (string, error) {
	const usual = 256
	var b [usual]byte
	address := c.data.args[n]
	if got, err := c.read(address, b[:min(usual, page-address%page)]); err == nil {
		if end := bytes.IndexByte(b[:got], 0); end >= 0 {
			return string(b[:end]), nil
		}
	}
	return c.text(c.data.args[n], unix.PathMax, unix.ENAMETOOLONG)
}

// strings copies an array of strings that ends with a null pointer, and subtracts their size from room.
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

// word reads a pointer in the process's memory.
func (c *call) word(address uint64) (uint64, error) {
	b, err := c.page(address)
	if err != nil {
		return 0, err
	}
	if len(b) < 8 { // the word crosses a page boundary
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
