package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/limits"
	"github.com/acphost/acphost/services/gatewayd/internal/apierror"
	"github.com/acphost/acphost/services/gatewayd/internal/intake"
	"github.com/acphost/acphost/services/gatewayd/internal/relay"
	"github.com/acphost/acphost/services/gatewayd/internal/server"
)

// sized returns a message of the given number of bytes. text is a message with one "%".
func sized(text string, size int) string {
	return strings.Replace(text, "%", strings.Repeat("x", size-len(text)+1), 1)
}

func TestGateway_PassesMessagesUpToLimit(t *testing.T) {
	const limit = 1 << 16
	if server.MaxMessage != limits.Whole {
		t.Errorf("the gateway takes %d bytes by default, want %d", server.MaxMessage, limits.Whole)
	}
	message := `{"id":7,"method":"_x","params":{"text":"%"}}`
	small := func(o *server.Options) { o.Intake = intake.New(limit) }
	t.Run("client to agent by POST", func(t *testing.T) {
		r := newRig(t, relay.Limits{}, small)
		p, id := r.connect()
		for i, size := range []int{limit - 1, limit} {
			sent := sized(strings.Replace(message, "7", fmt.Sprint(i), 1), size)
			r.want(202, "", "POST", sent, "Acp-Connection-Id", id)
			p.want(t, sent)
		}
		r.want(apierror.TooLong.HTTP, "", "POST", sized(message, limit+1), "Acp-Connection-Id", id)
		r.want(202, "", "POST", `{"method":"_after"}`, "Acp-Connection-Id", id)
		p.want(t, `{"method":"_after"}`)
	})
	t.Run("client to agent by WebSocket", func(t *testing.T) {
		r := newRig(t, relay.Limits{}, small)
		ws, p := r.socket()
		for i, size := range []int{limit - 1, limit} {
			sent := sized(strings.Replace(message, "7", fmt.Sprint(i), 1), size)
			r.write(ws, sent)
			p.want(t, sent)
		}
		if got, end := r.says(ws, sized(message, limit+1)); end != 0 || !strings.Contains(got, fmt.Sprintf(`"id":7,"error":{"code":%d`, apierror.TooLong.RPC)) {
			t.Errorf("a message above the limit: got %.200s, and the end %d", got, end)
		}
		r.write(ws, `{"method":"_after"}`)
		p.want(t, `{"method":"_after"}`)
	})
	// The queue for a client is limited, and one message passes regardless of its size.
	waiting := relay.Limits{Buffered: limit}
	t.Run("agent to client by events", func(t *testing.T) {
		r := newRig(t, waiting)
		p, id := r.connect()
		events := r.stream("Acp-Connection-Id", id)
		for _, size := range []int{limit - 1, limit, limit + 1} {
			sent := sized(`{"method":"_x","params":{"text":"%"}}`, size)
			p.say(sent)
			events.want(sent)
		}
	})
	t.Run("agent to client by WebSocket", func(t *testing.T) {
		r := newRig(t, waiting)
		ws, p := r.socket()
		ws.SetReadLimit(-1)
		for _, size := range []int{limit - 1, limit, limit + 1} {
			sent := sized(`{"method":"_x","params":{"text":"%"}}`, size)
			p.say(sent)
			r.read(ws, sent)
		}
	})
}
