package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

var cutsOf = flag.Int("cuts", 200, "how often the connections of clients of the gateway are cut")

// farClient is a client over HTTP that continues by Last-Event-ID, as an EventSource does. Its streams go through a
// cutter. Its messages do not, because there is no way to find out whether a cut message has arrived.
type farClient struct {
	t          *testing.T
	ctx        context.Context
	direct     *http.Client
	cutting    *http.Client
	at, cut    string // URLs
	secret     string
	connection string
	wg         sync.WaitGroup
}

func (c *farClient) request(client *http.Client, method, url string, body []byte, headers ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(c.ctx, method, url, bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.secret)
	if c.connection != "" {
		req.Header.Set("Acp-Connection-Id", c.connection)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] != "" {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	return client.Do(req)
}

// post sends a message of a session; "": of none.
func (c *farClient) post(session, message string) http.Header {
	c.t.Helper()
	res, err := c.request(c.direct, "POST", c.at, []byte(message), "Content-Type", "application/json", "Acp-Session-Id", session)
	if err != nil {
		c.t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil || res.StatusCode >= 300 {
		c.t.Fatalf("%s was answered with %d %s (%v)", message, res.StatusCode, text, err)
	}
	return res.Header
}

// stream reads a stream until the client's context ends, over as many connections as necessary. A frame has the number
// after that of the frame before.
func (c *farClient) stream(session string) <-chan wire.Message {
	frames := make(chan wire.Message, 1000)
	c.wg.Go(func() {
		defer close(frames)
		for last := uint64(0); c.ctx.Err() == nil; {
			res, err := c.request(c.cutting, "GET", c.cut, nil, "Accept", "text/event-stream", "Acp-Session-Id", session, "Last-Event-ID", strconv.FormatUint(last, 10))
			if err != nil {
				continue // cut before the answer
			}
			if res.StatusCode != http.StatusOK {
				text, _ := io.ReadAll(res.Body)
				c.t.Errorf("the stream %q after %d: %d %s", session, last, res.StatusCode, text)
				_ = res.Body.Close()
				return
			}
			last = c.events(res.Body, session, last, frames)
			_ = res.Body.Close()
		}
	})
	return frames
}

// events reads events until the connection is cut, and returns the number of the last one that was whole.
func (c *farClient) events(body io.Reader, session string, last uint64, frames chan<- wire.Message) uint64 {
	var id uint64
	var data string
	for in := bufio.NewReader(body); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return last
		}
		switch line = strings.TrimSuffix(line, "\n"); {
		case strings.HasPrefix(line, "id: "):
			if id, err = strconv.ParseUint(line[4:], 10, 64); err != nil {
				c.t.Errorf("the id %q", line)
			}
		case strings.HasPrefix(line, "data: "):
			data = line[6:]
		case line == "" && data != "":
			if id != last+1 {
				c.t.Errorf("the stream %q: frame %d arrived after frame %d", session, id, last)
			}
			m := wire.Message{Raw: []byte(data)}
			if err := json.Unmarshal(m.Raw, &m); err != nil {
				c.t.Errorf("the stream %q: frame %d: %v", session, id, err)
			}
			last, data = id, ""
			select {
			case frames <- m:
			case <-c.ctx.Done():
				return last
			}
		}
	}
}

// TestCutStreams_LoseAndDoubleNoFrame cuts the streams of a session and of its connection at random places. The client
// has to receive exactly the messages that the agent sent.
func TestCutStreams_LoseAndDoubleNoFrame(t *testing.T) {
	t.Parallel()
	for name, http2 := range map[string]bool{"HTTP 1.1": false, "HTTP 2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			g := e2e.NewGateway(t, p, fmt.Sprintf("[{name: demo, command: [%q]}]", e2e.Program("demoagent")))
			most := int64(8 << 10)
			if http2 {
				most = 64 << 10 // a frame of HTTP 2 has up to 16 KiB, and arrives whole or not at all
			}
			cutter := newCutter(t, g.At, most, 1)
			protocols := &http.Protocols{}
			protocols.SetHTTP1(!http2)
			protocols.SetUnencryptedHTTP2(http2)
			through := &http.Transport{Protocols: protocols, DisableKeepAlives: !http2}
			ctx, cancel := context.WithCancel(context.WithoutCancel(g.Ctx)) // a thousand cuts take their time
			c := &farClient{
				t: t, ctx: ctx, direct: &http.Client{Transport: &http.Transport{}}, cutting: &http.Client{Transport: through},
				at: g.URL("http"), cut: "http://" + cutter.at() + "/acp", secret: strings.TrimSpace(string(e2e.Must(t, g.TokenFile))),
			}
			defer func() {
				cancel()
				c.wg.Wait()
				through.CloseIdleConnections()
				c.direct.CloseIdleConnections()
			}()
			c.connection = c.post("", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}`).Get("Acp-Connection-Id")
			connection := c.stream("")
			c.post("", `{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":`+rawText(t, p.Work)+`,"mcpServers":[]}}`)
			var opened struct{ SessionID string }
			if err := json.Unmarshal((<-connection).Result, &opened); err != nil || opened.SessionID == "" {
				t.Fatalf("session/new: %v", err)
			}
			session := c.stream(opened.SessionID)
			frames := 0
			for turn := 2; cutter.cuts.Load() < int64(*cutsOf/2); turn++ {
				c.post("", fmt.Sprintf(`{"jsonrpc":"2.0","id":"c%d","method":"_a.example/unknown"}`, turn))
				c.post(opened.SessionID, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":"flood 500"}]}}`, turn, opened.SessionID))
				if got := <-connection; string(got.ID) != fmt.Sprintf(`"c%d"`, turn) {
					t.Fatalf("turn %d: the connection's stream has %s", turn, got.Raw)
				}
				for pieces := 0; ; {
					m, ok := <-session
					if !ok {
						t.Fatal("the session's stream has ended")
					}
					frames++
					if m.Method == "" {
						if string(m.ID) != strconv.Itoa(turn) || m.Error != nil || pieces != 500 {
							t.Fatalf("turn %d: after %d pieces arrived %s", turn, pieces, m.Raw)
						}
						break
					}
					if text := e2e.PieceOf(m); text != "" {
						if text != fmt.Sprintf("piece %d\n", pieces) {
							t.Fatalf("turn %d: in the place of piece %d arrived %q", turn, pieces, text)
						}
						pieces++
					}
				}
			}
			t.Logf("%d frames over %d cuts", frames, cutter.cuts.Load())
			cancel()
			g.Leave()
		})
	}
}

// TestCutStreams_TypeScriptSDKReloadsSession: the SDK's client cannot resume a stream. After a cut it connects again
// and loads its session, which has each answered turn once and in order, and then prompts again.
func TestCutStreams_TypeScriptSDKReloadsSession(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"ws", "http"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			agent := []string{"env", "DEMOAGENT_STATE=" + p.Path("../state"), e2e.Program("demoagent")}
			g := e2e.NewGateway(t, p, fmt.Sprintf("[{name: demo, command: %s}]", rawText(t, agent)))
			cutter := newCutter(t, g.At, 24<<10, 2)
			cmd := exec.Command("node", e2e.Peer(t, "ts-cuts.mjs"), scheme+"://"+cutter.at()+"/acp", p.Work, strconv.Itoa(max(4, *cutsOf/20)))
			cmd.Env = p.Env("EDITOR_TOKEN_FILE=" + g.TokenFile)
			timer := time.AfterFunc(testkit.Timeout(), func() { _ = cmd.Process.Kill() })
			defer timer.Stop()
			out, err := cmd.CombinedOutput()
			if err != nil || cutter.cuts.Load() < 2 {
				t.Errorf("%v, after %d cuts: %s", err, cutter.cuts.Load(), out)
			}
			t.Logf("%d cuts: %s", cutter.cuts.Load(), out)
			g.Leave()
		})
	}
}
