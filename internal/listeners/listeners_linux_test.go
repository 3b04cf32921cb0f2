package listeners

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
)

func TestBelong_FindsListeningProcess(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := uint16(listener.Addr().(*net.TCPAddr).Port)
	expect := func(pid int, want bool) {
		t.Helper()
		if got, err := Belong(port, pid); err != nil || got != want {
			t.Errorf("process %d: %v, %v, want %v", pid, got, err, want)
		}
	}
	expect(os.Getpid(), true)
	expect(1<<30, false) // no such process
	if os.Getppid() > 1 {
		expect(os.Getppid(), true)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	expect(os.Getpid(), false)
}

func TestList_HasAddressAndProcess(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0", "0.0.0.0:0"} {
		t.Run(at, func(t *testing.T) {
			listener, err := net.Listen("tcp4", at)
			if err != nil {
				listener, err = net.Listen("tcp6", at)
			}
			if err != nil {
				t.Skipf("this machine has no such address: %v", err)
			}
			want := Listener{listener.Addr().(*net.TCPAddr).AddrPort(), os.Getpid()}
			want.Address = netip.AddrPortFrom(want.Address.Addr().Unmap(), want.Address.Port())
			if got, err := List(os.Getpid()); err != nil || !slices.Contains(got, want) {
				t.Errorf("got %v, %v, want %v in it", got, err, want)
			}
			if err := listener.Close(); err != nil {
				t.Fatal(err)
			}
			if got, err := List(os.Getpid()); err != nil || slices.Contains(got, want) {
				t.Errorf("after its end: got %v, %v, want it without %v", got, err, want)
			}
		})
	}
}
