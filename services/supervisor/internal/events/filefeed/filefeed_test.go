package filefeed

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/events/activity"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	read    = supervisorv1.FileAction_FILE_ACTION_READ
	write   = supervisorv1.FileAction_FILE_ACTION_WRITE
	blocked = supervisorv1.FileAction_FILE_ACTION_BLOCKED
)

// noon is the time of every event, and now.
var noon = time.UnixMilli(1_800_000_000_000)

// rig is a feed of a hub's.
type rig struct {
	*testing.T
	hub  *activity.Hub
	feed *Server
}

func newRig(t *testing.T, change ...func(*Options)) *rig {
	hub := activity.New(activity.Options{Instance: "i", Now: func() time.Time { return noon }})
	t.Cleanup(hub.Close)
	hub.Observer(&frame.Agent{ID: "demo-1", Name: "demo"})
	o := Options{Listen: "127.0.0.1:0", Source: hub, AgentID: "demo-1"}
	for _, f := range change {
		f(&o)
	}
	feed, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(feed.Close)
	return &rig{t, hub, feed}
}

func (r *rig) publish(session string, e *supervisorv1.Event) {
	e.AgentId, e.SessionId, e.Time = "demo-1", session, timestamppb.New(noon)
	r.hub.Publish(e)
}

func (r *rig) open(session, root string) {
	r.publish(session, &supervisorv1.Event{Event: &supervisorv1.Event_SessionOpened{SessionOpened: &supervisorv1.SessionOpened{Roots: []string{root}}}})
}

func (r *rig) touch(session string, touches ...*supervisorv1.FileTouch) {
	r.publish(session, &supervisorv1.Event{Touches: touches})
}

// settle waits until the hub has delivered all published events.
func (r *rig) settle() {
	r.Helper()
	if err := r.hub.Sync(r.Context()); err != nil {
		r.Fatal(err)
	}
}

// peer is a program that reads the feed.
type peer struct {
	*testing.T
	conn net.Conn
	in   *bufio.Reader
}

func (r *rig) connect() *peer {
	r.Helper()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.feed.Port()))
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(testkit.Timeout()))
	return &peer{r.T, conn, bufio.NewReader(conn)}
}

func (p *peer) line() string {
	p.Helper()
	line, err := p.in.ReadString('\n')
	if err != nil {
		p.Fatalf("read a line: %v", err)
	}
	return strings.TrimSuffix(line, "\n")
}

func (p *peer) expect(lines ...string) {
	p.Helper()
	for _, want := range lines {
		if got := p.line(); got != want {
			p.Fatalf("got  %s\nwant %s", got, want)
		}
	}
}

func (p *peer) say(line string) {
	p.Helper()
	if _, err := io.WriteString(p.conn, line+"\n"); err != nil {
		p.Fatal(err)
	}
}

func nodeText(path, action string) string {
	return fmt.Sprintf(`{"path":%q,"heat":1,"in_context":true,"last_action":%q,"turn_accessed":0,"timestamp_ms":1800000000000}`, path, action)
}

func TestFeed_SendsSnapshotThenChanges(t *testing.T) {
	r := newRig(t)
	early := r.connect()
	early.expect(`{"type":"snapshot","agent_id":"demo-1","session_id":"","session_mode":"single_agent","seq":0,"nodes":{}}`)
	r.open("s", "/w")
	early.expect(`{"type":"snapshot","agent_id":"demo-1","session_id":"s","session_mode":"single_agent","seq":0,"nodes":{}}`)
	r.touch("s", &supervisorv1.FileTouch{Path: "/w/a.go", Action: read}, &supervisorv1.FileTouch{Path: "/etc/hosts", Action: write})
	early.expect(`{"type":"delta","agent_id":"demo-1","session_id":"s","session_mode":"single_agent","seq":1,"updates":[` +
		nodeText("/etc/hosts", "write") + `,` + nodeText("a.go", "read") + `],"removed":[]}`)
	r.publish("s", &supervisorv1.Event{Event: &supervisorv1.Event_Usage{Usage: &supervisorv1.ContextUsage{Used: 5, Size: 10, Cost: new(0.5), Currency: "USD"}}})
	usage := `{"type":"usage","agent_id":"demo-1","session_id":"s","session_mode":"single_agent","used":5,"size":10,"cost":{"amount":0.5,"currency":"USD"}}`
	early.expect(usage)
	r.touch("s", &supervisorv1.FileTouch{Path: "/w/.env", Action: blocked, Refused: read})
	env := `{"path":".env","heat":1,"in_context":false,"last_action":"blocked","turn_accessed":0,"timestamp_ms":1800000000000}`
	early.expect(`{"type":"delta","agent_id":"demo-1","session_id":"s","session_mode":"single_agent","seq":2,"updates":[`+env+`],"removed":[]}`,
		`{"type":"blocked","agent_id":"demo-1","session_id":"s","path":".env","action":"read","timestamp_ms":1800000000000}`)

	late := r.connect()
	snapshot := `{"type":"snapshot","agent_id":"demo-1","session_id":"s","session_mode":"single_agent","seq":2,"nodes":{".env":` + env +
		`,"/etc/hosts":` + nodeText("/etc/hosts", "write") + `,"a.go":` + nodeText("a.go", "read") + `}}`
	late.expect(snapshot, usage)
	late.say(`{"type":"request_snapshot","session_id":"s"}`)
	late.expect(snapshot)
	late.say(`{"type":"request_snapshot"}`)
	late.expect(snapshot, usage)
	r.hub.Forget("demo-1")
	late.expect(`{"type":"delta","agent_id":"demo-1","session_id":"s","session_mode":"single_agent","seq":3,"updates":[],"removed":["/etc/hosts",".env","a.go"]}`)
}

func TestUsage_SentForTurnWithoutContext(t *testing.T) {
	r := newRig(t)
	r.open("s", "/w")
	p := r.connect()
	p.line()
	r.publish("s", &supervisorv1.Event{Event: &supervisorv1.Event_TurnEnded{TurnEnded: &supervisorv1.TurnEnded{
		StopReason: "end_turn", Usage: &supervisorv1.TokenUsage{Total: 12, Input: 10, Output: 2},
	}}})
	p.expect(`{"type":"usage","agent_id":"demo-1","session_id":"s","session_mode":"single_agent","used":12,"size":0}`)
}

func TestFeed_FilterSelectsSessions(t *testing.T) {
	r := newRig(t)
	r.open("s", "/w")
	r.open("u", "/w")
	r.settle()
	p := r.connect()
	const s, u = `{"type":"snapshot","agent_id":"demo-1","session_id":"s","session_mode":"single_agent","seq":0,"nodes":{}}`,
		`{"type":"snapshot","agent_id":"demo-1","session_id":"u","session_mode":"single_agent","seq":0,"nodes":{}}`
	first, second := p.line(), p.line()
	if first+second != s+u && first+second != u+s {
		t.Fatalf("got %s and %s", first, second)
	}
	p.say(`{"type":"set_stream_filter","session_id":"u"}`)
	p.expect(u)
	r.touch("s", &supervisorv1.FileTouch{Path: "/w/a", Action: read})
	r.touch("u", &supervisorv1.FileTouch{Path: "/w/b", Action: read})
	p.expect(`{"type":"delta","agent_id":"demo-1","session_id":"u","session_mode":"single_agent","seq":1,"updates":[` + nodeText("b", "read") + `],"removed":[]}`)
	p.say(`{"type":"set_stream_filter","session_mode":"orchestrator"}`)
	p.expect(`{"type":"snapshot","agent_id":"demo-1","session_id":"","session_mode":"single_agent","seq":0,"nodes":{}}`)
	p.say(`{"type":"set_stream_filter","session_id":null,"session_mode":null}`)
	if first, second := p.line(), p.line(); !strings.Contains(first+second, `"session_id":"s"`) || !strings.Contains(first+second, `"session_id":"u"`) {
		t.Errorf("without a filter: %s and %s", first, second)
	}
}

// opener opens sessions with the agent demo-1 alone.
type opener struct {
	mu             sync.Mutex
	opened, closed []string
}

func (o *opener) NewSession(_ context.Context, r *supervisorv1.NewSessionRequest) (*supervisorv1.NewSessionResponse, error) {
	if r.GetAgentId() != "demo-1" {
		return nil, errors.New("no such agent")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.opened = append(o.opened, r.GetCwd())
	return &supervisorv1.NewSessionResponse{Session: &supervisorv1.Session{AgentId: r.GetAgentId(), SessionId: "made"}}, nil
}

func (o *opener) CloseSession(_ context.Context, r *supervisorv1.CloseSessionRequest) (*supervisorv1.CloseSessionResponse, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = append(o.closed, r.GetAgentId()+" "+r.GetSessionId())
	return &supervisorv1.CloseSessionResponse{}, nil
}

func TestFeed_OpensSessionsInAgentFolder(t *testing.T) {
	o := &opener{}
	r := newRig(t, func(options *Options) { options.Sessions, options.Folder, options.AgentID = o, "/start", "" })
	r.open("s", "/w")
	r.settle()
	p := r.connect()
	p.line()
	token := `"token":"` + r.feed.Token() + `",`
	for _, c := range []struct{ line, want string }{
		{`{"type":"rpc","id":1,"method":"create_session","params":{"agent_id":"demo-1","cwd":"/w"}}`, `{"type":"rpc_error","id":1,"error":{"code":400,"message":"create_session changes something`},
		{`{"type":"rpc","id":2,` + token + `"method":"create_session","params":{"agent_id":"demo-1","cwd":"/w"}}`, `{"type":"rpc_result","id":2,"result":{"agent_id":"demo-1","session_id":"made"}}`},
		{`{"type":"rpc","id":3,` + token + `"method":"create_session","params":{"agent_id":"demo-1"}}`, `{"type":"rpc_result","id":3,`},
		{`{"type":"rpc","id":4,` + token + `"method":"create_session","params":{"agent_id":"demo-1","cwd":"/"}}`, `{"type":"rpc_error","id":4,"error":{"code":400,"message":"a session cannot be opened in \"/\" here`},
		{`{"type":"rpc","id":5,` + token + `"method":"create_session","params":{"agent_id":"demo-1","cwd":"/w/.."}}`, `{"type":"rpc_error","id":5,"error":{"code":400,`},
		{`{"type":"rpc","id":6,` + token + `"method":"create_session","params":{"cwd":"/w"}}`, `{"type":"rpc_error","id":6,"error":{"code":400,"message":"create_session needs agent_id"}}`},
		{`{"type":"rpc","id":7,` + token + `"method":"create_session","params":{"agent_id":"x","cwd":"/w"}}`, `{"type":"rpc_error","id":7,"error":{"code":500,"message":"open a session with agent \"x\": no such agent"}}`},
		{`{"type":"rpc","id":8,` + token + `"method":"close_session","params":{}}`, `{"type":"rpc_error","id":8,"error":{"code":400,"message":"close_session needs session_id"}}`},
		{`{"type":"rpc","id":9,` + token + `"method":"close_session","params":{"session_id":"x"}}`, `{"type":"rpc_error","id":9,"error":{"code":404,`},
		{`{"type":"rpc","id":10,` + token + `"method":"close_session","params":{"session_id":"s"}}`, `{"type":"rpc_result","id":10,"result":{"agent_id":"demo-1","session_id":"s"}}`},
	} {
		p.say(c.line)
		if got := p.line(); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s\n got %s\nwant %s", c.line, got, c.want)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if fmt.Sprint(o.opened, o.closed) != "[/w /start] [demo-1 s]" {
		t.Errorf("opened in %q, closed %q", o.opened, o.closed)
	}
}

func TestFeed_AnswersCalls(t *testing.T) {
	r := newRig(t)
	r.open("s", "/w")
	r.publish("s", &supervisorv1.Event{Event: &supervisorv1.Event_SessionInfo{SessionInfo: &supervisorv1.SessionInfo{Title: new("Fix it")}}})
	r.settle()
	p := r.connect()
	p.line()
	const state = `{"agent_id":"demo-1","session_id":"s","mode":"single_agent","active":%v,"model":null,"summary":"Fix it","history":[],"context":[],"providers":[]}`
	inactive, active := fmt.Sprintf(state, false), fmt.Sprintf(state, true)
	token := `"token":"` + r.feed.Token() + `",`
	for _, c := range []struct{ line, want string }{
		{`{"type":"rpc","id":"1","method":"list_sessions","params":{"agent_id":"demo-1"}}`, `{"type":"rpc_result","id":"1","result":{"sessions":[` + inactive + `]}}`},
		{`{"type":"rpc","id":2,"method":"list_sessions","params":{"agent_id":"other"}}`, `{"type":"rpc_result","id":2,"result":{"sessions":[]}}`},
		{`{"type":"rpc","id":3,"method":"set_active_session","params":{"session_id":"s"}}`, `{"type":"rpc_error","id":3,"error":{"code":400,"message":"set_active_session changes something, and needs`},
		{`{"type":"rpc","id":3,"token":"x","method":"create_session"}`, `{"type":"rpc_error","id":3,"error":{"code":400,"message":"create_session changes something, and needs`},
		{`{"type":"rpc","id":4,` + token + `"method":"set_active_session","params":{"agent_id":"demo-1","session_id":"s"}}`, `{"type":"rpc_result","id":4,"result":{"active":{"agent_id":"demo-1","session_id":"s"}}}`},
		{`{"type":"rpc","id":5,"method":"get_session_state","params":{"session_id":"s"}}`, `{"type":"rpc_result","id":5,"result":` + active + `}`},
		{`{"type":"rpc","id":6,"method":"get_session_state","params":{"session_id":"x"}}`, `{"type":"rpc_error","id":6,"error":{"code":404,`},
		{`{"type":"rpc","id":7,"method":"get_session_state"}`, `{"type":"rpc_error","id":7,"error":{"code":400,"message":"get_session_state needs session_id"}}`},
		{`{"type":"rpc","id":8,` + token + `"method":"create_session","params":{}}`, `{"type":"rpc_error","id":8,"error":{"code":400,"message":"create_session cannot be done here`},
		{`{"type":"rpc","id":8,` + token + `"method":"close_session","params":{}}`, `{"type":"rpc_error","id":8,"error":{"code":400,"message":"close_session cannot be done here`},
		{`{"type":"rpc","id":9,` + token + `"method":"add_context_items","params":{}}`, `{"type":"rpc_error","id":9,"error":{"code":400,"message":"add_context_items cannot be done here`},
		{`{"type":"rpc","id":9,` + token + `"method":"set_orchestrator_providers"}`, `{"type":"rpc_error","id":9,"error":{"code":400,"message":"set_orchestrator_providers cannot be done here`},
		{`{"type":"rpc","id":10,"method":["dance"]}`, `{"type":"rpc_error","id":10,"error":{"code":400,"message":"\"method\" is no text"}}`},
		{`{"type":"rpc","id":10,"method":"list_sessions","token":1}`, `{"type":"rpc_error","id":10,"error":{"code":400,"message":"\"token\" is no text"}}`},
		{`{"type":"rpc","id":10,` + token + `"method":"create_session","params":{"session_mode":"orchestrator"}}`, `{"type":"rpc_error","id":10,"error":{"code":400,`},
		{`{"type":"request_snapshot","session_id":1}`, `{"type":"rpc_error","id":null,"error":{"code":400,"message":"\"session_id\" is no text"}}`},
		{`{"type":"rpc","id":10,"method":"dance"}`, `{"type":"rpc_error","id":10,"error":{"code":404,`},
		{`{"type":"rpc","method":"list_sessions"}`, `{"type":"rpc_error","id":null,"error":{"code":400,`},
		{`{"type":"rpc","id":11,"method":"list_sessions","params":[]}`, `{"type":"rpc_error","id":11,"error":{"code":400,`},
		{`{"type":"request_snapshot","session_id":"x"}`, `{"type":"rpc_error","id":null,"error":{"code":404,`},
		{`{"type":"set_stream_filter","session_mode":"x"}`, `{"type":"rpc_error","id":null,"error":{"code":400,`},
		{`{"type":"x"}`, `{"type":"rpc_error","id":null,"error":{"code":400,`},
		{`hello`, `{"type":"rpc_error","id":null,"error":{"code":400,`},
	} {
		p.say(c.line)
		if got := p.line(); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s\n got %s\nwant %s", c.line, got, c.want)
		}
	}
	p.say(strings.Repeat("x", maxLine+1))
	if got := p.line(); !strings.Contains(got, "is longer than 65536 bytes, and was dropped") {
		t.Errorf("a long line: %s", got)
	}
	p.say(`{"type":"rpc","id":12,"method":"dance"}`)
	if got := p.line(); !strings.HasPrefix(got, `{"type":"rpc_error","id":12,`) {
		t.Errorf("behind a long line: %s", got)
	}
	last := r.connect()
	last.say(`{"type":"rpc","id":1,"method":"list_sessions"}`)
	_ = last.conn.(*net.TCPConn).CloseWrite()
	all, _ := io.ReadAll(last.in)
	if !strings.HasPrefix(string(all), `{"type":"snapshot",`) || !strings.HasSuffix(string(all), `{"sessions":[`+active+"]}}\n") {
		t.Errorf("a reader that sent no more receives %s", all)
	}
}

// A reader that does not read receives a snapshot when it continues, and other readers receive all events meanwhile.
func TestFeed_SlowReaderGetsSnapshot(t *testing.T) {
	r := newRig(t)
	r.open("s", "/w")
	r.settle()
	slow, quick := r.connect(), r.connect()
	slow.line()
	quick.line()
	long := strings.Repeat("x", 4000)
	seq := 0
	behind := func() bool {
		r.feed.mu.Lock()
		defer r.feed.mu.Unlock()
		for _, reader := range r.feed.readers {
			if reader.behind {
				return true
			}
		}
		return false
	}
	for !behind() {
		if seq++; seq > 100_000 {
			t.Fatal("it never falls behind")
		}
		r.feed.mu.Lock()
		r.feed.apply(&supervisorv1.WatchFilesResponse{Sessions: []*supervisorv1.SessionFiles{{AgentId: "demo-1", SessionId: "s", Files: []*supervisorv1.TouchedFile{
			{Path: fmt.Sprintf("/w/%d%s", seq%10, long), Action: read, Heat: float64(seq), Time: timestamppb.New(noon)},
		}}}})
		r.feed.mu.Unlock()
		if got := quick.line(); !strings.HasPrefix(got, fmt.Sprintf(`{"type":"delta","agent_id":"demo-1","session_id":"s","session_mode":"single_agent","seq":%d,`, seq)) {
			t.Fatalf("change %d: %.200s", seq, got)
		}
	}
	received := 0
	for {
		line := slow.line()
		if strings.HasPrefix(line, `{"type":"snapshot","agent_id":"demo-1","session_id":"s","session_mode":"single_agent","seq":`+fmt.Sprint(seq)+",") {
			break
		}
		received++
		if want := fmt.Sprintf(`"seq":%d,`, received); !strings.Contains(line, want) {
			t.Fatalf("line %d: %.200s", received, line)
		}
	}
	if received >= seq {
		t.Errorf("it received %d of %d changes, and a snapshot", received, seq)
	}
}

func TestFeed_EvictsOldestReaderWithoutToken(t *testing.T) {
	r := newRig(t)
	trusts := func(p *peer) {
		p.say(`{"type":"rpc","id":1,"token":"` + r.feed.Token() + `","method":"list_sessions"}`)
		if got := p.line(); !strings.HasPrefix(got, `{"type":"rpc_result"`) {
			t.Fatalf("the reader with the token receives %s", got)
		}
	}
	var peers []*peer
	for range maxReaders {
		p := r.connect()
		p.line()
		peers = append(peers, p)
	}
	trusts(peers[0])
	late := r.connect()
	if got := late.line(); !strings.HasPrefix(got, `{"type":"snapshot"`) {
		t.Errorf("a further reader receives %s", got)
	}
	if got := peers[1].line(); !strings.HasPrefix(got, `{"type":"rpc_error","id":null,"error":{"code":500,"message":"more than 16 readers`) {
		t.Errorf("the evicted reader receives %s", got)
	}
	if _, err := peers[1].in.ReadByte(); err == nil {
		t.Error("it receives more than that")
	}
	trusts(peers[0])
	for _, p := range append(peers[2:], late) {
		trusts(p)
	}
	refused := r.connect()
	if got := refused.line(); !strings.HasPrefix(got, `{"type":"rpc_error","id":null,"error":{"code":500,"message":"16 readers that know the token`) {
		t.Errorf("where all know the token, one more receives %s", got)
	}
}

func TestFeed_OmitsClosedSessions(t *testing.T) {
	r := newRig(t)
	r.open("s", "/w")
	r.open("left", "/w")
	r.touch("s", &supervisorv1.FileTouch{Path: "/w/a", Action: read})
	r.settle()
	p := r.connect()
	p.line()
	p.line()
	r.publish("s", &supervisorv1.Event{Event: &supervisorv1.Event_SessionClosed{SessionClosed: &supervisorv1.SessionClosed{Reason: "session/close"}}})
	for { // the file cools down for a moment, and then it is gone
		if got := p.line(); strings.HasSuffix(got, `"updates":[],"removed":["a"]}`) {
			break
		} else if !strings.Contains(got, `"removed":[]`) {
			t.Fatalf("it receives %s", got)
		}
	}
	p.say(`{"type":"rpc","id":1,"method":"list_sessions"}`)
	if got := p.line(); strings.Contains(got, `"session_id":"s"`) || !strings.Contains(got, `"session_id":"left"`) {
		t.Errorf("the sessions are %s", got)
	}
}

func TestFeed_SendsEachRefusal(t *testing.T) {
	r := newRig(t)
	r.open("s", "/w")
	r.settle()
	p := r.connect()
	p.line()
	refused := func() *supervisorv1.FileTouch {
		return &supervisorv1.FileTouch{Path: "/w/.env", Action: blocked, Refused: write}
	}
	r.touch("s", refused(), refused())
	if got := p.line(); !strings.HasPrefix(got, `{"type":"delta"`) {
		t.Errorf("it receives %s", got)
	}
	line := `{"type":"blocked","agent_id":"demo-1","session_id":"s","path":".env","action":"write","timestamp_ms":1800000000000}`
	p.expect(line, line)
}

func TestStart_RejectsNonLoopbackAddresses(t *testing.T) {
	for address, good := range map[string]bool{
		"127.0.0.1:17320": true, "127.1.2.3:0": true, "[::1]:0": true,
		"0.0.0.0:17320": false, ":17320": false, "localhost:17320": false, "192.0.2.1:1": false, "127.0.0.1": false, "": false,
	} {
		if err := CheckAddress(address); (err == nil) != good {
			t.Errorf("%q: %v", address, err)
		}
	}
	if _, err := Start(Options{Listen: "0.0.0.0:0"}); err == nil {
		t.Error("it listens to everybody")
	}
}

// source counts the active watches.
type source struct {
	began, ended chan struct{}
}

func (s source) WatchFiles(ctx context.Context, _ *supervisorv1.WatchFilesRequest, send func(*supervisorv1.WatchFilesResponse) error) error {
	s.began <- struct{}{}
	defer func() { s.ended <- struct{}{} }()
	if err := send(&supervisorv1.WatchFilesResponse{}); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func (source) Show(string, *supervisorv1.Session) {}

func TestFeed_WatchesFilesOnlyWithReaders(t *testing.T) {
	s := source{make(chan struct{}, 1), make(chan struct{}, 1)}
	feed, err := Start(Options{Listen: "127.0.0.1:0", Source: s})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t, nil, feed}
	first, second := r.connect(), r.connect()
	first.line()
	second.line()
	<-s.began
	_ = first.conn.Close()
	_ = second.conn.Close()
	<-s.ended
	third := r.connect()
	third.line()
	<-s.began
	feed.Close()
	<-s.ended
	if _, err := third.in.ReadByte(); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the connection ended with %v", err)
	}
	if len(s.began) > 0 {
		t.Error("one more watch began")
	}
}

// A reader that is behind may request a snapshot before it receives the pending one: the requested snapshot is the
// older of the two.
func TestFeed_LinesNeverGoBack(t *testing.T) {
	key := sessionKey{"a", "s"}
	s := &Server{received: true, sessions: map[sessionKey]*session{}}
	known := s.session(key)
	r := &reader{server: s, behind: true, wake: make(chan struct{}, 1)}
	r.requestSnapshot("s")
	known.seq++
	var got []string
	for range 2 {
		lines, _ := r.next()
		for _, line := range lines {
			got = append(got, string(line))
		}
	}
	line := func(seq int) string {
		return fmt.Sprintf(`{"type":"snapshot","agent_id":"a","session_id":"s","session_mode":"single_agent","seq":%d,"nodes":{}}`+"\n", seq)
	}
	if want := []string{line(0), line(1)}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFeed_SendsInvalidUTF8Names(t *testing.T) {
	known := &session{nodes: map[string]*node{"\xff": {}, "\xfe": {}}}
	if line := string(encode(known.snapshot())); strings.Count(line, `"path"`) != 2 {
		t.Errorf("got %s", line)
	}
}
