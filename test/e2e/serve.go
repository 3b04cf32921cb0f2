package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/wire"
)

// Services are a supervisor's services, called over its admin socket as a program calls them.
type Services struct {
	Agents    supervisorv1.AgentServiceClient
	Sessions  supervisorv1.SessionServiceClient
	Approvals supervisorv1.ApprovalServiceClient
	State     supervisorv1.SupervisorStateServiceClient
	Decided   supervisorv1.DecisionServiceClient
}

// Dial connects to the supervisor with that process id.
func (p *Place) Dial(t testing.TB, pid int, options ...grpc.DialOption) Services {
	t.Helper()
	var found []string
	if !testkit.Poll(func() bool {
		found, _ = filepath.Glob(filepath.Join(p.Home, "run", "acphost", fmt.Sprintf("%d-*.sock", pid)))
		return len(found) == 1
	}) {
		t.Fatalf("the supervisor %d has the sockets %q, want one", pid, found)
	}
	return DialAt(t, found[0], options...)
}

// DialAt connects to the control socket of the supervisor with that admin socket.
func DialAt(t testing.TB, socket string, options ...grpc.DialOption) Services {
	t.Helper()
	return ServicesAt(t, wire.Control(t, socket), options...)
}

// ServicesAt connects to an address of gRPC's form.
func ServicesAt(t testing.TB, address string, options ...grpc.DialOption) Services {
	t.Helper()
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	conn, err := grpc.NewClient(address, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return Services{
		supervisorv1.NewAgentServiceClient(conn), supervisorv1.NewSessionServiceClient(conn),
		supervisorv1.NewApprovalServiceClient(conn), supervisorv1.NewSupervisorStateServiceClient(conn), supervisorv1.NewDecisionServiceClient(conn),
	}
}

// Server is a running "acphost serve".
type Server struct {
	*wire.Process
	*Place
	Services
	T   testing.TB
	Ctx context.Context
}

// Serve runs "acphost serve FLAGS" in a place.
func (p *Place) Serve(t testing.TB, flags []string, env ...string) *Server {
	t.Helper()
	return p.ServeFrom(t, Program("acphost"), flags, env...)
}

// ServeFrom is serve with acphost's program at another place.
func (p *Place) ServeFrom(t testing.TB, acphost string, flags []string, env ...string) *Server {
	t.Helper()
	command := slices.Concat([]string{acphost, "serve"}, flags)
	s := &Server{
		Process: wire.Start(t, wire.Options{Name: "keeper", Command: command, Dir: p.Work, Env: p.Env(env...)}),
		Place:   p, T: t,
	}
	// The context ends before the process does: what still waits then is no answer.
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout())
	t.Cleanup(cancel)
	s.Ctx = ctx
	s.Services = p.Dial(t, s.PID())
	return s
}

// Finish ends the supervisor as a service manager does, and expects it to leave nothing.
func (s *Server) Finish() {
	s.T.Helper()
	if err := s.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.T.Fatal(err)
	}
	if got := s.ExpectExit(); got != 0 {
		s.T.Errorf("the exit status after SIGTERM is %d, want 0", got)
	}
	s.ExpectNobody(s.T, nil)
}

// InTurn reports whether the only session has an active turn.
func (s *Server) InTurn() bool {
	s.T.Helper()
	list, err := s.State.ListSessions(s.Ctx, &supervisorv1.ListSessionsRequest{})
	if err != nil || len(list.GetSessions()) != 1 {
		s.T.Fatalf("the sessions are %v (%v)", list.GetSessions(), Explain(err))
	}
	return list.GetSessions()[0].GetTurnActive()
}

// Value makes an environment variable's value.
func Value(text string) *supervisorv1.EnvValue {
	return &supervisorv1.EnvValue{Source: &supervisorv1.EnvValue_Value{Value: text}}
}

// Demo is a request for the demo agent. Its sessions are kept in the place.
func (p *Place) Demo(args ...string) *supervisorv1.StartAgentRequest {
	return &supervisorv1.StartAgentRequest{
		Command: append([]string{Program("demoagent")}, args...),
		Env:     map[string]*supervisorv1.EnvValue{"DEMOAGENT_STATE": Value(filepath.Join(p.Home, "kept"))},
		Cwd:     p.Work,
	}
}

// Start starts an agent.
func (s *Server) Start(req *supervisorv1.StartAgentRequest) *supervisorv1.Agent {
	s.T.Helper()
	resp, err := s.Agents.StartAgent(s.Ctx, req)
	if err != nil {
		s.T.Fatalf("start %q: %v", req.GetCommand(), Explain(err))
	}
	return resp.GetAgent()
}

// Open opens a session in the workspace.
func (s *Server) Open(agent string) *supervisorv1.Session {
	s.T.Helper()
	resp, err := s.Sessions.NewSession(s.Ctx, &supervisorv1.NewSessionRequest{AgentId: agent, Cwd: s.Work})
	if err != nil {
		s.T.Fatalf("open a session with %s: %v", agent, Explain(err))
	}
	return resp.GetSession()
}

// Text is a block of a prompt.
func Text(s string) *supervisorv1.ContentBlock {
	return &supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Text{Text: &supervisorv1.TextContent{Text: s}}}
}

// Stream is a stream of events. Its methods fail the test and belong to the test's goroutine, but for next.
type Stream struct {
	T    testing.TB
	Next func() (*supervisorv1.Event, error)
	Seen []*supervisorv1.Event
}

// Prompt begins a turn.
func (s *Server) Prompt(session, words string) *Stream {
	s.T.Helper()
	return s.PromptWith(s.Ctx, &supervisorv1.PromptRequest{SessionId: session, Prompt: []*supervisorv1.ContentBlock{Text(words)}})
}

// PromptWith begins a turn with a request of the caller's.
func (s *Server) PromptWith(ctx context.Context, req *supervisorv1.PromptRequest) *Stream {
	s.T.Helper()
	events, err := s.Sessions.Prompt(ctx, req)
	if err != nil {
		s.T.Fatalf("prompt: %v", err)
	}
	return &Stream{T: s.T, Next: func() (*supervisorv1.Event, error) {
		m, err := events.Recv()
		return m.GetEvent(), err
	}}
}

// Watch watches a session.
func (s *Server) Watch(req *supervisorv1.WatchSessionRequest) *Stream {
	s.T.Helper()
	events, err := s.Sessions.WatchSession(s.Ctx, req)
	if err != nil {
		s.T.Fatalf("watch the session %s: %v", req.GetSessionId(), err)
	}
	return &Stream{T: s.T, Next: func() (*supervisorv1.Event, error) {
		m, err := events.Recv()
		return m.GetEvent(), err
	}}
}

// Until receives events up to one that f accepts, and returns that one.
func (s *Stream) Until(what string, f func(*supervisorv1.Event) bool) *supervisorv1.Event {
	s.T.Helper()
	for {
		e, err := s.Next()
		if err != nil {
			s.T.Fatalf("the events ended with %v before %s; there were:\n%s", Explain(err), what, Listing(s.Seen))
		}
		if s.Seen = append(s.Seen, e); f(e) {
			return e
		}
	}
}

// Says receives events up to a piece of the agent's message that contains words.
func (s *Stream) Says(words string) *supervisorv1.Event {
	s.T.Helper()
	return s.Until(fmt.Sprintf("the agent sends %q", words), func(e *supervisorv1.Event) bool {
		return strings.Contains(e.GetAgentMessage().GetContent().GetText().GetText(), words)
	})
}

// Question receives events up to a question.
func (s *Stream) Question() *supervisorv1.Approval {
	s.T.Helper()
	return s.Until("a question", func(e *supervisorv1.Event) bool { return e.GetQuestionAsked() != nil }).GetQuestionAsked()
}

// End receives the rest of a turn, which must end properly, and returns its end.
func (s *Stream) End() *supervisorv1.TurnEnded {
	s.T.Helper()
	end := s.Until("the turn's end", func(e *supervisorv1.Event) bool { return e.GetTurnEnded() != nil })
	if e, err := s.Next(); !errors.Is(err, io.EOF) {
		s.T.Errorf("after the turn's end arrived %v, %v", e, Explain(err))
	}
	return end.GetTurnEnded()
}

// Said is the agent's message, all pieces joined.
func (s *Stream) Said() string {
	var b strings.Builder
	for _, e := range s.Seen {
		b.WriteString(e.GetAgentMessage().GetContent().GetText().GetText())
	}
	return b.String()
}

// Stopped receives the rest of a turn and checks how it ended.
func (s *Stream) Stopped(reason string) {
	s.T.Helper()
	if end := s.End(); end.GetStopReason() != reason || end.GetError() != nil {
		s.T.Errorf("the turn ended with %v, want the stop reason %s", end, reason)
	}
}

// Kind is the name of what an event holds: "agent_message".
func Kind(e *supervisorv1.Event) string {
	m := e.ProtoReflect()
	if set := m.WhichOneof(m.Descriptor().Oneofs().ByName("event")); set != nil {
		return string(set.Name())
	}
	return "nothing"
}

// Kinds counts events by their kinds.
func Kinds(events []*supervisorv1.Event) map[string]int {
	n := map[string]int{}
	for _, e := range events {
		n[Kind(e)]++
	}
	return n
}

// Listing is a line for each of the last events.
func Listing(events []*supervisorv1.Event) string {
	var b strings.Builder
	if over := len(events) - 60; over > 0 {
		fmt.Fprintf(&b, "  (%d more)\n", over)
		events = events[over:]
	}
	for _, e := range events {
		line := e.String()
		fmt.Fprintf(&b, "  %s %s\n", Kind(e), line[:min(300, len(line))])
	}
	return b.String()
}

// agentError is the detail that an error carries.
func agentError(err error) *supervisorv1.AgentError {
	for _, d := range status.Convert(err).Details() {
		if e, ok := d.(*supervisorv1.AgentError); ok {
			return e
		}
	}
	return nil
}

// Explain is an error with its detail.
func Explain(err error) error {
	if e := agentError(err); e != nil {
		return fmt.Errorf("%w (%s: %v)", err, e.GetKind(), e)
	}
	return err
}

// ExpectError fails the test unless an error has a code and its detail a kind, and returns the detail.
func ExpectError(t testing.TB, err error, code codes.Code, kind supervisorv1.ErrorKind, words ...string) *supervisorv1.AgentError {
	t.Helper()
	detail := agentError(err)
	if status.Code(err) != code || detail.GetKind() != kind {
		t.Errorf("the error is %v, want %s with %s", Explain(err), code, kind)
	}
	ExpectContains(t, "the error", status.Convert(err).Message(), words...)
	return detail
}
