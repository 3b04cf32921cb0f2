//go:build amd64 || arm64

package sandbox

import (
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// longestAddress is sizeof(struct sockaddr_storage).
const longestAddress = 128

// socketCall is a call with a socket and an address. The socket is a duplicate and the address a copy, so the process
// cannot replace them.
type socketCall struct {
	*call
	socket  int
	kind    int // SOCK_STREAM and so on
	address []byte
}

// withSocket reads the address of a call, and duplicates its socket. The caller must close the socket.
func (c *call) withSocket(address, length uint64) (socketCall, error) {
	s := socketCall{call: c, socket: -1}
	if length < 2 || length > longestAddress {
		return s, unix.EINVAL
	}
	s.address = make([]byte, length, longestAddress+1)
	if err := c.readAll(address, s.address); err != nil {
		return s, err
	}
	var err error
	if s.socket, err = c.duplicate(c.arg(0)); err != nil {
		return s, err
	}
	s.kind, err = unix.GetsockoptInt(s.socket, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		unix.Close(s.socket)
	}
	return s, err
}

func (s socketCall) family() int { return int(binary.NativeEndian.Uint16(s.address)) }

// path returns the path of a unix socket; empty: the socket is abstract or has no address.
func (s socketCall) path() string {
	if s.family() != unix.AF_UNIX || len(s.address) == 2 || s.address[2] == 0 {
		return ""
	}
	name, _, _ := strings.Cut(string(s.address[2:]), "\x00")
	return name
}

// where returns the address as text.
func (s socketCall) where() (Address, error) {
	a := Address{Network: "family " + strconv.Itoa(s.family())}
	switch s.family() {
	case unix.AF_UNIX:
		a.Network = "unix"
		if s.path() == "" {
			a.Host = "@" + string(s.address[min(3, len(s.address)):])
		}
		return a, nil
	case unix.AF_INET:
		if len(s.address) < unix.SizeofSockaddrInet4 {
			return a, unix.EINVAL
		}
		a.Host = hostText([16]byte{12: s.address[4], 13: s.address[5], 14: s.address[6], 15: s.address[7]}, true)
	case unix.AF_INET6:
		if len(s.address) < unix.SizeofSockaddrInet6-4 { // the scope ID may be missing
			return a, unix.EINVAL
		}
		a.Host = hostText([16]byte(s.address[8:24]), false)
	default:
		return a, nil
	}
	a.Port = binary.BigEndian.Uint16(s.address[2:])
	a.Network = map[int]string{unix.SOCK_STREAM: "tcp", unix.SOCK_DGRAM: "udp"}[s.kind]
	if a.Network == "" {
		a.Network = "ip"
	}
	return a, nil
}

// connect connects the socket in the sandbox. The peer of a unix socket sees the sandbox as the peer.
func (c *call) connect() error {
	s, err := c.withSocket(c.data.args[1], c.data.args[2])
	if err != nil {
		return err
	}
	clean := func() { unix.Close(s.socket) }
	if t, ok := s.tunnel(); ok {
		return c.answerLater(func() error { return s.connectThrough(t) }, clean)
	}
	to, err := s.reach()
	if err != nil {
		clean()
		return err
	}
	if to.held >= 0 {
		clean = func() { unix.Close(s.socket); unix.Close(to.held) }
	}
	flags, err := unix.FcntlInt(uintptr(s.socket), unix.F_GETFL, 0)
	switch {
	case err != nil:
	case strings.HasPrefix(to.Host, "@") && c.domain.scopesAbstractSockets():
		err = unix.EPERM
	case strings.HasPrefix(to.Host, "@"):
		return c.answerLater(func() error { return s.connectInDomain(flags) }, clean)
	case s.kind == unix.SOCK_DGRAM || flags&unix.O_NONBLOCK != 0:
		err = c.runInDomain(func() error { return to.connect(s.socket) })
	default:
		return c.answerLater(func() error { return to.connect(s.socket) }, clean)
	}
	clean()
	return err
}

// target is an address that was decided on.
type target struct {
	Address
	raw  []byte
	held int // an O_PATH descriptor of a unix socket; -1: none
}

func (t target) connect(socket int) error {
	_, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(socket), uintptr(unsafe.Pointer(&t.raw[0])), uintptr(len(t.raw)))
	if errno != 0 {
		return errno
	}
	return nil
}

// reach asks the decider about the address. It holds a unix socket with a path, and addresses it by the descriptor.
func (s socketCall) reach() (target, error) {
	t := target{raw: s.address, held: -1}
	var err error
	if t.Address, err = s.where(); err != nil {
		return t, err
	}
	domain, err := unix.GetsockoptInt(s.socket, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return t, err
	}
	internet := domain == unix.AF_INET || domain == unix.AF_INET6
	switch family := s.family(); {
	case domain == unix.AF_NETLINK, // the kernel itself
		family == unix.AF_UNSPEC && s.data.number == unix.SYS_CONNECT: // to disconnect
		return t, s.allowed()
	case internet && family != unix.AF_INET && family != unix.AF_INET6, !internet && family != domain:
		return t, unix.EAFNOSUPPORT // for sending, AF_UNSPEC can mean AF_INET
	}
	e := Event{Operation: Connect, Address: t.Address}
	name := s.path()
	if name == "" {
		return t, s.allowed(e)
	}
	p, err := s.find(unix.AT_FDCWD, name, true)
	if err != nil {
		return t, err
	}
	defer p.close()
	var events []Event
	for _, e.Path = range p.paths() {
		events = append(events, e)
	}
	if err := s.allowed(events...); err != nil {
		return t, err
	}
	if t.held, err = p.hold(); err != nil {
		return t, err
	}
	t.raw = append(append(s.address[:2:2], descriptor(t.held)...), 0)
	return t, nil
}

// connectInDomain connects to an abstract unix socket on the thread that shares the command's Landlock domain, so that
// sockets outside of the domain cannot be reached.
func (s socketCall) connectInDomain(flags int) error {
	t := target{raw: s.address}
	blocks := flags&unix.O_NONBLOCK == 0
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		result := make(chan error, 1)
		s.inDomain <- func() { // this thread must not wait for the peer
			if blocks {
				_, _ = unix.FcntlInt(uintptr(s.socket), unix.F_SETFL, flags|unix.O_NONBLOCK)
				defer func() { _, _ = unix.FcntlInt(uintptr(s.socket), unix.F_SETFL, flags) }()
			}
			result <- t.connect(s.socket)
		}
		err := <-result
		if !blocks || !errors.Is(err, unix.EAGAIN) || !s.valid() {
			return err
		}
		time.Sleep(pause)
	}
}

// sendTo sends to an address. Only datagram and raw sockets send to an address without a connection.
func (c *call) sendTo() error {
	a := c.data.args
	s, err := c.withSocket(a[4], a[5])
	if err != nil {
		return err
	}
	clean := func() { unix.Close(s.socket) }
	if s.kind == unix.SOCK_STREAM || s.kind == unix.SOCK_SEQPACKET {
		clean()
		return unix.EISCONN
	}
	to, err := s.reach()
	if err != nil {
		clean()
		return err
	}
	if to.held >= 0 {
		clean = func() { unix.Close(s.socket); unix.Close(to.held) }
	}
	if strings.HasPrefix(to.Host, "@") || a[2] > longestMessage {
		clean()
		return unix.EMSGSIZE // such a name would be looked up outside of the command's domain
	}
	message := make([]byte, a[2], a[2]+1)
	if err := c.readAll(a[1], message); err != nil {
		clean()
		return err
	}
	send := func() error {
		n, _, errno := unix.Syscall6(unix.SYS_SENDTO, uintptr(s.socket), uintptr(unsafe.Pointer(unsafe.SliceData(message))),
			uintptr(len(message)), uintptr(a[3]), uintptr(unsafe.Pointer(&to.raw[0])), uintptr(len(to.raw)))
		if errno != 0 {
			return errno
		}
		c.result(int64(n))
		return errAnswered
	}
	flags, err := unix.FcntlInt(uintptr(s.socket), unix.F_GETFL, 0)
	if err == nil && flags&unix.O_NONBLOCK == 0 && a[3]&unix.MSG_DONTWAIT == 0 {
		return c.answerLater(send, clean)
	}
	err = c.runInDomain(send)
	clean()
	return err
}

// longestMessage is larger than any datagram.
const longestMessage = 1 << 20

// bind binds the socket in the sandbox. It binds a unix socket by its last name only, from its folder: getsockname then
// returns only that name.
func (c *call) bind() error {
	s, err := c.withSocket(c.data.args[1], c.data.args[2])
	if err != nil {
		return err
	}
	defer unix.Close(s.socket)
	name := s.path()
	if name == "" {
		return c.runInDomain(func() error { return c.bindHere(s.socket, s.address) })
	}
	p, err := c.find(unix.AT_FDCWD, name, false)
	if err != nil {
		return err
	}
	defer p.close()
	if err := c.mayWrite(Write, p); err != nil {
		return err
	}
	if p.base == "" {
		return unix.EADDRINUSE
	}
	dir, err := unix.Open(descriptor(p.dir), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return c.carryOutMake(p, func() error {
		if err := unix.Fchdir(dir); err != nil { // of this thread only
			return err
		}
		defer func() { _ = unix.Chdir("/") }()
		if err := c.setUmask(); err != nil {
			return err
		}
		return c.bindHere(s.socket, append(append(s.address[:2:2], p.base...), 0))
	})
}

func (c *call) bindHere(socket int, address []byte) error {
	if c.options.Observe {
		return errObserved
	}
	_, _, errno := unix.Syscall(unix.SYS_BIND, uintptr(socket), uintptr(unsafe.Pointer(&address[0])), uintptr(len(address)))
	if errno != 0 {
		return errno
	}
	return nil
}
