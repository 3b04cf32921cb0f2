//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/testkit"
)

// connects tries to reach each of the addresses, and prints what it reached.
func connects(allowed, denied, tcp, udp string) {
	tell := func(name string, err error) {
		if err == nil {
			fmt.Println(name)
		}
	}
	dial := func(network, address string) error {
		c, err := net.DialTimeout(network, address, testkit.Timeout())
		if err == nil {
			c.Close()
		}
		return err
	}
	tell("(unix)", dial("unix", allowed))
	tell("unix", dial("unix", denied))
	link := filepath.Join(filepath.Dir(allowed), "link")
	tell("(symlink)", os.Symlink(denied, link))
	tell("unix by a link", dial("unix", link))
	tell("tcp", dial("tcp", tcp))
	blocking := func(kind int) (int, error) { return unix.Socket(unix.AF_INET, kind, 0) }
	to := func(address string) unix.Sockaddr {
		at := netip.MustParseAddrPort(address)
		return &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
	}
	if s, err := blocking(unix.SOCK_STREAM); err == nil {
		tell("tcp that waits", unix.Connect(s, to(tcp)))
		tell("tcp while sending", unix.Sendto(s, []byte("x"), unix.MSG_FASTOPEN, to(tcp)))
		_, err := unix.SendmsgN(s, []byte("x"), nil, to(tcp), unix.MSG_FASTOPEN)
		tell("tcp while sending a message", err)
	}
	if s, err := blocking(unix.SOCK_DGRAM); err == nil {
		fmt.Println("a socket for datagrams")
		tell("udp", unix.Connect(s, to(udp)))
		tell("udp without a connection", unix.Sendto(s, []byte("x"), 0, to(udp)))
		raw := *(*[16]byte)(unsafe.Pointer(&unix.RawSockaddrInet4{Port: uint16(to(udp).(*unix.SockaddrInet4).Port)}))
		raw[0], raw[1] = unix.AF_UNSPEC, 0
		_, _, errno := unix.Syscall6(unix.SYS_SENDTO, uintptr(s), uintptr(unsafe.Pointer(&raw[0])), 1, 0, uintptr(unsafe.Pointer(&raw[0])), 16)
		if errno == 0 {
			fmt.Println("udp to an address of no family")
		}
	}
	if _, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0); err == nil {
		fmt.Println("a socket for packets")
	}
	l, err := net.Listen("unix", "@acphost-sandbox-"+fmt.Sprint(os.Getpid()))
	tell("(a name that is no path)", err)
	if err == nil {
		tell("(to such a name)", dial("unix", l.Addr().String()))
		if s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0); err == nil {
			tell("(to such a name, waiting)", unix.Connect(s, &unix.SockaddrUnix{Name: l.Addr().String()}))
		}
	}
	tell("such a name outside", dial("unix", "@"+denied))
	tell("(exchanged)", exchanged(allowed, denied))
}

// exchanged connects while another thread exchanges the address for that of a socket that is denied, and sends a byte
// each time.
func exchanged(allowed, denied string) error {
	address := make([]byte, 110)
	address[0] = unix.AF_UNIX
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; !stop.Load(); i++ {
			copy(address[2:], []string{allowed, denied}[i%2])
		}
	})
	var result error
	for range 2000 {
		s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			result = err
			break
		}
		_, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(s), uintptr(unsafe.Pointer(&address[0])), uintptr(len(address)))
		if errno == 0 {
			_, _ = unix.Write(s, []byte("x"))
		}
		unix.Close(s)
	}
	stop.Store(true)
	wg.Wait()
	return result
}

// listening counts the bytes that a socket gets.
func listening(t *testing.T, network, address string) (at string, got *atomic.Int64) {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	got = &atomic.Int64{}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				n, _ := c.Read(make([]byte, 1))
				got.Add(int64(n))
				_ = c.Close()
			}()
		}
	}()
	return l.Addr().String(), got
}

const reachable = "(unix)\n(symlink)\n(a name that is no path)\n(to such a name)\n(to such a name, waiting)\n(exchanged)"

func TestSocket_ReachesOnlyAllowedAddresses(t *testing.T) {
	y := newYard(t)
	allowed, denied := filepath.Join(y.inside, "a"), filepath.Join(y.outside, "socket")
	allowed += strings.Repeat("a", len(denied)-len(allowed))
	_, gotAllowed := listening(t, "unix", allowed)
	_, gotDenied := listening(t, "unix", denied)
	tcp, gotTCP := listening(t, "tcp", "127.0.0.1:0")
	listening(t, "unix", "@"+denied)
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	y.flags = []string{"--deny-connect", y.outside, "--no-internet"}
	got := run(t, y.attack(t, "connect", allowed, denied, tcp, udp.LocalAddr().String()))
	if got != reachable {
		t.Errorf("the attacker reached\n%s\nwant\n%s", got, reachable)
	}
	if gotDenied.Load() != 0 || gotTCP.Load() != 0 || gotAllowed.Load() == 0 {
		t.Errorf("got %d bytes at the denied socket, %d over TCP, %d at the allowed one; want 0, 0, and some",
			gotDenied.Load(), gotTCP.Load(), gotAllowed.Load())
	}
	if err := os.Remove(denied); err != nil {
		t.Fatal(err)
	}
	y.untouched(t)
}

func TestSocket_InternetWorks(t *testing.T) {
	y := newYard(t)
	allowed, denied := filepath.Join(y.inside, "a"), filepath.Join(y.outside, "b")
	listening(t, "unix", allowed)
	listening(t, "unix", denied)
	tcp, _ := listening(t, "tcp", "127.0.0.1:0")
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	got := run(t, y.attack(t, "connect", allowed, denied, tcp, udp.LocalAddr().String()))
	for _, want := range []string{"unix", "unix by a link", "tcp", "tcp that waits", "udp", "udp without a connection"} {
		if !strings.Contains("\n"+got+"\n", "\n"+want+"\n") {
			t.Errorf("%q was not possible; got\n%s", want, got)
		}
	}
	if strings.Contains(got, "tcp while sending") || strings.Contains(got, "of no family") {
		t.Errorf("the attacker reached an address that nobody decided on:\n%s", got)
	}
}
