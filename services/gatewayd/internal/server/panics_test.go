package server_test

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/services/gatewayd/internal/relay"
)

// brokenAgent is an agent that panics in a method.
type brokenAgent struct {
	relay.Agent
	at     string       // "send", "recv" or "close"
	after  atomic.Int32 // calls that go well first
	closed chan struct{}
	once   sync.Once
}

func (b *brokenAgent) Send(frame []byte) error {
	if b.at == "send" && b.after.Add(-1) < 0 {
		panic("injected")
	}
	return b.Agent.Send(frame)
}

func (b *brokenAgent) Recv() ([][]byte, error) {
	if b.at == "recv" && b.after.Add(-1) < 0 {
		panic("injected")
	}
	return b.Agent.Recv()
}

func (b *brokenAgent) Close() {
	b.Agent.Close()
	b.once.Do(func() {
		close(b.closed)
		if b.at == "close" {
			panic("injected")
		}
	})
}

// initialized makes a request as a client that does not know yet whether its agent answers.
func (r *rig) initialized() (status int, id string) {
	res := r.do("POST", hello)
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode, res.Header.Get("Acp-Connection-Id")
}

func TestGateway_PanicEndsOneRequestOrConnection(t *testing.T) {
	message := `{"jsonrpc":"2.0","id":1,"method":"_x","params":{}}`
	for name, c := range map[string]struct {
		at     string
		after  int32
		inject func(t *testing.T, r *rig)
		lives  bool // the connection goes on
	}{
		"opening an agent": {at: "open", inject: func(t *testing.T, r *rig) {
			if status, _ := r.initialized(); status != http.StatusInternalServerError {
				t.Errorf("got %d, want 500", status)
			}
		}},
		"initializing an agent": {at: "send", inject: func(t *testing.T, r *rig) {
			if status, _ := r.initialized(); status != http.StatusInternalServerError {
				t.Errorf("got %d, want 500", status)
			}
		}},
		"sending a message": {at: "send", after: 1, lives: true, inject: func(t *testing.T, r *rig) {
			_, id := r.connect()
			r.want(500, "internal error", "POST", message, "Acp-Connection-Id", id)
			r.want(202, "", "DELETE", "", "Acp-Connection-Id", id)
		}},
		"receiving messages": {at: "recv", after: 1, inject: func(t *testing.T, r *rig) { r.connect() }},
		"closing an agent": {at: "close", inject: func(t *testing.T, r *rig) {
			_, id := r.connect()
			r.do("DELETE", "", "Acp-Connection-Id", id)
		}},
		"sending a message of a WebSocket": {at: "send", after: 1, inject: func(t *testing.T, r *rig) {
			ws, _ := r.socket()
			_ = ws.Write(t.Context(), websocket.MessageText, []byte(message))
			if _, _, err := ws.Read(testkit.Context(t)); err == nil {
				t.Error("the WebSocket continues")
			}
		}},
		"receiving messages for a WebSocket": {at: "recv", after: 1, inject: func(t *testing.T, r *rig) {
			ws, _ := r.socket()
			if _, _, err := ws.Read(testkit.Context(t)); err == nil {
				t.Error("the WebSocket continues")
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, relay.Limits{Connections: 2})
			other, id := r.connect()
			of := []string{"Acp-Connection-Id", id, "Acp-Session-Id", "s"}
			turn := r.stream(of...)
			r.want(202, "", "POST", `{"id":"p","method":"session/prompt","params":{"sessionId":"s"}}`, of...)
			<-other.got

			closed := make(chan struct{})
			r.wrap = func(a relay.Agent) relay.Agent {
				if c.at == "open" {
					close(closed)
					panic("injected")
				}
				b := &brokenAgent{Agent: a, at: c.at, closed: closed}
				b.after.Store(c.after)
				return b
			}
			c.inject(t, r)
			select {
			case <-closed:
			case <-testkit.After():
				t.Fatal("the agent of the broken connection is left")
			}

			// The other session finishes its turn, and there is room for another connection.
			r.wrap = nil
			other.say(`{"id":"p","result":{"stopReason":"end_turn"}}`)
			turn.want(`{"id":"p","result":{"stopReason":"end_turn"}}`)
			testkit.Eventually(t, "room for another connection", func() bool {
				conn, err := r.relay.Connect(t.Context(), relay.NewID(), relay.Owner{ID: "next"}, relay.Target{})
				if err == nil {
					conn.Close(nil)
				}
				return err == nil
			})
		})
	}
}
