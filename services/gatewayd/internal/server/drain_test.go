package server_test

import (
	"context"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/acphost/acphost/services/gatewayd/internal/relay"
)

// goingAway expects a WebSocket to be closed because the gateway stops.
func goingAway(t *testing.T, ws *websocket.Conn) {
	t.Helper()
	_, frame, err := ws.Read(context.Background())
	if code := websocket.CloseStatus(err); code != websocket.StatusGoingAway {
		t.Errorf("got %.100s, %v, want a close with 1001", frame, err)
	}
}

const prompted = `{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"sessionId":"s"}}`

func TestDrain_WaitsForTurns(t *testing.T) {
	r := newRig(t, relay.Limits{})
	idle, _ := r.socket()
	busy, at := r.socket()
	r.write(busy, prompted)
	at.want(t, prompted)
	overHTTP, id := r.connect()
	of := []string{"Acp-Connection-Id", id, "Acp-Session-Id", "s"}
	stream := r.stream(of...)
	r.want(202, "", "POST", prompted, of...)
	overHTTP.want(t, prompted)

	drained := make(chan struct{})
	go func() {
		defer close(drained)
		r.relay.Drain(context.Background())
	}()
	goingAway(t, idle)
	r.want(503, "stopping", "POST", hello)
	// Active requests continue to their end, whatever the content of later messages.
	update := `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","text":"\"id\":7"}}`
	answer := `{"jsonrpc":"2.0","id":7,"result":{"stopReason":"end_turn"}}`
	at.say(update, `{"jsonrpc":"2.0","id":8,"result":{}}`)
	r.read(busy, update)
	r.read(busy, `{"jsonrpc":"2.0","id":8,"result":{}}`)
	at.say(answer)
	r.read(busy, answer)
	goingAway(t, busy)
	select {
	case <-drained:
		t.Fatal("a turn over HTTP was not waited for")
	default:
	}
	overHTTP.say(update, answer)
	stream.want(update, answer)
	if id, data := stream.next(); data != "" {
		t.Errorf("after the end of the turn arrived %s %s", id, data)
	}
	<-drained
}

func TestDrain_TimesOut(t *testing.T) {
	r := newRig(t, relay.Limits{})
	busy, at := r.socket()
	r.write(busy, prompted)
	at.want(t, prompted)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	r.relay.Drain(over)
	go r.relay.Close()
	_, frame, err := busy.Read(context.Background())
	if code := websocket.CloseStatus(err); code != websocket.StatusGoingAway || !strings.Contains(err.Error(), "stopping") {
		t.Errorf("got %.100s, %v, want a close with 1001", frame, err)
	}
}
