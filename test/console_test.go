package e2e_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/wire"
)

// newConsole is a gateway that calls for people, whose certificate lets it.
func newConsole(t *testing.T, p *place, flags ...string) *gateway {
	t.Helper()
	return newConsoleWith(t, p, flags, nil)
}

// newConsoleWith is newConsole with flags for gatewayd, too, and more of an environment.
func newConsoleWith(t *testing.T, p *place, flags, gatewayFlags []string, env ...string) *gateway {
	t.Helper()
	e := &edge{keys: filepath.Join(p.home, "keys"), address: testkit.FreePort(t)}
	p.makeKeys(t, e.keys)
	if status, out, errs := p.cli(t, "certs", "gateway", "--acts-as", "operator", e.keys); status != 0 {
		t.Fatalf("acphost certs gateway: %s%s", out, errs)
	}
	e.server = p.serve(t, append(flags, "--listen", e.address, "--tls-dir", p.deploy(t, e.keys)))
	g := &gateway{edge: e, at: testkit.FreePort(t), tokens: filepath.Join(p.home, "gateway", "tokens.json"), env: env}
	g.token("viewer")
	g.begin(p, "gateway", append(gatewayFlags, "--host", "localhost")...)
	return g
}

// signIn signs a page in with a token.
func (p *webPage) signIn(token string) {
	p.t.Helper()
	p.do(chromedp.WaitVisible(chromedp.CSS("#token")), chromedp.SendKeys(chromedp.CSS("#token"), token+kb.Enter))
	p.until("the browser is in", `!!document.querySelector("nav")`)
}

func (g *gateway) console() string { return "http://" + g.at + "/console/" }

// operator is a page that is signed in as an operator.
func (g *gateway) operator(b *chromium, fragment string) *webPage {
	g.t.Helper()
	p := b.open(g.console()+fragment, desktopWidth, desktopHeight)
	p.signIn(g.token("operator"))
	return p
}

// sessionAt is the fragment of a session's view.
func sessionAt(s *supervisorv1.Session) string {
	return "#/session/" + s.GetAgentId() + "/" + s.GetSessionId()
}

func TestAPersonLetsABrowserInByTheCodeThatItShows(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := newPlace(t)
	g := newConsole(t, p)
	tab := b.open(g.console(), desktopWidth, desktopHeight)
	tab.until("a code is shown", `/[a-z2-9]{5}-[a-z2-9]{5}/.test(document.body.innerText)`)
	tab.clean("sign-in")
	tab.picture("console-signin.png")
	code := eval[string](tab, `document.body.innerText.match(/[a-z2-9]{5}-[a-z2-9]{5}/)[0]`)

	if status, _, errs := p.cli(t, "console", code, "--role", "approver"); status == 0 || !strings.Contains(errs, "terminal") {
		t.Errorf("without a terminal: %d, %s", status, errs)
	}
	// confirm types letters: those that are shown, or others.
	confirm := func(answer func(letters string) string) string {
		t.Helper()
		cmd := wire.Command(t, program("acphost"), "console", code, "--role", "approver")
		cmd.Dir, cmd.Env = p.work, p.env()
		shown, _ := wire.TypeLetters(cmd, answer)
		return shown
	}
	if out := confirm(func(string) string { return "zzzzz" }); !strings.Contains(out, "nothing was confirmed") || !strings.Contains(out, "127.0.0.1") || !strings.Contains(out, "Chrome") {
		t.Errorf("with other letters: %s", out)
	}
	if in := eval[bool](tab, `!!document.querySelector("nav")`); in {
		t.Fatal("the browser is in, and nobody confirmed it")
	}
	if out := confirm(func(letters string) string { return letters }); !strings.Contains(out, "signed in as approver") {
		t.Fatalf("with the letters: %s", out)
	}
	tab.until("the browser is in", `!!document.querySelector("nav")`)
	tab.shows("approver")
	if cookies := eval[string](tab, "document.cookie"); cookies != "" {
		t.Errorf("scripts read the cookie %q", cookies)
	}

	// The cookie alone does not do, as whoever else serves on this host gets it; neither does the page's secret.
	for what, script := range map[string]string{
		"without the page's secret": `fetch("/console/api/who", {method: "POST", headers: {"Content-Type": "application/json"}, body: "{}"}).then((r) => r.json()).then((r) => r.state)`,
		"without the cookie":        `fetch("/console/api/who", {method: "POST", credentials: "omit", headers: {"Content-Type": "application/json", "Acphost-Console": localStorage.getItem("acphost-console")}, body: "{}"}).then((r) => r.json()).then((r) => r.state)`,
	} {
		if state := eval[string](tab, script); state != "out" {
			t.Errorf("%s the browser is %q", what, state)
		}
	}
	status, out, errs := p.cli(t, "console", "--list", "--json")
	var all []struct{ ID, Role, How string }
	err := json.Unmarshal([]byte(out), &all)
	// Other tests have gateways, too, in which browsers are by tokens.
	all = slices.DeleteFunc(all, func(s struct{ ID, Role, How string }) bool { return s.How != "code" })
	if status != 0 || err != nil || len(all) != 1 || all[0].Role != "approver" {
		t.Fatalf("the list is %d, %s%s (%v)", status, out, errs, err)
	}
	if status, _, errs := p.cli(t, "console", "--sign-out", all[0].ID); status != 0 {
		t.Fatalf("signing out: %s", errs)
	}
	tab.until("the browser is out", `!document.querySelector("nav")`)
	g.leave()
}

func TestAQuestionIsAnsweredOnAPhoneWhileATerminalRuns(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := newPlace(t)
	g := newConsole(t, p)
	agent := g.start(p.demo())
	s := g.open(agent.GetId())
	tab := b.open(g.console()+sessionAt(s), phoneWidth, phoneHeight)
	tab.signIn(g.token("operator"))
	tab.shows("idle")
	turn := g.prompt(s.GetSessionId(), "/run for i in $(seq 600); do echo line $i; sleep 0.1; done")
	tab.until("the terminal shows output", `(document.querySelector(".terminal .xterm-rows")?.innerText ?? "").includes("line 3")`)
	second := g.open(agent.GetId())
	asked := g.prompt(second.GetSessionId(), "ask notes.txt")
	tab.shows("Inbox (1)")
	tab.click(`nav a[href="#/inbox"]`)
	tab.until("the question is there, with its diff", `!!document.querySelector("article.question .diff")`)
	tab.clean("the inbox on a phone")
	tab.picture("console-phone.png")
	if wide := eval[bool](tab, "document.documentElement.scrollWidth > innerWidth"); wide {
		t.Error("the page is wider than the phone")
	}
	tab.until("it takes answers", `!document.querySelector("article.question button.allow").disabled`)
	tab.until("the answer is taken", `(document.querySelector("article.question button.allow")?.click(), document.querySelector(".answered")?.innerText.includes("allowed") ?? false)`)
	asked.says("allow")
	asked.stopped("end_turn")
	tab.until("it is gone", `!document.querySelector("article.question")`)
	tab.do(chromedp.Navigate(g.console() + sessionAt(s)))
	tab.until("the terminal still runs", `(document.querySelector(".terminal .xterm-rows")?.innerText ?? "").includes("line")`)
	tab.clean("a terminal on a phone")
	tab.button("Cancel the turn")
	turn.stopped("cancelled")
	g.leave()
}

func TestEachViewOfTheConsole(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := newPlace(t)
	g := newConsole(t, p)
	agent := g.start(p.demo())
	s := g.open(agent.GetId())
	tab := g.operator(b, sessionAt(s))
	tab.do(chromedp.WaitVisible(chromedp.CSS("#prompt")), chromedp.SendKeys(chromedp.CSS("#prompt"), "ask notes.txt"+kb.Enter))
	tab.until("the question is in the session", `!!document.querySelector(".session article.question .diff")`)
	tab.clean("a session with a question")
	tab.picture("console-session.png")
	tab.click(`nav a[href="#/board"]`)
	tab.shows("waits for an answer")
	tab.clean("the board")
	tab.picture("console-board.png")
	tab.click(`nav a[href="#/policy"]`)
	tab.shows("Calls that were allowed")
	tab.clean("policy")
	tab.click(`nav a[href="#/usage"]`)
	tab.shows("Save as CSV")
	tab.clean("usage")
	tab.click(`nav a[href="#/inbox"]`)
	tab.until("the question is in the inbox", `!!document.querySelector("article.question")`)
	tab.clean("the inbox")
	tab.picture("console-inbox.png")
	// One key answers.
	tab.until("a key is taken", `(document.querySelector("article.question")?.dispatchEvent(new KeyboardEvent("keydown", {key: "r", bubbles: true})), document.querySelector(".answered")?.innerText.includes("denied") ?? false)`)
	tab.do(chromedp.Navigate(g.console() + sessionAt(s)))
	tab.shows("idle")
	tab.shows("reject")
	g.leave()
}

// Whoever has only keys reaches a question that comes later, and the next one when it has gone. A session that is
// closed while it is looked at says so, and takes nothing more.
func TestKeysReachQuestionsAndTheEndOfASessionIsSeen(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := newPlace(t)
	g := newConsole(t, p)
	agent := g.start(p.demo())
	one, two := g.open(agent.GetId()), g.open(agent.GetId())
	tab := g.operator(b, "#/inbox")
	tab.shows("No question waits.")
	const focused, count = `!!document.activeElement.closest("article.question:not(.over)")`, `document.querySelectorAll("article.question:not(.over)").length`
	first := g.prompt(one.GetSessionId(), "ask one.txt")
	tab.until("the question that comes has the focus", focused)
	second := g.prompt(two.GetSessionId(), "ask two.txt")
	tab.until("two wait", count+" === 2")
	press := func(key string) func() bool {
		return func() bool {
			tab.do(chromedp.KeyEvent(key))
			return eval[int](tab, count) < 2
		}
	}
	testkit.Eventually(t, "a key answers the first question", press("r"))
	tab.until("the next one has the focus", `document.querySelectorAll("article.question").length === 1 && `+focused)
	tab.run(`document.querySelector("nav a").focus()`)
	tab.do(chromedp.KeyEvent("j"))
	tab.until("j leads to it from elsewhere", focused)
	testkit.Eventually(t, "a key answers the second question", func() bool {
		tab.do(chromedp.KeyEvent("r"))
		return eval[int](tab, count) == 0
	})
	first.stopped("end_turn")
	second.stopped("end_turn")

	tab.do(chromedp.Navigate(g.console() + sessionAt(one)))
	tab.until("it takes prompts", `!!document.querySelector("#prompt")`)
	if _, err := g.agents.StopAgent(g.ctx, &supervisorv1.StopAgentRequest{AgentId: agent.GetId()}); err != nil {
		t.Fatal(err)
	}
	tab.shows("The session is closed")
	tab.until("it takes no prompts, and has nothing to cancel", `!document.querySelector("#prompt") && ![...document.querySelectorAll("button")].some((b) => b.innerText === "Cancel the turn")`)
	g.leave()
}

// What the README's first steps deny is seen here, too.
func TestADenialAndItsRuleAreSeenInTheConsole(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := newPlace(t)
	secret := p.file(t, ".env", "TOKEN=1\n")
	g := newConsole(t, p, "--policy", "workspace")
	s := g.open(g.start(p.demo()).GetId())
	tab := g.operator(b, sessionAt(s))
	tab.do(chromedp.WaitVisible(chromedp.CSS("#prompt")), chromedp.SendKeys(chromedp.CSS("#prompt"), "/read "+secret+kb.Enter))
	tab.shows("rule secrets")
	tab.shows("idle")
	tab.picture("console-denied.png")
	tab.click(`nav a[href="#/policy"]`)
	tab.until("the denial is counted", `/Calls that were denied\s+1\b/.test(document.body.innerText)`)
	g.leave()
}

// decided is a script's list of the decisions that the page shows, the newest first, as "VERDICT|WHAT|WHY".
const decided = `[...document.querySelectorAll(".decision")].map((d) => [".verdict", "code", ".why"].map((s) => d.querySelector(s).innerText).join("|"))`

func TestDecisionsAreSeenAsTheyComeWithTheirRules(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := newPlace(t)
	secret := p.file(t, ".env", "TOKEN=1\n")
	plain := p.file(t, "plain.txt", "plain\n")
	g := newConsole(t, p, "--policy", "workspace")
	s := g.open(g.start(p.demo()).GetId())
	g.prompt(s.GetSessionId(), "/read "+secret).stopped("end_turn")
	tab := g.operator(b, "#/policy")
	tab.until("what was decided before is there, with its rule and where that stands", decided+`.some((d) => /^deny\|.*\.env\|rule secrets in workspace:\d+: /.test(d))`)
	before := eval[int](tab, decided+".length")
	g.prompt(s.GetSessionId(), "/read "+plain).stopped("end_turn")
	tab.until("what is decided now is there, above", decided+`.length > `+fmt.Sprint(before)+` && /^allow\|read .*plain\.txt\|rule .* in workspace:\d+/.test(`+decided+`[0])`)
	g.prompt(s.GetSessionId(), "/read "+filepath.Join(p.work, ".env."+strings.ReplaceAll(hostile, "/", ""))).stopped("end_turn")
	tab.until("hostile text is shown, shortened", decided+`[0].includes("\\u{202e}gnp.exe")`)
	tab.click(`.decision button[aria-expanded]`)
	tab.until("and whole, as it is", `/<img src=x onerror="alert\(1\)">.*\\u\{202e\}gnp\.exe/.test(document.querySelector(".decision pre")?.innerText ?? "")`)
	tab.clean("decisions")
	tab.picture("console-policy.png")
	if at := eval[string](tab, `document.querySelector(".decision a").getAttribute("href")`); at != sessionAt(s) {
		t.Errorf("a decision leads to %q, want %q", at, sessionAt(s))
	}
	if n := eval[int](tab, `document.querySelectorAll("#app script, #app img, #app style").length`); n != 0 {
		t.Errorf("there are %d elements that an agent has named", n)
	}
	tab.run(`const s = [...document.querySelectorAll(".choices select")][0]; s.value = "allow"; s.dispatchEvent(new Event("change", {bubbles: true}))`)
	tab.until("only what was allowed is shown", decided+`.length > 0 && `+decided+`.every((d) => d.startsWith("allow|"))`)
	g.leaveWith(tab)
}

func TestARuleFileIsTriedInTheConsole(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := newPlace(t)
	secret, plain := p.file(t, ".env", "TOKEN=1\n"), p.file(t, "plain.txt", "plain\n")
	g := newConsole(t, p, "--policy", "workspace")
	s := g.open(g.start(p.demo()).GetId())
	for _, file := range []string{secret, plain} {
		g.prompt(s.GetSessionId(), "/read "+file).stopped("end_turn")
	}
	tab := g.operator(b, "#/policy")
	file := chromedp.CSS("#replay-file")
	tab.do(chromedp.WaitVisible(file), chromedp.SetUploadFiles(file, []string{p.file(t, "bad.yaml", "version: 1\nrules:\n  - id: x\n    effect: allwo\n    on: [fs.read]\n")}))
	tab.until("the file is in the page", `document.querySelector("#replay-policy").value.includes("allwo")`)
	tab.button("Replay")
	tab.until("the mistake is said with its line", `/line 4, column \d+: error: .*allwo/s.test(document.querySelector(".findings")?.innerText ?? "")`)
	tab.shows("The file does not load")
	tab.clean("a rule file with a mistake")
	tab.do(chromedp.SetUploadFiles(file, []string{p.file(t, "looser.yaml", looser+"  # "+hostile+"\n")}))
	tab.until("the other file is in the page", `document.querySelector("#replay-policy").value.includes("read-all")`)
	tab.button("Replay")
	tab.until("the difference is shown", `/^deny\s+read .*\.env\n[^]*would be allow by rule read-all in policy\.yaml:3: A try\./.test(document.querySelector(".replayed .decision")?.innerText ?? "")`)
	tab.shows("2 decisions, 1 differs: 1 deny→allow")
	tab.clean("a replay")
	tab.picture("console-replay.png")

	viewer := newBrowser(t).open(g.console()+"#/policy", phoneWidth, phoneHeight)
	viewer.signIn(g.token("viewer"))
	viewer.until("a viewer sees decisions", decided+`.some((d) => d.startsWith("deny|"))`)
	if eval[bool](viewer, `!!document.querySelector("#replay-policy")`) {
		t.Error("a viewer is offered a replay")
	}
	if wide := eval[bool](viewer, "document.documentElement.scrollWidth > innerWidth"); wide {
		t.Error("the page is wider than the phone")
	}
	viewer.clean("decisions on a phone")
	viewer.picture("console-policy-phone.png")
	g.leaveWith(tab)
}

func TestItIsSaidThatNothingIsRecorded(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := newPlace(t)
	g := newConsole(t, p)
	tab := g.operator(b, "#/policy")
	tab.shows("set permission.policy")
	tab.shows("No decision is recorded yet.")
	g.leave()
}

func TestTwoTabsRaceAndOneAnswerCounts(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := newPlace(t)
	g := newConsole(t, p)
	agent := g.start(p.demo())
	s := g.open(agent.GetId())
	one := g.operator(b, "#/inbox")
	two := b.open(g.console()+"#/inbox", desktopWidth, desktopHeight) // signed in by the first one
	two.until("the second tab is in", `!!document.querySelector("nav")`)
	turn := g.prompt(s.GetSessionId(), "ask notes.txt")
	for _, tab := range []*webPage{one, two} {
		tab.until("the question is there", `!!document.querySelector("article.question button.allow")`)
	}
	press := func(kind string) string {
		return fmt.Sprintf(`(document.querySelector("article.question button.%s:enabled")?.click(), !!document.querySelector(".answered") || !document.querySelector("article.question"))`, kind)
	}
	var racing sync.WaitGroup
	racing.Go(func() { one.until("the first is told how it ended", press("allow")) })
	racing.Go(func() { two.until("the second is told how it ended", press("reject")) })
	racing.Wait()
	turn.stopped("end_turn")
	for _, tab := range []*webPage{one, two} {
		tab.until("the question is gone", `!document.querySelector("article.question")`)
		tab.shows("No question waits.")
		if problem := eval[string](tab, `document.querySelector("[role=alert]")?.innerText ?? ""`); problem != "" {
			t.Errorf("a tab complains: %s", problem)
		}
	}
	// Who signs out does so in all tabs.
	one.button("Sign out")
	one.until("the first tab is out", `!document.querySelector("nav")`)
	two.until("the second tab is out", `!document.querySelector("nav")`)
	g.leave()
}

// cable is a line to a gateway that can be cut, and that can keep back what the gateway says.
type cable struct {
	t       *testing.T
	l       net.Listener
	to      string
	wg      sync.WaitGroup
	mu      sync.Mutex // guards what follows
	moved   *sync.Cond // something came, or may go on
	cut     bool
	until   string // what must come from the gateway before all of it goes on; empty: all goes on
	through map[net.Conn]bool
}

func newCable(t *testing.T, to string) *cable {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{t: t, l: l, to: to, through: map[net.Conn]bool{}}
	c.moved = sync.NewCond(&c.mu)
	c.wg.Go(c.accept)
	t.Cleanup(func() { _ = l.Close(); c.set(true); c.wg.Wait() })
	return c
}

func (c *cable) accept() {
	for {
		near, err := c.l.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", c.to)
		c.mu.Lock()
		if c.cut || err != nil {
			c.mu.Unlock()
			_ = near.Close()
			if err == nil {
				_ = far.Close()
			}
			continue
		}
		c.through[near], c.through[far] = true, true
		c.mu.Unlock()
		c.wg.Go(func() {
			_, _ = io.Copy(far, near)
			_, _ = near.Close(), far.Close()
		})
		c.answers(near, far)
	}
}

// answers takes to a browser what the gateway says.
func (c *cable) answers(near, far net.Conn) {
	var kept []byte // and over: guarded by mu
	over := false
	c.wg.Go(func() {
		b := make([]byte, 64<<10)
		for ended := false; !ended; {
			n, err := far.Read(b)
			ended = err != nil
			c.mu.Lock()
			kept, over = append(kept, b[:n]...), ended
			if c.until != "" && bytes.Contains(kept, []byte(c.until)) {
				c.until = ""
			}
			c.moved.Broadcast()
			c.mu.Unlock()
		}
	})
	c.wg.Go(func() {
		for ended := false; !ended; {
			c.mu.Lock()
			for !over && (c.until != "" || len(kept) == 0) {
				c.moved.Wait()
			}
			b := kept
			kept, ended = nil, over
			c.mu.Unlock()
			if _, err := near.Write(b); err != nil {
				break
			}
		}
		_, _ = near.Close(), far.Close()
	})
}

// hold keeps back what the gateway says until words have come from it; then all of it goes on at once.
func (c *cable) hold(words string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = words
}

// set cuts the line, or mends it.
func (c *cable) set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
	if cut {
		c.until = ""
		c.moved.Broadcast()
		for conn := range c.through {
			_ = conn.Close()
		}
		clear(c.through)
	}
}

func TestAConnectionThatIsCutComesBack(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := newPlace(t)
	g := newConsole(t, p)
	agent := g.start(p.demo())
	s := g.open(agent.GetId())
	line := newCable(t, g.at)
	tab := b.open("http://"+line.l.Addr().String()+"/console/"+sessionAt(s), desktopWidth, desktopHeight)
	tab.signIn(g.token("operator"))
	first := g.prompt(s.GetSessionId(), "repeat before the cut")
	first.stopped("end_turn")
	tab.shows("before the cut")
	line.set(true)
	tab.shows("cannot be reached. Trying again")
	second := g.prompt(s.GetSessionId(), "repeat during the cut")
	second.stopped("end_turn")
	asked := g.prompt(s.GetSessionId(), "ask notes.txt")
	asked.question()
	line.set(false)
	tab.shows("during the cut")
	tab.until("the question is there", `!!document.querySelector("article.question")`)
	tab.until("the note is gone", `!document.querySelector(".down")`)
	if n := eval[int](tab, `document.body.innerText.split(": during the cut").length - 1`); n != 1 {
		t.Errorf("what was said during the cut is shown %d times", n)
	}
	if n := eval[int](tab, `document.body.innerText.split(": before the cut").length - 1`); n != 1 {
		t.Errorf("what was said before the cut is shown %d times", n)
	}
	tab.until("it is answered", `(document.querySelector("article.question button.allow:enabled")?.click(), !!document.querySelector(".answered"))`)
	asked.stopped("end_turn")
	g.leave()
}

// A session of 10,000 events keeps the page's main thread for less than 50 ms at a time, while it is opened, and while
// the events come.
func TestALongSessionLeavesThePageFree(t *testing.T) {
	t.Parallel()
	const most, tries, nodes = 50.0, 3, 5000 // ms
	for _, c := range []struct{ name, prompt, first, last, end, timeline string }{
		{"a message", "flood 10000", "piece 0", "piece 9999", "piece 9999", "Timeline: 1 turn"},
		{"tool calls", "calls 5000", "call 0", "call 4999", "result 4999", "Timeline: 1 turn · 5000 tool calls"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBrowser(t)
			p := newPlace(t)
			g := newConsole(t, p)
			agent := g.start(p.demo())
			line := newCable(t, g.at)
			tab := b.open("http://"+line.l.Addr().String()+"/console/#/board", desktopWidth, desktopHeight)
			tab.signIn(g.token("operator"))
			shown := `(() => { const r = document.querySelectorAll(".row"); return r[r.length - 1]?.textContent.includes(` + quoted(c.last) + `); })()`
			// expect has one of a few tries take no longer: the CPU time of a task, too, is longer on a busy machine.
			expect := func(what string, once func() task) {
				t.Helper()
				var took task
				for range tries {
					took = once()
					t.Logf("%s: the longest task took %.1f ms of CPU time, of which%s", what, took.ms, took.parts)
					if took.ms < most {
						break
					}
				}
				n := eval[int](tab, `document.getElementsByTagName("*").length`)
				t.Logf("%s: the page has %d nodes", what, n)
				if took.ms >= most {
					t.Errorf("%s: the page's main thread was kept for %.1f ms, want less than %v ms in one of %d tries", what, took.ms, most, tries)
				}
				if n > nodes {
					t.Errorf("%s: the page has %d nodes, want at most %d", what, n, nodes)
				}
			}
			var s *supervisorv1.Session
			expect("watching", func() task {
				s = g.open(agent.GetId())
				tab.run(`location.hash = ` + quoted(sessionAt(s)))
				tab.shows("idle")
				return tab.busiest(func() {
					turn := g.prompt(s.GetSessionId(), c.prompt)
					turn.stopped("end_turn")
					tab.until("the last event is shown", shown)
				})
			})
			// All events come at once, so that the page alone can be what makes pauses.
			expect("opening", func() task {
				tab.run(`location.hash = "#/board"`)
				tab.until("the board is shown", `!document.querySelector(".list")`)
				return tab.busiest(func() {
					line.hold(c.end)
					tab.run(`location.hash = ` + quoted(sessionAt(s)))
					tab.until("the last event is shown", shown)
				})
			})
			expect("opening in a new page", func() task {
				return tab.busiest(func() {
					tab.do(chromedp.Reload())
					tab.until("the last event is shown", shown)
				})
			})
			tab.shows(c.timeline)
			tab.run(`document.querySelector(".list").scrollTop = 0`)
			tab.shows(c.first)
			tab.clean("a long session")
			g.leave()
		})
	}
}

// tells waits until one of a lane's bars says something, and is the selector of the first that does.
func (p *webPage) tells(lane, words string) chromedp.CSS {
	p.t.Helper()
	which := fmt.Sprintf(`[...document.querySelectorAll(".bar.%s")].find((b) => b.getAttribute("aria-label").includes(%s))`, lane, quoted(words))
	p.until(fmt.Sprintf("a %s says %q", lane, words), which)
	return chromedp.CSS(fmt.Sprintf(`[data-bar="%s"]`, eval[string](p, which+`.dataset.bar`)))
}

func TestATimelineShowsWhatASessionDidAndLeadsThere(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := newPlace(t)
	secret := p.file(t, ".env", "TOKEN=1\n")
	g := newConsole(t, p, "--policy", "workspace")
	agent := g.start(p.demo())
	s := g.open(agent.GetId())
	tab := g.operator(b, sessionAt(s))
	tab.shows("Timeline: nothing yet")
	asked := g.prompt(s.GetSessionId(), "ask /"+strings.ReplaceAll(hostile, "/", ""))
	asked.question()
	tab.tells("turn", "ask /<img src=x") // while it goes on
	tab.tells("decision", "asked")
	tab.tells("wait", "A question waited for an answer")
	tab.until("the question is answered", `(document.querySelector("article.question button.reject:enabled")?.click(), !!document.querySelector(".answered"))`)
	asked.stopped("end_turn")
	tab.tells("decision", "denied by")
	read := g.prompt(s.GetSessionId(), "/read "+secret)
	read.stopped("end_turn")
	tab.tells("call", "fs/read_text_file "+secret+", denied")
	tab.tells("decision", "fs/read_text_file "+secret)
	ran := g.prompt(s.GetSessionId(), "/run sleep 0.2")
	ran.stopped("end_turn")
	tab.tells("tool", "Run sleep 0.2, completed")
	quiet := g.prompt(s.GetSessionId(), "slow 2 3500")
	tab.tells("wait", "Nothing was said")
	quiet.stopped("end_turn")
	tab.shows("4 turns")
	tab.clean("a timeline")
	tab.picture("console-timeline.png")
	// What is far away is found by it, by mouse and by keys.
	long := g.prompt(s.GetSessionId(), "flood 3000")
	long.stopped("end_turn")
	tab.shows("5 turns")
	tab.until("the end is shown", `[...document.querySelectorAll(".row")].at(-1)?.textContent.includes("piece 2999")`)
	inView := func(words string) {
		t.Helper()
		tab.until(words+" is in view", `(() => {
			const list = document.querySelector(".list").getBoundingClientRect(), row = document.querySelector(".row.reached");
			if (!row || !row.textContent.includes(`+quoted(words)+`)) return false;
			const at = row.getBoundingClientRect();
			return at.bottom > list.top && at.top < list.bottom;
		})()`)
	}
	tab.click(tab.tells("tool", "Run sleep 0.2, completed"))
	inView("Run sleep 0.2")
	press := func(keys ...string) {
		t.Helper()
		for _, key := range keys {
			tab.do(chromedp.KeyEvent(key))
		}
	}
	press(kb.ArrowUp, kb.Home)
	if told := eval[string](tab, `document.activeElement.getAttribute("aria-label")`); !strings.HasPrefix(told, "Turn, ask /<img src=x") || !strings.Contains(told, `\u{202e}`) {
		t.Errorf("the first bar that the keys reach is %q", told)
	}
	press(kb.Enter)
	inView("ask /<img src=x")
	if n := eval[int](tab, `document.querySelectorAll(".bar[tabindex='0']").length`); n != 1 {
		t.Errorf("Tab stops at %d bars, want 1", n)
	}
	// It is the same for who comes later.
	told := `JSON.stringify([...document.querySelectorAll(".bar")].map((b) => b.getAttribute("aria-label")))`
	before := eval[string](tab, told)
	tab.do(chromedp.Reload())
	tab.until("the timeline is as it was", told+" === "+quoted(before))
	tab.clean("a timeline that was opened later")
	// On a phone it is there for who asks, and the page is not wider for it.
	phone := b.open(g.console()+sessionAt(s), phoneWidth, phoneHeight) // which is signed in as the other page is
	phone.shows("5 turns")
	phone.click(".timeline summary")
	phone.tells("tool", "Run sleep 0.2, completed")
	if wide := eval[bool](phone, "document.documentElement.scrollWidth > innerWidth"); wide {
		t.Error("the page is wider than the phone")
	}
	phone.clean("a timeline on a phone")
	phone.picture("console-timeline-phone.png")
	g.leave()
}

// Files that are chosen, dropped or pasted reach the agent as they are, in the blocks that it takes.
func TestFilesGoWithAPrompt(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := newPlace(t)
	g := newConsole(t, p)
	agent := g.start(p.demo())
	s := g.open(agent.GetId())
	tab := g.operator(b, sessionAt(s))
	tab.shows("idle")
	dir := t.TempDir()
	file := func(name, content string) string {
		t.Helper()
		at := filepath.Join(dir, name)
		if err := os.WriteFile(at, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return at
	}
	const picture = "\x89PNG\r\n\x1a\n\x00\x00 of no picture in particular"
	const blob = "\x00\x01\xff"
	const text = "Grüße\n"
	// A file as the browser makes it when one is dropped or pasted.
	given := func(name, kind string, size int) string {
		return fmt.Sprintf(`const given = new DataTransfer(); given.items.add(new File([new Uint8Array(%d).fill(65)], %s, {type: %s}));`, size, quoted(name), quoted(kind))
	}
	drop := `document.body.dispatchEvent(new DragEvent("drop", {dataTransfer: given, bubbles: true, cancelable: true}));`
	paste := `document.querySelector("#prompt").dispatchEvent(new ClipboardEvent("paste", {clipboardData: given, bubbles: true, cancelable: true}));`
	attached := func(n int) {
		t.Helper()
		tab.until(fmt.Sprintf("%d files are attached", n), fmt.Sprintf(`document.querySelectorAll(".attached li").length === %d`, n))
	}
	refused := func(words string) {
		t.Helper()
		tab.until("it is refused: "+words, `document.querySelector(".prompt [role=alert]")?.innerText.includes(`+quoted(words)+`)`)
	}
	tab.do(chromedp.SetUploadFiles(chromedp.CSS(".prompt input[type=file]"), []string{file("picture.png", picture), file("data.bin", blob), file("gru\u202ess.txt", text)}))
	attached(3)
	tab.shows(`gru\u{202e}ss.txt`)
	tab.run(given("dropped.txt", "text/plain", 3) + drop)
	attached(4)
	tab.run(given("pasted.png", "image/png", 3) + paste)
	attached(5)
	tab.run(given("mistake.txt", "text/plain", 3) + drop)
	attached(6)
	tab.click(`button[aria-label="Remove mistake.txt"]`)
	attached(5)
	tab.clean("a prompt with files")
	tab.picture("console-files.png")
	tab.run(given("film.bin", "", 13<<20) + drop)
	refused("film.bin is not attached: it has 13.0 MiB, and the files of a prompt have at most 12.0 MiB together")
	tab.run(given("empty.txt", "text/plain", 0) + drop)
	refused("empty.txt is not attached: it is empty")
	tab.clean("a prompt with a file that is refused")
	watched := g.watch(&supervisorv1.WatchSessionRequest{AgentId: s.GetAgentId(), SessionId: s.GetSessionId()})
	tab.do(chromedp.SendKeys(chromedp.CSS("#prompt"), "blocks"+kb.Enter))
	sum := func(content string) string {
		return fmt.Sprintf("%d bytes %x", len(content), sha256.Sum256([]byte(content)))
	}
	said := watched.until("the agent says what it got", func(e *supervisorv1.Event) bool { return e.GetAgentMessage() != nil }).GetAgentMessage().GetContent().GetText().GetText()
	for i, want := range []string{
		"^text  " + sum("blocks"), "^image image/png " + sum(picture), `^resource application/octet-stream blob attachment:///\d+/data\.bin ` + sum(blob),
		`^resource text/plain text attachment:///\d+/gru%E2%80%AEss\.txt ` + sum(text), `^resource text/plain text attachment:///\d+/dropped\.txt ` + sum("AAA"), "^image image/png " + sum("AAA"),
	} {
		lines := strings.Split(strings.TrimSpace(said), "\n")
		if len(lines) != 6 || !regexp.MustCompile(want+"$").MatchString(lines[i]) {
			t.Errorf("the agent got %q, want 6 blocks, and block %d like %q", said, i+1, want)
		}
	}
	attached(0)
	tab.shows("idle")
	// The most that is let through reaches the agent, without words, too.
	tab.run(given("most.bin", "", 12<<20) + drop)
	attached(1)
	tab.run(given("more.bin", "", 1) + drop)
	refused("more.bin is not attached")
	turn := `document.querySelectorAll(".entry.user").length`
	before := eval[int](tab, turn)
	tab.button("Send")
	tab.until("the turn has begun", fmt.Sprintf("%s > %d", turn, before))
	tab.shows("idle")
	// So many files, and no more.
	for i := range 11 {
		tab.run(given(fmt.Sprintf("n%d.txt", i), "text/plain", 1) + drop)
	}
	attached(10)
	refused("n10.txt is not attached: a prompt takes at most 10 files")
	tab.fine("many files")
	// An agent that takes none says so before anything is sent.
	plain := g.start(p.demo("-without", "image,audio,embedded"))
	other := g.open(plain.GetId())
	tab.run(`location.hash = ` + quoted(sessionAt(other)))
	attached(0)
	for kind, words := range map[string]string{"image/png": "takes no images (promptCapabilities.image)", "audio/wav": "takes no sounds (promptCapabilities.audio)", "text/plain": "takes no files in prompts (promptCapabilities.embeddedContext)"} {
		tab.run(given("a <b>file</b>", kind, 3) + drop)
		refused("a <b>file</b> is not attached: this agent " + words)
	}
	attached(0)
	tab.clean("a prompt for an agent that takes no files")
	g.leave()
}

// hostile is what a page must show as it is: elements, scripts, addresses, characters that turn others around.
const hostile = `<img src=x onerror="alert(1)"><script>alert(2)</script><style>*{display:none}</style>"'` + "`" + `${alert(3)}{{4}}<a href="javascript:alert(5)">` + "\u202egnp.exe"

func TestHostileTextIsShownAndNothingElse(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := newPlace(t)
	g := newConsole(t, p)
	agent := g.start(p.demo())
	s := g.open(agent.GetId())
	tab := g.operator(b, sessionAt(s))
	said := g.prompt(s.GetSessionId(), "repeat "+hostile)
	said.stopped("end_turn")
	tab.shows(`<img src=x onerror="alert(1)">`)
	tab.shows(`\u{202e}gnp.exe`)
	asked := g.prompt(s.GetSessionId(), "ask /"+strings.ReplaceAll(hostile, "/", ""))
	asked.question()
	tab.until("the question is there", `!!document.querySelector("article.question")`)
	tab.shows(`<img src=x onerror="alert(1)">`)
	tab.clean("a session with hostile text")
	for _, view := range []string{"inbox", "board", "policy", "usage"} {
		tab.click(chromedp.CSS(`nav a[href="#/` + view + `"]`))
		tab.until("the view is there", `document.querySelector("nav a[aria-current]")?.getAttribute("href") === "#/`+view+`"`)
		tab.clean(view + " with hostile text")
	}
	if n := eval[int](tab, `document.querySelectorAll("#app script, #app img, #app iframe, #app style, #app a[href^=javascript]").length`); n != 0 {
		t.Errorf("there are %d elements that an agent has named", n)
	}
	g.leaveWith(tab)
}

// A block of code in a question is shown as code, as text like all else: without its fences, and with what stands behind them.
func TestACommandInAQuestionIsShownAsCode(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := newPlace(t)
	g := newConsole(t, p, "--policy", "workspace")
	s := g.open(g.start(p.demo()).GetId())
	tab := g.operator(b, "#/inbox")
	turn := g.prompt(s.GetSessionId(), `/run frobnicate '<img src=x onerror="alert(1)">'`)
	turn.question()
	tab.until("the command is shown as code", `(document.querySelector("article.question figure.code pre.exact")?.innerText ?? "").startsWith("frobnicate '<img src=x onerror=")`)
	if shown := eval[string](tab, `document.querySelector("article.question").innerText`); strings.Contains(shown, "```") {
		t.Errorf("the question shows a fence: %s", shown)
	}
	if info := eval[string](tab, `document.querySelector("article.question figcaption").innerText`); info != "sh" {
		t.Errorf("behind the fence stands %q", info)
	}
	if n := eval[int](tab, `document.querySelectorAll("#app script, #app img, #app style").length`); n != 0 {
		t.Errorf("there are %d elements that an agent has named", n)
	}
	tab.clean("a question with code")
	g.leaveWith(tab)
}

// A form is filled in by a person in a browser, whatever an agent calls its fields; and declined.
func TestAFormIsFilledInInABrowser(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := newPlace(t)
	g := newConsole(t, p)
	req := p.demo()
	req.Attended = true // else it may not put forms
	agent := g.start(req)
	s := g.open(agent.GetId())
	tab := g.operator(b, "#/inbox")
	texts := map[string]any{"title": hostile, "description": hostile}
	field := func(of map[string]any) map[string]any { maps.Copy(of, texts); return of }
	choices := []any{map[string]any{"const": "a", "title": hostile}, map[string]any{"const": hostile, "title": "B"}}
	schema, err := json.Marshal(map[string]any{
		"type": "object", "required": []string{"text", "count"}, "title": hostile,
		"properties": map[string]any{
			"text": field(map[string]any{"type": "string"}), "count": field(map[string]any{"type": "integer"}),
			"sure": field(map[string]any{"type": "boolean"}), "one": field(map[string]any{"type": "string", "oneOf": choices}),
			"many":      field(map[string]any{"type": "array", "items": map[string]any{"anyOf": choices}}),
			"mail":      field(map[string]any{"type": "string", "format": "email", "default": hostile}),
			"__proto__": field(map[string]any{"type": "string"}), hostile: field(map[string]any{"type": "string"}),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	asked := g.prompt(s.GetSessionId(), "elicit "+string(schema))
	asked.question()
	tab.until("the form is there", `!!document.querySelector("article.question form")`)
	tab.shows(`<img src=x onerror="alert(1)">`)
	tab.clean("a form with hostile text")
	fill := func(name, value string) {
		tab.run(`const at = ` + quoted(name) + `, fields = ` + quoted(string(schema)) + `;
			const n = Object.keys(JSON.parse(fields).properties).indexOf(at), all = [...document.querySelectorAll("article.question form [name='" + n + "']")];
			for (const e of all) if (e.type === "checkbox") e.checked = e.value === ` + quoted(value) + ` || ` + quoted(value) + ` === "on"; else e.value = ` + quoted(value))
	}
	send := `(document.querySelector("article.question form button[type=submit]")?.click(), document.querySelector(".answered")?.innerText.includes("accept") ?? false)`
	fill("mail", "a@example.org")
	if eval[bool](tab, send) {
		t.Error("a form without what it requires was sent")
	}
	for name, value := range map[string]string{"text": hostile, "count": "3", "sure": "on", "one": "a", "many": hostile, "__proto__": "p", hostile: "h"} {
		fill(name, value)
	}
	tab.until("the form is sent", send)
	want, err := json.Marshal(map[string]any{"text": hostile, "count": 3, "sure": true, "one": "a", "many": []string{hostile}, "mail": "a@example.org", "__proto__": "p", hostile: "h"})
	if err != nil {
		t.Fatal(err)
	}
	asked.says("accept " + string(want))
	asked.stopped("end_turn")
	declined := g.prompt(s.GetSessionId(), "elicit")
	tab.until("the form is declined", `([...document.querySelectorAll("article.question:not(.over) form button")].find((b) => b.type === "button")?.click(), document.querySelector(".answered")?.innerText.includes("decline") ?? false)`)
	declined.says("decline")
	declined.stopped("end_turn")
	tab.fine("a form")
	g.leave()
}

// leaveWith ends all while a page is open: it must not keep gatewayd.
func (g *gateway) leaveWith(tab *webPage) {
	g.t.Helper()
	g.leave()
	tab.shows("cannot be reached. Trying again")
}
