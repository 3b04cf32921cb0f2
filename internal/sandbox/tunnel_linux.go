//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Limits of a tunnel's set-up.
const (
	// tunnelTimeout is longer than a proxy takes to decide on a machine, look up its name and connect to it.
	tunnelTimeout = 45 * time.Second
	// validEvery is the pause between two checks that the calling process still waits.
	validEvery = time.Second
	// maxTunnelHeader is the maximum size of the proxy's answer in bytes, with a refusal's text.
	maxTunnelHeader = 8 << 10
)

// tunnel returns the tunnel by which the socket is to be connected; false: it is connected directly.
func (s socketCall) tunnel() (Tunnel, bool) {
	t, ok := s.decider.(Tunneler)
	if !ok || s.options.Observe || s.kind != unix.SOCK_STREAM || s.family() != unix.AF_INET && s.family() != unix.AF_INET6 {
		return Tunnel{}, false
	}
	to, err := s.where()
	if err != nil {
		return Tunnel{}, false
	}
	return t.Tunnel(Event{Operation: Connect, PID: s.tgid(), Call: s.id, Address: to})
}

// connectThrough connects the socket to the proxy, and has the proxy connect it to the target, before the process can
// use the socket. So a program needs to know nothing of the proxy. If the proxy refuses, the socket is disconnected
// again.
func (s socketCall) connectThrough(t Tunnel) error {
	err := s.connectTo(t.Proxy)
	if err != nil {
		return err
	}
	if err = s.handshake(t); err != nil {
		disconnect := target{raw: make([]byte, unix.SizeofSockaddrInet4)} // AF_UNSPEC
		_ = disconnect.connect(s.socket)
	}
	return err
}

// connectTo connects the socket to an IPv4 address and waits for the connection, also if the socket does not block.
func (s socketCall) connectTo(to Address) error {
	domain, err := unix.GetsockoptInt(s.socket, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return err
	}
	var ip [4]byte
	for i, part := range strings.SplitN(to.Host, ".", len(ip)) {
		n, err := strconv.ParseUint(part, 10, 8)
		if err != nil {
			return unix.EINVAL
		}
		ip[i] = byte(n)
	}
	raw := make([]byte, unix.SizeofSockaddrInet4)
	if domain == unix.AF_INET6 { // IPv4-mapped
		raw = make([]byte, unix.SizeofSockaddrInet6)
		raw[18], raw[19] = 0xff, 0xff
		copy(raw[20:], ip[:])
		_ = unix.SetsockoptInt(s.socket, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0) // fails if the socket is bound, and connecting then fails
	} else {
		copy(raw[4:], ip[:])
	}
	binary.NativeEndian.PutUint16(raw, uint16(domain))
	binary.BigEndian.PutUint16(raw[2:], to.Port)
	_, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(s.socket), uintptr(unsafe.Pointer(&raw[0])), uintptr(len(raw)))
	if errno != unix.EINPROGRESS {
		return errnoOr(errno, nil)
	}
	if err := s.await(unix.POLLOUT, time.Now().Add(tunnelTimeout)); err != nil {
		return err
	}
	failed, err := unix.GetsockoptInt(s.socket, unix.SOL_SOCKET, unix.SO_ERROR)
	return errnoOr(unix.Errno(failed), err)
}

func errnoOr(errno unix.Errno, err error) error {
	if errno != 0 {
		return errno
	}
	return err
}

// handshake sends the request for a tunnel, and reads the answer. It reads no byte that follows the answer's header.
func (s socketCall) handshake(t Tunnel) error {
	deadline := time.Now().Add(tunnelTimeout)
	for request := []byte(t.Request); len(request) > 0; {
		n, err := unix.SendmsgN(s.socket, request, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		switch {
		case err == nil:
			request = request[n:]
		case !errors.Is(err, unix.EAGAIN):
			return err
		default:
			if err := s.await(unix.POLLOUT, deadline); err != nil {
				return err
			}
		}
	}
	header, err := s.readHeader(deadline)
	if err != nil {
		return err
	}
	status, text, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(string(header), "HTTP/1.1 "), "HTTP/1.0 "), " ")
	if status == "200" {
		return nil
	}
	text, _, _ = strings.Cut(text, "\r\n")
	s.decider.(Tunneler).TunnelRefused(s.tgid(), text)
	switch status {
	case "502":
		return unix.EHOSTUNREACH
	case "504":
		return unix.ETIMEDOUT
	}
	return unix.EACCES
}

// readHeader reads until the empty line that ends a header, and not further.
func (s socketCall) readHeader(deadline time.Time) ([]byte, error) {
	var header []byte
	buffer := make([]byte, maxTunnelHeader)
	for {
		n, _, err := unix.Recvfrom(s.socket, buffer, unix.MSG_PEEK|unix.MSG_DONTWAIT)
		if errors.Is(err, unix.EAGAIN) {
			if err := s.await(unix.POLLIN, deadline); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, unix.ECONNRESET
		}
		before := len(header)
		header = append(header, buffer[:n]...)
		end := bytes.Index(header, []byte("\r\n\r\n"))
		if end >= 0 {
			n, header = end+4-before, header[:end+4]
		}
		if _, err := io.ReadFull(socketReader(s.socket), buffer[:n]); err != nil {
			return nil, err
		}
		if end >= 0 {
			return header, nil
		}
		if len(header) > maxTunnelHeader {
			return nil, unix.EPROTO
		}
	}
}

// socketReader reads from a socket without blocking.
type socketReader int

func (r socketReader) Read(b []byte) (int, error) {
	n, _, err := unix.Recvfrom(int(r), b, unix.MSG_DONTWAIT)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return max(n, 0), err
}

// await waits until the socket is ready. It fails at the deadline, or when the process no longer waits for the call.
func (s socketCall) await(events int16, deadline time.Time) error {
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return unix.ETIMEDOUT
		}
		ready := []unix.PollFd{{Fd: int32(s.socket), Events: events}}
		n, err := unix.Poll(ready, int(min(left, validEvery)/time.Millisecond)+1)
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return err
		case n > 0:
			return nil
		case !s.valid():
			return unix.ECANCELED
		}
	}
}
