package console_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
)

// untilBar waits until one of a lane's bars contains words, and returns the selector of the first one.
func (p *webPage) untilBar(lane, words string) chromedp.CSS {
	p.t.Helper()
	which := fmt.Sprintf(`[...document.querySelectorAll(".bar.%s")].find((b) => b.getAttribute("aria-label").includes(%s))`, lane, quoted(words))
	p.until(fmt.Sprintf("a %s contains %q", lane, words), which)
	return chromedp.CSS(fmt.Sprintf(`[data-bar="%s"]`, eval[string](p, which+`.dataset.bar`)))
}

func TestTimeline_ShowsAndLinksEvents(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := e2e.NewPlace(t)
	secret := p.File(t, ".env", "TOKEN=1\n")
	g := e2e.NewConsole(t, p, "--policy", "workspace")
	agent := g.Start(p.Demo())
	s := g.Open(agent.GetId())
	tab := openAsOperator(g, b, e2e.SessionAt(s))
	tab.shows("Timeline: nothing yet")
	asked := g.Prompt(s.GetSessionId(), "ask /"+strings.ReplaceAll(hostile, "/", ""))
	asked.Question()
	tab.untilBar("turn", "ask /<img src=x") // while it goes on
	tab.untilBar("decision", "asked")
	tab.untilBar("wait", "A question waited for an answer")
	tab.until("the question is answered", `(document.querySelector("article.question button.reject:enabled")?.click(), !!document.querySelector(".answered"))`)
	asked.Stopped("end_turn")
	tab.untilBar("decision", "denied by")
	read := g.Prompt(s.GetSessionId(), "/read "+secret)
	read.Stopped("end_turn")
	tab.untilBar("call", "fs/read_text_file "+secret+", denied")
	tab.untilBar("decision", "fs/read_text_file "+secret)
	ran := g.Prompt(s.GetSessionId(), "/run sleep 0.2")
	ran.Stopped("end_turn")
	tab.untilBar("tool", "Run sleep 0.2, completed")
	quiet := g.Prompt(s.GetSessionId(), "slow 2 3500")
	tab.untilBar("wait", "Nothing was said")
	quiet.Stopped("end_turn")
	tab.shows("4 turns")
	tab.clean("a timeline")
	tab.picture("console-timeline.png")
	// The search finds distant events, by mouse and by keys.
	long := g.Prompt(s.GetSessionId(), "flood 3000")
	long.Stopped("end_turn")
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
	bar := tab.untilBar("tool", "Run sleep 0.2, completed")
	// A click misses a bar that moves while the drawing catches up with the flood.
	testkit.Eventually(t, "the bar leads to its row", func() bool {
		tab.click(bar)
		return eval[bool](tab, `!!document.querySelector(".row.reached")?.textContent.includes("Run sleep 0.2")`)
	})
	inView("Run sleep 0.2")
	press := func(keys ...string) {
		t.Helper()
		for _, key := range keys {
			tab.do(chromedp.KeyEvent(key))
		}
	}
	press(kb.ArrowUp, kb.Home)
	if label := eval[string](tab, `document.activeElement.getAttribute("aria-label")`); !strings.HasPrefix(label, "Turn, ask /<img src=x") || !strings.Contains(label, `\u{202e}`) {
		t.Errorf("the first bar that the keys reach is %q", label)
	}
	press(kb.Enter)
	inView("ask /<img src=x")
	if n := eval[int](tab, `document.querySelectorAll(".bar[tabindex='0']").length`); n != 1 {
		t.Errorf("Tab stops at %d bars, want 1", n)
	}
	// A page that is opened later shows the same.
	label := `JSON.stringify([...document.querySelectorAll(".bar")].map((b) => b.getAttribute("aria-label")))`
	before := eval[string](tab, label)
	tab.do(chromedp.Reload())
	tab.until("the timeline is as it was", label+" === "+quoted(before))
	tab.clean("a timeline that was opened later")
	// On a phone it is shown on request, and the page does not become wider.
	phone := b.open(console(g)+e2e.SessionAt(s), phoneWidth, phoneHeight) // which is signed in as the other page is
	phone.shows("5 turns")
	phone.click(".timeline summary")
	phone.untilBar("tool", "Run sleep 0.2, completed")
	if wide := eval[bool](phone, "document.documentElement.scrollWidth > innerWidth"); wide {
		t.Error("the page is wider than the phone")
	}
	phone.clean("a timeline on a phone")
	phone.picture("console-timeline-phone.png")
	g.Leave()
}

// TestPrompt_AttachesFiles: files that are chosen, dropped or pasted reach the agent unchanged, in content blocks that
// the agent supports.
func TestPrompt_AttachesFiles(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := e2e.NewPlace(t)
	g := e2e.NewConsole(t, p)
	agent := g.Start(p.Demo())
	s := g.Open(agent.GetId())
	tab := openAsOperator(g, b, e2e.SessionAt(s))
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
	watched := g.Watch(&supervisorv1.WatchSessionRequest{AgentId: s.GetAgentId(), SessionId: s.GetSessionId()})
	tab.do(chromedp.SendKeys(chromedp.CSS("#prompt"), "blocks"+kb.Enter))
	sum := func(content string) string {
		return fmt.Sprintf("%d bytes %x", len(content), sha256.Sum256([]byte(content)))
	}
	message := watched.Until("the agent sends what it received", func(e *supervisorv1.Event) bool { return e.GetAgentMessage() != nil }).GetAgentMessage().GetContent().GetText().GetText()
	for i, want := range []string{
		"^text  " + sum("blocks"), "^image image/png " + sum(picture), `^resource application/octet-stream blob attachment:///\d+/data\.bin ` + sum(blob),
		`^resource text/plain text attachment:///\d+/gru%E2%80%AEss\.txt ` + sum(text), `^resource text/plain text attachment:///\d+/dropped\.txt ` + sum("AAA"), "^image image/png " + sum("AAA"),
	} {
		lines := strings.Split(strings.TrimSpace(message), "\n")
		if len(lines) != 6 || !regexp.MustCompile(want+"$").MatchString(lines[i]) {
			t.Errorf("the agent got %q, want 6 blocks, and block %d like %q", message, i+1, want)
		}
	}
	attached(0)
	watched.Until("the turn ends", func(e *supervisorv1.Event) bool { return e.GetTurnEnded() != nil })
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
	watched.Until("the turn ends", func(e *supervisorv1.Event) bool { return e.GetTurnEnded() != nil })
	tab.shows("idle")
	// So many files, and no more.
	for i := range 11 {
		tab.run(given(fmt.Sprintf("n%d.txt", i), "text/plain", 1) + drop)
	}
	attached(10)
	refused("n10.txt is not attached: a prompt takes at most 10 files")
	tab.fine("many files")
	// For an agent without support for attachments, the page reports that before anything is sent.
	plain := g.Start(p.Demo("-without", "image,audio,embedded"))
	other := g.Open(plain.GetId())
	tab.run(`location.hash = ` + quoted(e2e.SessionAt(other)))
	tab.shows(plain.GetId() + " · idle") // the page of the other session has not been left yet
	attached(0)
	for kind, words := range map[string]string{"image/png": "takes no images (promptCapabilities.image)", "audio/wav": "takes no sounds (promptCapabilities.audio)", "text/plain": "takes no files in prompts (promptCapabilities.embeddedContext)"} {
		// The page accepts files as soon as the prompt of the new session can be used, which it does not show.
		words = "a <b>file</b> is not attached: this agent " + words
		tab.until("it is refused: "+words, `(() => {
			if (document.querySelector(".prompt [role=alert]")?.innerText.includes(`+quoted(words)+`)) return true;
			`+given("a <b>file</b>", kind, 3)+drop+`
			return false;
		})()`)
	}
	attached(0)
	tab.clean("a prompt for an agent that takes no files")
	g.Leave()
}

// hostile is text that a page must show unchanged: elements, scripts, addresses, characters that reverse others.
const hostile = `<img src=x onerror="alert(1)"><script>alert(2)</script><style>*{display:none}</style>"'` + "`" + `${alert(3)}{{4}}<a href="javascript:alert(5)">` + "\u202egnp.exe"

func TestConsole_EscapesHostileText(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := e2e.NewPlace(t)
	g := e2e.NewConsole(t, p)
	agent := g.Start(p.Demo())
	s := g.Open(agent.GetId())
	tab := openAsOperator(g, b, e2e.SessionAt(s))
	message := g.Prompt(s.GetSessionId(), "repeat "+hostile)
	message.Stopped("end_turn")
	tab.shows(`<img src=x onerror="alert(1)">`)
	tab.shows(`\u{202e}gnp.exe`)
	asked := g.Prompt(s.GetSessionId(), "ask /"+strings.ReplaceAll(hostile, "/", ""))
	asked.Question()
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
	leaveWith(g, tab)
}

// TestQuestion_ShowsCommandAsCode: a code block in a question is shown as escaped code, without its fences, and the
// text after the block is shown, too.
func TestQuestion_ShowsCommandAsCode(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := e2e.NewPlace(t)
	g := e2e.NewConsole(t, p, "--policy", "workspace")
	s := g.Open(g.Start(p.Demo()).GetId())
	tab := openAsOperator(g, b, "#/inbox")
	turn := g.Prompt(s.GetSessionId(), `/run frobnicate '<img src=x onerror="alert(1)">'`)
	turn.Question()
	tab.until("the command is shown as code", `(document.querySelector("article.question figure.code pre.exact")?.innerText ?? "").startsWith("frobnicate '<img src=x onerror=")`)
	if shown := eval[string](tab, `document.querySelector("article.question").innerText`); strings.Contains(shown, "```") {
		t.Errorf("the question shows a fence: %s", shown)
	}
	if info := eval[string](tab, `document.querySelector("article.question figcaption").innerText`); info != "sh" {
		t.Errorf("after the fence is %q", info)
	}
	if n := eval[int](tab, `document.querySelectorAll("#app script, #app img, #app style").length`); n != 0 {
		t.Errorf("there are %d elements that an agent has named", n)
	}
	tab.clean("a question with code")
	leaveWith(g, tab)
}

// TestForm_IsFilledInAndDeclined fills in a form in a browser, with field names that an agent chose, and declines it.
func TestForm_IsFilledInAndDeclined(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := e2e.NewPlace(t)
	g := e2e.NewConsole(t, p)
	req := p.Demo()
	req.Attended = true // else it may not put forms
	agent := g.Start(req)
	s := g.Open(agent.GetId())
	tab := openAsOperator(g, b, "#/inbox")
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
	asked := g.Prompt(s.GetSessionId(), "elicit "+string(schema))
	asked.Question()
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
	asked.Says("accept " + string(want))
	asked.Stopped("end_turn")
	declined := g.Prompt(s.GetSessionId(), "elicit")
	tab.until("the form is declined", `([...document.querySelectorAll("article.question:not(.over) form button")].find((b) => b.type === "button")?.click(), document.querySelector(".answered")?.innerText.includes("decline") ?? false)`)
	declined.Says("decline")
	declined.Stopped("end_turn")
	tab.fine("a form")
	g.Leave()
}

// leaveWith ends all while a page is open: it must not keep gatewayd.
func leaveWith(g *e2e.Gateway, tab *webPage) {
	g.T.Helper()
	g.Leave()
	tab.shows("cannot be reached. Trying again")
}
