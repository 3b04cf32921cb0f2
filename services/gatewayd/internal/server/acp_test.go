package server_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/acphost/acphost/services/gatewayd/internal/relay"
	"github.com/acphost/acphost/services/gatewayd/internal/server"
)

// TestAgent_EmptyNameIsAttachOnly requests an agent by the text that the log shows for connections without an agent.
func TestAgent_EmptyNameIsAttachOnly(t *testing.T) {
	r := newRig(t, relay.Limits{}, func(o *server.Options) { o.Attach, o.Agent = true, "default" })
	r.refuse = errors.New("no agent")
	none := relay.Target{None: true}
	for query, want := range map[string]relay.Target{
		"":       {Name: "default"},
		"attach": none,
		"agent=" + url.QueryEscape(none.String()): {Name: none.String()},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.server.URL+"/acp?"+query, strings.NewReader(hello))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+r.secrets["operator"])
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if got := r.target.Swap(nil); got == nil || *got != want {
			t.Errorf("?%s: the target is %+v, want %+v", query, got, want)
		}
	}
}

func TestTransport_RejectsInvalidRequests(t *testing.T) {
	r := newRig(t, relay.Limits{})
	r.want(400, "must include an ID", "POST", `{"jsonrpc":"2.0","id":null,"method":"initialize"}`)
	r.want(400, "must include an ID", "POST", `{"jsonrpc":"2.0","method":"initialize"}`)
	r.want(400, "Missing Acp-Connection-Id", "POST", `{"jsonrpc":"2.0","id":1,"method":"session/new"}`)
	r.want(404, "Unknown", "POST", `{"jsonrpc":"2.0","id":1,"method":"session/new"}`, "Acp-Connection-Id", relay.NewID())
	r.want(415, "", "POST", hello, "Content-Type", "text/plain")
	r.want(415, "", "POST", hello, "Content-Type", "")
	r.want(400, "Invalid JSON", "POST", `{"jsonrpc"`)
	r.want(400, "Invalid JSON", "POST", hello+hello)
	r.want(400, "Invalid JSON", "POST", "")
	r.want(400, "Invalid JSON-RPC message", "POST", `"x"`)
	r.want(400, "", "POST", `null`)
	r.want(400, `"id":null,"error":{"code":-32600`, "POST", `[`+hello+`]`)
	r.want(413, "16 MiB", "POST", `{"x":"`+strings.Repeat("x", 16<<20)+`"}`)
	r.want(406, "", "GET", "", "Accept", "application/json")
	r.want(400, "Missing", "GET", "")
	r.want(404, "Unknown", "GET", "", "Acp-Connection-Id", relay.NewID())
	r.want(400, "Missing", "DELETE", "")
	r.want(404, "Unknown", "DELETE", "", "Acp-Connection-Id", relay.NewID())
	if res := r.want(405, "", "PUT", ""); res.Get("Allow") != "GET, POST, DELETE" {
		t.Errorf("Allow is %q", res.Get("Allow"))
	}
	r.refuse = errors.New("no agent \"today\"")
	r.want(500, `"id":0,"error":{"code":-32603,"message":"Initialize failed","data":"no agent \"today\""}`, "POST", hello)
	r.refuse = nil

	p, id := r.connect("Content-Type", "application/json; charset=utf-8")
	of := []string{"Acp-Connection-Id", id}
	in := func(session string) []string { return append(of[:2:2], "Acp-Session-Id", session) }
	r.want(400, "not allowed on existing", "POST", hello, of...)
	for _, method := range []string{"cancel", "close", "delete", "fork", "load", "prompt", "resume", "set_config_option", "set_mode", "set_model"} {
		r.want(400, "Missing Acp-Session-Id", "POST", `{"jsonrpc":"2.0","id":1,"method":"session/`+method+`"}`, of...)
	}
	r.want(400, "Missing Acp-Session-Id", "POST", `{"jsonrpc":"2.0","id":1,"method":"_x","params":{"sessionId":"s"}}`, of...)
	r.want(400, "Mismatched Acp-Session-Id", "POST", `{"jsonrpc":"2.0","id":1,"method":"_x","params":{"sessionId":"s"}}`, in("other")...)
	r.want(400, "1024 bytes", "POST", `{"jsonrpc":"2.0","id":"`+strings.Repeat("i", 1025)+`","method":"_x"}`, of...)
	r.want(400, "1024 bytes", "GET", "", in(strings.Repeat("s", 1025))...)

	// Responses are sent on the streams of their requests; that of session/load on the connection's stream.
	main := r.stream(of...)
	r.want(409, "active receiver", "GET", "", of...)
	session := r.stream(in("s")...)
	r.want(202, "", "POST", `{"jsonrpc":"2.0","id":1,"method":"session/new","params":{}}`, of...)
	p.want(t, `{"jsonrpc":"2.0","id":1,"method":"session/new","params":{}}`)
	p.say(`{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}`)
	main.want(`{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}`)
	r.want(202, "", "POST", "{\"id\":2.0,\n\"method\":\"session/load\",\r\n\"params\":{\"sessionId\":\"s\"}}", in("s")...)
	p.want(t, "{\"id\":2.0, \"method\":\"session/load\",\r \"params\":{\"sessionId\":\"s\"}}")
	p.say(`{"method":"session/update","params":{"sessionId":"s"}}`, `{"id":2,"result":{}}`)
	session.want(`{"method":"session/update","params":{"sessionId":"s"}}`)
	main.want(`{"id":2,"result":{}}`)
	r.want(202, "", "POST", `{"id":"p","method":"session/prompt","params":{"sessionId":"s"}}`, in("s")...)
	p.want(t, `{"id":"p","method":"session/prompt","params":{"sessionId":"s"}}`)
	ask := `{"id":7,"method":"session/request_permission","params":{"sessionId":"s"}}`
	p.say(ask)
	session.want(ask)
	r.want(400, "Missing Acp-Session-Id", "POST", `{"id":7,"result":{}}`, of...)
	r.want(400, "Mismatched Acp-Session-Id", "POST", `{"id":7,"result":{}}`, in("t")...)
	r.want(202, "", "POST", `{"id":7,"result":{}}`, in("s")...)
	p.want(t, `{"id":7,"result":{}}`)
	p.say(`{"id":"\u0070","result":{"stopReason":"end_turn"}}`, `{"method":"$/cancel_request","params":{"requestId":9}}`, `{"id":8,"method":"_ask"}`)
	session.want(`{"id":"\u0070","result":{"stopReason":"end_turn"}}`)
	main.want(`{"method":"$/cancel_request","params":{"requestId":9}}`, `{"id":8,"method":"_ask"}`)
	r.want(202, "", "POST", `{"id":8,"result":{}}`, of...)
	p.want(t, `{"id":8,"result":{}}`)

	// An unread message is queued, and delivered in order to the next reader.
	_ = session.Close()
	for i := range 50 {
		p.say(fmt.Sprintf(`{"method":"session/update","params":{"sessionId":"later","n":%d}}`, i))
	}
	later := r.stream(in("later")...)
	for i := range 50 {
		later.want(fmt.Sprintf(`{"method":"session/update","params":{"sessionId":"later","n":%d}}`, i))
	}
	r.want(202, "", "DELETE", "", of...)
	<-p.gone
	if _, data := main.next(); data != "" {
		t.Errorf("the stream of a connection that was deleted continues with %s", data)
	}
	r.want(404, "Unknown", "POST", `{"id":1,"method":"session/new"}`, of...)
}

func TestStream_DeliversLastMessageOfAgent(t *testing.T) {
	r := newRig(t, relay.Limits{})
	p, id := r.connect()
	p.say(`{"id":1,"error":{"code":-32603,"message":"the agent cannot answer any more"}}`)
	close(p.output)
	main := r.stream("Acp-Connection-Id", id)
	main.want(`{"id":1,"error":{"code":-32603,"message":"the agent cannot answer any more"}}`)
	if _, data := main.next(); data != "" {
		t.Errorf("the stream continues with %s", data)
	}
	<-p.gone
}

func TestServer_HTTP1AndHTTP2WithoutTLS(t *testing.T) {
	r := newRig(t, relay.Limits{})
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	h2 := &http.Transport{Protocols: protocols}
	defer h2.CloseIdleConnections()
	for by, want := range map[http.RoundTripper]int{http.DefaultTransport: 1, h2: 2} {
		if res := r.doBy(by, "POST", `[]`); res.ProtoMajor != want || res.StatusCode != 400 {
			t.Errorf("HTTP/%d answered %d, want HTTP/%d", res.ProtoMajor, res.StatusCode, want)
		}
	}
}

// TestStream_FrameIsOneEvent: an agent chooses the bytes of a frame. Carriage returns between JSON values would end a
// line of an event.
func TestStream_FrameIsOneEvent(t *testing.T) {
	r := newRig(t, relay.Limits{})
	p, id := r.connect()
	main := r.stream("Acp-Connection-Id", id)
	p.say("{\"method\":\"_a\",\r\rdata: {\"method\":\"_forged\"}\r\r\"x\":1}", "{\"method\":\"_b\",\r\n\r\"x\":1}\r", `{"method":"_c"}`)
	main.want(`{"method":"_b",   "x":1} `, `{"method":"_c"}`)
}

func TestStream_ResumesAfterLastEventID(t *testing.T) {
	r := newRig(t, relay.Limits{Replay: 1000})
	p, id := r.connect()
	of := []string{"Acp-Connection-Id", id, "Acp-Session-Id", "s"}
	frame := func(n int) string {
		return fmt.Sprintf(`{"method":"session/update","params":{"sessionId":"s","n":%d}}`, n)
	}
	r.want(409, "session/load", "GET", "", append(of, "Last-Event-ID", "3")...)
	if opened := r.do("GET", "", append(of, "Last-Event-ID", "0")...); opened.StatusCode != 200 {
		t.Errorf("from the beginning: %d", opened.StatusCode)
	} else if text, err := io.ReadAll(io.LimitReader(opened.Body, 7)); string(text) != "id: 0\n\n" {
		t.Errorf("a stream begins with %q (%v), want the id before the first", text, err)
	} else {
		_ = opened.Body.Close()
	}
	r.want(400, "Last-Event-ID", "GET", "", append(of, "Last-Event-ID", "x")...)
	first := r.stream(append(of, "Last-Event-ID", "0")...)
	for n := range 10 {
		p.say(frame(n))
	}
	var last string
	for n := range 5 {
		var data string
		if last, data = first.next(); data != frame(n) {
			t.Fatalf("got %s, want frame %d", data, n)
		}
	}
	// The first connection may be lost without notice: a client that knows the position replaces it.
	second := r.stream(append(of, "Last-Event-ID", last)...)
	for n := 5; n < 10; n++ {
		second.want(frame(n))
	}
	p.say(frame(10))
	second.want(frame(10))
	for n := 11; n < 100; n++ {
		p.say(frame(n))
		second.want(frame(n))
	}
	r.want(409, "the frames after "+last+" are not kept any more: the last 1000 bytes that were sent are", "GET", "", append(of, "Last-Event-ID", last)...)
	r.want(409, "frame 5000 of this stream was not sent yet, the next one is 101: load the session again", "GET", "", append(of, "Last-Event-ID", "5000")...)
	r.want(409, "active receiver", "GET", "", of...)
}
