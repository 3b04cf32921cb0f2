package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/wire"
)

// newConsole is a gateway that calls for people, whose certificate lets it.
func newConsole(t *testing.T, p *place, flags ...string) *gateway {
	t.Helper()
	e := &edge{keys: filepath.Join(p.home, "keys"), address: freePort(t)}
	p.makeKeys(t, e.keys)
	if status, out, errs := p.cli(t, "certs", "gateway", "--acts-as", "operator", e.keys); status != 0 {
		t.Fatalf("acphost certs gateway: %s%s", out, errs)
	}
	e.server = p.serve(t, append(flags, "--listen", e.address, "--tls-dir", p.deploy(t, e.keys)))
	g := &gateway{edge: e, at: freePort(t), tokens: filepath.Join(p.home, "gateway", "tokens.json")}
	g.token("viewer")
	g.begin(p, "gateway", "--host", "localhost")
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

// cable is a line to a gateway that can be cut.
type cable struct {
	t       *testing.T
	l       net.Listener
	to      string
	wg      sync.WaitGroup
	mu      sync.Mutex // guards what follows
	cut     bool
	through map[net.Conn]bool
}

func newCable(t *testing.T, to string) *cable {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{t: t, l: l, to: to, through: map[net.Conn]bool{}}
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
		for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
			c.wg.Go(func() {
				_, _ = io.Copy(pair[0], pair[1])
				_, _ = pair[0].Close(), pair[1].Close()
			})
		}
	}
}

// set cuts the line, or mends it.
func (c *cable) set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
	if cut {
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
	tab.shows("The gateway cannot be reached")
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

func TestALongSessionLeavesThePageFree(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := newPlace(t)
	g := newConsole(t, p)
	agent := g.start(p.demo())
	s := g.open(agent.GetId())
	turn := g.prompt(s.GetSessionId(), "flood 10000")
	turn.stopped("end_turn")
	tab := g.operator(b, sessionAt(s))
	tab.shows("piece 9999")
	n := eval[int](tab, `document.getElementsByTagName("*").length`)
	long := eval[[]float64](tab, "__long")
	var most float64
	for _, d := range long {
		most = max(most, d)
	}
	t.Logf("10,000 events: %d nodes; %d tasks of more than 50 ms, the longest of %.0f ms", n, len(long), most)
	if n > 5000 {
		t.Errorf("the page has %d nodes", n)
	}
	if seen := eval[bool](tab, `(document.querySelector(".list").scrollTop = 0, true)`); !seen {
		t.Error("the list cannot be scrolled")
	}
	tab.shows("piece 0")
	tab.clean("a long session")
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

// leaveWith ends all while a page is open: it must not keep gatewayd.
func (g *gateway) leaveWith(tab *webPage) {
	g.t.Helper()
	g.leave()
	tab.shows("The gateway cannot be reached")
}
