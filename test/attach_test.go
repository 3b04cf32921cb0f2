package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/coder/websocket"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/wire"
)

// socketPeer is a client of a gateway's /acp, by WebSocket.
type socketPeer struct {
	*wire.Peer
	t       *testing.T
	session string
	first   map[string]any // the answer to initialize
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

// client connects with a token; query goes behind /acp. It has said initialize.
func (g *gateway) client(t *testing.T, name, token, query string) *socketPeer {
	t.Helper()
	return newSocketPeer(g.ctx, t, name, g.url("ws")+query, token)
}

func newSocketPeer(ctx context.Context, t *testing.T, name, url, token string) *socketPeer {
	t.Helper()
	ws, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + token}}}) //nolint:bodyclose // there is none
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
	c := &socketPeer{Peer: wire.NewPeer(t, name, socketWriter{ctx, ws}, bufio.NewReader(r)), t: t}
	c.Send("initialize", json.RawMessage(`{"protocolVersion":1,"clientCapabilities":{}}`)).Result(&c.first)
	return c
}

// opens opens a session with the client's own agent.
func (c *socketPeer) opens(cwd string) string {
	c.t.Helper()
	var opened struct{ SessionID string }
	c.Send("session/new", map[string]any{"cwd": cwd, "mcpServers": []any{}}).Result(&opened)
	c.session = opened.SessionID
	return opened.SessionID
}

// attaches attaches, and returns the answer.
func (c *socketPeer) attaches(session string, more map[string]any) map[string]any {
	c.t.Helper()
	params := map[string]any{"sessionId": session, "clientInfo": map[string]any{"name": "second", "version": "1"}}
	for k, v := range more {
		params[k] = v
	}
	c.session = session
	var got map[string]any
	c.Send("session/attach", params).Result(&got)
	return got
}

// prompts sends a prompt.
func (c *socketPeer) prompts(words string) *wire.Call {
	c.t.Helper()
	return c.Send("session/prompt", map[string]any{"sessionId": c.session, "prompt": []any{map[string]any{"type": "text", "text": words}}})
}

// hears is what the client is told up to an update of a type of the gateway's, which is what it returns: "user TEXT"
// and "agent TEXT".
func (c *socketPeer) hears(until string) (said []string, last map[string]any) {
	c.t.Helper()
	for {
		m := c.Expect("session/update")
		var params struct{ Update map[string]any }
		m.Decode(c.t, &params)
		text, _ := dig(params.Update, "content", "text").(string)
		switch params.Update["sessionUpdate"] {
		case "user_message_chunk":
			said = append(said, "user "+text)
		case "agent_message_chunk":
			said = append(said, "agent "+text)
		}
		if params.Update["type"] == until {
			return said, params.Update
		}
	}
}

func TestASecondClientAttachesToALiveSession(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	g := forPeople(t, p, "operator", "https://front.example")
	owner := g.client(t, "owner", g.token("operator"), "")
	if dig(owner.first, "agentCapabilities", "sessionCapabilities", "attach", "roles") == nil || dig(owner.first, "agentInfo", "name") == nil {
		t.Errorf("initialize answers %v, without attach", owner.first)
	}
	session := owner.opens(p.work)
	var past [][]string // the turns so far
	// A turn has ended for other clients when no late updates are awaited any more, which is after the owner has its answer.
	watcher := g.client(t, "watcher", g.token("viewer"), "?attach")
	watcher.attaches(session, map[string]any{"historyPolicy": "none"})
	turn := func(words string) {
		t.Helper()
		owner.prompts("repeat " + words).Result(nil)
		watcher.hears("turn_complete")
		past = append(past, []string{"user repeat " + words, "agent " + session + ": " + words})
	}
	turn("one")

	for _, c := range []struct{ history, role, as string }{
		{"full", "operator", "controller"}, {"", "viewer", "observer"}, {"pending_only", "approver", "controller"}, {"none", "viewer", "observer"},
	} {
		name := c.role + " " + c.history
		second := g.client(t, name, g.token(c.role), "?attach")
		got := second.attaches(session, map[string]any{"historyPolicy": c.history})
		clients, _ := got["connectedClients"].([]any)
		if got["role"] != c.as || got["sessionId"] != session || len(clients) != 2 || (got["history"] != nil) != (c.history != "none") {
			t.Errorf("%s: attached as %v", name, got)
		}
		told := len(past)
		if c.history == "full" || c.history == "" {
			told = 0
		}
		turn("while " + name)
		for _, want := range past[told:] {
			if said, _ := second.hears("turn_complete"); !slices.Equal(said, want) {
				t.Errorf("%s is told %q, want %q", name, said, want)
			}
		}
		var left map[string]any
		if second.Send("session/detach", map[string]any{"sessionId": session}).Result(&left); left["status"] != "detached" {
			t.Errorf("%s: detached with %v", name, left)
		}
		turn("without " + name)
		// Nothing of it is told: the answer to what is asked next is all that comes.
		second.Send("session/detach", map[string]any{"sessionId": session}).Refused(-32001)
		if rest := second.Waiting(); len(rest) > 0 {
			t.Errorf("%s: after it has detached it is told %s", name, rest[0].Raw)
		}
		second.Close()
	}

	for role, want := range map[string]int{"viewer": -32002, "operator": -32001} {
		c := g.client(t, role, g.token(role), "?attach")
		params := map[string]any{"sessionId": session, "role": "controller"}
		if role == "operator" {
			params["sessionId"] = "nobody's"
		}
		c.Send("session/attach", params).Refused(want)
		c.Send("session/attach", map[string]any{"sessionId": session, "historyPolicy": "some"}).Refused(-32602)
		c.Send("session/new", map[string]any{"cwd": p.work, "mcpServers": []any{}}).Refused(-32601)
		c.Close()
	}
	owner.Close()
	g.leave()
}

// The client's transports of the TypeScript SDK, unchanged, attach.
func TestTheTypeScriptSDKsTransportsAttach(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"ws", "http"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			g := forPeople(t, p, "operator", "https://front.example")
			secret := g.token("operator")
			file := p.file(t, "../second.token", secret)
			if err := os.Chmod(file, 0o600); err != nil {
				t.Fatal(err)
			}
			owner := g.client(t, "owner", secret, "")
			session := owner.opens(p.work)
			owner.prompts("repeat one").Result(nil)
			process := wire.Start(t, wire.Options{
				Name: "second", Command: []string{"node", peer(t, "ts-stream.mjs"), g.url(scheme) + "?attach"}, Dir: p.work, Env: p.env("EDITOR_TOKEN_FILE=" + file),
			})
			second := &socketPeer{Peer: process.Peer, t: t}
			second.Send("initialize", json.RawMessage(`{"protocolVersion":1,"clientCapabilities":{}}`)).Result(&second.first)
			second.attaches(session, map[string]any{"historyPolicy": "full"})
			if said, _ := second.hears("turn_complete"); !slices.Equal(said, []string{"user repeat one", "agent " + session + ": one"}) {
				t.Errorf("the past is %q", said)
			}
			turn := owner.prompts("ask")
			question := second.asked()
			second.Reply(question, allowed(question))
			if r := second.resolved(); r["outcome"] != "allowed" {
				t.Errorf("resolved as %v", r)
			}
			turn.Result(nil)
			second.hears("turn_complete")
			second.prompts("repeat mine").Result(nil)
			// What is refused has the same code over both.
			of := func(more ...string) map[string]any {
				params := map[string]any{"sessionId": session}
				for i := 0; i < len(more); i += 2 {
					params[more[i]] = more[i+1]
				}
				return params
			}
			second.Send("session/attach", of()).Refused(-32600)
			second.Send("session/attach", of("historyPolicy", "some")).Refused(-32602)
			second.Send("session/attach", of("sessionId", "nobody's")).Refused(-32001)
			second.Send("session/set_mode", of("modeId", "code")).Refused(-32600) // it is its client's to set
			second.Send("session/set_model", of("modelId", "mini")).Refused(-32601)
			second.Send("session/prompt", map[string]any{"sessionId": session, "prompt": []any{map[string]any{"type": "hologram"}}}).Refused(-32602)
			second.Send("session/detach", of()).Result(nil)
			second.Send("session/detach", of()).Refused(-32001)
			second.Send("session/set_mode", of("modeId", "code")).Refused(-32001)
			second.prompts("repeat x").Refused(-32001)
			second.Close()
			owner.Close()
			g.leave()
		})
	}
}

// asked waits for a question, and resolved for its end.
func (c *socketPeer) asked() wire.Message {
	c.t.Helper()
	return c.Expect("session/request_permission")
}

func (c *socketPeer) resolved() map[string]any {
	c.t.Helper()
	_, got := c.hears("permission_resolved")
	return got
}

func allowed(m wire.Message) map[string]any {
	var params struct {
		Options []struct{ OptionID, Kind string }
	}
	_ = json.Unmarshal(m.Params, &params)
	for _, o := range params.Options {
		if o.Kind == "allow_once" {
			return map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": o.OptionID}}
		}
	}
	return nil
}

func TestAttachedClientsAnswerQuestions(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	g := forPeople(t, p, "operator", "https://front.example")
	owner := g.client(t, "owner", g.token("operator"), "")
	session := owner.opens(p.work)
	owner.attaches(session, map[string]any{"historyPolicy": "none"}) // its own: it is told what others do
	viewer := g.client(t, "viewer", g.token("viewer"), "?attach")
	viewer.attaches(session, map[string]any{"historyPolicy": "none"})

	// One that was asked before the client came.
	turn := owner.prompts("ask")
	first := owner.asked()
	ada := g.client(t, "ada", g.token("approver", "--name", "ada"), "?attach")
	got := ada.attaches(session, map[string]any{"historyPolicy": "pending_only"})
	if waits, _ := got["history"].([]any); len(waits) != 1 || dig(waits[0], "type") != "permission_request" || dig(waits[0], "status") != "pending" {
		t.Errorf("what waits is %v", got["history"])
	}
	question := ada.asked()
	// Who only sees is not asked, and answers nothing by the id of a question of somebody else's.
	viewer.Reply(question, allowed(question))
	viewer.prompts("repeat x").Refused(-32002)
	viewer.Notify("session/cancel", map[string]any{"sessionId": session})
	if _, refused := viewer.hears("cancel_refused"); !strings.Contains(fmt.Sprint(refused["reason"]), "role") {
		t.Errorf("a viewer cancels: %v", refused)
	}
	ada.Reply(question, allowed(question))
	for _, c := range []*socketPeer{owner, ada, viewer} {
		if r := c.resolved(); dig(r, "resolvedBy", "name") != "gateway people for ada" || r["chosenOptionId"] != "allow" || r["toolCallId"] == nil || r["outcome"] != "allowed" {
			t.Errorf("it is resolved as %v", r)
		}
	}
	var withdrawn struct{ RequestID json.RawMessage }
	owner.Expect("$/cancel_request").Decode(t, &withdrawn)
	if string(withdrawn.RequestID) != string(first.ID) {
		t.Errorf("the owner's request %s is withdrawn, want %s", withdrawn.RequestID, first.ID)
	}
	turn.Result(nil)

	// Two answer at once: one answer counts, and both are told which.
	bob := g.client(t, "bob", g.token("approver", "--name", "bob"), "?attach")
	bob.attaches(session, map[string]any{"historyPolicy": "none"})
	turn = owner.prompts("ask")
	owner.asked()
	one, two := ada.asked(), bob.asked()
	go ada.Reply(one, allowed(one))
	bob.Reply(two, allowed(two))
	a, b := ada.resolved(), bob.resolved()
	if who, _ := dig(a, "resolvedBy", "name").(string); !strings.HasSuffix(who, " for ada") && !strings.HasSuffix(who, " for bob") || fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("resolved as %v and as %v", a, b)
	}
	turn.Result(nil)

	// The owner answers: the others' requests are withdrawn.
	turn = owner.prompts("ask")
	one = ada.asked()
	m := owner.asked()
	owner.Reply(m, allowed(m))
	turn.Result(nil)
	ada.ExpectWhere("her request is withdrawn", func(m wire.Message) bool {
		return m.Method == "$/cancel_request" && json.Unmarshal(m.Params, &withdrawn) == nil && string(withdrawn.RequestID) == string(one.ID)
	})
	for _, c := range []*socketPeer{owner, ada, bob, viewer} {
		c.Close()
	}
	g.leave()
}

// choosing is an answer that chooses an option.
func choosing(option string) map[string]any {
	return map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": option}}
}

// An answer that is refused ends nothing: who gave it is asked again, and so is who comes later.
func TestWhoseAnswerIsRefusedIsAskedAgain(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	g := forPeople(t, p, "operator", "https://front.example")
	owner := g.client(t, "owner", g.token("operator"), "")
	session := owner.opens(p.work)
	ada := g.client(t, "ada", g.token("approver", "--name", "ada"), "?attach")
	ada.attaches(session, map[string]any{"historyPolicy": "none"})
	refused := func(c *socketPeer, want string) {
		t.Helper()
		if _, got := c.hears("permission_refused"); !strings.Contains(fmt.Sprint(got["reason"]), want) || got["toolCallId"] == nil {
			t.Errorf("refused as %v, want %q", got, want)
		}
	}
	turn := owner.prompts("ask")
	owner.asked()
	first := ada.asked()
	ada.Reply(first, choosing("perhaps"))
	ada.Reply(first, allowed(first)) // it has answered
	refused(ada, "allow")
	second := ada.asked()
	if string(second.ID) == string(first.ID) || string(second.Params) != string(first.Params) {
		t.Errorf("asked again by %s, after %s", second.Raw, first.Raw)
	}
	ada.Reply(second, map[string]any{"outcome": 7})
	refused(ada, "outcome")
	ada.asked() // and leaves without an answer
	ada.Close()

	again := g.client(t, "ada again", g.token("approver", "--name", "ada"), "?attach")
	again.attaches(session, map[string]any{"historyPolicy": "pending_only"})
	for range 8 { // a program that can only answer wrongly is not asked for ever
		again.Reply(again.asked(), choosing("perhaps"))
		refused(again, "allow")
	}
	again.Send("session/attach", map[string]any{"sessionId": session}).Refused(-32600) // behind which nothing is asked
	for _, m := range again.Waiting() {
		if m.Method == "session/request_permission" {
			t.Errorf("it is asked for ever: %s", m.Raw)
		}
	}
	bob := g.client(t, "bob", g.token("approver", "--name", "bob"), "?attach")
	bob.attaches(session, map[string]any{"historyPolicy": "pending_only"})
	question := bob.asked()
	bob.Reply(question, choosing("perhaps"))
	refused(bob, "allow")
	question = bob.asked()
	bob.Reply(question, allowed(question))
	for _, c := range []*socketPeer{bob, again} {
		if r := c.resolved(); dig(r, "resolvedBy", "name") != "gateway people for bob" || r["outcome"] != "allowed" {
			t.Errorf("it is resolved as %v", r)
		}
	}
	turn.Result(nil)
	for _, c := range []*socketPeer{owner, again, bob} {
		c.Close()
	}
	g.leave()
}

// A gateway that may not answer for its callers says so to those who could: the question waits for somebody else.
func TestNobodyIsAskedByAGatewayThatMayNotAnswer(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	g := forPeople(t, p, "viewer", "https://front.example")
	owner := g.client(t, "owner", g.token("operator"), "")
	session := owner.opens(p.work)
	ada := g.client(t, "ada", g.token("approver"), "?attach")
	ada.attaches(session, map[string]any{"historyPolicy": "none"})
	if _, got := ada.hears("permission_refused"); !strings.Contains(fmt.Sprint(got["reason"]), "role approver") {
		t.Errorf("refused as %v", got)
	}
	turn := owner.prompts("ask")
	m := owner.asked()
	owner.Reply(m, allowed(m))
	if r := ada.resolved(); r["outcome"] != "allowed" {
		t.Errorf("it is resolved as %v", r)
	}
	turn.Result(nil)
	if rest := ada.Waiting(); slices.ContainsFunc(rest, func(m wire.Message) bool { return m.Method == "session/request_permission" }) {
		t.Errorf("it is asked what it may not answer: %v", rest)
	}
	owner.Close()
	ada.Close()
	g.leave()
}

func TestAttachedClientsPromptWhileTheFirstDoesNot(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	g := forPeople(t, p, "operator", "https://front.example")
	owner := g.client(t, "owner", g.token("operator"), "")
	session := owner.opens(p.work)
	second := g.client(t, "second", g.token("operator"), "?attach")
	second.attaches(session, map[string]any{"historyPolicy": "none"})
	third := g.client(t, "third", g.token("approver"), "?attach")
	third.attaches(session, map[string]any{"historyPolicy": "none"})

	var ended struct{ StopReason string }
	second.prompts("repeat mine").Result(&ended)
	if ended.StopReason != "end_turn" {
		t.Errorf("the turn ended with %q", ended.StopReason)
	}
	if said := texts(second.Waiting()); said != session+": mine" { // all of it before the answer, and not what was prompted
		t.Errorf("who prompted is told %q", said)
	}
	if said, _ := third.hears("turn_complete"); !slices.Equal(said, []string{"user repeat mine", "agent " + session + ": mine"}) {
		t.Errorf("another one is told %q", said)
	}
	if e := third.prompts("repeat x").Refused(-32002); !strings.Contains(e.Message, "role operator") {
		t.Errorf("an approver prompts: %v", e)
	}
	if m := owner.ExpectWhere("what came of another one's prompt", func(m wire.Message) bool { return pieceOf(m) != "" }); pieceOf(m) != session+": mine" {
		t.Errorf("the owner is told %s", m.Raw)
	}

	// One at a time, whoever begins.
	sleeping := second.prompts("sleep")
	third.ExpectWhere("the turn begins", func(m wire.Message) bool { return strings.Contains(string(m.Raw), `"sleep"`) })
	if e := owner.prompts("repeat y").Refused(-32600); !strings.Contains(e.Message, "another client's turn") {
		t.Errorf("the owner prompts meanwhile: %v", e)
	}
	second.prompts("repeat z").Refused(-32600)
	owner.Notify("session/cancel", map[string]any{"sessionId": session})
	if sleeping.Result(&ended); ended.StopReason != "cancelled" {
		t.Errorf("a turn that the owner cancelled ended with %q", ended.StopReason)
	}
	sleeping = owner.prompts("sleep")
	third.ExpectWhere("the turn begins", func(m wire.Message) bool { return strings.Contains(string(m.Raw), `"sleep"`) })
	if e := second.prompts("repeat z").Refused(-32600); !strings.Contains(e.Message, "turn under way") {
		t.Errorf("another one prompts meanwhile: %v", e)
	}
	second.Notify("session/cancel", map[string]any{"sessionId": session})
	if sleeping.Result(&ended); ended.StopReason != "cancelled" {
		t.Errorf("a turn that another one cancelled ended with %q", ended.StopReason)
	}
	for _, c := range []*socketPeer{owner, second, third} {
		c.Close()
	}
	g.leave()
}

func texts(all []wire.Message) (said string) {
	for _, m := range all {
		said += pieceOf(m)
	}
	return said
}

// A client's stream breaks in the middle of 2,000 updates: by the number of the last one that it has it goes on behind
// that.
func TestAnAttachedClientLosesNothingWhenItsStreamBreaks(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	g := forPeople(t, p, "operator", "https://front.example")
	owner := g.client(t, "owner", g.token("operator"), "")
	session := owner.opens(p.work)
	viewer := g.token("viewer")
	post := func(body string, header ...string) http.Header {
		t.Helper()
		res := restClient{g, viewer}.request(g.ctx, http.MethodPost, "/acp", body, header...) //nolint:bodyclose // request closes it
		if res.StatusCode >= 300 {
			t.Fatalf("%s: %s", body, res.Status)
		}
		return res.Header
	}
	id := post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}`).Get("Acp-Connection-Id")
	post(`{"jsonrpc":"2.0","id":1,"method":"session/attach","params":{"sessionId":"`+session+`","historyPolicy":"full"}}`, "Acp-Connection-Id", id, "Acp-Session-Id", session)
	const count = 2000
	turn := owner.prompts(fmt.Sprintf("flood %d", count))
	next, last := 0, ""
	for cuts := []int{1, 700, 1400, count}; len(cuts) > 0; cuts = cuts[1:] {
		ctx, cut := context.WithCancel(g.ctx)
		res := restClient{g, viewer}.request(ctx, http.MethodGet, "/acp", "", "Accept", "text/event-stream", "Acp-Connection-Id", id, "Acp-Session-Id", session, "Last-Event-ID", last) //nolint:bodyclose // request closes it
		lines := bufio.NewScanner(res.Body)
		lines.Buffer(nil, 1<<20)
		for next < cuts[0] && lines.Scan() {
			switch key, value, _ := strings.Cut(lines.Text(), ": "); key {
			case "id":
				last = value
			case "data":
				m := wire.Message{Raw: json.RawMessage(value)}
				if err := json.Unmarshal(m.Raw, &m); err != nil {
					t.Fatal(err)
				}
				if text := pieceOf(m); text != "" {
					if text != fmt.Sprintf("piece %d\n", next) {
						t.Fatalf("got %q where piece %d is next", text, next)
					}
					next++
				}
			}
		}
		if next < cuts[0] {
			t.Fatalf("the stream ended after %d pieces: %v", next, lines.Err())
		}
		cut()
	}
	turn.Result(nil)

	// A client that lost its connection attaches again.
	again := g.client(t, "again", viewer, "?attach")
	again.attaches(session, nil)
	said, _ := again.hears("turn_complete")
	if len(said) != count+1 || said[count] != fmt.Sprintf("agent piece %d\n", count-1) {
		t.Errorf("told again, there are %d messages, the last %q", len(said), said[len(said)-1])
	}
	again.Close()
	owner.Close()
	g.leave()
}

// A client that does not read holds up neither the session nor others, and is told all when it reads again.
func TestAnAttachedClientThatDoesNotReadHoldsUpNobody(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	g := forPeople(t, p, "operator", "https://front.example")
	ctx := wire.Context(t) // which is longer than the supervisor's
	owner, err := dialFar(ctx, g.url("ws"), g.token("operator"), p.work)
	if err != nil {
		t.Fatal(err)
	}
	slow, err := dialFar(ctx, g.url("ws")+"?attach", g.token("viewer"), "")
	if err == nil {
		_, err = slow.ask("session/attach", `{"sessionId":"`+owner.session+`","historyPolicy":"none"}`)
	}
	if err != nil {
		t.Fatal(err)
	}
	const count = 50_000
	if err := owner.turn(fmt.Sprintf("flood %d", count)); err != nil {
		t.Fatal(err)
	}
	for next := 0; next < count; {
		_, raw, err := slow.ws.Read(ctx)
		if bytes.Contains(raw, []byte(`"type":"detached"`)) || bytes.Contains(raw, []byte(`"type":"gap"`)) {
			t.Fatalf("after %d pieces: %s", next, raw)
		}
		m := wire.Message{Raw: raw}
		if err == nil {
			err = json.Unmarshal(raw, &m)
		}
		if err != nil {
			t.Fatalf("after %d pieces: %v", next, err)
		}
		if text := pieceOf(m); text != "" {
			if text != fmt.Sprintf("piece %d\n", next) {
				t.Fatalf("got %q where piece %d is next", text, next)
			}
			next++
		}
	}
	_ = slow.ws.CloseNow()
	_ = owner.ws.CloseNow()
	g.leave()
}

// An editor's session is followed and its questions are answered, by whoever the gateway lets in. Its prompts are the
// editor's.
func TestAClientAttachesToAnEditorsSession(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	h := p.start(t, nil, []string{program("demoagent")})
	h.initialize(`{}`).Result(nil)
	var opened struct{ SessionID string }
	h.Request("session/new", map[string]any{"cwd": p.work, "mcpServers": []any{}}, &opened)
	prompts := func(text string) *wire.Call {
		return h.Send("session/prompt", map[string]any{"sessionId": opened.SessionID, "prompt": []any{map[string]any{"type": "text", "text": text}}})
	}
	prompts("repeat one").Result(nil)

	sockets, err := filepath.Glob(filepath.Join(p.home, "run", "acphost", "*.sock"))
	if err != nil || len(sockets) != 1 {
		t.Fatalf("the admin sockets are %q (%v), want one", sockets, err)
	}
	tokens, at := filepath.Join(p.home, "gateway", "tokens.json"), testkit.FreePort(t)
	status, token, errs := p.cli(t, "tokens", "create", "--role", "operator", "--file", tokens)
	if status != 0 {
		t.Fatal(errs)
	}
	g := wire.Start(t, wire.Options{Name: "gateway's starter", Command: []string{program("gatewayd"), "--listen", at, "--tokens", tokens, "--socket", sockets[0]}, Dir: p.work, Env: p.env()})
	testkit.Eventually(t, "gatewayd serves", func() bool { return strings.Contains(g.Stderr(), "the console is for browsers") })
	c := newSocketPeer(wire.Context(t), t, "second", "ws://"+at+"/acp?attach", strings.TrimSpace(token))
	c.attaches(opened.SessionID, nil)
	if said, _ := c.hears("turn_complete"); !slices.Equal(said, []string{"user repeat one", "agent " + opened.SessionID + ": one"}) {
		t.Errorf("the past is %q", said)
	}
	if e := c.prompts("repeat x").Refused(-32600); !strings.Contains(e.Message, "the editor that started it") {
		t.Errorf("a prompt is refused with %v", e)
	}
	turn := prompts("ask")
	theirs, ours := h.Expect("session/request_permission"), c.asked()
	c.Reply(ours, allowed(ours))
	turn.Result(nil)
	var withdrawn struct{ RequestID json.RawMessage }
	if h.Expect("$/cancel_request").Decode(t, &withdrawn); string(withdrawn.RequestID) != string(theirs.ID) {
		t.Errorf("the editor's request %s is withdrawn, want %s", withdrawn.RequestID, theirs.ID)
	}
	if r := c.resolved(); r["outcome"] != "allowed" {
		t.Errorf("resolved as %v", r)
	}
	// With the editor the session goes, and who is attached is told.
	h.Close()
	h.ExpectExit()
	if _, last := c.hears("detached"); last["reason"] == "" {
		t.Errorf("it ends with %v", last)
	}
	c.Close()
	if err := g.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	g.ExpectExit()
}

// Who lists sessions sees which of them go on: those whose agents are there.
func TestASessionIsLiveUpToTheEndOfItsAgent(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	g := forPeople(t, p, "operator", "https://front.example")
	first, second := g.client(t, "first", g.token("operator"), ""), g.client(t, "second", g.token("operator"), "")
	ended, open := first.opens(p.work), second.opens(p.work)
	for _, c := range []*socketPeer{first, second} {
		c.prompts("repeat hello").Result(nil)
	}
	lives := func(session string) bool {
		var s struct{ Live bool }
		for line := range strings.Lines(p.acphost(t, 0, "sessions", "list", "--json")) {
			if strings.Contains(line, session) && json.Unmarshal([]byte(line), &s) == nil {
				return s.Live
			}
		}
		t.Fatalf("session %s is not in the list", session)
		return false
	}
	for _, id := range []string{ended, open} {
		testkit.Eventually(t, "the sessions are live", func() bool { return lives(id) })
	}
	first.Close()
	testkit.Eventually(t, "the session whose agent is gone has ended", func() bool { return !lives(ended) })
	if !lives(open) {
		t.Error("another agent's session is not live any more")
	}
	second.Close()
	g.leave()
}
