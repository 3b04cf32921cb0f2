package console_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

// signIn signs a page in with a token.
func (p *webPage) signIn(token string) {
	p.t.Helper()
	p.do(chromedp.WaitVisible(chromedp.CSS("#token")), chromedp.SendKeys(chromedp.CSS("#token"), token+kb.Enter))
	p.until("the browser is in", `!!document.querySelector("nav")`)
}

// openAsOperator opens a page that is signed in as an operator.
func openAsOperator(g *e2e.Gateway, b *chromium, fragment string) *webPage {
	g.T.Helper()
	p := b.open(console(g)+fragment, desktopWidth, desktopHeight)
	p.signIn(g.Token("operator"))
	return p
}

func TestSignIn_ConfirmsCodeOfBrowser(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := e2e.NewPlace(t)
	g := e2e.NewConsole(t, p)
	tab := b.open(console(g), desktopWidth, desktopHeight)
	tab.until("a code is shown", `/[a-z2-9]{5}-[a-z2-9]{5}/.test(document.body.innerText)`)
	tab.clean("sign-in")
	tab.picture("console-signin.png")
	code := eval[string](tab, `document.body.innerText.match(/[a-z2-9]{5}-[a-z2-9]{5}/)[0]`)

	if status, _, errs := p.Cli(t, "console", code, "--role", "approver"); status == 0 || !strings.Contains(errs, "terminal") {
		t.Errorf("without a terminal: %d, %s", status, errs)
	}
	// browsers are those that are signed in as approvers by a code, at any gateway of this user.
	type browser struct{ ID, Role, How string }
	browsers := func() []browser {
		t.Helper()
		status, out, errs := p.Cli(t, "console", "--list", "--json")
		all, err := testkit.JSONLines[browser]([]byte(out))
		if status != 0 || err != nil {
			t.Fatalf("the list is %d, %s%s (%v)", status, out, errs, err)
		}
		return slices.DeleteFunc(all, func(b browser) bool { return b.How != "code" || b.Role != "approver" })
	}
	before := browsers()
	// confirm types letters: those that are shown, or others.
	confirm := func(answer func(letters string) string) string {
		t.Helper()
		cmd := wire.Command(t, e2e.Program("acphost"), "console", code, "--role", "approver")
		cmd.Dir, cmd.Env = p.Work, p.Env()
		shown, _ := wire.TypeLetters(cmd, answer)
		return shown
	}
	if out := confirm(func(string) string { return "zzzzz" }); !strings.Contains(out, "nothing was confirmed") || !strings.Contains(out, "127.0.0.1") || !strings.Contains(out, "Chrome") {
		t.Errorf("with other letters: %s", out)
	}
	if in := eval[bool](tab, `!!document.querySelector("nav")`); in {
		t.Fatal("the browser is signed in without a confirmation")
	}
	if out := confirm(func(letters string) string { return letters }); !strings.Contains(out, "signed in as approver") {
		t.Fatalf("with the letters: %s", out)
	}
	tab.until("the browser is in", `!!document.querySelector("nav")`)
	tab.shows("approver")
	if cookies := eval[string](tab, "document.cookie"); cookies != "" {
		t.Errorf("scripts read the cookie %q", cookies)
	}

	// The cookie alone is not sufficient, as every server on this host receives it; neither is the page's secret.
	for what, script := range map[string]string{
		"without the page's secret": `fetch("/console/api/who", {method: "POST", headers: {"Content-Type": "application/json"}, body: "{}"}).then((r) => r.json()).then((r) => r.state)`,
		"without the cookie":        `fetch("/console/api/who", {method: "POST", credentials: "omit", headers: {"Content-Type": "application/json", "Acphost-Console": localStorage.getItem("acphost-console")}, body: "{}"}).then((r) => r.json()).then((r) => r.state)`,
	} {
		if state := eval[string](tab, script); state != "out" {
			t.Errorf("%s the browser is %q", what, state)
		}
	}
	all := slices.DeleteFunc(browsers(), func(b browser) bool { return slices.Contains(before, b) })
	if len(all) != 1 {
		t.Fatalf("the list has %v besides %v", all, before)
	}
	if status, _, errs := p.Cli(t, "console", "--sign-out", all[0].ID); status != 0 {
		t.Fatalf("signing out: %s", errs)
	}
	tab.until("the browser is out", `!document.querySelector("nav")`)
	g.Leave()
}

func TestQuestion_AnsweredOnPhone(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := e2e.NewPlace(t)
	g := e2e.NewConsole(t, p)
	agent := g.Start(p.Demo())
	s := g.Open(agent.GetId())
	tab := b.open(console(g)+e2e.SessionAt(s), phoneWidth, phoneHeight)
	tab.signIn(g.Token("operator"))
	tab.shows("idle")
	turn := g.Prompt(s.GetSessionId(), "/run for i in $(seq 600); do echo line $i; sleep 0.1; done")
	tab.until("the terminal shows output", `(document.querySelector(".terminal .xterm-rows")?.innerText ?? "").includes("line 3")`)
	second := g.Open(agent.GetId())
	asked := g.Prompt(second.GetSessionId(), "ask notes.txt")
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
	asked.Says("allow")
	asked.Stopped("end_turn")
	tab.until("it is gone", `!document.querySelector("article.question")`)
	tab.do(chromedp.Navigate(console(g) + e2e.SessionAt(s)))
	tab.until("the terminal still runs", `(document.querySelector(".terminal .xterm-rows")?.innerText ?? "").includes("line")`)
	tab.clean("a terminal on a phone")
	tab.button("Cancel the turn")
	turn.Stopped("cancelled")
	g.Leave()
}

func TestConsole_Views(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := e2e.NewPlace(t)
	g := e2e.NewConsole(t, p)
	agent := g.Start(p.Demo())
	s := g.Open(agent.GetId())
	tab := openAsOperator(g, b, e2e.SessionAt(s))
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
	tab.do(chromedp.Navigate(console(g) + e2e.SessionAt(s)))
	tab.shows("idle")
	tab.shows("reject")
	g.Leave()
}

// TestKeyboard_ReachesQuestions reaches a new question, and the next one after its end, by keys alone. The page of a
// session that is closed meanwhile reports that and accepts no input.
func TestKeyboard_ReachesQuestions(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := e2e.NewPlace(t)
	g := e2e.NewConsole(t, p)
	agent := g.Start(p.Demo())
	one, two := g.Open(agent.GetId()), g.Open(agent.GetId())
	tab := openAsOperator(g, b, "#/inbox")
	tab.shows("No question waits.")
	const focused, count = `!!document.activeElement.closest("article.question:not(.over)")`, `document.querySelectorAll("article.question:not(.over)").length`
	first := g.Prompt(one.GetSessionId(), "ask one.txt")
	tab.until("the question that comes has the focus", focused)
	second := g.Prompt(two.GetSessionId(), "ask two.txt")
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
	first.Stopped("end_turn")
	second.Stopped("end_turn")

	tab.do(chromedp.Navigate(console(g) + e2e.SessionAt(one)))
	tab.until("it takes prompts", `!!document.querySelector("#prompt")`)
	if _, err := g.Agents.StopAgent(g.Ctx, &supervisorv1.StopAgentRequest{AgentId: agent.GetId()}); err != nil {
		t.Fatal(err)
	}
	tab.shows("The session is closed")
	tab.until("it takes no prompts, and has nothing to cancel", `!document.querySelector("#prompt") && ![...document.querySelectorAll("button")].some((b) => b.innerText === "Cancel the turn")`)
	g.Leave()
}

// TestConsole_ShowsDenialWithRule runs the first steps of the README, whose denial the console shows, too.
func TestConsole_ShowsDenialWithRule(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := e2e.NewPlace(t)
	secret := p.File(t, ".env", "TOKEN=1\n")
	g := e2e.NewConsole(t, p, "--policy", "workspace")
	s := g.Open(g.Start(p.Demo()).GetId())
	tab := openAsOperator(g, b, e2e.SessionAt(s))
	tab.do(chromedp.WaitVisible(chromedp.CSS("#prompt")), chromedp.SendKeys(chromedp.CSS("#prompt"), "/read "+secret+kb.Enter))
	tab.shows("rule secrets")
	tab.shows("idle")
	tab.picture("console-denied.png")
	tab.click(`nav a[href="#/policy"]`)
	tab.until("the denial is counted", `/Calls that were denied\s+1\b/.test(document.body.innerText)`)
	g.Leave()
}

// decided is a script's list of the decisions that the page shows, the newest first, as "VERDICT|WHAT|WHY".
const decided = `[...document.querySelectorAll(".decision")].map((d) => [".verdict", "code", ".why"].map((s) => d.querySelector(s).innerText).join("|"))`

func TestDecisions_AreShownLiveWithRules(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := e2e.NewPlace(t)
	secret := p.File(t, ".env", "TOKEN=1\n")
	plain := p.File(t, "plain.txt", "plain\n")
	g := e2e.NewConsole(t, p, "--policy", "workspace")
	s := g.Open(g.Start(p.Demo()).GetId())
	g.Prompt(s.GetSessionId(), "/read "+secret).Stopped("end_turn")
	tab := openAsOperator(g, b, "#/policy")
	tab.until("the earlier decision is shown, with its rule and position", decided+`.some((d) => /^deny\|.*\.env\|rule secrets in workspace:\d+: /.test(d))`)
	before := eval[int](tab, decided+".length")
	g.Prompt(s.GetSessionId(), "/read "+plain).Stopped("end_turn")
	tab.until("what is decided now is there, above", decided+`.length > `+fmt.Sprint(before)+` && /^allow\|read .*plain\.txt\|rule .* in workspace:\d+/.test(`+decided+`[0])`)
	g.Prompt(s.GetSessionId(), "/read "+filepath.Join(p.Work, ".env."+strings.ReplaceAll(hostile, "/", ""))).Stopped("end_turn")
	tab.until("hostile text is shown, shortened", decided+`[0].includes("\\u{202e}gnp.exe")`)
	tab.click(`.decision button[aria-expanded]`)
	tab.until("and whole, as it is", `/<img src=x onerror="alert\(1\)">.*\\u\{202e\}gnp\.exe/.test(document.querySelector(".decision pre")?.innerText ?? "")`)
	tab.clean("decisions")
	tab.picture("console-policy.png")
	if at := eval[string](tab, `document.querySelector(".decision a").getAttribute("href")`); at != e2e.SessionAt(s) {
		t.Errorf("a decision leads to %q, want %q", at, e2e.SessionAt(s))
	}
	if n := eval[int](tab, `document.querySelectorAll("#app script, #app img, #app style").length`); n != 0 {
		t.Errorf("there are %d elements that an agent has named", n)
	}
	tab.run(`const s = [...document.querySelectorAll(".choices select")][0]; s.value = "allow"; s.dispatchEvent(new Event("change", {bubbles: true}))`)
	tab.until("only what was allowed is shown", decided+`.length > 0 && `+decided+`.every((d) => d.startsWith("allow|"))`)
	leaveWith(g, tab)
}

func TestPolicyPage_TriesRuleFile(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := e2e.NewPlace(t)
	secret, plain := p.File(t, ".env", "TOKEN=1\n"), p.File(t, "plain.txt", "plain\n")
	g := e2e.NewConsole(t, p, "--policy", "workspace")
	s := g.Open(g.Start(p.Demo()).GetId())
	for _, file := range []string{secret, plain} {
		g.Prompt(s.GetSessionId(), "/read "+file).Stopped("end_turn")
	}
	tab := openAsOperator(g, b, "#/policy")
	file := chromedp.CSS("#replay-file")
	tab.do(chromedp.WaitVisible(file), chromedp.SetUploadFiles(file, []string{p.File(t, "bad.yaml", "version: 1\nrules:\n  - id: x\n    effect: allwo\n    on: [fs.read]\n")}))
	tab.until("the file is in the page", `document.querySelector("#replay-policy").value.includes("allwo")`)
	tab.button("Replay")
	tab.until("the mistake is shown with its line", `/line 4, column \d+: error: .*allwo/s.test(document.querySelector(".findings")?.innerText ?? "")`)
	tab.shows("The file does not load")
	tab.clean("a rule file with a mistake")
	tab.do(chromedp.SetUploadFiles(file, []string{p.File(t, "looser.yaml", looser+"  # "+hostile+"\n")}))
	tab.until("the other file is in the page", `document.querySelector("#replay-policy").value.includes("read-all")`)
	tab.button("Replay")
	tab.until("the difference is shown", `/^deny\s+read .*\.env\n[^]*would be allow by rule read-all in policy\.yaml:3: A try\./.test(document.querySelector(".replayed .decision")?.innerText ?? "")`)
	tab.shows("2 decisions, 1 differs: 1 deny→allow")
	tab.clean("a replay")
	tab.picture("console-replay.png")

	viewer := newBrowser(t).open(console(g)+"#/policy", phoneWidth, phoneHeight)
	viewer.signIn(g.Token("viewer"))
	viewer.until("a viewer sees decisions", decided+`.some((d) => d.startsWith("deny|"))`)
	if eval[bool](viewer, `!!document.querySelector("#replay-policy")`) {
		t.Error("a viewer is offered a replay")
	}
	if wide := eval[bool](viewer, "document.documentElement.scrollWidth > innerWidth"); wide {
		t.Error("the page is wider than the phone")
	}
	viewer.clean("decisions on a phone")
	viewer.picture("console-policy-phone.png")
	leaveWith(g, tab)
}

func TestPolicyPage_SaysIfNothingIsRecorded(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := e2e.NewPlace(t)
	g := e2e.NewConsole(t, p)
	tab := openAsOperator(g, b, "#/policy")
	tab.shows("set permission.policy")
	tab.shows("No decision is recorded yet.")
	g.Leave()
}

func TestQuestion_FirstOfTwoTabsWins(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := e2e.NewPlace(t)
	g := e2e.NewConsole(t, p)
	agent := g.Start(p.Demo())
	s := g.Open(agent.GetId())
	one := openAsOperator(g, b, "#/inbox")
	two := b.open(console(g)+"#/inbox", desktopWidth, desktopHeight) // signed in by the first one
	two.until("the second tab is in", `!!document.querySelector("nav")`)
	turn := g.Prompt(s.GetSessionId(), "ask notes.txt")
	for _, tab := range []*webPage{one, two} {
		tab.until("the question is there", `!!document.querySelector("article.question button.allow")`)
	}
	press := func(kind string) string {
		return fmt.Sprintf(`(document.querySelector("article.question button.%s:enabled")?.click(), !!document.querySelector(".answered") || !document.querySelector("article.question"))`, kind)
	}
	var racing sync.WaitGroup
	racing.Go(func() { one.until("the first shows how it ended", press("allow")) })
	racing.Go(func() { two.until("the second shows how it ended", press("reject")) })
	racing.Wait()
	turn.Stopped("end_turn")
	for _, tab := range []*webPage{one, two} {
		tab.until("the question is gone", `!document.querySelector("article.question")`)
		tab.shows("No question waits.")
		if problem := eval[string](tab, `document.querySelector("[role=alert]")?.innerText ?? ""`); problem != "" {
			t.Errorf("a tab complains: %s", problem)
		}
	}
	// Signing out signs out all tabs.
	one.button("Sign out")
	one.until("the first tab is out", `!document.querySelector("nav")`)
	two.until("the second tab is out", `!document.querySelector("nav")`)
	g.Leave()
}

// console is the URL of the console.
func console(g *e2e.Gateway) string { return "http://" + g.At + "/console/" }
