package e2e_test

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

// services are a supervisor's services, called over its admin socket as a program calls them.
type services struct {
	agents    supervisorv1.AgentServiceClient
	sessions  supervisorv1.SessionServiceClient
	approvals supervisorv1.ApprovalServiceClient
	state     supervisorv1.SupervisorStateServiceClient
	decided   supervisorv1.DecisionServiceClient
}

// dial connects to the supervisor with that process id.
func (p *place) dial(t testing.TB, pid int, options ...grpc.DialOption) services {
	t.Helper()
	var found []string
	if !testkit.Poll(func() bool {
		found, _ = filepath.Glob(filepath.Join(p.home, "run", "acphost", fmt.Sprintf("%d-*.sock", pid)))
		return len(found) == 1
	}) {
		t.Fatalf("the supervisor %d has the sockets %q, want one", pid, found)
	}
	return dialAt(t, found[0], options...)
}

// dialAt connects to the control socket of the supervisor with that admin socket.
func dialAt(t testing.TB, socket string, options ...grpc.DialOption) services {
	t.Helper()
	return servicesAt(t, wire.Control(t, socket), options...)
}

// servicesAt connects to an address as gRPC takes it.
func servicesAt(t testing.TB, address string, options ...grpc.DialOption) services {
	t.Helper()
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	conn, err := grpc.NewClient(address, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return services{
		supervisorv1.NewAgentServiceClient(conn), supervisorv1.NewSessionServiceClient(conn),
		supervisorv1.NewApprovalServiceClient(conn), supervisorv1.NewSupervisorStateServiceClient(conn), supervisorv1.NewDecisionServiceClient(conn),
	}
}

// server is a running "acphost serve".
type server struct {
	*wire.Process
	*place
	services
	t   testing.TB
	ctx context.Context
}

// serve runs "acphost serve FLAGS" in a place.
func (p *place) serve(t testing.TB, flags []string, env ...string) *server {
	t.Helper()
	return p.serveFrom(t, program("acphost"), flags, env...)
}

// serveFrom is serve with acphost's program at another place.
func (p *place) serveFrom(t testing.TB, acphost string, flags []string, env ...string) *server {
	t.Helper()
	command := slices.Concat([]string{acphost, "serve"}, flags)
	s := &server{
		Process: wire.Start(t, wire.Options{Name: "keeper", Command: command, Dir: p.work, Env: p.env(env...)}),
		place:   p, t: t,
	}
	// The context ends before the process does: what still waits then is no answer.
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout())
	t.Cleanup(cancel)
	s.ctx = ctx
	s.services = p.dial(t, s.PID())
	return s
}

// finish ends the supervisor as a service manager does, and expects it to leave nothing.
func (s *server) finish() {
	s.t.Helper()
	if err := s.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	if got := s.ExpectExit(); got != 0 {
		s.t.Errorf("the exit status after SIGTERM is %d, want 0", got)
	}
	s.expectNobody(s.t, nil)
}

// inTurn reports whether the only session has a turn under way.
func (s *server) inTurn() bool {
	s.t.Helper()
	list, err := s.state.ListSessions(s.ctx, &supervisorv1.ListSessionsRequest{})
	if err != nil || len(list.GetSessions()) != 1 {
		s.t.Fatalf("the sessions are %v (%v)", list.GetSessions(), explain(err))
	}
	return list.GetSessions()[0].GetTurnActive()
}

// value makes an environment variable's value.
func value(text string) *supervisorv1.EnvValue {
	return &supervisorv1.EnvValue{Source: &supervisorv1.EnvValue_Value{Value: text}}
}

// demo is a request for the demo agent. Its sessions are kept in the place.
func (p *place) demo(args ...string) *supervisorv1.StartAgentRequest {
	return &supervisorv1.StartAgentRequest{
		Command: append([]string{program("demoagent")}, args...),
		Env:     map[string]*supervisorv1.EnvValue{"DEMOAGENT_STATE": value(filepath.Join(p.home, "kept"))},
		Cwd:     p.work,
	}
}

// start starts an agent.
func (s *server) start(req *supervisorv1.StartAgentRequest) *supervisorv1.Agent {
	s.t.Helper()
	resp, err := s.agents.StartAgent(s.ctx, req)
	if err != nil {
		s.t.Fatalf("start %q: %v", req.GetCommand(), explain(err))
	}
	return resp.GetAgent()
}

// open opens a session in the workspace.
func (s *server) open(agent string) *supervisorv1.Session {
	s.t.Helper()
	resp, err := s.sessions.NewSession(s.ctx, &supervisorv1.NewSessionRequest{AgentId: agent, Cwd: s.work})
	if err != nil {
		s.t.Fatalf("open a session with %s: %v", agent, explain(err))
	}
	return resp.GetSession()
}

func text(s string) *supervisorv1.ContentBlock {
	return &supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Text{Text: &supervisorv1.TextContent{Text: s}}}
}

// stream is a stream of events. Its methods fail the test and belong to the test's goroutine, but for next.
type stream struct {
	t    testing.TB
	next func() (*supervisorv1.Event, error)
	seen []*supervisorv1.Event
}

// prompt begins a turn.
func (s *server) prompt(session, words string) *stream {
	s.t.Helper()
	return s.promptWith(s.ctx, &supervisorv1.PromptRequest{SessionId: session, Prompt: []*supervisorv1.ContentBlock{text(words)}})
}

func (s *server) promptWith(ctx context.Context, req *supervisorv1.PromptRequest) *stream {
	s.t.Helper()
	events, err := s.sessions.Prompt(ctx, req)
	if err != nil {
		s.t.Fatalf("prompt: %v", err)
	}
	return &stream{t: s.t, next: func() (*supervisorv1.Event, error) {
		m, err := events.Recv()
		return m.GetEvent(), err
	}}
}

// watch watches a session.
func (s *server) watch(req *supervisorv1.WatchSessionRequest) *stream {
	s.t.Helper()
	events, err := s.sessions.WatchSession(s.ctx, req)
	if err != nil {
		s.t.Fatalf("watch the session %s: %v", req.GetSessionId(), err)
	}
	return &stream{t: s.t, next: func() (*supervisorv1.Event, error) {
		m, err := events.Recv()
		return m.GetEvent(), err
	}}
}

// until takes events up to one that f accepts, and returns that one.
func (s *stream) until(what string, f func(*supervisorv1.Event) bool) *supervisorv1.Event {
	s.t.Helper()
	for {
		e, err := s.next()
		if err != nil {
			s.t.Fatalf("the events ended with %v before %s; there were:\n%s", explain(err), what, listing(s.seen))
		}
		if s.seen = append(s.seen, e); f(e) {
			return e
		}
	}
}

// says takes events up to a piece of the agent's message that holds words.
func (s *stream) says(words string) *supervisorv1.Event {
	s.t.Helper()
	return s.until(fmt.Sprintf("the agent said %q", words), func(e *supervisorv1.Event) bool {
		return strings.Contains(e.GetAgentMessage().GetContent().GetText().GetText(), words)
	})
}

// question takes events up to a question.
func (s *stream) question() *supervisorv1.Approval {
	s.t.Helper()
	return s.until("a question", func(e *supervisorv1.Event) bool { return e.GetQuestionAsked() != nil }).GetQuestionAsked()
}

// end takes the rest of a turn, which must end properly, and returns its end.
func (s *stream) end() *supervisorv1.TurnEnded {
	s.t.Helper()
	end := s.until("the turn's end", func(e *supervisorv1.Event) bool { return e.GetTurnEnded() != nil })
	if e, err := s.next(); !errors.Is(err, io.EOF) {
		s.t.Errorf("behind the turn's end came %v, %v", e, explain(err))
	}
	return end.GetTurnEnded()
}

// said is the agent's message, all pieces together.
func (s *stream) said() string {
	var b strings.Builder
	for _, e := range s.seen {
		b.WriteString(e.GetAgentMessage().GetContent().GetText().GetText())
	}
	return b.String()
}

// stopped takes the rest of a turn and expects how it ended.
func (s *stream) stopped(reason string) {
	s.t.Helper()
	if end := s.end(); end.GetStopReason() != reason || end.GetError() != nil {
		s.t.Errorf("the turn ended with %v, want the stop reason %s", end, reason)
	}
}

// kind is the name of what an event holds: "agent_message".
func kind(e *supervisorv1.Event) string {
	m := e.ProtoReflect()
	if set := m.WhichOneof(m.Descriptor().Oneofs().ByName("event")); set != nil {
		return string(set.Name())
	}
	return "nothing"
}

func kinds(events []*supervisorv1.Event) map[string]int {
	n := map[string]int{}
	for _, e := range events {
		n[kind(e)]++
	}
	return n
}

// listing is a line for each of the last events.
func listing(events []*supervisorv1.Event) string {
	var b strings.Builder
	if over := len(events) - 60; over > 0 {
		fmt.Fprintf(&b, "  (%d more)\n", over)
		events = events[over:]
	}
	for _, e := range events {
		line := e.String()
		fmt.Fprintf(&b, "  %s %s\n", kind(e), line[:min(300, len(line))])
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

// explain is an error with its detail.
func explain(err error) error {
	if e := agentError(err); e != nil {
		return fmt.Errorf("%w (%s: %v)", err, e.GetKind(), e)
	}
	return err
}

// expectError fails the test unless an error has a code and its detail a kind, and returns the detail.
func expectError(t testing.TB, err error, code codes.Code, kind supervisorv1.ErrorKind, words ...string) *supervisorv1.AgentError {
	t.Helper()
	detail := agentError(err)
	if status.Code(err) != code || detail.GetKind() != kind {
		t.Errorf("the error is %v, want %s with %s", explain(err), code, kind)
	}
	expectContains(t, "the error", status.Convert(err).Message(), words...)
	return detail
}
