package server_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/acphost/acphost/services/gatewayd/internal/relay"
)

func TestServer_RejectsUnknownCallers(t *testing.T) {
	r := newRig(t, relay.Limits{})
	_, id := r.connect()
	operator := r.secrets["operator"]
	expired := r.token("operator", -time.Second)
	for name, headers := range map[string][]string{
		"no token":                      {"Authorization", ""},
		"an empty token":                {"Authorization", "Bearer "},
		"no scheme":                     {"Authorization", operator},
		"another scheme":                {"Authorization", "Basic " + operator},
		"a token that is cut":           {"Authorization", "Bearer " + operator[:len(operator)-1]},
		"a token and more":              {"Authorization", "Bearer " + operator + "A"},
		"two tokens":                    {"Authorization", "Bearer " + operator + "," + operator},
		"the hash in the token's place": {"Authorization", "Bearer " + r.set[2].Hash},
		"the id in the token's place":   {"Authorization", "Bearer " + r.set[2].ID},
		"a token that has expired":      {"Authorization", "Bearer " + expired},
	} {
		t.Run(name, func(t *testing.T) {
			for _, method := range []string{"POST", "GET", "DELETE", "OPTIONS", "PUT"} {
				res := r.want(401, "", method, hello, append(headers, "Acp-Connection-Id", id)...)
				if res.Get("WWW-Authenticate") == "" {
					t.Errorf("%s: it is not reported how to sign in", method)
				}
			}
		})
	}
	if res, err := http.Get(r.server.URL + "/acp?token=" + operator); err != nil || res.StatusCode != 401 { // logs would contain it
		t.Errorf("a token in the URL: %v, %v", res, err)
	} else {
		_ = res.Body.Close()
	}
	for _, path := range []string{"/", "/acp/", "/metrics", "/debug/pprof/"} { // whatever there is or is not
		if res, err := http.Get(r.server.URL + path); err != nil || res.StatusCode != 401 {
			t.Errorf("%s: %v, %v", path, res, err)
		} else {
			_ = res.Body.Close()
		}
	}
	for _, role := range []string{"viewer", "approver"} {
		for _, method := range []string{"POST", "GET", "DELETE"} {
			r.want(403, "role operator", method, hello, "Authorization", "Bearer "+r.secrets[role], "Acp-Connection-Id", id)
		}
	}
	if len(r.agents) != 0 {
		t.Error("an agent was opened")
	}
}

func TestServer_RejectsOtherHostsAndOrigins(t *testing.T) {
	r := newRig(t, relay.Limits{})
	for _, host := range []string{"evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", "[::2]"} {
		r.want(421, "", "POST", hello, "Host", host)
	}
	for _, origin := range []string{"https://evil.example", "http://good.example", "https://good.example.evil.example", "https://good.example:444", "null", "HTTPS://GOOD.EXAMPLE"} {
		res := r.want(403, "origin", "POST", hello, "Origin", origin)
		pre := r.want(403, "", "OPTIONS", "", "Origin", origin, "Access-Control-Request-Method", "POST", "Authorization", "")
		for _, res := range []http.Header{res, pre} {
			for name := range res {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("%s receives %s", origin, name)
				}
			}
		}
		_, answer, err := websocket.Dial(t.Context(), r.server.URL+"/acp", &websocket.DialOptions{HTTPHeader: http.Header{
			"Authorization": {"Bearer " + r.secrets["operator"]}, "Origin": {origin},
		}})
		if err == nil || answer == nil || answer.StatusCode != 403 {
			t.Errorf("a WebSocket from %s: %v", origin, err)
		}
	}
	if len(r.agents) != 0 {
		t.Error("an agent was opened for a page")
	}
	r.connect("Origin", "https://good.example")
}

func TestConnection_RejectsOtherOwners(t *testing.T) {
	r := newRig(t, relay.Limits{})
	p, id := r.connect()
	other := []string{"Acp-Connection-Id", id, "Authorization", "Bearer " + r.token("operator", time.Hour)}
	r.want(404, "Unknown", "POST", `{"id":1,"method":"session/new"}`, other...)
	r.want(404, "Unknown", "GET", "", other...)
	r.want(404, "Unknown", "DELETE", "", other...)
	select {
	case <-p.gone:
		t.Error("another's request ended the connection")
	case got := <-p.got:
		t.Errorf("another's request reached the agent: %s", got)
	default:
	}
}

func TestToken_RevocationEndsConnections(t *testing.T) {
	for name, end := range map[string]func(r *rig){
		"revoked":      func(r *rig) { r.set = r.set[:2]; r.save() },
		"expired":      func(r *rig) { r.set[2].Expires = time.Now().Add(-time.Second); r.save() },
		"another role": func(r *rig) { r.set[2].Role = "viewer"; r.save() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, relay.Limits{})
			p, id := r.connect()
			main := r.stream("Acp-Connection-Id", id)
			ws, q := r.socket()
			r.relay.Sweep()
			p.say(`{"method":"_still_there"}`)
			main.want(`{"method":"_still_there"}`)
			end(r)
			r.relay.Sweep()
			<-p.gone
			<-q.gone
			if _, data := main.next(); data != "" {
				t.Errorf("the stream continues with %s", data)
			}
			if _, _, err := ws.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
				t.Errorf("the WebSocket ended with %v", err)
			}
		})
	}
}

func TestConnection_LimitPerOwner(t *testing.T) {
	r := newRig(t, relay.Limits{ConnectionsEach: 2, Connections: 3})
	r.connect()
	_, id := r.connect()
	if res := r.want(429, "too many", "POST", hello); res.Get("Retry-After") == "" {
		t.Error("it is not reported when to try again")
	}
	other := []string{"Authorization", "Bearer " + r.token("operator", time.Hour)}
	r.connect(other...)
	r.want(429, "too many", "POST", hello, other...)
	r.want(202, "", "DELETE", "", "Acp-Connection-Id", id)
	r.connect(other...)
}

// socket opens a WebSocket and is past initialize.
func (r *rig) socket() (*websocket.Conn, *puppet) {
	r.t.Helper()
	ws, res, err := websocket.Dial(r.t.Context(), r.server.URL+"/acp", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + r.secrets["operator"]}}})
	if err != nil {
		r.t.Fatal(err)
	}
	if id := res.Header.Get("Acp-Connection-Id"); len(id) != 36 {
		r.t.Errorf("the connection's id is %q", id)
	}
	r.t.Cleanup(func() { _ = ws.CloseNow() })
	r.write(ws, hello)
	p := <-r.agents
	p.want(r.t, hello)
	p.say(`{"id":0,"result":{}}`)
	r.read(ws, `{"id":0,"result":{}}`)
	return ws, p
}

func (r *rig) write(ws *websocket.Conn, frame string) {
	r.t.Helper()
	if err := ws.Write(r.t.Context(), websocket.MessageText, []byte(frame)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) read(ws *websocket.Conn, want string) {
	r.t.Helper()
	kind, got, err := ws.Read(r.t.Context())
	if err != nil || kind != websocket.MessageText || string(got) != want {
		r.t.Fatalf("got %s (%v), want %s", got, err, want)
	}
}

func TestWebSocket_CarriesFramesBothWays(t *testing.T) {
	r := newRig(t, relay.Limits{})
	ws, p := r.socket()
	r.write(ws, "{\"id\":1,\n\"method\":\"session/prompt\",\"params\":{\"sessionId\":\"s\"}}")
	p.want(t, `{"id":1, "method":"session/prompt","params":{"sessionId":"s"}}`)
	p.say(`{"method":"session/update","params":{"sessionId":"s"}}`, "{\"id\":1,\"result\":\"\xff\"}")
	r.read(ws, `{"method":"session/update","params":{"sessionId":"s"}}`)
	r.read(ws, "{\"id\":1,\"result\":\"\uFFFD\"}")
	for sent, want := range map[string]string{
		`{`:                              `"id":null,"error":{"code":-32700`,
		`[]`:                             `"id":null,"error":{"code":-32600`,
		`1`:                              `"id":null,"error":{"code":-32600`,
		`{"id":9,"method":"initialize"}`: `"id":9,"error":{"code":-32600`,
	} {
		r.write(ws, sent)
		if _, got, err := ws.Read(t.Context()); err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s was answered with %s (%v)", sent, got, err)
		}
	}
	if err := ws.Write(t.Context(), websocket.MessageBinary, []byte(`{"method":"_ignored"}`)); err != nil {
		t.Fatal(err)
	}
	r.write(ws, `{"method":"_last"}`)
	p.want(t, `{"method":"_last"}`)
	close(p.output)
	if _, _, err := ws.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusInternalError {
		t.Errorf("when the agent has ended, the WebSocket ended with %v", err)
	}
}

func TestWebSocket_BeginsWithInitialize(t *testing.T) {
	r := newRig(t, relay.Limits{})
	open := func() *websocket.Conn {
		ws, _, err := websocket.Dial(t.Context(), r.server.URL+"/acp", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + r.secrets["operator"]}}})
		if err != nil {
			t.Fatal(err)
		}
		return ws
	}
	for _, first := range []string{`{"id":1,"method":"session/new"}`, `{"id":null,"method":"initialize"}`, `{"method":"initialize"}`} {
		ws := open()
		r.write(ws, first)
		if _, _, err := ws.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusProtocolError {
			t.Errorf("%s: %v", first, err)
		}
	}
	r.refuse = errors.New("none")
	ws := open()
	r.write(ws, `{"id":1,"result":{}}`) // an answer to nothing
	r.write(ws, hello)
	r.read(ws, `{"jsonrpc":"2.0","id":0,"error":{"code":-32603,"message":"Initialize failed","data":"none"}}`)
	if _, _, err := ws.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusInternalError {
		t.Errorf("got %v", err)
	}
	r.refuse = nil
	ended := make(chan error, 1)
	waiting := open()
	go func() { _, _, err := waiting.Read(context.Background()); ended <- err }()
	r.relay.Close()
	if err := <-ended; websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("when the gateway stops, a WebSocket ended with %v", err)
	}
}
