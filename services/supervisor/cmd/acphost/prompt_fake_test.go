package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/render"
)

// fakeSupervisor plays a supervisor: what it is asked is kept, and a test says what it answers.
type fakeSupervisor struct {
	supervisorv1.UnimplementedAgentServiceServer
	supervisorv1.UnimplementedSessionServiceServer
	supervisorv1.UnimplementedApprovalServiceServer
	supervisorv1.UnimplementedSupervisorStateServiceServer

	can      *supervisorv1.AgentCapabilities
	startErr error
	openErr  error
	// turn is the turn; send tells an event.
	turn func(ctx context.Context, send func(*supervisorv1.Event)) error
	// outputs are what terminals write.
	outputs map[string][]*supervisorv1.WatchOutputResponse
	// answer is what becomes of an answer; nil: it counts.
	answer func(*supervisorv1.AnswerApprovalRequest) error

	mu        sync.Mutex
	calls     []string
	metas     []string // of those that open a session, with it
	started   *supervisorv1.StartAgentRequest
	prompted  *supervisorv1.PromptRequest
	answers   []*supervisorv1.AnswerApprovalRequest
	cancelled chan struct{} // closed by the first CancelPrompt
	changes   chan *supervisorv1.WatchApprovalsResponse
	answered  chan *supervisorv1.AnswerApprovalRequest
	closed    bool

	conn   *grpc.ClientConn
	server *grpc.Server
}

// newFake returns a supervisor that answers at once.
func newFake(t *testing.T) *fakeSupervisor {
	f := &fakeSupervisor{
		can:       &supervisorv1.AgentCapabilities{},
		cancelled: make(chan struct{}),
		changes:   make(chan *supervisorv1.WatchApprovalsResponse),
		answered:  make(chan *supervisorv1.AnswerApprovalRequest, 16),
		server:    grpc.NewServer(),
	}
	supervisorv1.RegisterAgentServiceServer(f.server, f)
	supervisorv1.RegisterSessionServiceServer(f.server, f)
	supervisorv1.RegisterApprovalServiceServer(f.server, f)
	supervisorv1.RegisterSupervisorStateServiceServer(f.server, f)
	listener := bufconn.Listen(1 << 20)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = f.server.Serve(listener)
	}()
	conn, err := grpc.NewClient("passthrough:///fake", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	f.conn = conn
	t.Cleanup(func() {
		_ = conn.Close()
		f.server.Stop()
		<-served
	})
	return f
}

func (f *fakeSupervisor) Conn() grpc.ClientConnInterface { return f.conn }

func (f *fakeSupervisor) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
}

func (f *fakeSupervisor) called(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, what)
}

func (f *fakeSupervisor) StartAgent(_ context.Context, r *supervisorv1.StartAgentRequest) (*supervisorv1.StartAgentResponse, error) {
	f.called("start")
	f.started = r
	if f.startErr != nil {
		return nil, f.startErr
	}
	return &supervisorv1.StartAgentResponse{Agent: &supervisorv1.Agent{
		Id: "demo-1", Name: "demo", Info: &supervisorv1.AgentInfo{Capabilities: f.can},
	}}, nil
}

func (f *fakeSupervisor) opened(how, meta string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.metas = append(f.metas, how+" "+meta)
}

func (f *fakeSupervisor) session() *supervisorv1.Session {
	return &supervisorv1.Session{SessionId: "s1"}
}

func (f *fakeSupervisor) NewSession(_ context.Context, r *supervisorv1.NewSessionRequest) (*supervisorv1.NewSessionResponse, error) {
	f.opened("new", r.GetMeta())
	f.called("new " + r.GetAgentId() + " " + r.GetCwd())
	return &supervisorv1.NewSessionResponse{Session: f.session()}, f.openErr
}

func (f *fakeSupervisor) LoadSession(_ context.Context, r *supervisorv1.LoadSessionRequest) (*supervisorv1.LoadSessionResponse, error) {
	f.opened("load", r.GetMeta())
	f.called("load " + r.GetSessionId())
	return &supervisorv1.LoadSessionResponse{Session: f.session()}, f.openErr
}

func (f *fakeSupervisor) ResumeSession(_ context.Context, r *supervisorv1.ResumeSessionRequest) (*supervisorv1.ResumeSessionResponse, error) {
	f.opened("resume", r.GetMeta())
	f.called("resume " + r.GetSessionId())
	return &supervisorv1.ResumeSessionResponse{Session: f.session()}, f.openErr
}

func (f *fakeSupervisor) SetMode(_ context.Context, r *supervisorv1.SetModeRequest) (*supervisorv1.SetModeResponse, error) {
	f.called("mode " + r.GetModeId())
	if r.GetModeId() == "none" {
		return nil, status.Error(codes.InvalidArgument, `there is no mode "none"; there are ask and code`)
	}
	return &supervisorv1.SetModeResponse{Session: f.session()}, nil
}

func (f *fakeSupervisor) SetModel(_ context.Context, r *supervisorv1.SetModelRequest) (*supervisorv1.SetModelResponse, error) {
	f.called("model " + r.GetModelId())
	return &supervisorv1.SetModelResponse{Session: f.session()}, nil
}

func (f *fakeSupervisor) Prompt(r *supervisorv1.PromptRequest, stream grpc.ServerStreamingServer[supervisorv1.PromptResponse]) error {
	f.called("prompt " + r.GetSessionId())
	f.prompted = r
	if f.turn == nil {
		return stream.Send(&supervisorv1.PromptResponse{Event: turnEnded("end_turn")})
	}
	return f.turn(stream.Context(), func(ev *supervisorv1.Event) { _ = stream.Send(&supervisorv1.PromptResponse{Event: ev}) })
}

func (f *fakeSupervisor) CancelPrompt(context.Context, *supervisorv1.CancelPromptRequest) (*supervisorv1.CancelPromptResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.cancelled:
	default:
		close(f.cancelled)
	}
	return &supervisorv1.CancelPromptResponse{TurnActive: true}, nil
}

func (f *fakeSupervisor) WatchApprovals(_ *supervisorv1.WatchApprovalsRequest, stream grpc.ServerStreamingServer[supervisorv1.WatchApprovalsResponse]) error {
	f.called("watch approvals")
	if err := stream.Send(&supervisorv1.WatchApprovalsResponse{Change: &supervisorv1.WatchApprovalsResponse_CaughtUp{CaughtUp: &supervisorv1.CaughtUp{}}}); err != nil {
		return err
	}
	for {
		select {
		case c := <-f.changes:
			if err := stream.Send(c); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// ask puts a question to whoever watches.
func (f *fakeSupervisor) ask(a *supervisorv1.Approval) {
	f.changes <- &supervisorv1.WatchApprovalsResponse{Change: &supervisorv1.WatchApprovalsResponse_Asked{Asked: a}}
}

// end ends a question.
func (f *fakeSupervisor) end(id, outcome, by string) {
	f.changes <- &supervisorv1.WatchApprovalsResponse{Change: &supervisorv1.WatchApprovalsResponse_Answered{
		Answered: &supervisorv1.ApprovalAnswer{Id: id, Outcome: outcome, AnsweredBy: by},
	}}
}

func (f *fakeSupervisor) AnswerApproval(_ context.Context, r *supervisorv1.AnswerApprovalRequest) (*supervisorv1.AnswerApprovalResponse, error) {
	if f.answer != nil {
		if err := f.answer(r); err != nil {
			return nil, err
		}
	}
	f.answered <- r
	return &supervisorv1.AnswerApprovalResponse{Answer: &supervisorv1.ApprovalAnswer{Id: r.GetId()}}, nil
}

func (f *fakeSupervisor) WatchOutput(r *supervisorv1.WatchOutputRequest, stream grpc.ServerStreamingServer[supervisorv1.WatchOutputResponse]) error {
	f.called("watch output " + r.GetTerminalId())
	for _, m := range f.outputs[r.GetTerminalId()] {
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	return nil
}

func turnEnded(reason string) *supervisorv1.Event {
	return &supervisorv1.Event{Event: &supervisorv1.Event_TurnEnded{TurnEnded: &supervisorv1.TurnEnded{StopReason: reason}}}
}

func turnFailed(kind supervisorv1.ErrorKind, message string) *supervisorv1.Event {
	return &supervisorv1.Event{Event: &supervisorv1.Event_TurnEnded{TurnEnded: &supervisorv1.TurnEnded{
		Error: &supervisorv1.AgentError{Kind: kind, Message: message, StderrTail: []string{"last words\x1b[2J"}},
	}}}
}

func says(text string) *supervisorv1.Event {
	return &supervisorv1.Event{Event: &supervisorv1.Event_AgentMessage{AgentMessage: &supervisorv1.MessageChunk{
		Content: &supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Text{Text: &supervisorv1.TextContent{Text: text}}},
	}}}
}

// fakeKeyboard is a keyboard that a test presses keys of.
type fakeKeyboard struct {
	keys   chan key
	closed chan struct{}
	once   sync.Once
}

func (k *fakeKeyboard) Keys() <-chan key { return k.keys }
func (k *fakeKeyboard) Close()           { k.once.Do(func() { close(k.closed) }) }

// press presses keys; "\n" is Enter. It returns once all were taken, or the keyboard was closed.
func (k *fakeKeyboard) press(text string) {
	for _, r := range text {
		pressed := key{name: keyRune, r: r}
		switch r {
		case '\n':
			pressed = key{name: keyEnter}
		case '\x1b':
			pressed = key{name: keyEscape}
		case '\x7f':
			pressed = key{name: keyBackspace}
		case '\x15':
			pressed = key{name: keyKill}
		case '\x03':
			pressed = key{name: keyInterrupt}
		}
		select {
		case k.keys <- pressed:
		case <-k.closed:
			return
		}
	}
}

// aRun is a prompt under way with a fake supervisor.
type aRun struct {
	*promptRun
	fake   *fakeSupervisor
	signal chan os.Signal
	boards chan *fakeKeyboard // each keyboard that is opened
	out    *safeBuffer
	errs   *safeBuffer
	status chan int
}

// newRun prepares a prompt; attended: somebody sits at a terminal.
func newRun(t *testing.T, attended bool) *aRun {
	f := newFake(t)
	r := &aRun{
		fake: f, signal: make(chan os.Signal, 4), boards: make(chan *fakeKeyboard, 16),
		out: &safeBuffer{}, errs: &safeBuffer{}, status: make(chan int, 1),
	}
	r.promptRun = &promptRun{
		text: "Hello.", cwd: "/work", attended: attended, agent: &supervisorv1.StartAgentRequest{Command: []string{"demo"}},
		start:   func(context.Context) (headless, error) { return f, nil },
		signals: r.signal, stderr: r.errs, patience: time.Minute, stuck: time.Minute,
		stop: func() bool { return false }, foreground: func() bool { return true },
		screen: newScreen(r.out, screenOptions{}),
		look:   render.Options{Asking: attended, NoUsage: !attended},
	}
	if attended {
		r.keyboard = func() (keyboard, error) {
			k := &fakeKeyboard{keys: make(chan key), closed: make(chan struct{})}
			r.boards <- k
			return k, nil
		}
	}
	t.Cleanup(func() {
		if r.sup != nil && !f.isClosed() {
			t.Error("the supervisor was not closed")
		}
	})
	return r
}

func (f *fakeSupervisor) isClosed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

// begin runs it in the background.
func (r *aRun) begin(t *testing.T) {
	go func() { r.status <- r.run(t.Context()) }()
}

// wait returns the exit status.
func (r *aRun) wait(t *testing.T) int {
	t.Helper()
	select {
	case s := <-r.status:
		return s
	case <-time.After(20 * time.Second):
		t.Fatalf("it does not end; it printed %q and %q", r.out.String(), r.errs.String())
		return 0
	}
}

// board is the keyboard that is opened next.
func (r *aRun) board(t *testing.T) *fakeKeyboard {
	t.Helper()
	select {
	case k := <-r.boards:
		return k
	case <-time.After(20 * time.Second):
		t.Fatalf("nothing is asked; it printed %q and %q", r.out.String(), r.errs.String())
		return nil
	}
}

// safeBuffer is a buffer that can be looked at while it is written to.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// visible is text as a terminal shows it at last: what was erased is not there.
func visible(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if at := strings.LastIndex(l, "\r\x1b[K"); at >= 0 {
			lines[i] = l[at+len("\r\x1b[K"):]
		}
	}
	return strings.Join(lines, "\n")
}

// renderPlain is plain text.
var renderPlain = render.Options{}
