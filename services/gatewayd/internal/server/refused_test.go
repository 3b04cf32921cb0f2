package server_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/gatewayd/internal/apierror"
	"github.com/acphost/acphost/services/gatewayd/internal/relay"
)

// dial opens a WebSocket with headers; without one, it returns the status that it was refused with.
func (r *rig) dial(headers ...string) (*websocket.Conn, int) {
	r.t.Helper()
	header := http.Header{"Authorization": {"Bearer " + r.secrets["operator"]}}
	for i := 0; i < len(headers); i += 2 {
		if header.Del(headers[i]); headers[i+1] != "" {
			header.Set(headers[i], headers[i+1])
		}
	}
	ws, res, err := websocket.Dial(r.t.Context(), r.server.URL+"/acp", &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		if res == nil {
			r.t.Fatal(err)
		}
		return nil, res.StatusCode
	}
	r.t.Cleanup(func() { _ = ws.CloseNow() })
	return ws, 0
}

// says sends a message by a WebSocket, and returns the last answer and the code that the connection ends with; 0 if it
// stays open.
func (r *rig) says(ws *websocket.Conn, message string) (answer string, end websocket.StatusCode) {
	r.t.Helper()
	if err := ws.Write(r.t.Context(), websocket.MessageText, []byte(message)); err != nil {
		r.t.Fatal(err)
	}
	for {
		_, frame, err := ws.Read(r.t.Context())
		if err != nil {
			return answer, websocket.CloseStatus(err)
		}
		if answer = string(frame); !strings.Contains(answer, "Initialize failed") { // else it is closed
			return answer, 0
		}
	}
}

// TestRefusal_IsSameOverBothTransports: POST and WebSocket reject a request with the same status and text.
func TestRefusal_IsSameOverBothTransports(t *testing.T) {
	unstarted, err := status.New(codes.NotFound, "no such program").WithDetails(&supervisorv1.AgentError{Kind: supervisorv1.ErrorKind_ERROR_KIND_COMMAND_NOT_FOUND})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("before a message", func(t *testing.T) {
		r := newRig(t, relay.Limits{})
		for secret, want := range map[string]apierror.Kind{"": apierror.NotSignedIn, r.secrets["viewer"]: apierror.NotAllowed} {
			by := []string{"Authorization", "Bearer " + secret}
			r.want(want.HTTP, "", "POST", hello, by...)
			if _, got := r.dial(by...); got != want.HTTP {
				t.Errorf("a WebSocket is refused with %d, want %d", got, want.HTTP)
			}
		}
	})
	for name, c := range map[string]struct {
		opening error
		limits  relay.Limits
		want    apierror.Kind
	}{
		"no such agent":            {opening: status.Error(codes.NotFound, "no such agent"), want: apierror.NotFound},
		"an agent without program": {opening: unstarted.Err(), want: apierror.Failed},
		"an agent that is broken":  {opening: errors.New("broken"), want: apierror.Failed},
		"too many agents":          {opening: status.Error(codes.ResourceExhausted, "32 agents"), want: apierror.TooMany},
		"too many connections":     {limits: relay.Limits{Connections: 1}, want: apierror.TooMany},
		"no supervisor":            {opening: status.Error(codes.Unavailable, "connection error: x"), want: apierror.Unavailable},
		"a gateway that stops":     {opening: relay.ErrClosing, want: apierror.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.limits)
			r.refuse = c.opening
			if c.opening == nil {
				r.connect()
			}
			code := fmt.Sprintf(`"id":0,"error":{"code":%d,"message":"Initialize failed"`, c.want.RPC)
			header := r.want(c.want.HTTP, code, "POST", hello)
			if again := header.Get("Retry-After") != ""; again != (c.want == apierror.TooMany) {
				t.Errorf("the answer has Retry-After: %t", again)
			}
			ws, _ := r.dial()
			if got, end := r.says(ws, hello); !strings.Contains(got, code) || end != c.want.Close {
				t.Errorf("by WebSocket: %s, and the end %d; want %s and %d", got, end, code, c.want.Close)
			}
		})
	}
	for name, c := range map[string]struct {
		message string
		want    apierror.Kind
		ends    bool // the WebSocket
	}{
		"no JSON":           {`{"jsonrpc"`, apierror.NotJSON, false},
		"a batch":           {`[]`, apierror.Invalid, false},
		"no object":         {`7`, apierror.Invalid, false},
		"initialize, again": {hello, apierror.Invalid, false},
		"a long id":         {`{"id":"` + strings.Repeat("i", 1025) + `","method":"_x"}`, apierror.Invalid, true},
		"a long message":    {`{"x":"` + strings.Repeat("x", 16<<20) + `"}`, apierror.TooLong, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, relay.Limits{})
			_, id := r.connect()
			r.want(c.want.HTTP, "", "POST", c.message, "Acp-Connection-Id", id)
			ws, _ := r.socket()
			code := fmt.Sprintf(`"error":{"code":%d,`, c.want.RPC)
			switch got, end := r.says(ws, c.message); {
			case c.ends && end != c.want.Close, !c.ends && !strings.Contains(got, code):
				t.Errorf("by WebSocket: %s, and the end %d; want %s or %d", got, end, code, c.want.Close)
			}
		})
	}
	t.Run("too many requests", func(t *testing.T) {
		r := newRig(t, relay.Limits{Open: 1})
		p, id := r.connect()
		r.want(202, "", "POST", `{"id":1,"method":"_x"}`, "Acp-Connection-Id", id)
		p.want(t, `{"id":1,"method":"_x"}`)
		r.want(apierror.TooMany.HTTP, "1 requests", "POST", `{"id":2,"method":"_x"}`, "Acp-Connection-Id", id)
	})
}
