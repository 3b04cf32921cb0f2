package peer

import (
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/testkit"
)

// TestMain plays the process that connects. As "guard" it starts itself again, as the guard of an agent does.
func TestMain(m *testing.M) {
	switch to := os.Getenv("PEER_TEST_CONNECT"); {
	case to == "":
		os.Exit(m.Run())
	case os.Getenv("PEER_TEST_GUARD") != "":
		self, _ := os.Executable()
		child := exec.Command(self)
		child.Env = []string{"PEER_TEST_CONNECT=" + to}
		child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
		if err := child.Run(); err != nil {
			os.Exit(1)
		}
	default:
		conn, err := net.Dial("tcp", to)
		if err != nil {
			os.Exit(1)
		}
		_, _ = io.Copy(io.Discard, os.Stdin) // until the test has looked
		_ = conn.Close()
	}
}

func TestNoPersonTCP_FindsConnectedProcess(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("%s is not tried: %v", address, err)
			continue
		}
		defer func() { _ = l.Close() }()
		for name, tt := range map[string]struct {
			args []string
			env  string
			want string
		}{
			"a person's program":     {[]string{self}, "X=", ""},
			"below an agent's guard": {[]string{self, "guard"}, "PEER_TEST_GUARD=1", "the guard of an agent"},
			"below a supervisor":     {[]string{"acphost", "serve"}, "PEER_TEST_GUARD=1", "a supervisor"},
			"below a handler":        {[]string{"termd"}, "PEER_TEST_GUARD=1", "a handler"},
		} {
			t.Run(name+" to "+address, func(t *testing.T) {
				cmd := &exec.Cmd{Path: self, Args: tt.args, Env: []string{"PEER_TEST_CONNECT=" + l.Addr().String(), tt.env}}
				hold, err := cmd.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				defer func() { _ = hold.Close(); _ = cmd.Wait() }()
				_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(testkit.Timeout()))
				conn, err := l.Accept()
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = conn.Close() }()
				end := func(a net.Addr) netip.AddrPort { return a.(*net.TCPAddr).AddrPort() }
				// The test may itself run below something of acphost's: it asks as a process that has nothing to do
				// with it.
				above, err := Descent(os.Getpid(), 0)
				if err != nil || above != "" {
					t.Skipf("this test runs below what is looked for: %s %v", above, err)
				}
				why, err := NoPersonTCP(end(conn.LocalAddr()), end(conn.RemoteAddr()), 0)
				if err != nil || (why == "") != (tt.want == "") || !strings.Contains(why, tt.want) {
					t.Errorf("got %q, %v, want %q", why, err, tt.want)
				}
			})
		}
	}
}

func TestNoPersonTCP_ReportsUnknownProcess(t *testing.T) {
	at := netip.MustParseAddrPort("127.0.0.1:1")
	if why, err := NoPersonTCP(at, netip.MustParseAddrPort("127.0.0.1:2"), os.Getpid()); err == nil {
		t.Errorf("got %q of a connection that is not there", why)
	}
	if why, err := NoPersonTCP(at, netip.MustParseAddrPort("192.0.2.1:2"), os.Getpid()); why != "" || err != nil {
		t.Errorf("another machine: got %q, %v", why, err)
	}
}
