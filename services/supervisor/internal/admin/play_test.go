package admin_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/acphost/acphost/internal/peer"
	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/agent"
)

// play runs the role of a test's process.
func play(role string, args []string) (exit int, ok bool) {
	switch role {
	case "supervisor":
		return playSupervisor(args[0], args[1]), true
	case "call":
		fmt.Println(try(args[0]))
		return 0, true
	case "decisions":
		fmt.Println(seeDecisions(args[0]))
		return 0, true
	case "connect":
		fmt.Println(playConnect(args[0]))
		return 0, true
	case "hand":
		return playHand(args[0]), true
	case "pass":
		return playPass(args[0]), true
	case "hold-fd":
		fmt.Println("serving")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0, true
	case "call-on-fd":
		return playCallOnFD(), true
	case "leave":
		return playLeave(args[0]), true
	case "descends":
		from, err := peer.FromAgent(os.Getpid())
		fmt.Println(from, err)
		return 0, true
	case "shell", "run", "demo", "serve", "prompt", "chat": // which stay above what they run
		cmd := exec.Command("sh", "-c", args[0])
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if cmd.Run() != nil {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// playSupervisor serves a socket and runs a script as an agent, with its own stdout and stderr, until its stdin ends.
func playSupervisor(socket, script string) int {
	s, err := admin.Start(admin.Options{
		State: fake{pid: int64(os.Getpid())}, Control: obedient{}, Agents: willing{}, Sessions: willing{}, Gateway: willing{}, Events: willing{}, Files: willing{}, Approvals: willing{}, Decisions: willing{},
		Socket: socket, Env: runtimeDir(filepath.Dir(socket)),
	})
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

// obedient accepts every call.
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

// willing has agents, sessions and questions, as far as calls with empty requests get to them.
type willing struct {
	admin.Agents
	admin.Sessions
}

func (willing) ListAgents(context.Context, *supervisorv1.ListAgentsRequest) (*supervisorv1.ListAgentsResponse, error) {
	return &supervisorv1.ListAgentsResponse{}, nil
}

func (willing) WatchEvents(context.Context, string, int, func([]event.Encoded) error) error {
	return nil
}

func (willing) OpenAgent(context.Context, *supervisorv1.GatewayOpen, io.Reader, io.Writer, func(*supervisorv1.Agent) error) error {
	return nil
}

func (willing) ListFiles(context.Context, *supervisorv1.ListFilesRequest) (*supervisorv1.ListFilesResponse, error) {
	return &supervisorv1.ListFilesResponse{}, nil
}

func (willing) WatchFiles(context.Context, *supervisorv1.WatchFilesRequest, func(*supervisorv1.WatchFilesResponse) error) error {
	return nil
}

func (willing) WatchSession(context.Context, *supervisorv1.WatchSessionRequest, func(*supervisorv1.Event) error) error {
	return nil
}

func (willing) WatchDecisions(context.Context, *supervisorv1.WatchDecisionsRequest, func(*supervisorv1.WatchDecisionsResponse) error) error {
	return nil
}

func (willing) ReplayPolicy(context.Context, *supervisorv1.ReplayPolicyRequest) (*supervisorv1.ReplayPolicyResponse, error) {
	return nil, nil
}

func (willing) ListApprovals(string) []*supervisorv1.Approval { return nil }

func (willing) WatchApprovals(context.Context, *supervisorv1.WatchApprovalsRequest, func(*supervisorv1.WatchApprovalsResponse) error) error {
	return nil
}

func (willing) ID(string) string { return "" }

func (willing) AnswerApproval(context.Context, *supervisorv1.AnswerApprovalRequest) (*supervisorv1.ApprovalAnswer, error) {
	return nil, nil
}

// The results of callers.
const (
	allowed = "reads taken, verbs taken"
	refused = "reads taken, verbs refused"
)

// try calls everything that a socket serves.
func try(socket string) string {
	conn, err := client.Supervisor{Socket: socket}.Dial()
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	return tryOn(conn)
}

// seeDecisions requests decisions from a read-only socket, and returns the code of the result.
func seeDecisions(socket string) codes.Code {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return codes.Unknown
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout())
	defer cancel()
	stream, err := supervisorv1.NewDecisionServiceClient(conn).WatchDecisions(ctx, &supervisorv1.WatchDecisionsRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if errors.Is(err, io.EOF) {
		return codes.OK
	}
	return status.Code(err)
}

// tryOn reports the results of reads and of verbs. Decisions are not among the reads: agents may not read them. A verb
// was accepted if its error is about a missing field of the request.
func tryOn(conn grpc.ClientConnInterface) string {
	got := map[bool][]string{} // by whether it is a verb
	callAll(conn, func(m protoreflect.MethodDescriptor, verb bool, err error) {
		if m.Name() == "WatchDecisions" {
			return
		}
		word := "taken"
		switch code := status.Code(err); code {
		case codes.PermissionDenied:
			word = "refused"
		case codes.OK, codes.InvalidArgument:
		default:
			word = fmt.Sprintf("%s: %v", m.FullName(), err)
		}
		if !slices.Contains(got[verb], word) {
			got[verb] = append(got[verb], word)
		}
	})
	return fmt.Sprintf("reads %s, verbs %s", strings.Join(got[false], " "), strings.Join(got[true], " "))
}

// callAll calls every method of every service that there is, by the descriptors, with an empty request, and those that
// can only look a second time, so.
func callAll(conn grpc.ClientConnInterface, tell func(m protoreflect.MethodDescriptor, verb bool, err error)) {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout())
	defer cancel()
	protoregistry.GlobalFiles.RangeFilesByPackage("acphost.supervisor.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			methods := f.Services().Get(i).Methods()
			for j := range methods.Len() {
				m := methods.Get(j)
				options, _ := m.Options().(*descriptorpb.MethodOptions)
				verb := options.GetIdempotencyLevel() != descriptorpb.MethodOptions_NO_SIDE_EFFECTS
				req := dynamicpb.NewMessage(m.Input())
				tell(m, verb, invoke(ctx, conn, m, req))
				if look := m.Input().Fields().ByName("only_look"); look != nil {
					req.Set(look, protoreflect.ValueOfBool(true))
					tell(m, false, invoke(ctx, conn, m, req))
				}
			}
		}
		return true
	})
}

// invoke calls a method and returns the error that it ends with.
func invoke(ctx context.Context, conn grpc.ClientConnInterface, m protoreflect.MethodDescriptor, req proto.Message) error {
	name := fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name())
	if !m.IsStreamingServer() {
		return conn.Invoke(ctx, name, req, dynamicpb.NewMessage(m.Output()))
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, name)
	if err != nil {
		return err
	}
	_ = stream.SendMsg(req) // the reason is in the error of the end
	_ = stream.CloseSend()
	for {
		switch err := stream.RecvMsg(dynamicpb.NewMessage(m.Output())); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// playConnect prints the result of a connection attempt.
func playConnect(address string) string {
	conn, err := net.Dial("unix", address)
	var errno syscall.Errno
	switch {
	case errors.As(err, &errno):
		return errno.Error()
	case err != nil:
		return err.Error()
	}
	_ = conn.Close()
	return "ok"
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

// playHand connects, has a child call on the connection, and waits for it.
func playHand(address string) int {
	conn, err := net.Dial("unix", address)
	if err != nil {
		return 1
	}
	file, err := conn.(*net.UnixConn).File()
	if err != nil {
		return 1
	}
	cmd := exec.Command("/proc/self/exe", "call-on-fd")
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = os.Stdout, os.Stderr, []*os.File{file}
	if cmd.Run() != nil {
		return 1
	}
	return 0
}

// playPass listens, leaves the socket to a child and ends.
func playPass(socket string) int {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	listener.SetUnlinkOnClose(false)
	file, err := listener.File()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	cmd := exec.Command("/proc/self/exe", "hold-fd")
	cmd.Stdin, cmd.Stdout, cmd.ExtraFiles = os.Stdin, os.Stdout, []*os.File{file}
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}
