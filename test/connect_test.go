package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// far is an agent behind a gateway: the supervisor there leaves files and commands to the client.
func far(t *testing.T, p *place, command []string) *gateway {
	t.Helper()
	list, err := json.Marshal(command)
	if err != nil {
		t.Fatal(err)
	}
	g := newGateway(t, p, fmt.Sprintf("[{name: there, command: %s}]}\nroutes: {\"fs/*\": front, \"terminal/*\": front", list))
	return g
}

// connect is the command that is the agent there.
func (g *gateway) connect(more ...string) []string {
	return append([]string{program("acphost"), "connect", g.url("ws"), "--agent", "there", "--token-file", g.tokenFile}, more...)
}

// Editor, acphost, "acphost connect", gateway, acphost, agent: what the two acphosts leave alone arrives byte for byte.
func TestEveryMethodArrivesThroughTwoHosts(t *testing.T) {
	t.Parallel()
	for version, files := range map[int][]string{
		1: {"v1/schema.json", "v1/schema.unstable.json"},
		2: {"v2/schema.json", "v2/schema.unstable.json"},
	} {
		t.Run(fmt.Sprintf("version %d", version), func(t *testing.T) {
			t.Parallel()
			there, here := newPlace(t), newPlace(t)
			here.file(t, "a.txt", "one\ntwo\n")
			st := there.newStage(t)
			g := far(t, there, st.command)
			h := here.start(t, nil, g.connect())
			// The gateway starts its agent for the first message.
			first := h.Send("initialize", json.RawMessage(fmt.Sprintf(`{"protocolVersion":%d,"clientCapabilities":{}}`, version)))
			agent := st.play(t)
			agent.Reply(agent.Expect("initialize"), map[string]any{"protocolVersion": version, "agentInfo": map[string]any{"name": "puppet", "version": "0.1"}})
			first.Result(nil)
			sw := &sweep{scene: &scene{host: h, agent: agent}, version: version, remote: true, words: map[string]string{
				"protocolVersion": fmt.Sprint(version), "cwd": rawText(t, here.work), "path": rawText(t, here.path("a.txt")),
			}}
			for _, file := range files {
				sw.schema = readSchema(t, file)
				sw.all()
			}
			if status := sw.finish(); status != 0 {
				t.Errorf("the exit status is %d, want 0", status)
			}
			t.Logf("%d messages", sw.count)
			g.leave()
		})
	}
}

func TestAnAgentElsewhereIsGatedHere(t *testing.T) {
	t.Parallel()
	there, here := newPlace(t), newPlace(t)
	here.file(t, "notes.md", "We will recieve it.\n")
	g := far(t, there, []string{program("demoagent")})
	status, out, errs := here.cli(t, append([]string{"prompt", "--policy", "headless", "Fix the spelling", "--"}, g.connect()...)...)
	if text := string(must(t, here.path("notes.md"))); status != 0 || text != "We will receive it.\n" {
		t.Errorf("status %d, the file holds %q: %s%s", status, text, out, errs)
	}
	denied := here.decisions(t)
	if len(denied) == 0 {
		t.Error("nothing was decided here")
	}
	// A token that is not good, and a gateway that ends.
	bad := here.file(t, "../bad.token", strings.Repeat("x", 43))
	if err := os.Chmod(bad, 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errs = here.cli(t, "prompt", "Hello", "--", program("acphost"), "connect", g.url("ws"), "--token-file", filepath.Clean(bad))
	if status == 0 || !strings.Contains(out+errs, "answers 401") {
		t.Errorf("with a bad token: status %d: %s%s", status, out, errs)
	}
	g.leave()
}
