package programs

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	folded "github.com/acphost/acphost/services/supervisor/internal/acp/session"
	"github.com/acphost/acphost/services/supervisor/internal/events/activity"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/agent"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/link"
)

// This test binary is an agent as well, by its first argument; and the guard, as every program with package guard.
func TestMain(m *testing.M) {
	// Else the race detector makes each of these processes wait for a second before it ends.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	if len(os.Args) > 1 && os.Args[1] == "bot" {
		bot()
		return
	}
	goleak.VerifyTestMain(m)
}

// patience bounds every wait of a test for what must come.
const patience = 10 * time.Minute

// everything is an answer to initialize that offers all there is.
const everything = `{"protocolVersion":1,"agentInfo":{"name":"scripted","version":"1"},"agentCapabilities":{"loadSession":true,` +
	`"promptCapabilities":{"image":true,"audio":true,"embeddedContext":true},"mcpCapabilities":{"http":true,"sse":true},` +
	`"sessionCapabilities":{"resume":{},"fork":{},"list":{},"close":{},"delete":{},"additionalDirectories":{}},"auth":{"logout":{}}},` +
	`"authMethods":[{"id":"web","name":"Web"},{"id":"tty","name":"Terminal","type":"terminal"}]}`

// plain is one that offers nothing.
const plain = `{"protocolVersion":1}`

// message is a message that an agent reads.
type message struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
	}
}

// part is an agent's reaction to a message. It runs in the agent's goroutine, which reads no other message meanwhile.
type part func(a *scripted, m message)

// answer is a part that answers.
func answer(result string) part {
	return func(a *scripted, m message) { a.answer(m, result) }
}

// refuse is a part that answers with an error.
func refuse(code int, text string) part {
	return func(a *scripted, m message) {
		a.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, m.ID, code, text))
	}
}

func ignore(*scripted, message) {}

// scripted is an agent in this process, joined with its client by a link.
type scripted struct {
	rig      *rig
	spec     Spec
	pid      int
	sessions *folded.Table
	link     *link.Link
	parts    map[string]part
	got      chan message // all that it reads

	stdin  *io.PipeReader
	toSelf *io.PipeWriter
	stdout *io.PipeWriter
	out    *io.PipeReader
	stop   context.CancelFunc
	ended  chan struct{}
	died   chan struct{}

	mu      sync.Mutex
	exit    agent.Exit
	reason  link.Reason
	cause   error
	saying  sync.Mutex
	forgot  []string
	opened  int
	refused int    // times that initialize was refused
	atStart string // what RefusedAtStart returns
}

// say writes a line.
func (a *scripted) say(line string) {
	a.saying.Lock()
	defer a.saying.Unlock()
	_, _ = io.WriteString(a.stdout, line+"\n")
}

func (a *scripted) answer(m message, result string) {
	a.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result))
}

// update sends an update of a session.
func (a *scripted) update(sessionID, update string) {
	a.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%q,"update":%s}}`, sessionID, update))
}

func (a *scripted) chunk(sessionID, text string) {
	a.update(sessionID, fmt.Sprintf(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":%q}}`, text))
}

// die ends the agent.
func (a *scripted) die(e agent.Exit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.died:
		return
	default:
	}
	e.Name = a.spec.Identity.Name
	a.exit = e
	close(a.died)
	_ = a.stdout.Close()
	_ = a.stdin.Close()
}

// crash ends the agent as a defect would.
func (a *scripted) crash() {
	a.die(agent.Exit{Reason: agent.Exited, Code: 3, Tail: []string{"cannot go on"}})
}

func (a *scripted) live() {
	r := bufio.NewReader(a.stdin)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			a.die(agent.Exit{Reason: agent.Exited, Stopped: true})
			return
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			a.rig.t.Errorf("the agent got %q: %v", line, err)
			continue
		}
		select {
		case a.got <- m:
		default:
			a.rig.t.Error("the agent got more than the test looks at")
		}
		if p := a.parts[m.Method]; p != nil {
			p(a, m)
		}
	}
}

// next waits for the next message of a method.
func (a *scripted) next(method string) message {
	a.rig.t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case m := <-a.got:
			if m.Method == method {
				return m
			}
		case <-timer.C:
			a.rig.t.Fatalf("the agent never got %s", method)
		}
	}
}

// saw reports whether one of the messages received so far has a method.
func (a *scripted) saw(method string) bool {
	for {
		select {
		case m := <-a.got:
			if m.Method == method {
				return true
			}
		default:
			return false
		}
	}
}

func (a *scripted) Stdin() io.WriteCloser { return a.toSelf }
func (a *scripted) Stdout() io.Reader     { return a.out }

func (a *scripted) Ended(ctx context.Context) (string, []byte) {
	select {
	case <-a.died:
		return "exited with status 3", []byte(`{"acphost":{"kind":"crashed","exitCode":3,"stderrTail":["cannot go on"]}}`)
	case <-ctx.Done():
		return "closed its output", []byte(`{"acphost":{"kind":"crashed"}}`)
	}
}

// linked is a scripted agent as the supervisor's other packages use it.
type linked struct{ *scripted }

func (j linked) PID() int                          { return j.pid }
func (j linked) StderrTail() []string              { return []string{"a line of stderr"} }
func (j linked) Ended() <-chan struct{}            { return j.ended }
func (j linked) Sessions() []*supervisorv1.Session { return j.sessions.Snapshot() }

func (j linked) Dropped() string { return j.link.Dropped() }

func (j linked) RefusedAtStart() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.atStart
}

func (j linked) Reported() acp.Initialized { return j.link.Reported() }

func (j linked) Exit() agent.Exit {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.exit
}

func (j linked) Reason() (link.Reason, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.reason, j.cause
}

func (j linked) Stop(context.Context) error {
	j.stop()
	<-j.ended
	return nil
}

func (j linked) Forget(sessionID string) {
	j.sessions.Closed(sessionID)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.forgot = append(j.forgot, sessionID)
}

// rig is a Registry with scripted agents and a real Hub.
type rig struct {
	*Registry
	t       *testing.T
	hub     *activity.Hub
	cast    func(n int, s Spec) (map[string]part, error) // the parts of the nth agent
	started chan *scripted
	real    bool  // agents are processes
	unready error // why no handler is ready

	mu sync.Mutex
	n  int
}

// Start is Options.Start.
func (r *rig) Start(_ context.Context, s Spec) (Process, error) {
	if r.real {
		return r.startProcess(s)
	}
	r.mu.Lock()
	r.n++
	n := r.n
	r.mu.Unlock()
	own, err := r.cast(n, s)
	if err != nil {
		return nil, err
	}
	a := &scripted{
		rig: r, spec: s, pid: 1000 + n, sessions: folded.New(folded.Options{Agent: s.Identity.Name}), got: make(chan message, 10_000),
		ended: make(chan struct{}), died: make(chan struct{}), exit: agent.Exit{Reason: agent.Running},
	}
	a.parts = map[string]part{
		"initialize":     answer(everything),
		"session/new":    func(a *scripted, m message) { a.opened++; a.answer(m, fmt.Sprintf(`{"sessionId":"s%d"}`, a.opened)) },
		"session/fork":   func(a *scripted, m message) { a.opened++; a.answer(m, fmt.Sprintf(`{"sessionId":"f%d"}`, a.opened)) },
		"session/load":   answer(`{}`),
		"session/resume": answer(`{}`),
		"session/close":  answer(`{}`),
		"session/delete": answer(`{}`),
		"session/prompt": answer(`{"stopReason":"end_turn"}`),
	}
	maps.Copy(a.parts, own)
	a.stdin, a.toSelf = io.Pipe()
	a.out, a.stdout = io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	a.stop = cancel
	l := r.link(s, a, a.sessions)
	a.link = l
	var wg sync.WaitGroup
	wg.Go(a.live)
	go func() {
		reason, cause := l.Run(ctx)
		cancel()
		_ = a.out.Close()
		_ = a.toSelf.Close()
		wg.Wait()
		a.mu.Lock()
		a.reason, a.cause = reason, cause
		a.mu.Unlock()
		close(a.ended)
	}()
	r.started <- a
	return linked{a}, nil
}

// link joins an agent with the client of its spec. No handler answers it, and no policy judges it.
func (r *rig) link(s Spec, a link.Agent, sessions *folded.Table) *link.Link {
	log := slog.New(slog.DiscardHandler)
	return link.New(link.Options{
		Client: s.Client, Agent: a,
		Ready: func(context.Context) (*route.Table, error) {
			if r.unready != nil {
				return nil, r.unready
			}
			return route.Build(nil, nil)
		},
		Conn:      func(string) (grpc.ClientConnInterface, error) { return nil, errors.New("there is no handler") },
		Sessions:  sessions,
		Gate:      gate.New(gate.Options{Logger: log}),
		AgentName: s.Identity.Name,
		Attended:  func() bool { return false },
		Observer:  r.hub.Observer(s.Identity),
		Logger:    log,

		InitializeTimeout: r.opts.InitializeTimeout,
	})
}

// newRig returns a Registry whose agents have the given parts in addition to the default ones.
func newRig(t *testing.T, parts map[string]part, change ...func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, started: make(chan *scripted, 1000), cast: func(int, Spec) (map[string]part, error) { return parts, nil }}
	r.hub = activity.New(activity.Options{Instance: "test"})
	o := Options{
		Start: r.Start, Hub: r.hub, Env: []string{"PATH=/bin", "HOME=/home/u"}, MaxRestarts: 5, Version: "0.0.1",
		InitializeTimeout: time.Minute, MaxAgents: 32, MaxSessions: 1000,
	}
	for _, f := range change {
		f(&o)
	}
	if testing.Verbose() {
		o.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	r.Registry = New(o)
	t.Cleanup(func() {
		r.Close()
		r.hub.Close()
	})
	return r
}

// start starts an agent and returns it as both ends see it.
func (r *rig) start(change ...func(*supervisorv1.StartAgentRequest)) (*supervisorv1.Agent, *scripted) {
	r.t.Helper()
	req := &supervisorv1.StartAgentRequest{Command: []string{"/opt/bot", "--acp"}}
	for _, f := range change {
		f(req)
	}
	resp, err := r.StartAgent(r.t.Context(), req)
	if err != nil {
		r.t.Fatalf("start an agent: %v", err)
	}
	return resp.GetAgent(), r.latest()
}

// latest is the agent that was started last.
func (r *rig) latest() *scripted {
	r.t.Helper()
	select {
	case a := <-r.started:
		return a
	case <-time.After(patience):
		r.t.Fatal("no agent was started")
		return nil
	}
}

// open opens a session with an agent.
func (r *rig) open(agentID string) *supervisorv1.Session {
	r.t.Helper()
	s, err := r.NewSession(r.t.Context(), &supervisorv1.NewSessionRequest{AgentId: agentID, Cwd: "/w"})
	if err != nil {
		r.t.Fatalf("open a session: %v", err)
	}
	return s
}

// prompt sends a prompt, and returns its events as text.
func (r *rig) prompt(sessionID, text string) ([]string, error) {
	var events []string
	err := r.Prompt(r.t.Context(), promptOf(sessionID, text), func(e *supervisorv1.Event) error {
		events = append(events, words(e))
		return nil
	})
	return events, err
}

func promptOf(sessionID, text string) *supervisorv1.PromptRequest {
	return &supervisorv1.PromptRequest{SessionId: sessionID, Prompt: []*supervisorv1.ContentBlock{
		{Content: &supervisorv1.ContentBlock_Text{Text: &supervisorv1.TextContent{Text: text}}},
	}}
}

// words is an event in a word or two.
func words(e *supervisorv1.Event) string {
	switch {
	case e.GetTurnStarted() != nil:
		return "started"
	case e.GetAgentMessage() != nil:
		return "says " + e.GetAgentMessage().GetContent().GetText().GetText()
	case e.GetTurnEnded().GetError() != nil:
		return "failed " + strings.TrimPrefix(e.GetTurnEnded().GetError().GetKind().String(), "ERROR_KIND_")
	case e.GetTurnEnded() != nil:
		return "ended " + e.GetTurnEnded().GetStopReason()
	case e.GetNotice() != nil:
		return "notice " + e.GetNotice().GetTitle()
	case e.GetSessionClosed() != nil:
		return "closed " + e.GetSessionClosed().GetReason()
	case e.GetSessionOpened() != nil:
		return "opened " + e.GetSessionOpened().GetMethod()
	case e.GetAgent() != nil:
		return strings.TrimPrefix(e.GetAgent().GetState().String(), "AGENT_STATE_")
	}
	return "something"
}

// until waits for an agent to be in a state after it was started again so often.
func (r *rig) until(agentID string, state supervisorv1.AgentState, restarts uint32) *supervisorv1.Agent {
	r.t.Helper()
	reg := r.Registry
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		a, err := reg.agent(agentID)
		if err != nil {
			r.t.Fatal(err)
		}
		reg.mu.Lock()
		is, n, changed := a.state, a.restarts, a.changed
		reg.mu.Unlock()
		if is == state && n == restarts {
			return a.show()
		}
		select {
		case <-changed:
		case <-timer.C:
			r.t.Fatalf("agent %s is %v after %d restarts, want %v after %d", agentID, is, n, state, restarts)
		}
	}
}

// wantFault checks an error's class, kind and words.
func wantFault(t *testing.T, err error, class fault.Class, kind supervisorv1.ErrorKind, contains ...string) {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) {
		t.Fatalf("got %v, want a fault", err)
	}
	if f.Class != class || f.Agent.GetKind() != kind {
		t.Errorf("got class %d and kind %v, want %d and %v: %v", f.Class, f.Agent.GetKind(), class, kind, err)
	}
	for _, part := range contains {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("got %q, want %q in it", err, part)
		}
	}
}

func wantWords(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("got  %q\nwant %q", got, want)
	}
}

const (
	noKind       = supervisorv1.ErrorKind_ERROR_KIND_UNSPECIFIED
	crashedKind  = supervisorv1.ErrorKind_ERROR_KIND_CRASHED
	agentKind    = supervisorv1.ErrorKind_ERROR_KIND_AGENT_ERROR
	missingKind  = supervisorv1.ErrorKind_ERROR_KIND_NOT_SUPPORTED
	unknownKind  = supervisorv1.ErrorKind_ERROR_KIND_SESSION_NOT_FOUND
	stoppedKind  = supervisorv1.ErrorKind_ERROR_KIND_STOPPED
	timeoutKind  = supervisorv1.ErrorKind_ERROR_KIND_HANDSHAKE_TIMEOUT
	notFoundKind = supervisorv1.ErrorKind_ERROR_KIND_COMMAND_NOT_FOUND
	spawnKind    = supervisorv1.ErrorKind_ERROR_KIND_SPAWN_FAILED
	authKind     = supervisorv1.ErrorKind_ERROR_KIND_AUTH_REQUIRED
)

// The calls of a Registry, with what tests want of the answers.

func (r *rig) NewSession(ctx context.Context, req *supervisorv1.NewSessionRequest) (*supervisorv1.Session, error) {
	got, err := r.Registry.NewSession(ctx, req)
	return got.GetSession(), err
}

func (r *rig) LoadSession(ctx context.Context, req *supervisorv1.LoadSessionRequest) (*supervisorv1.Session, error) {
	got, err := r.Registry.LoadSession(ctx, req)
	return got.GetSession(), err
}

func (r *rig) ResumeSession(ctx context.Context, req *supervisorv1.ResumeSessionRequest) (*supervisorv1.Session, error) {
	got, err := r.Registry.ResumeSession(ctx, req)
	return got.GetSession(), err
}

func (r *rig) ForkSession(ctx context.Context, req *supervisorv1.ForkSessionRequest) (*supervisorv1.Session, error) {
	got, err := r.Registry.ForkSession(ctx, req)
	return got.GetSession(), err
}

func (r *rig) SetMode(ctx context.Context, req *supervisorv1.SetModeRequest) (*supervisorv1.Session, error) {
	got, err := r.Registry.SetMode(ctx, req)
	return got.GetSession(), err
}

func (r *rig) SetModel(ctx context.Context, req *supervisorv1.SetModelRequest) (*supervisorv1.Session, error) {
	got, err := r.Registry.SetModel(ctx, req)
	return got.GetSession(), err
}

func (r *rig) SetConfigOption(ctx context.Context, req *supervisorv1.SetConfigOptionRequest) (*supervisorv1.Session, error) {
	got, err := r.Registry.SetConfigOption(ctx, req)
	return got.GetSession(), err
}

func (r *rig) StopAgent(ctx context.Context, id string) (*supervisorv1.Agent, error) {
	got, err := r.Registry.StopAgent(ctx, &supervisorv1.StopAgentRequest{AgentId: id})
	return got.GetAgent(), err
}

func (r *rig) RestartAgent(ctx context.Context, id string) (*supervisorv1.Agent, error) {
	got, err := r.Registry.RestartAgent(ctx, &supervisorv1.RestartAgentRequest{AgentId: id})
	return got.GetAgent(), err
}

func (r *rig) GetAgent(id string) (*supervisorv1.Agent, error) {
	got, err := r.Registry.GetAgent(r.t.Context(), &supervisorv1.GetAgentRequest{AgentId: id})
	return got.GetAgent(), err
}

func (r *rig) ListAgents() []*supervisorv1.Agent {
	got, err := r.Registry.ListAgents(r.t.Context(), &supervisorv1.ListAgentsRequest{})
	if err != nil {
		r.t.Error(err)
	}
	return got.GetAgents()
}

func (r *rig) Logout(ctx context.Context, id string) error {
	return second(r.Registry.Logout(ctx, &supervisorv1.LogoutRequest{AgentId: id}))
}

func (r *rig) CloseSession(ctx context.Context, req *supervisorv1.CloseSessionRequest) (res bool, err error) {
	got, err := r.Registry.CloseSession(ctx, req)
	return got.GetTold(), err
}

func (r *rig) DeleteSession(ctx context.Context, req *supervisorv1.DeleteSessionRequest) error {
	return second(r.Registry.DeleteSession(ctx, req))
}

func (r *rig) CancelPrompt(ctx context.Context, req *supervisorv1.CancelPromptRequest) (active bool, err error) {
	got, err := r.Registry.CancelPrompt(ctx, req)
	return got.GetTurnActive(), err
}
