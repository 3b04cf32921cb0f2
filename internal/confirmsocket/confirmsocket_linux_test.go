package confirmsocket

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/proc"
)

// TestMain plays a caller if its arguments name a socket, or a server. The server rejects processes that it has started
// itself.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "listen" {
		l, name, err := Listen()
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(name)
		ctx, cancel := context.WithCancel(context.Background())
		go func() { _, _ = io.Copy(io.Discard, os.Stdin); cancel() }()
		Serve(ctx, l, func(context.Context, Request) Answer { return Answer{} }, func(error) {})
		return
	}
	if len(os.Args) == 3 && os.Args[1] == "call" {
		_, err := Call(context.Background(), os.Args[2], Request{List: true})
		switch {
		case errors.Is(err, unix.EPERM):
			fmt.Println("cannot connect")
		case err != nil:
			fmt.Println("refused:", err)
		default:
			fmt.Println("answered")
		}
		return
	}
	os.Exit(m.Run())
}

// serve listens until the test ends.
func serve(t *testing.T, handle Handler) string {
	t.Helper()
	l, name, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); Serve(ctx, l, handle, func(error) {}) }()
	t.Cleanup(func() { cancel(); <-done })
	return name
}

func TestCall_FindsAndAnswers(t *testing.T) {
	name := serve(t, func(_ context.Context, r Request) Answer {
		if r.End == "x" {
			return Answer{Error: "there is no x"}
		}
		return Answer{Browser: &Browser{Address: r.Code}}
	})
	names, err := Find()
	if err != nil || !slices.Contains(names, name) {
		t.Errorf("found %q (%v), want %q among them", names, err, name)
	}
	if a, err := Call(t.Context(), name, Request{Code: "c"}); err != nil || a.Browser.Address != "c" {
		t.Errorf("%+v (%v)", a, err)
	}
	if _, err := Call(t.Context(), name, Request{End: "x"}); err == nil || err.Error() != "there is no x" {
		t.Errorf("an error arrived as %v", err)
	}
}

func TestServer_RejectsAgents(t *testing.T) {
	if err := proc.ConfineSupported(); err != nil {
		t.Skip(err)
	}
	server := exec.Command(os.Args[0], "listen")
	in, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = server.Wait() })
	name, err := bufio.NewReader(out).ReadString('\n')
	if name = strings.TrimSpace(name); err != nil || name == "" {
		t.Fatalf("the server is called %q (%v)", name, err)
	}
	for what, c := range map[string]struct {
		walls proc.Confinement
		want  string
	}{
		"a Landlock domain": {proc.Confinement{NoSeccomp: true}, "cannot connect"},
		"a seccomp filter":  {proc.Confinement{NoLandlock: true}, "refused: this is for people"},
		"no wall":           {proc.Confinement{NoLandlock: true, NoSeccomp: true}, "answered"},
	} {
		var out []byte
		var err error
		cmd := exec.Command(os.Args[0], "call", name)
		_ = proc.Confine(c.walls, func(proc.Restrictions) error { out, err = cmd.Output(); return nil })
		if got := strings.TrimSpace(string(out)); err != nil || !strings.HasPrefix(got, c.want) {
			t.Errorf("behind %s: %q (%v), want %q", what, got, err, c.want)
		}
	}
}

func TestServer_CancelsRequestOfLostCaller(t *testing.T) {
	callerGone, leave := context.WithCancel(t.Context())
	defer leave()
	ended := make(chan struct{})
	name := serve(t, func(ctx context.Context, _ Request) Answer {
		defer close(ended)
		leave() // once it has been asked
		<-ctx.Done()
		return Answer{}
	})
	if _, err := Call(callerGone, name, Request{List: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("the caller got %v", err)
	}
	<-ended
}

func TestParse_FindsListeningSockets(t *testing.T) {
	list := `Num       RefCount Protocol Flags    Type St Inode Path
0000: 00000002 00000000 00010000 0001 01 1 @acphost-gatewayd/1000/7-A
0000: 00000003 00000000 00000000 0001 03 2 @acphost-gatewayd/1000/7-A
0000: 00000003 00000000 00000000 0001 03 3 @acphost-gatewayd/1000/8-B
0000: 00000002 00000000 00010000 0001 01 4 @acphost-gatewayd/1001/9-C
0000: 00000002 00000000 00010000 0001 01 5 /run/@acphost-gatewayd/1000/9-D
0000: 00000002 00000000 00010000 0001 01 6
`
	if got := parse(list, 1000); !slices.Equal(got, []string{"@acphost-gatewayd/1000/7-A"}) {
		t.Errorf("for a user: %q", got)
	}
	if got := parse(list, 0); !slices.Equal(got, []string{"@acphost-gatewayd/1000/7-A", "@acphost-gatewayd/1001/9-C"}) {
		t.Errorf("for root: %q", got)
	}
}
