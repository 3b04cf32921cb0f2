package gateway_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

var whole = flag.Bool("whole", false, "send every sample of every schema through the TypeScript SDK's transports, not some of each")

// TestSweep_TypeScriptTransports sends each method, both ways, through the unchanged client transport of the TypeScript
// SDK, the gateway, acphost and an agent.
func TestSweep_TypeScriptTransports(t *testing.T) {
	t.Parallel()
	for version, files := range map[int][]string{
		1: {"v1/schema.json", "v1/schema.unstable.json"},
		2: {"v2/schema.json", "v2/schema.unstable.json"},
	} {
		for _, scheme := range []string{"ws", "http"} {
			t.Run(fmt.Sprintf("version %d, %s", version, scheme), func(t *testing.T) {
				t.Parallel()
				p, here := e2e.NewPlace(t), e2e.NewPlace(t)
				p.File(t, "a.txt", "one\ntwo\n")
				st := p.Stage(t)
				command, err := json.Marshal(st.Command)
				if err != nil {
					t.Fatal(err)
				}
				g := e2e.NewGateway(t, p, fmt.Sprintf("[{name: puppet, command: %s}]", command))
				h := newStream(t, g, here, g.URL(scheme))
				first := h.Send("initialize", json.RawMessage(fmt.Sprintf(`{"protocolVersion":%d,"clientCapabilities":{}}`, version)))
				agent := st.Play(t)
				agent.Reply(agent.Expect("initialize"), map[string]any{"protocolVersion": version, "agentInfo": map[string]any{"name": "puppet", "version": "0.1"}})
				first.Result(nil)
				sw := &sweep{Fixture: &e2e.Fixture{Host: h, Agent: agent}, version: version, remote: true, equal: sameMessages, words: map[string]string{
					"protocolVersion": fmt.Sprint(version), "cwd": rawText(t, p.Work), "path": rawText(t, p.Path("a.txt")),
				}}
				if scheme == "http" {
					sw.equal = sameStreams
				}
				swept := files
				if !*whole { // of what the version has, unstable or not, some samples each
					swept, sw.most = files[1:], 24
				}
				for _, file := range swept {
					sw.schema = readSchema(t, file)
					sw.all()
				}
				if status := sw.Finish(); status != 0 {
					t.Errorf("the exit status of the SDK's side is %d, want 0", status)
				}
				if sw.count < 1000 {
					t.Errorf("%d messages were sent", sw.count)
				}
				g.Leave()
			})
		}
	}
}

// sameMessages reports whether messages are equal as JSON values, in order: JavaScript spells what it has parsed its
// own way.
func sameMessages(got, want []string) bool {
	return slices.EqualFunc(got, want, func(a, b string) bool { return reflect.DeepEqual(decoded(a), decoded(b)) })
}

// sameStreams is sameMessages for each stream of ACP over HTTP, since streams are not ordered among each other. The
// responses are in any order, because each is sent on the stream of its request.
func sameStreams(got, want []string) bool {
	a, b := streams(got), streams(want)
	for _, all := range []map[string][]string{a, b} {
		slices.SortFunc(all["answers"], func(x, y string) int {
			return slices.Compare([]byte(rawOf(x)), []byte(rawOf(y)))
		})
	}
	if len(a) != len(b) {
		return false
	}
	for name := range a {
		if !sameMessages(a[name], b[name]) {
			return false
		}
	}
	return true
}

// streams are messages by the stream that they go to.
func streams(lines []string) map[string][]string {
	out := map[string][]string{}
	for _, line := range lines {
		m, _ := decoded(line).(map[string]any)
		params, _ := m["params"].(map[string]any)
		session, ok := params["sessionId"].(string)
		name := "connection"
		switch {
		case m["method"] == nil:
			name = "answers"
		case ok:
			name = "session " + session
		}
		out[name] = append(out[name], line)
	}
	return out
}

func decoded(line string) (v any) {
	if json.Unmarshal([]byte(line), &v) != nil {
		return line
	}
	return v
}

// rawOf spells a message in one way.
func rawOf(line string) string {
	b, err := json.Marshal(decoded(line))
	if err != nil {
		return line
	}
	return string(b)
}

// newStream starts the client's transport of the TypeScript SDK, with the test as the editor that uses it.
func newStream(t *testing.T, g *e2e.Gateway, p *e2e.Place, url string) *e2e.Host {
	t.Helper()
	command := []string{"node", e2e.Peer(t, "ts-stream.mjs"), url}
	return &e2e.Host{
		Process: wire.Start(t, wire.Options{Name: "editor elsewhere", Command: command, Dir: p.Work, Env: p.Env("EDITOR_TOKEN_FILE=" + g.TokenFile)}),
		Place:   p, T: t,
	}
}
