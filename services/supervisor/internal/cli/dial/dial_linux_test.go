package dial

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/commandtest"
)

// pair is two ends of a unix socket that this process makes.
func pair(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs = os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return ours, theirs
}

// running is a call of "acphost dial" that has connected.
type running struct {
	conn   net.Conn
	file   *os.File // the same
	status chan int
	stderr func() string
}

func start(t *testing.T) *running {
	t.Helper()
	ours, theirs := pair(t)
	call := (&commandtest.Call{Env: commandtest.Play(t, &commandtest.Supervisor{PID: 11})}).New(t)
	call.Stdin, call.Stdout = theirs, theirs
	r := &running{file: ours, status: make(chan int, 1)}
	r.stderr = func() string {
		text, err := os.ReadFile(call.Stderr.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	go func() { r.status <- commandtest.Execute(t.Context(), call, New, []string{"dial"}) }()
	var err error
	if r.conn, err = net.FileConn(ours); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.conn.Close() })
	line := make([]byte, len("connected 11\n"))
	if _, err := io.ReadFull(r.conn, line); err != nil || string(line) != "connected 11\n" {
		t.Fatalf("got %q, %v: %s", line, err, r.stderr())
	}
	return r
}

func TestDial_ConnectsProgramToSupervisor(t *testing.T) {
	r := start(t)
	client, err := grpc.NewClient("passthrough:///dial", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return r.conn, nil }))
	if err != nil {
		t.Fatal(err)
	}
	got, err := supervisorv1.NewSupervisorStateServiceClient(client).GetStatus(t.Context(), &supervisorv1.GetStatusRequest{})
	if err != nil || got.GetPid() != 11 {
		t.Errorf("the supervisor returned %v, %v", got, err)
	}
	client.Close()
	r.file.Close()
	if status := <-r.status; status != 0 {
		t.Errorf("after the program has hung up: status %d: %s", status, r.stderr())
	}
}

func TestDial_RefusesDataOfOtherProcess(t *testing.T) {
	r := start(t)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "echo hello >&3")
	cmd.ExtraFiles = []*os.File{r.file}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if status := <-r.status; status != 1 || !strings.Contains(r.stderr(), "another process than the one that connected") {
		t.Errorf("status %d: %s", status, r.stderr())
	}
}

func TestDial_RefusesForeignSockets(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dialled, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer dialled.Close()
	tcp, err := dialled.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	_, socket := pair(t)
	for _, c := range []struct {
		name          string
		stdin, stdout *os.File
		want          string
	}{
		{"a pipe, which other processes can open", read, socket, "standard input is not a unix socket"},
		{"a pipe to write to", socket, write, "standard output is not a unix socket"},
		{"a connection over TCP", tcp, socket, "standard input is a tcp socket"},
	} {
		t.Run(c.name, func(t *testing.T) {
			call := (&commandtest.Call{Env: commandtest.Play(t, &commandtest.Supervisor{PID: 11})}).New(t)
			call.Stdin, call.Stdout = c.stdin, c.stdout
			status := commandtest.Execute(t.Context(), call, New, []string{"dial"})
			stderr, err := os.ReadFile(call.Stderr.Name())
			if err != nil {
				t.Fatal(err)
			}
			if status != 1 || !strings.Contains(string(stderr), c.want) {
				t.Errorf("status %d: %s", status, stderr)
			}
		})
	}
}

// An agent could make the sockets, leave them to a program that starts the command for it, and end.
func TestDial_RefusesSocketOfEndedProcess(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 makes the socket, and is not installed")
	}
	ours, theirs := pair(t)
	maker := exec.CommandContext(t.Context(), "python3", "-c", `
import array, socket
a, b = socket.socketpair()
socket.socket(fileno=3).sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [a.fileno(), b.fileno()]))])
`)
	maker.ExtraFiles = []*os.File{theirs}
	if out, err := maker.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	room := make([]byte, unix.CmsgSpace(8))
	_, n, _, _, err := unix.Recvmsg(int(ours.Fd()), make([]byte, 1), room, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	messages, err := unix.ParseSocketControlMessage(room[:n])
	if err != nil || len(messages) != 1 {
		t.Fatal(err, messages)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		defer unix.Close(fd)
	}
	call := (&commandtest.Call{Env: commandtest.Play(t, &commandtest.Supervisor{PID: 11})}).New(t)
	call.Stdin = os.NewFile(uintptr(fds[0]), "left")
	call.Stdout = call.Stdin
	status := commandtest.Execute(t.Context(), call, New, []string{"dial"})
	stderr, err := os.ReadFile(call.Stderr.Name())
	if err != nil {
		t.Fatal(err)
	}
	if status != 1 || !strings.Contains(string(stderr), "cannot determine whether an agent connects") {
		t.Errorf("status %d: %s", status, stderr)
	}
}
