package admin_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
	"github.com/acphost/acphost/services/supervisor/internal/agent"
)

// play is what a process of a test does.
func play(role string, args []string) (exit int, ok bool) {
	switch role {
	case "guard":
		return agent.Guard(args), true
	case "supervisor":
		return playSupervisor(args[0], args[1]), true
	case "call":
		fmt.Println(try(args[0]))
		return 0, true
	case "call-on-fd":
		return playCallOnFD(), true
	case "leave":
		return playLeave(args[0]), true
	case "descends":
		from, err := admin.FromAgent(os.Getpid())
		fmt.Println(from, err)
		return 0, true
	case "shell": // which stays above what it runs
		cmd := exec.Command("sh", "-c", args[0])
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if cmd.Run() != nil {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// playSupervisor serves a socket and runs a script as an agent, whose output is its own, until its stdin ends.
func playSupervisor(socket, script string) int {
	s, err := admin.Start(admin.Options{State: fake{pid: int64(os.Getpid())}, Control: obedient{}, Socket: socket})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer s.Stop()
	if script == "" {
		fmt.Println("serving")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	}
	p, err := agent.Start(agent.Spec{
		Name: "test", Command: []string{"sh", "-c", script}, Guard: []string{"/proc/self/exe", "guard"},
		StopGrace: 100 * time.Millisecond, Stderr: os.Stderr,
	})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	_, _ = io.Copy(os.Stdout, p.Stdout())
	_ = p.Stop(context.Background())
	_ = p.Stdout().Close()
	return 0
}

// obedient does whatever it is told.
type obedient struct{}

func (obedient) RestartHandler(context.Context, *supervisorv1.RestartHandlerRequest) (*supervisorv1.RestartHandlerResponse, error) {
	return &supervisorv1.RestartHandlerResponse{}, nil
}

func (obedient) SwapHandler(context.Context, *supervisorv1.SwapHandlerRequest) (*supervisorv1.SwapHandlerResponse, error) {
	return &supervisorv1.SwapHandlerResponse{}, nil
}

func (obedient) ReloadPolicy(context.Context, *supervisorv1.ReloadPolicyRequest) (*supervisorv1.ReloadPolicyResponse, error) {
	return &supervisorv1.ReloadPolicyResponse{}, nil
}

func (obedient) RevokeGrants(context.Context, *supervisorv1.RevokeGrantsRequest) (*supervisorv1.RevokeGrantsResponse, error) {
	return &supervisorv1.RevokeGrantsResponse{}, nil
}

// What callers get.
const (
	allowed = "state OK, verbs OK OK OK OK"
	refused = "state OK, verbs PermissionDenied PermissionDenied PermissionDenied PermissionDenied"
)

// try reads the state at a socket and calls every verb.
func try(socket string) string {
	conn, err := admin.Dial(socket)
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	return tryOn(conn)
}

func tryOn(conn *grpc.ClientConn) string {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_, err := supervisorv1.NewSupervisorStateServiceClient(conn).GetStatus(ctx, &supervisorv1.GetStatusRequest{})
	c := supervisorv1.NewSupervisorControlServiceClient(conn)
	var verbs []string
	add := func(err error) { verbs = append(verbs, status.Code(err).String()) }
	_, e := c.RestartHandler(ctx, &supervisorv1.RestartHandlerRequest{Name: "x"})
	add(e)
	_, e = c.SwapHandler(ctx, &supervisorv1.SwapHandlerRequest{Name: "x", Command: []string{"/x"}})
	add(e)
	_, e = c.ReloadPolicy(ctx, &supervisorv1.ReloadPolicyRequest{})
	add(e)
	_, e = c.RevokeGrants(ctx, &supervisorv1.RevokeGrantsRequest{Ids: []string{"x"}})
	add(e)
	return fmt.Sprintf("state %s, verbs %s", status.Code(err), strings.Join(verbs, " "))
}

// playLeave connects, leaves the connection to a child, and ends.
func playLeave(socket string) int {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return 1
	}
	file, err := conn.(*net.UnixConn).File()
	if err != nil {
		return 1
	}
	cmd := exec.Command("/proc/self/exe", "call-on-fd")
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = os.Stdout, os.Stderr, []*os.File{file}
	in, err := cmd.StdinPipe()
	if err != nil {
		return 1
	}
	_ = in // open until this process ends
	if cmd.Start() != nil {
		return 1
	}
	return 0
}

// playCallOnFD calls on the connection that it inherited, when its parent has ended.
func playCallOnFD() int {
	_, _ = io.Copy(io.Discard, os.Stdin)
	file := os.NewFile(3, "inherited")
	inherited, err := net.FileConn(file)
	if err != nil {
		return 1
	}
	_ = file.Close()
	used := false
	conn, err := grpc.NewClient("passthrough:///inherited", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			if used {
				return nil, status.Error(codes.Unavailable, "it is used up")
			}
			used = true
			return inherited, nil
		}))
	if err != nil {
		return 1
	}
	fmt.Println(tryOn(conn))
	_ = conn.Close()
	return 0
}
