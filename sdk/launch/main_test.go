package launch_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/go-plugin"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/acphost/acphost/internal/testkit"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	"github.com/acphost/acphost/sdk/handler"
	"github.com/acphost/acphost/sdk/launch"
)

// role is the variable that selects the process that the test binary plays when a test starts it.
const role = "ACPHOST_TEST_ROLE"

// noSleep keeps the race detector from sleeping for a second before a process exits.
const noSleep = "GORACE=atexit_sleep_ms=0"

func TestMain(m *testing.M) {
	if r := os.Getenv(role); r != "" {
		play(r)
		return
	}
	goleak.VerifyTestMain(m)
}

// play is the handlers, good and bad, and the hosts that tests start.
func play(r string) {
	name, argument, _ := strings.Cut(r, ":")
	switch name {
	case "handler":
		handler.Main(testHandler())
	case "noisy":
		for _, line := range strings.Split(os.Getenv("LINES"), "\n") {
			fmt.Fprintln(os.Stderr, line)
		}
		handler.Main(testHandler())
	case "go-plugin":
		plugin.Serve(&plugin.ServeConfig{
			HandshakeConfig: plugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: launch.CookieKey, MagicCookieValue: os.Getenv(launch.CookieKey)},
			Plugins:         plugin.PluginSet{"test": echoPlugin{}},
			GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
				return grpc.NewServer(append(opts, grpc.UnaryInterceptor(plainly))...)
			},
		})
	case "garbage":
		fmt.Fprintln(os.Stderr, "a last word")
		fmt.Println("Hello, I am not a handler")
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "endless":
		chunk := strings.Repeat("x", 4096)
		for {
			if _, err := os.Stdout.WriteString(chunk); err != nil {
				return
			}
		}
	case "line":
		fmt.Println(argument)
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "exit":
		fmt.Fprintln(os.Stderr, "a last word")
		os.Exit(3)
	case "silent":
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "stubborn": // a handler that does not end when asked to
		h := testHandler()
		h.Close = func() {
			signal.Ignore(syscall.SIGTERM)
			select {}
		}
		handler.Main(h)
	case "lastwords": // gives everything back, and logs while it does
		h := testHandler()
		h.Close = func() {
			for range 100 {
				slog.Warn("closing")
				h.Logger.Warn("closing")
				fmt.Fprintln(os.Stderr, "closing")
			}
			_ = os.WriteFile(argument, []byte("closed"), 0o600)
		}
		h.Logger = handler.Logger()
		handler.Main(h)
	case "parent": // leaves a grandchild that holds stderr, and dies
		grandchild := exec.Command("/bin/sleep", "600")
		grandchild.Stderr = os.Stderr
		_ = grandchild.Start()
		fmt.Fprintln(os.Stderr, "grandchild", grandchild.Process.Pid)
		os.Exit(4)
	case "host": // a host of one handler, which prints the handler's pid
		i, err := launch.Start(context.Background(), launch.Spec{
			Name: "test", Command: self(), Env: []string{role + "=" + argument, noSleep},
		})
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		fmt.Println(i.PID())
		select {}
	default:
		panic("no such role: " + r)
	}
}

// echoPlugin is served by go-plugin alone.
type echoPlugin struct{ plugin.NetRPCUnsupportedPlugin }

func (echoPlugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	stdout := os.Stdout
	os.Stdout = os.Stderr // testHandler prints
	testHandler().Register(s)
	os.Stdout = stdout
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	return nil
}

func plainly(ctx context.Context, req any, _ *grpc.UnaryServerInfo, call grpc.UnaryHandler) (any, error) {
	return call(ctx, req)
}

func (echoPlugin) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.ErrUnsupported
}

// testHandler answers /test.Echo/Echo with what it gets, in a string of any size.
func testHandler() handler.Handler {
	return handler.Handler{
		Name: "test", Version: "1.0",
		Register: func(s grpc.ServiceRegistrar) {
			fmt.Println("a stray print while services are registered")
			s.RegisterService(&grpc.ServiceDesc{
				ServiceName: "test.Echo", HandlerType: (*any)(nil),
				Methods: []grpc.MethodDesc{{MethodName: "Echo", Handler: echo}},
			}, nil)
		},
		Configure: func(_ context.Context, req *pluginv1.ConfigureRequest) ([]string, error) {
			if text := req.GetSettings().GetFields()["print"].GetStringValue(); text != "" {
				fmt.Println(text)
				slog.Error("through the old logger")
			}
			return req.GetHost().GetProtectedPaths(), nil
		},
	}
}

func echo(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
	in := new(wrapperspb.StringValue)
	if err := decode(in); err != nil {
		return nil, err
	}
	return intercept(ctx, in, &grpc.UnaryServerInfo{FullMethod: "/test.Echo/Echo"},
		func(ctx context.Context, req any) (any, error) {
			switch word, argument, _ := strings.Cut(in.GetValue(), " "); word {
			case "hang":
				<-ctx.Done()
				return nil, ctx.Err()
			case "exit":
				status, _ := strconv.Atoi(argument)
				handler.Logger().Error("cannot go on", "error", errors.New("the disk is gone"))
				os.Exit(status)
			case "panic":
				panic("on purpose")
			case "read": // a file, which may be a pipe
				text, err := os.ReadFile(argument)
				return wrapperspb.String(string(text)), err
			case "env":
				return wrapperspb.String(strings.Join(os.Environ(), "\n")), nil
			}
			return req, nil
		})
}

func self() []string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return []string{path}
}

// spec is a child that plays r.
func spec(r string, env ...string) launch.Spec {
	return launch.Spec{Name: "test", Command: self(), Env: append(env, role+"="+r, noSleep)}
}

// start starts a handler and stops it with the test.
func start(t *testing.T, s launch.Spec) *launch.Instance {
	t.Helper()
	i, err := launch.Start(t.Context(), s)
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout())
		defer cancel()
		if err := i.Stop(ctx); err != nil {
			t.Errorf("Stop: %v", err)
		}
	})
	return i
}

func callEcho(ctx context.Context, i grpc.ClientConnInterface, text string) (string, error) {
	out := new(wrapperspb.StringValue)
	err := i.Invoke(ctx, "/test.Echo/Echo", wrapperspb.String(text), out)
	return out.GetValue(), err
}

func configure(t *testing.T, i grpc.ClientConnInterface, settings map[string]any) {
	t.Helper()
	s, err := structpb.NewStruct(settings)
	if err != nil {
		t.Fatal(err)
	}
	req := &pluginv1.ConfigureRequest{Settings: s}
	if _, err := pluginv1.NewPluginServiceClient(i).Configure(t.Context(), req); err != nil {
		t.Fatalf("Configure: %v", err)
	}
}

// within fails the test if ch is not closed in time.
func within(t *testing.T, ch <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-ch:
	case <-testkit.After():
		t.Fatalf("%s: not within %s", what, testkit.Timeout())
	}
}

// alive reports whether pid is a process that is not a zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	return fields[0] != "Z" && fields[0] != "X"
}

func readPID(t *testing.T, r io.Reader) int {
	t.Helper()
	line, err := bufio.NewReader(r).ReadString('\n')
	pid, convErr := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || convErr != nil {
		t.Fatalf("a pid was expected, got %q (%v)", line, err)
	}
	return pid
}
