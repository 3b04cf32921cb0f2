package gateway_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

// TestSweep_EveryMethodOfEveryVersion reads the schemas of ACP and sends each method in each direction, with and
// without its optional members, and with members that no schema has.
func TestSweep_EveryMethodOfEveryVersion(t *testing.T) {
	t.Parallel()
	for version, files := range map[int][]string{
		1: {"v1/schema.json", "v1/schema.unstable.json"},
		2: {"v2/schema.json", "v2/schema.unstable.json"},
	} {
		t.Run(fmt.Sprintf("version %d", version), func(t *testing.T) {
			t.Parallel()
			sw := newSweep(t, version)
			for _, file := range files {
				sw.schema = readSchema(t, file)
				sw.all()
			}
			sw.batches()
			if status := sw.Finish(); status != 0 {
				t.Errorf("the exit status is %d, want 0", status)
			}
			t.Logf("%d messages", sw.count)
		})
	}
}

// TestSweep_MethodsLeftToEditor is the same for methods of files and terminals that the editor serves.
func TestSweep_MethodsLeftToEditor(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	sw := &sweep{schema: readSchema(t, "v1/schema.unstable.json"), version: 1}
	sw.Fixture = p.FixtureWith(t, `{"fs":{"readTextFile":true,"writeTextFile":true},"terminal":true}`, []string{"--fs=front", "--terminal=front"}, nil)
	for _, method := range slices.Sorted(maps.Keys(sw.methods)) {
		if strings.HasPrefix(method, "fs/") || strings.HasPrefix(method, "terminal/") {
			sw.method = method
			sw.passes(sw.methods[method], sw.Agent.Peer, sw.Peer, true, 0)
		}
	}
	sw.Finish()
}

// passes are the methods that acphost forwards unchanged, by the versions that have them.
var passes = map[int]string{
	1: `authenticate logout session/new session/load session/list session/delete session/resume session/close session/set_mode
		session/set_config_option session/prompt session/cancel session/update elicitation/create elicitation/complete
		auth/status auth/status_update providers/list providers/set providers/disable session/fork session/archive
		session/unarchive session/status session/set_title mcp/message proxy/initialize proxy/successor`,
	2: `auth/login auth/logout session/new session/list session/delete session/resume session/close session/set_config_option
		session/prompt session/cancel session/update elicitation/create elicitation/complete tool_call/cancel terminal/cancel
		auth/status auth/status_update providers/list providers/set providers/disable session/fork session/archive
		session/unarchive session/status session/set_title mcp/message proxy/initialize proxy/successor`,
}

// handled are the methods that acphost does more with, and what the test does with each.
var handled = map[int]map[string]func(*sweep, *schemaMethod){
	1: {
		"initialize": (*sweep).initialize, "session/request_permission": (*sweep).questions, "$/cancel_request": (*sweep).cancels,
		"fs/write_text_file": (*sweep).routed, "fs/read_text_file": (*sweep).routed, "terminal/create": (*sweep).routed,
		"terminal/output": (*sweep).routed, "terminal/wait_for_exit": (*sweep).routed, "terminal/kill": (*sweep).routed,
		"terminal/release": (*sweep).routed,
	},
	2: {
		"initialize": (*sweep).initialize, "session/request_permission": (*sweep).questions, "$/cancel_request": (*sweep).cancels,
	},
}

// sweep is a connection that the methods of a version go over.
type sweep struct {
	*e2e.Fixture
	*schema
	version, count int
	most           int    // so many samples of a message at most; 0: all
	method         string // the one at hand
	sender, taker  *wire.Peer
	words          map[string]string             // of every sample
	remote         bool                          // ACP's remote transport is on the way, over which only the first message is initialize
	equal          func(got, want []string) bool // what arrived and was sent; nil: byte for byte
	terminal       string                        // the id of one that was made
}

func newSweep(t *testing.T, version int) *sweep {
	p := e2e.NewPlace(t)
	p.File(t, "a.txt", "one\ntwo\n")
	st := p.Stage(t)
	h := p.Start(t, nil, st.Command)
	return &sweep{Fixture: &e2e.Fixture{Host: h, Agent: st.Play(t)}, version: version, words: map[string]string{
		"protocolVersion": fmt.Sprint(version), "cwd": rawText(t, p.Work), "path": rawText(t, p.Path("a.txt")),
	}}
}

// all sends every method of the schema. The methods of this connection come first.
func (sw *sweep) all() {
	known := strings.Fields(passes[sw.version])
	for _, method := range slices.Sorted(maps.Keys(sw.methods)) {
		if handled[sw.version][method] == nil && !slices.Contains(known, method) {
			sw.schema.t.Errorf("%s has %s, which the sweep does not know: add what acphost does with it to passes or handled", sw.url, method)
		}
	}
	if strings.HasSuffix(sw.url, "unstable.json") { // which has all that the version has
		for _, method := range slices.Concat(known, slices.Collect(maps.Keys(handled[sw.version]))) {
			if sw.methods[method] == nil {
				sw.schema.t.Errorf("the sweep knows %s, which is not in %s", method, sw.url)
			}
		}
	}
	first := []string{"initialize", "session/new", "terminal/create", "terminal/output", "terminal/wait_for_exit", "terminal/kill"}
	later := slices.DeleteFunc(slices.Sorted(maps.Keys(sw.methods)), func(method string) bool { return slices.Contains(first, method) })
	sort := map[bool]int{true: 1}
	slices.SortStableFunc(later, func(a, b string) int {
		return sort[strings.HasPrefix(a, "session/")] - sort[strings.HasPrefix(b, "session/")]
	})
	for _, method := range slices.Concat(first, later) {
		m := sw.methods[method]
		if m == nil || sw.schema.t.Failed() || sw.remote && method == "initialize" {
			continue
		}
		sw.method = method
		if f := handled[sw.version][method]; f != nil {
			f(sw, m)
			continue
		}
		sw.passes(m, sw.Agent.Peer, sw.Peer, m.side == "client", 0)
		sw.passes(m, sw.Agent.Peer, sw.Peer, m.side != "client", 6) // the other way, as proxies may send it
	}
}

// passes sends a method and its responses: at most the given number of each, unless most is 0.
func (sw *sweep) passes(m *schemaMethod, agent, editor *wire.Peer, toEditor bool, most int) {
	sw.sender, sw.taker = editor, agent
	if toEditor {
		sw.sender, sw.taker = agent, editor
	}
	some := func(values []string) []string {
		for _, bound := range []int{most, sw.most} {
			if bound > 0 {
				values = values[:min(bound, len(values))]
			}
		}
		return values
	}
	if m.notification != "" {
		sw.send(some(sw.samples(m.notification, sw.words)), "")
	}
	if m.request != "" {
		sw.exchange(some(sw.samples(m.request, sw.words)), slices.Concat(sw.answers("result", some(sw.samples(m.response, sw.words))), sw.errors()))
	}
}

// errors are answers with an error.
func (sw *sweep) errors() []string { return sw.answers("error", sw.samples("Error", sw.words)) }

func (sw *sweep) answers(member string, values []string) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = `"` + member + `": ` + v
	}
	return out
}

// exchange sends requests, at least one for each answer, and their answers.
func (sw *sweep) exchange(requests, answers []string) {
	for len(requests) < len(answers) {
		requests = append(requests, requests[len(requests)%3])
	}
	ids := sw.send(requests, "sweep")
	lines := make([]string, len(ids))
	for i, id := range ids {
		lines[i] = sw.line(i, `"id":`+id, answers[i%len(answers)])
		sw.taker.Write(lines[i])
	}
	sw.arrive(sw.sender, lines)
}

// send sends messages of the method at hand, all at once, and returns their ids. Without a kind of id they are
// notifications.
func (sw *sweep) send(params []string, kind string) (ids []string) {
	lines := make([]string, len(params))
	for i, p := range params {
		members := []string{`"method":"` + sw.method + `"`, `"params": ` + p}
		if kind != "" {
			sw.count++
			id := fmt.Sprintf([]string{`"\u0073%s%d"`, `%[2]d`}[i%2], kind, 1000+sw.count)
			ids = append(ids, id)
			members = append(members, `"id":`+id)
		}
		lines[i] = sw.line(i, members...)
		sw.sender.Write(lines[i])
	}
	sw.arrive(sw.taker, lines)
	return ids
}

// line is a message as one of several peers would write it.
func (sw *sweep) line(i int, members ...string) string {
	members = append([]string{`"jsonrpc" :"2.0"`}, members...)
	if i%3 == 1 {
		slices.Reverse(members)
	}
	if i%3 == 2 {
		return "{ " + strings.Join(members, "  ,") + "}\r"
	}
	return "{" + strings.Join(members, ",") + "}"
}

// arrive expects lines as they were sent, and nothing else.
func (sw *sweep) arrive(at *wire.Peer, lines []string) {
	sw.schema.t.Helper()
	if sw.equal != nil {
		got := make([]string, len(lines))
		for i := range lines {
			sw.count++
			got[i] = string(at.Next().Raw)
		}
		if !sw.equal(got, lines) {
			sw.schema.t.Fatalf("%s, %s: what arrived is\n%s\nwant\n%s", sw.url, sw.method, strings.Join(got, "\n"), strings.Join(lines, "\n"))
		}
		return
	}
	for _, line := range lines {
		sw.count++
		if got := string(at.Next().Raw); got != line {
			sw.schema.t.Fatalf("%s, %s: what arrived is\n%s\nwant\n%s", sw.url, sw.method, got, line)
		}
	}
}

// one sends a request and returns it as it arrived.
func (sw *sweep) one(params string) (request wire.Message, id string) {
	sw.count++
	id = fmt.Sprintf(`"one%d"`, sw.count)
	sw.sender.SendAs(id, sw.method, json.RawMessage(params))
	return sw.taker.Next(), id
}

// answer answers a request, and expects the answer as it was sent.
func (sw *sweep) answer(id, answer string) {
	line := sw.line(sw.count, `"id":`+id, answer)
	sw.taker.Write(line)
	sw.arrive(sw.sender, []string{line})
}

// initialize reaches the agent with what the handlers serve, and all else as it was. Its answer arrives as it was sent.
func (sw *sweep) initialize(m *schemaMethod) {
	sw.sender, sw.taker = sw.Peer, sw.Agent.Peer
	answers := slices.Concat(sw.errors(), sw.answers("result", sw.samples(m.response, sw.words)))
	requests := sw.samples(m.request, sw.words)
	for i := range max(len(answers), len(requests)) {
		params := requests[i%len(requests)]
		got, id := sw.one(params)
		var want map[string]any
		if err := json.Unmarshal([]byte(params), &want); err != nil {
			sw.schema.t.Fatal(err)
		}
		setDefault(want, "clientCapabilities")["terminal"] = true
		files := setDefault(want["clientCapabilities"].(map[string]any), "fs")
		files["readTextFile"], files["writeTextFile"] = true, true
		var arrived map[string]any
		if got.Decode(sw.schema.t, &arrived); !reflect.DeepEqual(arrived, want) {
			sw.schema.t.Fatalf("initialize with %s arrived with %s", params, got.Params)
		}
		sw.answer(id, answers[i%len(answers)])
	}
}

// setDefault returns the object with that name in an object, and creates it if it is missing.
func setDefault(obj map[string]any, name string) map[string]any {
	v, _ := obj[name].(map[string]any)
	if v == nil {
		v = map[string]any{}
		obj[name] = v
	}
	return v
}

// questions reach the editor as they were sent, and each answer the agent; only one is asked at a time.
func (sw *sweep) questions(m *schemaMethod) {
	sw.sender, sw.taker = sw.Agent.Peer, sw.Peer
	answers := slices.Concat(sw.answers("result", sw.samples(m.response, sw.words)), sw.errors())
	requests := sw.samples(m.request, sw.words)
	for i := range max(len(answers), len(requests)) {
		sw.Open("s1") // an answer for always holds for the session before
		sw.exchange([]string{requests[i%len(requests)]}, []string{answers[i%len(answers)]})
	}
}

// cancels name a request that is open, and follow it.
func (sw *sweep) cancels(m *schemaMethod) {
	for _, ends := range [][2]*wire.Peer{{sw.Agent.Peer, sw.Peer}, {sw.Peer, sw.Agent.Peer}} {
		sw.sender, sw.taker = ends[0], ends[1]
		for i, params := range sw.samples(m.notification, map[string]string{"requestId": `"open"`}) {
			open := sw.line(i, `"method":"_a.example/ask"`, `"id":"open"`)
			sw.sender.Write(open)
			sw.arrive(sw.taker, []string{open})
			sw.send([]string{params}, "")
			sw.answer(`"open"`, `"error":{"code":-32800,"message":"cancelled"}`)
		}
	}
}

// routed methods are answered by a handler, as in the schema, and the editor receives nothing about them.
func (sw *sweep) routed(m *schemaMethod) {
	words := maps.Clone(sw.words)
	maps.Copy(words, map[string]string{
		"command": `"true"`, "name": `"A"`, "terminalId": sw.terminal, "sessionId": `"s1"`, "outputByteLimit": "4096", "content": `"one\u000atwo\n"`,
	})
	for _, params := range sw.samples(m.request, words) {
		sw.count++
		got := sw.Agent.Send(sw.method, json.RawMessage(params)).Result(nil)
		sw.valid(m.response, got.Result)
		if sw.method == "terminal/create" {
			var made struct{ TerminalID json.RawMessage }
			got.Decode(sw.schema.t, &made)
			sw.terminal = string(made.TerminalID)
		}
	}
	maps.Copy(words, map[string]string{"terminalId": `"none"`, "path": `"/outside/none"`, "cwd": `"/outside"`})
	for _, params := range sw.samples(m.request, words)[1:3] { // with a cwd
		got := sw.Agent.Send(sw.method, json.RawMessage(params)).Answer()
		switch {
		case got.Error != nil:
			sw.valid("Error", []byte(rawText(sw.schema.t, got.Error)))
		case sw.method == "terminal/release": // of one that is gone is no mistake
			sw.valid(m.response, got.Result)
		default:
			sw.schema.t.Errorf("%s with %s was answered with %s, want an error", sw.method, params, got.Raw)
		}
	}
}

// batches are rejected whole, with one answer, from either side.
func (sw *sweep) batches() {
	for _, from := range []*wire.Peer{sw.Agent.Peer, sw.Peer} {
		from.Write(`[{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s1"}},{"jsonrpc":"2.0","method":"_a"}]`)
		if got := from.Next(); got.Error == nil || got.Error.Code != -32600 || string(got.ID) != "null" {
			sw.schema.t.Errorf("a batch was answered with %s, want -32600 with the id null", got.Raw)
		}
	}
	sw.ExpectQuiet()
}
