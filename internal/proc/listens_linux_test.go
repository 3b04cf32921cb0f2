package proc

import (
	"net"
	"os"
	"testing"
)

func TestListensAlone_FindsListeningProcess(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := uint16(listener.Addr().(*net.TCPAddr).Port)
	expect := func(pid int, want bool) {
		t.Helper()
		if got, err := ListensAlone(port, pid); err != nil || got != want {
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
