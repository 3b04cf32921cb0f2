package server_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/acphost/acphost/internal/tokens"
	"github.com/acphost/acphost/services/gatewayd/internal/auth"
	"github.com/acphost/acphost/services/gatewayd/internal/relay"
	"github.com/acphost/acphost/services/gatewayd/internal/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// puppet is an agent that a test plays.
type puppet struct {
	got    chan string   // frames that it got
	output chan [][]byte // frames that it sends; closed: it ends
	gone   chan struct{}
	once   sync.Once
}

func (p *puppet) Send(frame []byte) error {
	select {
	case p.got <- string(frame):
		return nil
	case <-p.gone:
		return errors.New("gone")
	}
}

func (p *puppet) Recv() ([][]byte, error) {
	select {
	case frames, ok := <-p.output:
		if !ok {
			return nil, errors.New("the agent has ended")
		}
		return frames, nil
	case <-p.gone:
		return nil, errors.New("closed")
	}
}

func (p *puppet) Close() { p.once.Do(func() { close(p.gone) }) }

// say has the agent send frames.
func (p *puppet) say(frames ...string) {
	var all [][]byte
	for _, f := range frames {
		all = append(all, []byte(f))
	}
	select {
	case p.output <- all:
	case <-p.gone:
	}
}

// rig is a gateway with agents that a test plays.
type rig struct {
	t       *testing.T
	server  *httptest.Server
	relay   *relay.Registry
	agents  chan *puppet
	refuse  error                        // why no agent is opened
	target  atomic.Pointer[relay.Target] // of the last agent that a client wanted
	wrap    func(relay.Agent) relay.Agent
	tokens  string
	secrets map[string]string // of each role
	set     tokens.Set
}

func newRig(t *testing.T, limits relay.Limits, change ...func(*server.Options)) *rig {
	t.Helper()
	r := &rig{t: t, agents: make(chan *puppet, 100), tokens: filepath.Join(t.TempDir(), "tokens.json"), secrets: map[string]string{}}
	for _, role := range tokens.Roles() {
		r.secrets[role] = r.token(role, time.Hour)
	}
	log := slog.New(slog.DiscardHandler)
	r.relay = relay.New(func(_ context.Context, target relay.Target) (relay.Agent, error) {
		r.target.Store(&target)
		if r.refuse != nil {
			return nil, r.refuse
		}
		p := &puppet{got: make(chan string, 100), output: make(chan [][]byte), gone: make(chan struct{})}
		if r.wrap != nil {
			wrapped := r.wrap(p)
			r.agents <- p
			return wrapped, nil
		}
		r.agents <- p
		return p, nil
	}, limits, log)
	options := server.Options{
		Gate: auth.New(auth.Options{Tokens: r.tokens, Hosts: []string{"127.0.0.1"}, Origins: []string{"https://good.example"}, Logger: log}), Relay: r.relay, Logger: log,
	}
	for _, f := range change {
		f(&options)
	}
	handler := server.New(options)
	r.server = httptest.NewUnstartedServer(handler)
	r.server.Config.Protocols = &http.Protocols{}
	r.server.Config.Protocols.SetHTTP1(true)
	r.server.Config.Protocols.SetUnencryptedHTTP2(true)
	r.server.Start()
	t.Cleanup(func() {
		r.relay.Close()
		r.server.CloseClientConnections()
		r.server.Close()
	})
	return r
}

// token adds a token to the file.
func (r *rig) token(role string, lifetime time.Duration) string {
	r.t.Helper()
	token, secret, err := tokens.New("", role, time.Now(), lifetime)
	if err != nil {
		r.t.Fatal(err)
	}
	r.set = append(r.set, token)
	r.save()
	return secret
}

// save writes the tokens as "acphost tokens" does: a new file in the place of the old one.
func (r *rig) save() {
	r.t.Helper()
	text, err := tokens.Encode(r.set)
	if err == nil {
		err = os.WriteFile(r.tokens+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(r.tokens+".new", r.tokens)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// do sends a request as an operator; headers are pairs, and "" removes a header.
func (r *rig) do(method, body string, headers ...string) *http.Response {
	r.t.Helper()
	return r.doBy(http.DefaultTransport, method, body, headers...)
}

func (r *rig) doBy(by http.RoundTripper, method, body string, headers ...string) *http.Response {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.server.URL+"/acp", strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.secrets["operator"])
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	if method == http.MethodGet {
		req.Header.Set("Accept", "text/event-stream")
	}
	for i := 0; i < len(headers); i += 2 {
		switch {
		case headers[i] == "Host":
			req.Host = headers[i+1]
		case headers[i+1] == "":
			req.Header.Del(headers[i])
		default:
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	res, err := by.RoundTrip(req)
	if err != nil {
		r.t.Fatalf("%s: %v", method, err)
	}
	r.t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// want makes a request and expects a status, and words in the answer. It returns the answer's header.
func (r *rig) want(status int, words, method, body string, headers ...string) http.Header {
	r.t.Helper()
	res := r.do(method, body, headers...)
	text, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil || res.StatusCode != status || !bytes.Contains(text, []byte(words)) {
		r.t.Errorf("%s %.80q %q: got %d %.200q (%v), want %d %q", method, body, headers, res.StatusCode, text, err, status, words)
	}
	return res.Header
}

const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}`

// connect makes a connection, and returns its agent and the headers that name it.
func (r *rig) connect(headers ...string) (*puppet, string) {
	r.t.Helper()
	answered := make(chan *puppet, 1)
	go func() {
		p := <-r.agents
		<-p.got
		p.say(`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}`)
		answered <- p
	}()
	id := r.want(200, `"protocolVersion":1`, "POST", hello, headers...).Get("Acp-Connection-Id")
	if len(id) != 36 {
		r.t.Fatalf("the connection's id is %q", id)
	}
	return <-answered, id
}

// events reads a stream's events: the id and the data of each, "id data".
type events struct {
	t *testing.T
	r *bufio.Reader
	io.Closer
}

func (r *rig) stream(headers ...string) *events {
	r.t.Helper()
	res := r.do("GET", "", headers...)
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		text, _ := io.ReadAll(res.Body)
		r.t.Fatalf("a stream with %q: %d %s", headers, res.StatusCode, text)
	}
	r.t.Cleanup(func() { _ = res.Body.Close() })
	return &events{r.t, bufio.NewReader(res.Body), res.Body}
}

// next is the next event's id and data; "": the stream has ended.
func (e *events) next() (id, data string) {
	e.t.Helper()
	for {
		line, err := e.r.ReadString('\n')
		switch line = strings.TrimSuffix(line, "\n"); {
		case err != nil:
			return "", ""
		case line == "" && data != "":
			return id, data
		case strings.HasPrefix(line, "id: "):
			id = line[4:]
		case strings.HasPrefix(line, "data: "):
			data += line[6:]
		}
	}
}

func (e *events) want(frames ...string) {
	e.t.Helper()
	for _, f := range frames {
		if _, data := e.next(); data != f {
			e.t.Fatalf("got  %.200s\nwant %.200s", data, f)
		}
	}
}

func (p *puppet) want(t *testing.T, frame string) {
	t.Helper()
	if got := <-p.got; got != frame {
		t.Fatalf("the agent got %s, want %s", got, frame)
	}
}
