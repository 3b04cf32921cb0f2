package link

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/acphost/acphost/internal/testkit"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/session"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/display"
	"github.com/acphost/acphost/services/supervisor/internal/sandbox/containment"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// handler serves files and terminals in memory, as a test configures it.
type handler struct {
	fsv1.UnimplementedFileSystemServiceServer
	terminalv1.UnimplementedTerminalServiceServer
	permissionv1.UnimplementedPermissionServiceServer

	read     func(context.Context, *fsv1.ReadTextFileRequest) (*fsv1.ReadTextFileResponse, error)
	write    func(context.Context, *fsv1.WriteTextFileRequest) (*fsv1.WriteTextFileResponse, error)
	decide   func(context.Context, *permissionv1.Action) (*permissionv1.DecideResponse, error)
	answered chan *permissionv1.AnsweredRequest
	watch    func(*terminalv1.WatchRequest, grpc.ServerStreamingServer[terminalv1.WatchResponse]) error
	wait     func(context.Context, *terminalv1.WaitForExitRequest) (*terminalv1.WaitForExitResponse, error)
}

func (h *handler) ReadTextFile(ctx context.Context, r *fsv1.ReadTextFileRequest) (*fsv1.ReadTextFileResponse, error) {
	return h.read(ctx, r)
}

func (h *handler) WriteTextFile(ctx context.Context, r *fsv1.WriteTextFileRequest) (*fsv1.WriteTextFileResponse, error) {
	return h.write(ctx, r)
}

func (h *handler) Decide(ctx context.Context, r *permissionv1.DecideRequest) (*permissionv1.DecideResponse, error) {
	return h.decide(ctx, r.GetAction())
}

func (h *handler) Answered(_ context.Context, r *permissionv1.AnsweredRequest) (*permissionv1.AnsweredResponse, error) {
	if h.answered != nil {
		h.answered <- r
	}
	return &permissionv1.AnsweredResponse{}, nil
}

func (h *handler) Create(context.Context, *terminalv1.CreateRequest) (*terminalv1.CreateResponse, error) {
	return &terminalv1.CreateResponse{TerminalId: "acphost-1"}, nil
}

func (h *handler) WaitForExit(ctx context.Context, r *terminalv1.WaitForExitRequest) (*terminalv1.WaitForExitResponse, error) {
	return h.wait(ctx, r)
}

func (h *handler) Watch(r *terminalv1.WatchRequest, s grpc.ServerStreamingServer[terminalv1.WatchResponse]) error {
	return h.watch(r, s)
}

// peer is one end of the link, controlled by a test.
type peer struct {
	t   *testing.T
	in  *os.File // the test writes to it
	out *bufio.Reader
	raw *os.File
}

func (p *peer) send(lines ...string) {
	p.t.Helper()
	for _, l := range lines {
		if _, err := io.WriteString(p.in, l+"\n"); err != nil {
			p.t.Fatalf("write %.80q: %v", l, err)
		}
	}
}

// next returns the next line, without its line feed.
func (p *peer) next() string {
	p.t.Helper()
	if err := p.raw.SetReadDeadline(time.Now().Add(testkit.Timeout())); err != nil {
		p.t.Fatal(err)
	}
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("no further line: %v", err)
	}
	return strings.TrimSuffix(line, "\n")
}

func (p *peer) want(want string) {
	p.t.Helper()
	if got := p.next(); got != want {
		p.t.Fatalf("got  %s\nwant %s", got, want)
	}
}

// wantError reads an error response, and checks its id, its code and a part of its message.
func (p *peer) wantError(id string, code int, contains string) {
	p.t.Helper()
	line := p.next()
	var msg struct {
		ID    json.RawMessage
		Error struct {
			Code    int
			Message string
		}
	}
	if err := json.Unmarshal([]byte(line), &msg); err != nil {
		p.t.Fatalf("%s: %v", line, err)
	}
	if string(msg.ID) != id || msg.Error.Code != code || !strings.Contains(msg.Error.Message, contains) {
		p.t.Fatalf("got %s\nwant id %s, code %d, a message with %q", line, id, code, contains)
	}
}

// rig is a link between two peers controlled by a test, with a handler in this process.
type rig struct {
	*Link
	t       *testing.T
	client  *peer
	agent   *peer
	handler *handler
	ended   chan Reason
	down    atomic.Bool          // the handler is unavailable
	decider *containment.Decider // nil: there is no Decider
}

type pipes struct {
	r io.Reader
	w io.WriteCloser
}

func (p pipes) Stdin() io.WriteCloser { return p.w }
func (p pipes) Stdout() io.Reader     { return p.r }
func (p pipes) Ended(context.Context) (string, []byte) {
	return "exited with status 3", []byte(`{"acphost":{"kind":"crashed","exitCode":3}}`)
}

// contained adds a Decider for process actions. It must be the last change of a rig.
func contained(s *containment.Sandbox, p containment.Proxy, change ...func(*containment.Options)) func(*Options) {
	return func(o *Options) {
		with := containment.Options{
			Sessions: o.Sessions, Gate: o.Gate, AgentName: o.AgentName, AgentEnviron: o.AgentEnviron, Logger: o.Logger,
		}
		for _, f := range change {
			f(&with)
		}
		d := containment.New(with)
		d.SetSandbox(s)
		d.SetProxy(p)
		o.Containment = d
	}
}

func newRig(t *testing.T, change ...func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, ended: make(chan Reason, 1), handler: &handler{
		read: func(context.Context, *fsv1.ReadTextFileRequest) (*fsv1.ReadTextFileResponse, error) {
			return &fsv1.ReadTextFileResponse{Content: "text"}, nil
		},
		write: func(context.Context, *fsv1.WriteTextFileRequest) (*fsv1.WriteTextFileResponse, error) {
			return &fsv1.WriteTextFileResponse{}, nil
		},
		decide: func(context.Context, *permissionv1.Action) (*permissionv1.DecideResponse, error) {
			return &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_ASK}, nil
		},
	}}
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer(grpc.MaxRecvMsgSize(64 << 20))
	fsv1.RegisterFileSystemServiceServer(server, r.handler)
	terminalv1.RegisterTerminalServiceServer(server, r.handler)
	permissionv1.RegisterPermissionServiceServer(server, r.handler)
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///handler", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	clientIn, toLink := pipe(t)
	fromLink, clientOut := pipe(t)
	agentIn, toLink2 := pipe(t)
	fromLink2, agentOut := pipe(t)
	r.client = &peer{t: t, in: toLink, out: bufio.NewReaderSize(fromLink, 1<<20), raw: fromLink}
	r.agent = &peer{t: t, in: toLink2, out: bufio.NewReaderSize(fromLink2, 1<<20), raw: fromLink2}
	log := slog.New(slog.DiscardHandler)
	dial := func() (grpc.ClientConnInterface, error) {
		if r.down.Load() {
			return nil, errors.New("handler fs is in backoff: it exited with status 1")
		}
		return conn, nil
	}
	o := Options{
		Client: Client{In: clientIn, Out: clientOut},
		Agent:  pipes{agentIn, agentOut},
		Ready: func(context.Context) (*route.Table, error) {
			return route.Build([]route.Claim{
				{Handler: "fs", Kind: route.KindFS, Services: []protoreflect.ServiceDescriptor{fsv1.File_acphost_fs_v1_fs_proto.Services().Get(0)}},
				{Handler: "terminal", Kind: route.KindTerminal, Services: []protoreflect.ServiceDescriptor{terminalv1.File_acphost_terminal_v1_terminal_proto.Services().Get(0)}},
			}, map[string]string{"elicitation/create": "deny"})
		},
		Conn:      func(string) (grpc.ClientConnInterface, error) { return dial() },
		Sessions:  session.New(session.Options{Agent: "test"}),
		Gate:      gate.New(gate.Options{Chain: []gate.Policy{{Name: "permission", Conn: dial}}, Enforced: true, Protected: []string{"/own"}, Logger: log}),
		AgentName: "test",
		Display: func(s display.Sink) *display.Display {
			return display.New(display.Options{Sink: s, Conn: func(string) (grpc.ClientConnInterface, error) { return dial() }, Logger: log})
		},
		Logger: log,
	}
	for _, f := range change {
		f(&o)
	}
	r.Link = New(o)
	if r.decider, _ = o.Containment.(*containment.Decider); r.decider != nil {
		r.decider.Bind(r.Link)
	}
	running := make(chan struct{})
	go func() {
		defer close(running)
		reason, _ := r.Run(t.Context())
		r.ended <- reason
	}()
	t.Cleanup(func() {
		_ = toLink.Close()
		_ = toLink2.Close()
		_ = fromLink.Close()
		_ = fromLink2.Close()
		<-running
		// The pump of the other side reads until its stream ends.
		_ = conn.Close()
		server.Stop()
		<-served
	})
	return r
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

// open performs initialize and session/new, for a client with the given capabilities.
func (r *rig) open(capabilities string) {
	r.t.Helper()
	r.openAt(capabilities, "/w")
}

// openIn is open for a session in a folder that exists.
func (r *rig) openIn(dir string) { r.t.Helper(); r.openAt(`{}`, dir) }

func (r *rig) openAt(capabilities, dir string) {
	r.t.Helper()
	r.client.send(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":1,"clientCapabilities":` + capabilities + `}}`)
	r.agent.next()
	r.agent.send(`{"jsonrpc":"2.0","id":"i","result":{"protocolVersion":1,"agentInfo":{"name":"a","version":"1"}}}`)
	r.client.next()
	r.client.send(`{"jsonrpc":"2.0","id":"n","method":"session/new","params":{"cwd":"` + dir + `","mcpServers":[]}}`)
	r.agent.next()
	r.agent.send(`{"jsonrpc":"2.0","id":"n","result":{"sessionId":"s"}}`)
	r.client.next()
}

// end waits for the link's end and returns its reason.
func (r *rig) end() Reason {
	r.t.Helper()
	select {
	case reason := <-r.ended:
		return reason
	case <-testkit.After():
		r.t.Fatal("the link did not end")
		return 0
	}
}

func TestLink_ForwardsUnroutedBytesUnchanged(t *testing.T) {
	r := newRig(t)
	r.open(`{}`)
	fromAgent := []string{
		`{"jsonrpc":"2.0", "method" : "session/update","params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\u00e9 \ud83d\ude00"}},"sessionId":"s"},"extra":1e+2}`,
		"{\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":{\"sessionUpdate\":\"unheard_of\",\"x\":\"raw \u2028 separator\"}}}",
		`{"jsonrpc":"2.0","method":"_acme.com/notify","params":[1,2,3.0]}`,
		`{"jsonrpc":"2.0","error":{"code":-32601,"message":"no id"}}`,
		`{"jsonrpc":"2.0","id":9007199254740993,"method":"_acme.com/ask","params":{"b":1,"a":2}}`,
		`{"id":"0","method":"elicitation/other"}`,
	}
	for _, l := range fromAgent {
		r.agent.send(l)
		r.client.want(l)
	}
	fromClient := []string{
		`{"id":9007199254740993,"result":{"z":0,"a":-0.0},"jsonrpc":"2.0"}`,
		`{"jsonrpc":"2.0","id":0,"method":"session/prompt","params":{"sessionId":"s","prompt":[]} , "_x":null}`,
		`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}`,
	}
	for _, l := range fromClient {
		r.client.send(l)
		r.agent.want(l)
	}
}

func TestRoute_AnswerKeepsSpellingOfID(t *testing.T) {
	r := newRig(t)
	requests := make(chan *fsv1.ReadTextFileRequest, 1)
	r.handler.read = func(_ context.Context, req *fsv1.ReadTextFileRequest) (*fsv1.ReadTextFileResponse, error) {
		requests <- req
		return &fsv1.ReadTextFileResponse{Content: "a \"quoted\"\n\ttext é"}, nil
	}
	r.open(`{}`)
	r.agent.send(`{"jsonrpc":"2.0","method":"fs\/read_text_file","params":{"sessionId":"s","path":"/w/f","line":2,"context":{"scope":"forged"},"_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}},"id":"\u0061b"}`)
	r.agent.want(`{"jsonrpc":"2.0","id":"\u0061b","result":{"content":"a \"quoted\"\n\ttext é"}}`)
	seen := <-requests
	cc := seen.GetContext()
	if seen.GetLine() != 2 || cc.GetSessionId() != "s" || len(cc.GetScope()) != 32 || cc.GetRoots()[0].GetPath() != "/w" ||
		cc.GetAgent() != "test" || cc.GetProtocolVersion() != 1 || cc.GetTraceparent() != "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" || !cc.GetNoDigest() {
		t.Errorf("the handler saw %v", seen)
	}
}

func TestInitialize_AdvertisesRoutes(t *testing.T) {
	r := newRig(t)
	r.client.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"terminal":false}}}`)
	r.agent.want(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"terminal":true,"fs":{"readTextFile":true,"writeTextFile":true}}}}`)
}

func TestInitialize_FailsWithoutHandler(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Ready = func(context.Context) (*route.Table, error) {
			return nil, errors.New("handler fs did not start: no such program")
		}
	})
	r.client.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}`)
	r.client.wantError("0", -32603, "handler fs did not start")
	if reason := r.end(); reason != NotReady {
		t.Errorf("reason = %v, want NotReady", reason)
	}
}

func TestInitialize_TimesOut(t *testing.T) {
	r := newRig(t, func(o *Options) { o.InitializeTimeout = 10 * time.Millisecond })
	r.client.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}`)
	r.client.wantError("0", -32603, "did not answer initialize")
	if reason := r.end(); reason != NoInitialize {
		t.Errorf("reason = %v, want NoInitialize", reason)
	}
}

func TestInitialize_OmitsVersion1CapabilitiesInVersion2(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Program = true })
	hello := `{"id":0,"method":"initialize","params":{"protocolVersion":2,"capabilities":{},"info":{"name":"acphost","version":"1"}}}`
	r.client.send(hello)
	r.agent.want(hello)
}

func TestInitialize_LaterVersionHasNoRoutedFiles(t *testing.T) {
	r := newRig(t)
	r.client.send(`{"id":0,"method":"initialize","params":{"protocolVersion":2,"capabilities":{}}}`)
	r.agent.want(`{"id":0,"method":"initialize","params":{"protocolVersion":2,"capabilities":{},"clientCapabilities":{"fs":{"readTextFile":true,"writeTextFile":true},"terminal":true}}}`)
	r.agent.send(`{"id":0,"result":{"protocolVersion":2}}`)
	r.client.next()
	line := `{"id":1,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/w/f"}}`
	r.agent.send(line)
	r.client.want(line)
}

func TestLink_AgentThatDoesNotReadCannotDeadlock(t *testing.T) {
	r := newRig(t)
	r.handler.read = func(context.Context, *fsv1.ReadTextFileRequest) (*fsv1.ReadTextFileResponse, error) {
		return &fsv1.ReadTextFileResponse{Content: strings.Repeat("x", 64<<10)}, nil
	}
	r.open(`{}`)
	const n = 400
	for i := range n {
		r.agent.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/w/%d"}}`, i, i))
	}
	answered := map[string]bool{}
	for range n {
		var msg struct {
			ID     json.RawMessage
			Result struct{ Content string }
		}
		if err := json.Unmarshal([]byte(r.agent.next()), &msg); err != nil || len(msg.Result.Content) != 64<<10 {
			t.Fatalf("answer %s: %v, %d bytes", msg.ID, err, len(msg.Result.Content))
		}
		answered[string(msg.ID)] = true
	}
	if len(answered) != n {
		t.Errorf("%d requests were answered, want %d", len(answered), n)
	}
}

func TestQueue_RefusesRequestsOverLimit(t *testing.T) {
	release := make(chan struct{})
	r := newRig(t, func(o *Options) { o.Limits = Limits{MaxQueued: 3, MaxWorkers: 1} })
	r.handler.read = func(ctx context.Context, _ *fsv1.ReadTextFileRequest) (*fsv1.ReadTextFileResponse, error) {
		<-release
		return &fsv1.ReadTextFileResponse{}, nil
	}
	r.open(`{}`)
	for i := range 4 {
		r.agent.send(fmt.Sprintf(`{"id":%d,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/w/f"}}`, i))
	}
	r.agent.wantError("3", -32603, "wait for answers")
	close(release)
	for i := range 3 {
		r.agent.want(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":""}}`, i))
	}
}

func TestLink_RefusesIDInFlight(t *testing.T) {
	r := newRig(t)
	release := make(chan struct{})
	r.handler.read = func(context.Context, *fsv1.ReadTextFileRequest) (*fsv1.ReadTextFileResponse, error) {
		<-release
		return &fsv1.ReadTextFileResponse{}, nil
	}
	r.open(`{}`)
	r.agent.send(`{"id":1,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/w/f"}}`,
		`{"id":1e0,"method":"_acme.com/x"}`)
	r.agent.wantError("1e0", -32600, "in flight already")
	close(release)
	r.agent.want(`{"jsonrpc":"2.0","id":1,"result":{"content":""}}`)
}

func TestRoute_RefusesUnknownSession(t *testing.T) {
	r := newRig(t)
	r.open(`{}`)
	r.agent.send(`{"id":1,"method":"fs/read_text_file","params":{"sessionId":"other","parentSessionId":"none","path":"/w/f"}}`)
	r.agent.wantError("1", -32602, `session "other" is unknown`)
	r.agent.send(`{"id":2,"method":"fs/read_text_file","params":{"sessionId":5,"path":"/w/f"}}`)
	r.agent.wantError("2", -32602, "sessionId")
}

func TestRoute_RefusesAmbiguousParams(t *testing.T) {
	r := newRig(t)
	r.open(`{}`)
	for i, params := range []string{
		`{"sessionId":"s","path":"/w/a","path":"/w/b"}`,
		`{"sessionId":"s","path":"/w/a","Path":"/w/b"}`,
		`{"sessionId":"s","sessionId":"t","path":"/w/a"}`,
	} {
		r.agent.send(fmt.Sprintf(`{"id":%d,"method":"fs/read_text_file","params":%s}`, i, params))
		r.agent.wantError(fmt.Sprint(i), -32600, "")
	}
}

func TestRoute_DeniedRouteAndUnavailableHandler(t *testing.T) {
	r := newRig(t)
	r.open(`{}`)
	r.agent.send(`{"id":1,"method":"elicitation/create","params":{}}`)
	r.agent.wantError("1", -32601, "denied by configuration")
	r.down.Store(true)
	r.agent.send(`{"id":2,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/w/f"}}`)
	r.agent.wantError("2", -32603, "backoff")
}

func TestRoute_RefusesProtectedFiles(t *testing.T) {
	r := newRig(t)
	r.handler.read = func(context.Context, *fsv1.ReadTextFileRequest) (*fsv1.ReadTextFileResponse, error) {
		t.Error("the handler was called")
		return nil, errors.New("no")
	}
	r.open(`{}`)
	r.agent.send(`{"id":1,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/w/../own/config.yaml"}}`)
	r.agent.wantError("1", -32603, "acphost/protected")
	r.agent.send(`{"id":2,"method":"terminal/create","params":{"sessionId":"s","command":"cat /own/config.yaml"}}`)
	r.agent.wantError("2", -32603, "acphost/protected")
	if n := r.opts.Gate.Counters().GetProtected(); n != 2 {
		t.Errorf("%d refusals were counted, want 2", n)
	}
}

func TestCancelRequest_EndsReadButNotWrite(t *testing.T) {
	r := newRig(t)
	reading, cancelled := make(chan struct{}), make(chan struct{})
	r.handler.read = func(ctx context.Context, _ *fsv1.ReadTextFileRequest) (*fsv1.ReadTextFileResponse, error) {
		close(reading)
		<-ctx.Done()
		close(cancelled)
		return nil, ctx.Err()
	}
	writing, finish := make(chan struct{}), make(chan struct{})
	r.handler.write = func(context.Context, *fsv1.WriteTextFileRequest) (*fsv1.WriteTextFileResponse, error) {
		close(writing)
		<-finish
		return &fsv1.WriteTextFileResponse{}, nil
	}
	r.open(`{}`)
	r.agent.send(`{"id":1,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/w/f"}}`)
	<-reading
	r.agent.send(`{"method":"$/cancel_request","params":{"requestId":1}}`)
	r.agent.wantError("1", -32800, "cancelled")
	<-cancelled
	r.agent.send(`{"id":2,"method":"fs/write_text_file","params":{"sessionId":"s","path":"/w/f","content":""}}`)
	<-writing
	r.agent.send(`{"method":"$/cancel_request","params":{"requestId":2}}`, `{"id":3,"method":"_acme.com/x"}`)
	r.client.want(`{"id":3,"method":"_acme.com/x"}`) // the cancellation has been read
	close(finish)
	r.agent.want(`{"jsonrpc":"2.0","id":2,"result":{}}`)
}

func TestCancelRequest_FollowsForwardedRequest(t *testing.T) {
	r := newRig(t)
	r.open(`{}`)
	r.agent.send(`{"id":5,"method":"_acme.com/x"}`)
	r.client.want(`{"id":5,"method":"_acme.com/x"}`)
	r.agent.send(`{"method":"$/cancel_request","params":{"requestId":5}}`)
	r.client.want(`{"method":"$/cancel_request","params":{"requestId":5}}`)
	r.client.send(`{"id":5,"error":{"code":-32800,"message":"cancelled"}}`)
	r.agent.want(`{"id":5,"error":{"code":-32800,"message":"cancelled"}}`)
	r.agent.send(`{"method":"$/cancel_request","params":{"requestId":5}}`, `{"method":"_marker"}`)
	r.client.want(`{"method":"_marker"}`)
}

func TestLink_DropsUnknownClientAnswers(t *testing.T) {
	r := newRig(t)
	r.open(`{}`)
	r.agent.send(`{"id":5,"method":"_acme.com/x"}`)
	r.client.next()
	r.client.send(`{"id":6,"result":{}}`, `{"id":5,"result":{}}`, `{"id":5,"result":{"again":true}}`, `{"method":"_marker"}`)
	r.agent.want(`{"id":5,"result":{}}`)
	r.agent.want(`{"method":"_marker"}`)
}

func TestLink_AnswersInvalidMessages(t *testing.T) {
	r := newRig(t)
	r.open(`{}`)
	r.client.send(`not json`)
	r.client.wantError("null", -32700, "")
	r.client.send(`{"jsonrpc":"2.0","id":8,"method":"a","method":"b"}`)
	r.client.wantError("8", -32600, "method")
	r.agent.send(`panic: goroutine 1`, ``, `{"id":1,"result":`, `{"method":"_after"}`)
	r.client.want(`{"method":"_after"}`)
	r.agent.send(`[{"id":1,"method":"fs/read_text_file"},{"method":"x"}]`)
	r.agent.wantError("null", -32600, "batches")
	r.client.send(`[{"id":9,"method":"session/prompt","params":{"sessionId":"s"}},{"id":1,"result":{}}]`)
	r.client.wantError("null", -32600, "batches")
	r.agent.send(`{"id":3,"method":"fs/read_text_file","METHOD":"x","params":{}}`)
	r.agent.wantError("3", -32600, "")
	if n := r.Counters().GetRefusedMessages(); n != 7 {
		t.Errorf("%d messages were counted as refused, want 7", n)
	}
}

func TestLink_AnswersMessagesOverLimit(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Limits.MaxMessage = 1 << 16 })
	r.open(`{}`)
	big := strings.Repeat("x", 1<<17)
	go func() {
		_, _ = io.WriteString(r.agent.in, `{"method":"_acme.com/x","params":"`+big+`","id":"late"}`+"\n")
	}()
	r.agent.wantError(`"late"`, -32600, "more than the 65536")
	r.client.send(`{"id":1,"method":"session/prompt","params":{"sessionId":"s"}}`)
	r.agent.next()
	go func() {
		_, _ = io.WriteString(r.agent.in, `{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"`+big+`"}}}}`+"\n")
	}()
	if told := r.client.next(); !strings.Contains(told, "A message of the agent was dropped") || !strings.Contains(told, "more than the 65536") {
		t.Errorf("the person is told %s", told)
	}
	go func() { _, _ = io.WriteString(r.agent.in, `{"id":1,"result":"`+big+`"}`+"\n") }()
	r.client.wantError("1", -32603, "the agent's answer was dropped")
	r.agent.send(`{"id":2,"method":"_acme.com/y"}`)
	r.client.next()
	go func() { _, _ = io.WriteString(r.client.in, `{"id":2,"result":"`+big+`"}`+"\n") }()
	r.agent.wantError("2", -32603, "the client's answer was dropped")
	go func() { _, _ = io.WriteString(r.client.in, `{"method":"m","id":[],"params":"`+big+`"}`+"\n") }()
	r.agent.send(`{"method":"_marker"}`)
	for r.client.next() != `{"method":"_marker"}` {
		continue
	}
}

func TestLink_AgentEndAnswersClientRequests(t *testing.T) {
	r := newRig(t)
	r.open(`{}`)
	r.client.send(`{"id":1,"method":"session/prompt","params":{"sessionId":"s"}}`)
	r.agent.next()
	_ = r.agent.in.Close()
	r.client.wantError("1", -32603, "exited with status 3")
	if reason := r.end(); reason != AgentGone {
		t.Errorf("reason = %v, want AgentGone", reason)
	}
}

func TestLink_AgentEndIsInErrors(t *testing.T) {
	for name, tt := range map[string]struct{ stop, data string }{
		"it ended":       {"", `{"acphost":{"kind":"crashed","exitCode":3}}`},
		"it was stopped": {"stop", `{"acphost":{"kind":"stopped"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := &witness{}
			r := newRig(t, func(o *Options) { o.Observer = w })
			r.open(`{}`)
			r.client.send(`{"id":4,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}`)
			r.agent.next()
			if tt.stop == "" {
				_ = r.agent.in.Close()
			} else {
				r.Link.end(Stopped, nil)
			}
			line := r.client.next()
			if !strings.HasPrefix(line, `{"jsonrpc":"2.0","id":4,"error":{"code":-32603,"message":"session/prompt: the agent `) || !strings.HasSuffix(line, `,"data":`+tt.data+`}}`) {
				t.Errorf("got %s", line)
			}
			if got := w.of(frame.OursToClient); len(got) != 1 || got[0] != line {
				t.Errorf("frames: %q", got)
			}
		})
	}
}

func TestLink_ClientEndClosesAgentInput(t *testing.T) {
	r := newRig(t)
	r.open(`{}`)
	_ = r.client.in.Close()
	if _, err := r.agent.out.ReadString('\n'); err != io.EOF {
		t.Errorf("the agent read %v, want the end", err)
	}
	if reason := r.end(); reason != ClientGone {
		t.Errorf("reason = %v, want FrontGone", reason)
	}
}

func TestObserve_ForwardsUnchanged(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Observe = true })
	for _, l := range []string{
		`{"id":0,"method":"initialize","params":{"protocolVersion":1}}`, `[1,2]`, `garbage`, `{"id":99,"result":1}`,
	} {
		r.client.send(l)
		r.agent.want(l)
	}
	for _, l := range []string{
		`{"id":0,"result":{"protocolVersion":1}}`,
		`{"id":1,"method":"fs/read_text_file","params":{"path":"/a","path":"/b"}}`,
		`more garbage`, `[{"id":1}]`,
		`{"id":2,"method":"session/request_permission","params":{}}`,
	} {
		r.agent.send(l)
		r.client.want(l)
	}
}

func TestRefuse_AnswersFirstRequest(t *testing.T) {
	in, toClient := pipe(t)
	fromClient, out := pipe(t)
	f := &peer{t: t, in: toClient, out: bufio.NewReader(fromClient), raw: fromClient}
	f.send(`{"method":"_notification"}`, `garbage`, `{"id":"i","method":"initialize"}`)
	Refuse(Client{In: in, Out: out}, "agent \"x\" was not started")
	f.wantError(`"i"`, -32603, "was not started")
	_ = toClient.Close()
	Refuse(Client{In: in, Out: out}, "nobody reads this")
}
