package gateway_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

var (
	overloadConns   = flag.Int("connections", 1500, "number of TCP connections that never authenticate")
	overloadClients = flag.Int("clients", 12, "how many clients have a turn through the gateway meanwhile")
)

// farSocket is a client over WebSocket.
type farSocket struct {
	ctx     context.Context
	ws      *websocket.Conn
	session string
	next    int
}

// dialFar opens a session by the address of a gateway; "" as cwd: no session.
func dialFar(ctx context.Context, url, secret, cwd string) (*farSocket, error) {
	header := http.Header{"Authorization": {"Bearer " + secret}}
	ws, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPHeader: header}) //nolint:bodyclose // none exists
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(-1)
	s := &farSocket{ctx: ctx, ws: ws}
	_, err = s.ask("initialize", `{"protocolVersion":1,"clientCapabilities":{}}`)
	if err == nil && cwd != "" {
		var m wire.Message
		if m, err = s.ask("session/new", `{"cwd":"`+cwd+`","mcpServers":[]}`); err == nil {
			var opened struct{ SessionID string }
			err = json.Unmarshal(m.Result, &opened)
			s.session = opened.SessionID
		}
	}
	if err != nil {
		_ = ws.CloseNow()
		return nil, err
	}
	return s, nil
}

// send sends a request and returns its id.
func (s *farSocket) send(method, params string) (string, error) {
	s.next++
	id := strconv.Itoa(s.next)
	return id, s.ws.Write(s.ctx, websocket.MessageText, []byte(`{"jsonrpc":"2.0","id":`+id+`,"method":"`+method+`","params":`+params+`}`))
}

// ask sends a request and waits for its answer, a result.
func (s *farSocket) ask(method, params string) (wire.Message, error) {
	id, err := s.send(method, params)
	for err == nil {
		var raw []byte
		if _, raw, err = s.ws.Read(s.ctx); err != nil {
			break
		}
		m := wire.Message{Raw: raw}
		if err = json.Unmarshal(raw, &m); err == nil && m.Method == "" && string(m.ID) == id {
			if m.Error != nil {
				return m, m.Error
			}
			return m, nil
		}
	}
	return wire.Message{}, fmt.Errorf("%s: %w", method, err)
}

func (s *farSocket) prompting(words string) string {
	return `{"sessionId":"` + s.session + `","prompt":[{"type":"text","text":"` + words + `"}]}`
}

func (s *farSocket) turn(words string) error {
	_, err := s.ask("session/prompt", s.prompting(words))
	return err
}

// TestGateway_ServesClientsUnderOverload opens many connections that send nothing or never complete a request, beside
// clients that do not read. Authenticated clients can connect and stay connected.
func TestGateway_ServesClientsUnderOverload(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	const places = 400
	g := e2e.NewGateway(t, p, fmt.Sprintf("[{name: demo, command: [%q]}], max_agents: %d", e2e.Program("demoagent"), *overloadClients+2), "--max-connections", strconv.Itoa(places), "--log-level", "warn")
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout())
	defer cancel()
	secrets := []string{strings.TrimSpace(string(e2e.Must(t, g.TokenFile)))}
	for range *overloadClients / 16 {
		secrets = append(secrets, g.Token("operator"))
	}
	settled, err := dialFar(ctx, g.URL("ws"), secrets[0], p.Work)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = settled.ws.CloseNow() }()
	if err := settled.turn("repeat before"); err != nil {
		t.Fatal(err)
	}

	press, pressed := newPress(t, g.At, secrets[0])
	defer press.end()
	<-pressed // so many are there as find room

	var tries atomic.Int64
	var mu sync.Mutex
	var took []time.Duration
	var clients sync.WaitGroup
	room := make(chan struct{}, 16)
	sockets := make([]*farSocket, *overloadClients)
	for i := range sockets {
		clients.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			begun := time.Now()
			var err error
			for range 20 {
				tries.Add(1)
				if sockets[i], err = dialFar(ctx, g.URL("ws"), secrets[i%len(secrets)], p.Work); err == nil {
					break
				}
			}
			if err == nil && i%4 == 3 { // it asks for 20,000 pieces, and reads none
				_, err = sockets[i].send("session/prompt", sockets[i].prompting("flood 20000"))
			} else if err == nil {
				err = sockets[i].turn("repeat within")
			}
			if err != nil {
				t.Errorf("client %d: %v", i, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(begun))
		})
	}
	clients.Wait()
	if err := settled.turn("repeat after"); err != nil {
		t.Errorf("the client that was there before the overload: %v", err)
	}
	slices.Sort(took)
	if len(took) > 0 {
		t.Logf("%d clients connected in %d tries; to be connected and have a turn took %v, at most %v", len(took), tries.Load(), took[len(took)/2], took[len(took)-1])
	}
	if runtime.GOOS == "linux" {
		pid := strconv.Itoa(g.Running.PID())
		files, err := os.ReadDir("/proc/" + pid + "/fd")
		if err != nil || len(files) > places+50 {
			t.Errorf("gatewayd has %d open files with --max-connections %d (%v)", len(files), places, err)
		}
		memory := rss(t, pid)
		t.Logf("gatewayd has %d open files, and %d MiB in memory", len(files), memory>>20)
		if memory > 512<<20 {
			t.Errorf("gatewayd has %d MiB in memory", memory>>20)
		}
	}
	press.end()
	for _, s := range sockets {
		if s != nil {
			_ = s.ws.CloseNow()
		}
	}
	_ = settled.ws.CloseNow()
	g.Leave()
}

// rss is how much of a process is in memory, in bytes.
func rss(t *testing.T, pid string) int {
	t.Helper()
	for line := range strings.Lines(string(e2e.Must(t, "/proc/"+pid+"/status"))) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatal("no VmRSS")
	return 0
}

// press holds connections to one address that never complete a request.
type press struct {
	mu    sync.Mutex // guards what follows
	conns []net.Conn
	over  bool
	wg    sync.WaitGroup
}

// newPress makes as many connections as the flag sets. pressed is closed when a fifth of them were made.
func newPress(t *testing.T, at, secret string) (p *press, pressed <-chan struct{}) {
	t.Helper()
	p = &press{}
	enough := make(chan struct{})
	host := "Host: " + at + "\r\n"
	requests := []string{
		"",
		"GE",
		"POST /acp HTTP/1.1\r\n" + host + "X-",
		"POST /acp HTTP/1.1\r\n" + host + "Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{",
		"POST /acp HTTP/1.1\r\n" + host + "Authorization: Bearer " + strings.Repeat("x", 43) + "\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"GET /acp HTTP/1.1\r\n" + host + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
	}
	for range 12 { // who it knows, with messages of which a part never comes
		p.open(at, "POST /acp HTTP/1.1\r\n"+host+"Authorization: Bearer "+secret+"\r\nContent-Type: application/json\r\nContent-Length: 16000000\r\n\r\n"+strings.Repeat(" ", 100_000))
	}
	p.wg.Go(func() {
		for i := range *overloadConns {
			if i == *overloadConns/5 {
				close(enough)
			}
			if !p.open(at, requests[i%len(requests)]) {
				break
			}
		}
		select {
		case <-enough:
		default:
			close(enough)
		}
	})
	return p, enough
}

// open opens a connection and sends words; it returns false when the connection has ended.
func (p *press) open(at, words string) bool {
	conn, err := net.Dial("tcp", at)
	if err == nil {
		_, _ = conn.Write([]byte(words)) // it may have had to give way already
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		return !p.over
	}
	if p.over {
		_ = conn.Close()
		return false
	}
	p.conns = append(p.conns, conn)
	return true
}

func (p *press) end() {
	p.mu.Lock()
	p.over = true
	for _, conn := range p.conns {
		_ = conn.Close()
	}
	p.conns = nil
	p.mu.Unlock()
	p.wg.Wait()
}
