package gateway_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/e2e"
)

// TestConnect_EveryMethodThroughTwoHosts connects an editor, acphost, "acphost connect", a gateway, acphost and an
// agent. Messages that neither acphost changes arrive byte for byte.
func TestConnect_EveryMethodThroughTwoHosts(t *testing.T) {
	t.Parallel()
	for version, files := range map[int][]string{
		1: {"v1/schema.json", "v1/schema.unstable.json"},
		2: {"v2/schema.json", "v2/schema.unstable.json"},
	} {
		t.Run(fmt.Sprintf("version %d", version), func(t *testing.T) {
			t.Parallel()
			there, here := e2e.NewPlace(t), e2e.NewPlace(t)
			here.File(t, "a.txt", "one\ntwo\n")
			st := there.Stage(t)
			g := e2e.Far(t, there, st.Command)
			h := here.Start(t, nil, g.Connect())
			// The gateway starts its agent for the first message.
			first := h.Send("initialize", json.RawMessage(fmt.Sprintf(`{"protocolVersion":%d,"clientCapabilities":{}}`, version)))
			agent := st.Play(t)
			agent.Reply(agent.Expect("initialize"), map[string]any{"protocolVersion": version, "agentInfo": map[string]any{"name": "puppet", "version": "0.1"}})
			first.Result(nil)
			sw := &sweep{Fixture: &e2e.Fixture{Host: h, Agent: agent}, version: version, remote: true, words: map[string]string{
				"protocolVersion": fmt.Sprint(version), "cwd": rawText(t, here.Work), "path": rawText(t, here.Path("a.txt")),
			}}
			for _, file := range files {
				sw.schema = readSchema(t, file)
				sw.all()
			}
			if status := sw.Finish(); status != 0 {
				t.Errorf("the exit status is %d, want 0", status)
			}
			t.Logf("%d messages", sw.count)
			g.Leave()
		})
	}
}

func TestConnect_LocalPolicyDecidesForRemoteAgent(t *testing.T) {
	t.Parallel()
	there, here := e2e.NewPlace(t), e2e.NewPlace(t)
	here.File(t, "notes.md", "We will recieve it.\n")
	g := e2e.Far(t, there, []string{e2e.Program("demoagent")})
	status, out, errs := here.Cli(t, append([]string{"prompt", "--policy", "headless", "Fix the spelling", "--"}, g.Connect()...)...)
	if text := string(e2e.Must(t, here.Path("notes.md"))); status != 0 || text != "We will receive it.\n" {
		t.Errorf("status %d, the file holds %q: %s%s", status, text, out, errs)
	}
	denied := here.Decisions(t)
	if len(denied) == 0 {
		t.Error("nothing was decided here")
	}
	// A token that is not good, and a gateway that ends.
	bad := here.File(t, "../bad.token", strings.Repeat("x", 43))
	if err := os.Chmod(bad, 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errs = here.Cli(t, "prompt", "Hello", "--", e2e.Program("acphost"), "connect", g.URL("ws"), "--token-file", filepath.Clean(bad))
	if status == 0 || !strings.Contains(out+errs, "answers 401") {
		t.Errorf("with a bad token: status %d: %s%s", status, out, errs)
	}
	g.Leave()
}
