package admin

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/acphost/acphost/internal/connlimit"
	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// panickingSessions panics in every method (its Sessions is nil) but in prompts of the session "other", which take
// their turn until finish is closed.
type panickingSessions struct {
	Sessions
	running chan struct{} // closed when the turn has begun
	finish  chan struct{}
}

func (p panickingSessions) Prompt(ctx context.Context, req *supervisorv1.PromptRequest, send func(*supervisorv1.Event) error) error {
	if req.GetSessionId() != "other" {
		panic("injected")
	}
	close(p.running)
	select {
	case <-p.finish:
		return send(&supervisorv1.Event{SessionId: "other"})
	case <-ctx.Done():
		return ctx.Err()
	}
}

// panicking implements what the server serves, and panics in every method: its interfaces are nil.
type panicking struct {
	Agents
	Gateway
	Events
	Files
	Approvals
	Decisions
	Control
}

// validRequests has a request of every method that passes the checks of requests.
func validRequests() map[string]proto.Message {
	return map[string]proto.Message{
		"AgentService/StartAgent":   &supervisorv1.StartAgentRequest{Command: []string{"/bin/agent"}},
		"AgentService/StopAgent":    &supervisorv1.StopAgentRequest{AgentId: "a"},
		"AgentService/RestartAgent": &supervisorv1.RestartAgentRequest{AgentId: "a"},
		"AgentService/ListAgents":   &supervisorv1.ListAgentsRequest{},
		"AgentService/GetAgent":     &supervisorv1.GetAgentRequest{AgentId: "a"},
		"AgentService/Authenticate": &supervisorv1.AuthenticateRequest{AgentId: "a", MethodId: "m"},
		"AgentService/Logout":       &supervisorv1.LogoutRequest{AgentId: "a"},

		"ApprovalService/ListApprovals":  &supervisorv1.ListApprovalsRequest{},
		"ApprovalService/WatchApprovals": &supervisorv1.WatchApprovalsRequest{},
		"ApprovalService/AnswerApproval": &supervisorv1.AnswerApprovalRequest{Id: "x", Answer: &supervisorv1.AnswerApprovalRequest_Cancel{Cancel: true}},

		"SupervisorControlService/RestartHandler": &supervisorv1.RestartHandlerRequest{Name: "fs"},
		"SupervisorControlService/SwapHandler":    &supervisorv1.SwapHandlerRequest{Name: "fs", Command: []string{"/bin/fsd"}, Sha256: strings.Repeat("0", 64)},
		"SupervisorControlService/ReloadPolicy":   &supervisorv1.ReloadPolicyRequest{},
		"SupervisorControlService/RevokeGrants":   &supervisorv1.RevokeGrantsRequest{Ids: []string{"abcdefgh"}},

		"DecisionService/WatchDecisions": &supervisorv1.WatchDecisionsRequest{},
		"DecisionService/ReplayPolicy":   &supervisorv1.ReplayPolicyRequest{Policy: []byte("workspace")},

		"GatewayService/OpenAgent": &supervisorv1.OpenAgentRequest{Part: &supervisorv1.OpenAgentRequest_Open{Open: &supervisorv1.GatewayOpen{}}},

		"SessionService/NewSession":         &supervisorv1.NewSessionRequest{AgentId: "a", Cwd: "/w"},
		"SessionService/LoadSession":        &supervisorv1.LoadSessionRequest{AgentId: "a", SessionId: "s", Cwd: "/w"},
		"SessionService/ResumeSession":      &supervisorv1.ResumeSessionRequest{AgentId: "a", SessionId: "s", Cwd: "/w"},
		"SessionService/ForkSession":        &supervisorv1.ForkSessionRequest{SessionId: "s"},
		"SessionService/ListStoredSessions": &supervisorv1.ListStoredSessionsRequest{AgentId: "a"},
		"SessionService/CloseSession":       &supervisorv1.CloseSessionRequest{SessionId: "s"},
		"SessionService/DeleteSession":      &supervisorv1.DeleteSessionRequest{AgentId: "a", SessionId: "s"},
		"SessionService/Prompt":             &supervisorv1.PromptRequest{SessionId: "s", Prompt: text("x")},
		"SessionService/CancelPrompt":       &supervisorv1.CancelPromptRequest{SessionId: "s"},
		"SessionService/SetMode":            &supervisorv1.SetModeRequest{SessionId: "s", ModeId: "m"},
		"SessionService/SetModel":           &supervisorv1.SetModelRequest{SessionId: "s", ModelId: "m"},
		"SessionService/SetConfigOption":    &supervisorv1.SetConfigOptionRequest{SessionId: "s", ConfigId: "c", To: &supervisorv1.SetConfigOptionRequest_Enabled{}},
		"SessionService/WatchSession":       &supervisorv1.WatchSessionRequest{SessionId: "s"},

		"SupervisorStateService/GetStatus":     &supervisorv1.GetStatusRequest{},
		"SupervisorStateService/ListHandlers":  &supervisorv1.ListHandlersRequest{},
		"SupervisorStateService/ListRoutes":    &supervisorv1.ListRoutesRequest{},
		"SupervisorStateService/ListSessions":  &supervisorv1.ListSessionsRequest{},
		"SupervisorStateService/ListTerminals": &supervisorv1.ListTerminalsRequest{},
		"SupervisorStateService/ListGrants":    &supervisorv1.ListGrantsRequest{},
		"SupervisorStateService/GetSession":    &supervisorv1.GetSessionRequest{SessionId: "s"},
		"SupervisorStateService/WatchEvents":   &supervisorv1.WatchEventsRequest{},
		"SupervisorStateService/ListFiles":     &supervisorv1.ListFilesRequest{},
		"SupervisorStateService/WatchFiles":    &supervisorv1.WatchFilesRequest{},
		"SupervisorStateService/GetUsage":      &supervisorv1.GetUsageRequest{Days: []*timestamppb.Timestamp{{}, {Seconds: 86400}}},
		"SupervisorStateService/WatchOutput":   &supervisorv1.WatchOutputRequest{TerminalId: "t"},
	}
}

func TestServer_PanicEndsOneCall(t *testing.T) {
	var log lockedBuffer
	sessions := panickingSessions{running: make(chan struct{}), finish: make(chan struct{})}
	p := panicking{}
	s, err := Start(Options{
		State: struct{ State }{}, Control: p, Agents: p, Sessions: sessions, Gateway: p, Events: p, Files: p, Approvals: p, Decisions: p,
		NoSocket: true, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	conn, err := s.Local()
	if err != nil {
		t.Fatal(err)
	}
	ctx := testkit.Context(t)
	turn, err := supervisorv1.NewSessionServiceClient(conn).Prompt(ctx, &supervisorv1.PromptRequest{SessionId: "other", Prompt: text("x")})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-sessions.running:
	case <-testkit.After():
		t.Fatal("the other session's turn does not begin")
	}

	requests := validRequests()
	for service, info := range s.servers[0].GetServiceInfo() {
		short, own := strings.CutPrefix(service, "acphost.supervisor.v1.")
		if !own {
			continue
		}
		for _, m := range info.Methods {
			t.Run(short+"/"+m.Name, func(t *testing.T) {
				req := requests[short+"/"+m.Name]
				if req == nil {
					t.Fatal("the method has no request here: add one")
				}
				log.Reset()
				stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/"+service+"/"+m.Name)
				if err != nil {
					t.Fatal(err)
				}
				_ = stream.SendMsg(req) // an error comes with RecvMsg, too
				_ = stream.CloseSend()
				err = stream.RecvMsg(&emptypb.Empty{})
				if status.Code(err) != codes.Internal || !strings.Contains(status.Convert(err).Message(), m.Name) {
					t.Errorf("got %v, want INTERNAL with the method's name", err)
				}
				for _, want := range []string{"level=ERROR", "/" + m.Name, "goroutine", "admin"} {
					if !strings.Contains(log.String(), want) {
						t.Errorf("the log lacks %q: %.300s", want, log.String())
					}
				}
			})
		}
	}

	close(sessions.finish)
	if got, err := turn.Recv(); err != nil || got.GetEvent().GetSessionId() != "other" {
		t.Errorf("the other session's turn: got %v, %v", got, err)
	}
}

// lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Reset empties the buffer.
func (l *lockedBuffer) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Reset()
}

func TestAcceptor_PanicEndsOneConnection(t *testing.T) {
	l, to := bufconn.Listen(1<<16), newMemListener()
	var connections atomic.Int32
	d := &acceptor{
		endpoint: endpoint{listener: l, origin: noOrigin, identify: func(_ context.Context, conn net.Conn) (net.Conn, identity, error) {
			if connections.Add(1) == 1 {
				panic("injected")
			}
			return conn, identity{self: true}, nil
		}},
		bounds: usualBounds(connlimit.Room()), trusted: to, untrusted: to, logger: slog.New(slog.DiscardHandler),
	}
	d.open()
	defer d.close()
	ctx := testkit.Context(t)
	first, err := l.DialContext(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the connection of an unidentified caller ended with %v, want EOF", err)
	}
	second, err := l.DialContext(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.Close() }()
	served, err := to.Accept()
	if err != nil {
		t.Fatalf("the next connection was not served: %v", err)
	}
	_ = served.Close()
}
