package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

func TestAttach_SecondClientJoinsLiveSession(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	g := e2e.ForPeople(t, p, "operator", "https://front.example")
	owner := g.Client(t, "owner", g.Token("operator"), "")
	if e2e.Dig(owner.First, "agentCapabilities", "sessionCapabilities", "attach", "roles") == nil || e2e.Dig(owner.First, "agentInfo", "name") == nil {
		t.Errorf("initialize answers %v, without attach", owner.First)
	}
	session := owner.Opens(p.Work)
	var past [][]string // the turns so far
	// A turn has ended for other clients when no late updates are awaited any more, which is after the owner has its
	// answer.
	watcher := g.Client(t, "watcher", g.Token("viewer"), "?attach")
	watcher.Attaches(session, map[string]any{"historyPolicy": "none"})
	testkit.Eventually(t, "the log states that the watcher has no agent", func() bool {
		return strings.Contains(g.Running.Stderr(), `agent="(none: attaches to sessions)"`)
	})
	turn := func(words string) {
		t.Helper()
		owner.Prompts("repeat " + words).Result(nil)
		hears(watcher, "turn_complete")
		past = append(past, []string{"user repeat " + words, "agent " + session + ": " + words})
	}
	turn("one")

	for _, c := range []struct{ history, role, as string }{
		{"full", "operator", "controller"}, {"", "viewer", "observer"}, {"pending_only", "approver", "controller"}, {"none", "viewer", "observer"},
	} {
		name := c.role + " " + c.history
		second := g.Client(t, name, g.Token(c.role), "?attach")
		got := second.Attaches(session, map[string]any{"historyPolicy": c.history})
		clients, _ := got["connectedClients"].([]any)
		if got["role"] != c.as || got["sessionId"] != session || len(clients) != 2 || (got["history"] != nil) != (c.history != "none") {
			t.Errorf("%s: attached as %v", name, got)
		}
		count := len(past)
		if c.history == "full" || c.history == "" {
			count = 0
		}
		turn("while " + name)
		for _, want := range past[count:] {
			if updates, _ := hears(second, "turn_complete"); !slices.Equal(updates, want) {
				t.Errorf("%s receives %q, want %q", name, updates, want)
			}
		}
		var left map[string]any
		if second.Send("session/detach", map[string]any{"sessionId": session}).Result(&left); left["status"] != "detached" {
			t.Errorf("%s: detached with %v", name, left)
		}
		turn("without " + name)
		// The client receives no event of the session: the next message is the response to the next request.
		second.Send("session/detach", map[string]any{"sessionId": session}).Refused(-32001)
		if rest := second.Waiting(); len(rest) > 0 {
			t.Errorf("%s: after it has detached it receives %s", name, rest[0].Raw)
		}
		second.Close()
	}

	for role, want := range map[string]int{"viewer": -32002, "operator": -32001} {
		c := g.Client(t, role, g.Token(role), "?attach")
		params := map[string]any{"sessionId": session, "role": "controller"}
		if role == "operator" {
			params["sessionId"] = "nobody's"
		}
		c.Send("session/attach", params).Refused(want)
		c.Send("session/attach", map[string]any{"sessionId": session, "historyPolicy": "some"}).Refused(-32602)
		c.Send("session/new", map[string]any{"cwd": p.Work, "mcpServers": []any{}}).Refused(-32601)
		c.Close()
	}
	owner.Close()
	g.Leave()
}

// TestAttach_TypeScriptTransports attaches with the unchanged client transports of the TypeScript SDK.
func TestAttach_TypeScriptTransports(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"ws", "http"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			g := e2e.ForPeople(t, p, "operator", "https://front.example")
			secret := g.Token("operator")
			file := p.File(t, "../second.token", secret)
			if err := os.Chmod(file, 0o600); err != nil {
				t.Fatal(err)
			}
			owner := g.Client(t, "owner", secret, "")
			session := owner.Opens(p.Work)
			owner.Prompts("repeat one").Result(nil)
			process := wire.Start(t, wire.Options{
				Name: "second", Command: []string{"node", e2e.Peer(t, "ts-stream.mjs"), g.URL(scheme) + "?attach"}, Dir: p.Work, Env: p.Env("EDITOR_TOKEN_FILE=" + file),
			})
			second := &e2e.SocketPeer{Peer: process.Peer, T: t}
			second.Send("initialize", json.RawMessage(`{"protocolVersion":1,"clientCapabilities":{}}`)).Result(&second.First)
			second.Attaches(session, map[string]any{"historyPolicy": "full"})
			if updates, _ := hears(second, "turn_complete"); !slices.Equal(updates, []string{"user repeat one", "agent " + session + ": one"}) {
				t.Errorf("the past is %q", updates)
			}
			turn := owner.Prompts("ask")
			question := permissionRequest(second)
			second.Reply(question, allowed(question))
			if r := resolved(second); r["outcome"] != "allowed" {
				t.Errorf("resolved as %v", r)
			}
			turn.Result(nil)
			hears(second, "turn_complete")
			second.Prompts("repeat mine").Result(nil)
			// Rejections have the same code over both transports.
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
			second.Prompts("repeat x").Refused(-32001)
			second.Close()
			owner.Close()
			g.Leave()
		})
	}
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

func TestAttach_ClientsAnswerQuestions(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	g := e2e.ForPeople(t, p, "operator", "https://front.example")
	owner := g.Client(t, "owner", g.Token("operator"), "")
	session := owner.Opens(p.Work)
	owner.Attaches(session, map[string]any{"historyPolicy": "none"}) // its own: it is notified of the others' prompts
	viewer := g.Client(t, "viewer", g.Token("viewer"), "?attach")
	viewer.Attaches(session, map[string]any{"historyPolicy": "none"})

	// A question that was asked before the client connected.
	turn := owner.Prompts("ask")
	first := permissionRequest(owner)
	ada := g.Client(t, "ada", g.Token("approver", "--name", "ada"), "?attach")
	got := ada.Attaches(session, map[string]any{"historyPolicy": "pending_only"})
	if waits, _ := got["history"].([]any); len(waits) != 1 || e2e.Dig(waits[0], "type") != "permission_request" || e2e.Dig(waits[0], "status") != "pending" {
		t.Errorf("the pending question is %v", got["history"])
	}
	question := permissionRequest(ada)
	// A client with read access is not asked, and cannot answer another client's question by its id.
	viewer.Reply(question, allowed(question))
	viewer.Prompts("repeat x").Refused(-32002)
	viewer.Notify("session/cancel", map[string]any{"sessionId": session})
	if _, refused := hears(viewer, "cancel_refused"); !strings.Contains(fmt.Sprint(refused["reason"]), "role") {
		t.Errorf("a viewer cancels: %v", refused)
	}
	ada.Reply(question, allowed(question))
	for _, c := range []*e2e.SocketPeer{owner, ada, viewer} {
		if r := resolved(c); e2e.Dig(r, "resolvedBy", "name") != "gateway people for ada" || r["chosenOptionId"] != "allow" || r["toolCallId"] == nil || r["outcome"] != "allowed" {
			t.Errorf("it is resolved as %v", r)
		}
	}
	var withdrawn struct{ RequestID json.RawMessage }
	owner.Expect("$/cancel_request").Decode(t, &withdrawn)
	if string(withdrawn.RequestID) != string(first.ID) {
		t.Errorf("the owner's request %s is withdrawn, want %s", withdrawn.RequestID, first.ID)
	}
	turn.Result(nil)

	// Two clients answer at once: one answer counts, and both are notified which.
	bob := g.Client(t, "bob", g.Token("approver", "--name", "bob"), "?attach")
	bob.Attaches(session, map[string]any{"historyPolicy": "none"})
	turn = owner.Prompts("ask")
	permissionRequest(owner)
	one, two := permissionRequest(ada), permissionRequest(bob)
	go ada.Reply(one, allowed(one))
	bob.Reply(two, allowed(two))
	a, b := resolved(ada), resolved(bob)
	if name, _ := e2e.Dig(a, "resolvedBy", "name").(string); !strings.HasSuffix(name, " for ada") && !strings.HasSuffix(name, " for bob") || fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("resolved as %v and as %v", a, b)
	}
	turn.Result(nil)

	// The owner answers: the others' requests are withdrawn.
	turn = owner.Prompts("ask")
	one = permissionRequest(ada)
	m := permissionRequest(owner)
	owner.Reply(m, allowed(m))
	turn.Result(nil)
	ada.ExpectWhere("her request is withdrawn", func(m wire.Message) bool {
		return m.Method == "$/cancel_request" && json.Unmarshal(m.Params, &withdrawn) == nil && string(withdrawn.RequestID) == string(one.ID)
	})
	for _, c := range []*e2e.SocketPeer{owner, ada, bob, viewer} {
		c.Close()
	}
	g.Leave()
}

// choosing is an answer that chooses an option.
func choosing(option string) map[string]any {
	return map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": option}}
}

// TestAttach_RejectedAnswerIsAskedAgain: a rejected answer does not end a question. The client is asked again, and so
// are clients that attach later.
func TestAttach_RejectedAnswerIsAskedAgain(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	g := e2e.ForPeople(t, p, "operator", "https://front.example")
	owner := g.Client(t, "owner", g.Token("operator"), "")
	session := owner.Opens(p.Work)
	ada := g.Client(t, "ada", g.Token("approver", "--name", "ada"), "?attach")
	ada.Attaches(session, map[string]any{"historyPolicy": "none"})
	refused := func(c *e2e.SocketPeer, want string) {
		t.Helper()
		if _, got := hears(c, "permission_refused"); !strings.Contains(fmt.Sprint(got["reason"]), want) || got["toolCallId"] == nil {
			t.Errorf("refused as %v, want %q", got, want)
		}
	}
	turn := owner.Prompts("ask")
	permissionRequest(owner)
	first := permissionRequest(ada)
	ada.Reply(first, choosing("perhaps"))
	ada.Reply(first, allowed(first)) // it has answered
	refused(ada, "allow")
	second := permissionRequest(ada)
	if string(second.ID) == string(first.ID) || string(second.Params) != string(first.Params) {
		t.Errorf("asked again by %s, after %s", second.Raw, first.Raw)
	}
	ada.Reply(second, map[string]any{"outcome": 7})
	refused(ada, "outcome")
	permissionRequest(ada) // and leaves without an answer
	ada.Close()

	again := g.Client(t, "ada again", g.Token("approver", "--name", "ada"), "?attach")
	again.Attaches(session, map[string]any{"historyPolicy": "pending_only"})
	for range 8 { // a program that always answers wrongly is not asked forever
		again.Reply(permissionRequest(again), choosing("perhaps"))
		refused(again, "allow")
	}
	again.Send("session/attach", map[string]any{"sessionId": session}).Refused(-32600) // behind which nothing is asked
	for _, m := range again.Waiting() {
		if m.Method == "session/request_permission" {
			t.Errorf("it is asked forever: %s", m.Raw)
		}
	}
	bob := g.Client(t, "bob", g.Token("approver", "--name", "bob"), "?attach")
	bob.Attaches(session, map[string]any{"historyPolicy": "pending_only"})
	question := permissionRequest(bob)
	bob.Reply(question, choosing("perhaps"))
	refused(bob, "allow")
	question = permissionRequest(bob)
	bob.Reply(question, allowed(question))
	for _, c := range []*e2e.SocketPeer{bob, again} {
		if r := resolved(c); e2e.Dig(r, "resolvedBy", "name") != "gateway people for bob" || r["outcome"] != "allowed" {
			t.Errorf("it is resolved as %v", r)
		}
	}
	turn.Result(nil)
	for _, c := range []*e2e.SocketPeer{owner, again, bob} {
		c.Close()
	}
	g.Leave()
}

// TestAttach_GatewayWithoutRightToAnswerDoesNotAsk: a gateway that may not answer for its callers reports that to them,
// and the question waits for another client.
func TestAttach_GatewayWithoutRightToAnswerDoesNotAsk(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	g := e2e.ForPeople(t, p, "viewer", "https://front.example")
	owner := g.Client(t, "owner", g.Token("operator"), "")
	session := owner.Opens(p.Work)
	ada := g.Client(t, "ada", g.Token("approver"), "?attach")
	ada.Attaches(session, map[string]any{"historyPolicy": "none"})
	if _, got := hears(ada, "permission_refused"); !strings.Contains(fmt.Sprint(got["reason"]), "role approver") {
		t.Errorf("refused as %v", got)
	}
	turn := owner.Prompts("ask")
	m := permissionRequest(owner)
	owner.Reply(m, allowed(m))
	if r := resolved(ada); r["outcome"] != "allowed" {
		t.Errorf("it is resolved as %v", r)
	}
	turn.Result(nil)
	if rest := ada.Waiting(); slices.ContainsFunc(rest, func(m wire.Message) bool { return m.Method == "session/request_permission" }) {
		t.Errorf("it is asked what it may not answer: %v", rest)
	}
	owner.Close()
	ada.Close()
	g.Leave()
}

func TestAttach_ClientsPromptInTurn(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	g := e2e.ForPeople(t, p, "operator", "https://front.example")
	owner := g.Client(t, "owner", g.Token("operator"), "")
	session := owner.Opens(p.Work)
	second := g.Client(t, "second", g.Token("operator"), "?attach")
	second.Attaches(session, map[string]any{"historyPolicy": "none"})
	third := g.Client(t, "third", g.Token("approver"), "?attach")
	third.Attaches(session, map[string]any{"historyPolicy": "none"})

	var ended struct{ StopReason string }
	second.Prompts("repeat mine").Result(&ended)
	if ended.StopReason != "end_turn" {
		t.Errorf("the turn ended with %q", ended.StopReason)
	}
	if updates := texts(second.Waiting()); updates != session+": mine" { // all of it before the answer, and not what was prompted
		t.Errorf("the caller receives %q", updates)
	}
	if updates, _ := hears(third, "turn_complete"); !slices.Equal(updates, []string{"user repeat mine", "agent " + session + ": mine"}) {
		t.Errorf("another one receives %q", updates)
	}
	if e := third.Prompts("repeat x").Refused(-32002); !strings.Contains(e.Message, "role operator") {
		t.Errorf("an approver prompts: %v", e)
	}
	if m := owner.ExpectWhere("what came of another one's prompt", func(m wire.Message) bool { return e2e.PieceOf(m) != "" }); e2e.PieceOf(m) != session+": mine" {
		t.Errorf("the owner receives %s", m.Raw)
	}

	// One turn at a time, for every client that begins.
	sleeping := second.Prompts("sleep")
	third.ExpectWhere("the turn begins", func(m wire.Message) bool { return strings.Contains(string(m.Raw), `"sleep"`) })
	if e := owner.Prompts("repeat y").Refused(-32600); !strings.Contains(e.Message, "another client's turn") {
		t.Errorf("the owner prompts meanwhile: %v", e)
	}
	second.Prompts("repeat z").Refused(-32600)
	owner.Notify("session/cancel", map[string]any{"sessionId": session})
	if sleeping.Result(&ended); ended.StopReason != "cancelled" {
		t.Errorf("a turn that the owner cancelled ended with %q", ended.StopReason)
	}
	sleeping = owner.Prompts("sleep")
	third.ExpectWhere("the turn begins", func(m wire.Message) bool { return strings.Contains(string(m.Raw), `"sleep"`) })
	if e := second.Prompts("repeat z").Refused(-32600); !strings.Contains(e.Message, "turn under way") {
		t.Errorf("another one prompts meanwhile: %v", e)
	}
	second.Notify("session/cancel", map[string]any{"sessionId": session})
	if sleeping.Result(&ended); ended.StopReason != "cancelled" {
		t.Errorf("a turn that another one cancelled ended with %q", ended.StopReason)
	}
	for _, c := range []*e2e.SocketPeer{owner, second, third} {
		c.Close()
	}
	g.Leave()
}

func texts(all []wire.Message) (updates string) {
	for _, m := range all {
		updates += e2e.PieceOf(m)
	}
	return updates
}

// TestAttach_BrokenStreamResumes breaks a stream in the middle of 2,000 updates. The client resumes after the last
// event id that it has.
func TestAttach_BrokenStreamResumes(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	g := e2e.ForPeople(t, p, "operator", "https://front.example")
	owner := g.Client(t, "owner", g.Token("operator"), "")
	session := owner.Opens(p.Work)
	viewer := g.Token("viewer")
	post := func(body string, header ...string) http.Header {
		t.Helper()
		res := e2e.RestClient{G: g, Token: viewer}.Request(g.Ctx, http.MethodPost, "/acp", body, header...) //nolint:bodyclose // request closes it
		if res.StatusCode >= 300 {
			t.Fatalf("%s: %s", body, res.Status)
		}
		return res.Header
	}
	id := post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}`).Get("Acp-Connection-Id")
	post(`{"jsonrpc":"2.0","id":1,"method":"session/attach","params":{"sessionId":"`+session+`","historyPolicy":"full"}}`, "Acp-Connection-Id", id, "Acp-Session-Id", session)
	const count = 2000
	turn := owner.Prompts(fmt.Sprintf("flood %d", count))
	next, last := 0, ""
	for cuts := []int{1, 700, 1400, count}; len(cuts) > 0; cuts = cuts[1:] {
		ctx, cut := context.WithCancel(g.Ctx)
		res := e2e.RestClient{G: g, Token: viewer}.Request(ctx, http.MethodGet, "/acp", "", "Accept", "text/event-stream", "Acp-Connection-Id", id, "Acp-Session-Id", session, "Last-Event-ID", last) //nolint:bodyclose // request closes it
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
				if text := e2e.PieceOf(m); text != "" {
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
	again := g.Client(t, "again", viewer, "?attach")
	again.Attaches(session, nil)
	updates, _ := hears(again, "turn_complete")
	if len(updates) != count+1 || updates[count] != fmt.Sprintf("agent piece %d\n", count-1) {
		t.Errorf("after a repetition there are %d messages, the last %q", len(updates), updates[len(updates)-1])
	}
	again.Close()
	owner.Close()
	g.Leave()
}

// TestAttach_SlowClientDoesNotBlockOthers: a client that does not read blocks neither the session nor other clients,
// and gets all updates when it reads again.
func TestAttach_SlowClientDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	g := e2e.ForPeople(t, p, "operator", "https://front.example")
	ctx := wire.Context(t) // which is longer than the supervisor's
	owner, err := dialFar(ctx, g.URL("ws"), g.Token("operator"), p.Work)
	if err != nil {
		t.Fatal(err)
	}
	slow, err := dialFar(ctx, g.URL("ws")+"?attach", g.Token("viewer"), "")
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
		if text := e2e.PieceOf(m); text != "" {
			if text != fmt.Sprintf("piece %d\n", next) {
				t.Fatalf("got %q where piece %d is next", text, next)
			}
			next++
		}
	}
	_ = slow.ws.CloseNow()
	_ = owner.ws.CloseNow()
	g.Leave()
}

// TestAttach_EditorSession: clients of the gateway can follow an editor's session and answer its questions. Only the
// editor can prompt.
func TestAttach_EditorSession(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	h := p.Start(t, nil, []string{e2e.Program("demoagent")})
	h.Initialize(`{}`).Result(nil)
	var opened struct{ SessionID string }
	h.Request("session/new", map[string]any{"cwd": p.Work, "mcpServers": []any{}}, &opened)
	prompts := func(text string) *wire.Call {
		return h.Send("session/prompt", map[string]any{"sessionId": opened.SessionID, "prompt": []any{map[string]any{"type": "text", "text": text}}})
	}
	prompts("repeat one").Result(nil)

	sockets, err := filepath.Glob(filepath.Join(p.Home, "run", "acphost", "*.sock"))
	if err != nil || len(sockets) != 1 {
		t.Fatalf("the admin sockets are %q (%v), want one", sockets, err)
	}
	tokens, at := filepath.Join(p.Home, "gateway", "tokens.json"), testkit.FreePort(t)
	status, token, errs := p.Cli(t, "tokens", "create", "--role", "operator", "--file", tokens)
	if status != 0 {
		t.Fatal(errs)
	}
	g := wire.Start(t, wire.Options{Name: "gateway's starter", Command: []string{e2e.Program("gatewayd"), "--listen", at, "--tokens", tokens, "--socket", sockets[0]}, Dir: p.Work, Env: p.Env()})
	testkit.Eventually(t, "gatewayd serves", func() bool { return strings.Contains(g.Stderr(), "the console is for browsers") })
	c := e2e.NewSocketPeer(wire.Context(t), t, "second", "ws://"+at+"/acp?attach", strings.TrimSpace(token))
	c.Attaches(opened.SessionID, nil)
	if updates, _ := hears(c, "turn_complete"); !slices.Equal(updates, []string{"user repeat one", "agent " + opened.SessionID + ": one"}) {
		t.Errorf("the past is %q", updates)
	}
	if e := c.Prompts("repeat x").Refused(-32600); !strings.Contains(e.Message, "the editor that started it") {
		t.Errorf("a prompt is refused with %v", e)
	}
	turn := prompts("ask")
	theirs, ours := h.Expect("session/request_permission"), permissionRequest(c)
	c.Reply(ours, allowed(ours))
	turn.Result(nil)
	var withdrawn struct{ RequestID json.RawMessage }
	if h.Expect("$/cancel_request").Decode(t, &withdrawn); string(withdrawn.RequestID) != string(theirs.ID) {
		t.Errorf("the editor's request %s is withdrawn, want %s", withdrawn.RequestID, theirs.ID)
	}
	if r := resolved(c); r["outcome"] != "allowed" {
		t.Errorf("resolved as %v", r)
	}
	// The session ends with the editor, and attached clients are notified.
	h.Close()
	h.ExpectExit()
	if _, last := hears(c, "detached"); last["reason"] == "" {
		t.Errorf("it ends with %v", last)
	}
	c.Close()
	if err := g.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	g.ExpectExit()
}

// TestSessionsList_LiveUntilAgentEnds: the list marks a session as live while its agent runs.
func TestSessionsList_LiveUntilAgentEnds(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	g := e2e.ForPeople(t, p, "operator", "https://front.example")
	first, second := g.Client(t, "first", g.Token("operator"), ""), g.Client(t, "second", g.Token("operator"), "")
	ended, open := first.Opens(p.Work), second.Opens(p.Work)
	for _, c := range []*e2e.SocketPeer{first, second} {
		c.Prompts("repeat hello").Result(nil)
	}
	lives := func(session string) bool {
		var s struct{ Live bool }
		for line := range strings.Lines(p.Acphost(t, 0, "sessions", "list", "--json")) {
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
	g.Leave()
}

// hears returns the updates that the client receives up to and including a gateway update of the given type: "user
// TEXT" and "agent TEXT".
func hears(c *e2e.SocketPeer, until string) (updates []string, last map[string]any) {
	c.T.Helper()
	for {
		m := c.Expect("session/update")
		var params struct{ Update map[string]any }
		m.Decode(c.T, &params)
		text, _ := e2e.Dig(params.Update, "content", "text").(string)
		switch params.Update["sessionUpdate"] {
		case "user_message_chunk":
			updates = append(updates, "user "+text)
		case "agent_message_chunk":
			updates = append(updates, "agent "+text)
		}
		if params.Update["type"] == until {
			return updates, params.Update
		}
	}
}

// permissionRequest waits for a question.
func permissionRequest(c *e2e.SocketPeer) wire.Message {
	c.T.Helper()
	return c.Expect("session/request_permission")
}

// resolved waits for the end of a question, and returns its notification.
func resolved(c *e2e.SocketPeer) map[string]any {
	c.T.Helper()
	_, got := hears(c, "permission_resolved")
	return got
}
