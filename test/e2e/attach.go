package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/coder/websocket"

	"github.com/acphost/acphost/test/wire"
)

// SocketPeer is a client of a gateway's /acp, by WebSocket.
type SocketPeer struct {
	*wire.Peer
	T       *testing.T
	session string
	First   map[string]any // the answer to initialize
}

// socketWriter sends each line as a message.
type socketWriter struct {
	ctx context.Context
	ws  *websocket.Conn
}

func (w socketWriter) Write(b []byte) (int, error) {
	return len(b), w.ws.Write(w.ctx, websocket.MessageText, bytes.TrimSuffix(b, []byte("\n")))
}

func (w socketWriter) Close() error { return w.ws.CloseNow() }

// Client connects with a token; query is appended to /acp. It has sent initialize.
func (g *Gateway) Client(t *testing.T, name, token, query string) *SocketPeer {
	t.Helper()
	return NewSocketPeer(g.Ctx, t, name, g.URL("ws")+query, token)
}

// NewSocketPeer connects a client to a gateway over WebSocket, with a token.
func NewSocketPeer(ctx context.Context, t *testing.T, name, url, token string) *SocketPeer {
	t.Helper()
	ws, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + token}}}) //nolint:bodyclose // none exists
	if err != nil {
		t.Fatal(err)
	}
	ws.SetReadLimit(-1)
	r, w := io.Pipe()
	read := make(chan struct{})
	go func() {
		defer close(read)
		for {
			_, frame, err := ws.Read(ctx)
			if err != nil {
				_ = w.CloseWithError(io.EOF)
				return
			}
			_, _ = w.Write(append(frame, '\n'))
		}
	}()
	t.Cleanup(func() { _ = ws.CloseNow(); _ = r.Close(); <-read })
	c := &SocketPeer{Peer: wire.NewPeer(t, name, socketWriter{ctx, ws}, bufio.NewReader(r)), T: t}
	c.Send("initialize", json.RawMessage(`{"protocolVersion":1,"clientCapabilities":{}}`)).Result(&c.First)
	return c
}

// Opens opens a session with the client's own agent.
func (c *SocketPeer) Opens(cwd string) string {
	c.T.Helper()
	var opened struct{ SessionID string }
	c.Send("session/new", map[string]any{"cwd": cwd, "mcpServers": []any{}}).Result(&opened)
	c.session = opened.SessionID
	return opened.SessionID
}

// Attaches attaches, and returns the answer.
func (c *SocketPeer) Attaches(session string, more map[string]any) map[string]any {
	c.T.Helper()
	params := map[string]any{"sessionId": session, "clientInfo": map[string]any{"name": "second", "version": "1"}}
	for k, v := range more {
		params[k] = v
	}
	c.session = session
	var got map[string]any
	c.Send("session/attach", params).Result(&got)
	return got
}

// Prompts sends a prompt.
func (c *SocketPeer) Prompts(words string) *wire.Call {
	c.T.Helper()
	return c.Send("session/prompt", map[string]any{"sessionId": c.session, "prompt": []any{map[string]any{"type": "text", "text": words}}})
}
