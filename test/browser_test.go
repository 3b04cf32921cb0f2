package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/acphost/acphost/internal/testkit"
)

// chromium is a browser of a test's own, with a profile that nobody else has.
type chromium struct {
	t   *testing.T
	ctx context.Context
}

// webPage is a page in a browser.
type webPage struct {
	t    *testing.T
	ctx  context.Context
	mu   sync.Mutex // guards what follows
	said []string   // what the page complained of
}

// patience is how long a page may take to show something: several tests share this machine.
const patience = 60 * time.Second

// newBrowser starts Chromium. The test is skipped if there is none.
func newBrowser(t *testing.T) *chromium {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed (Debian: apt-get install chromium)")
	}
	// The home, because Chromium writes beside its profile, too.
	home := t.TempDir()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(program), chromedp.Env("HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home),
		chromedp.UserDataDir(filepath.Join(home, "profile")), chromedp.WSURLReadTimeout(patience), chromedp.Flag("force-color-profile", "srgb"))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(func() { _ = chromedp.Cancel(ctx); cancel() })
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start chromium: %v", err)
	}
	return &chromium{t, ctx}
}

// watcher notes what a page's policy refuses, and how long its main thread is busy at a time.
const watcher = `
window.__refused = [];
window.__long = [];
addEventListener("securitypolicyviolation", (e) => __refused.push(e.violatedDirective + " " + e.blockedURI + " " + e.sample));
new PerformanceObserver((l) => { for (const e of l.getEntries()) __long.push(e.duration); }).observe({type: "longtask"});
`

// open opens a page.
func (b *chromium) open(url string, width, height int64) *webPage {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	b.t.Cleanup(cancel)
	p := &webPage{t: b.t, ctx: ctx}
	err := chromedp.Listen(ctx, func(e any) {
		var what string
		switch e := e.(type) {
		case *page.EventJavascriptDialogOpening:
			what = "a dialog: " + e.Message
		case *runtime.EventExceptionThrown:
			what = "an error: " + e.ExceptionDetails.Text
			if e.ExceptionDetails.Exception != nil {
				what += " " + e.ExceptionDetails.Exception.Description
			}
		default:
			return
		}
		p.mu.Lock()
		p.said = append(p.said, what)
		p.mu.Unlock()
	})
	if err != nil {
		b.t.Fatal(err)
	}
	if width < 600 {
		p.do(chromedp.EmulateViewport(width, height, chromedp.EmulateMobile))
	} else {
		p.do(chromedp.EmulateViewport(width, height))
	}
	if _, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watcher}); err != nil {
		b.t.Fatal(err)
	}
	p.do(chromedp.Navigate(url))
	b.t.Cleanup(func() {
		if b.t.Failed() {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			text, _ := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
			b.t.Logf("the page showed:\n%s", text)
		}
	})
	return p
}

func (p *webPage) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// click clicks the element that a selector of CSS finds.
func (p *webPage) click(selector chromedp.CSS) { p.t.Helper(); p.do(chromedp.Click(selector)) }

// button presses the button with a text.
func (p *webPage) button(words string) {
	p.t.Helper()
	p.until("there is a button "+words, fmt.Sprintf(`(() => { const b = [...document.querySelectorAll("button")].find((b) => b.innerText === %s && !b.disabled); b?.click(); return !!b; })()`, quoted(words)))
}

// run runs statements.
func (p *webPage) run(statements string) {
	p.t.Helper()
	eval[bool](p, "(() => { "+statements+"; return true; })()")
}

// eval is the value of an expression; that of a promise once it is kept.
func eval[T any](p *webPage, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%.200s: %v", expression, err)
	}
	return v
}

// until waits until an expression is true. It asks from outside of the page, whose policy lets nothing be evaluated in it.
func (p *webPage) until(what, expression string) {
	p.t.Helper()
	if !testkit.Poll(func() bool { return eval[bool](p, "!!("+expression+")") }) {
		p.t.Fatalf("it is not so that %s", what)
	}
}

// shows waits until the page shows words.
func (p *webPage) shows(words string) {
	p.t.Helper()
	p.until("the page shows "+words, fmt.Sprintf("document.body.innerText.includes(%s)", quoted(words)))
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// fine expects that the page's policy refused nothing, and that nothing went wrong.
func (p *webPage) fine(where string) {
	p.t.Helper()
	if refused := eval[[]string](p, "__refused"); len(refused) > 0 {
		p.t.Errorf("%s: the page's policy refused %q", where, refused)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.said) > 0 {
		p.t.Errorf("%s: %q", where, p.said)
	}
}

// clean expects that the page is fine, and that axe finds nothing.
func (p *webPage) clean(where string) {
	p.t.Helper()
	axe, err := os.ReadFile("peers/node_modules/axe-core/axe.min.js")
	if err != nil {
		p.t.Errorf("axe is not installed: make test-deps: %v", err)
		return
	}
	for _, scheme := range []string{"light", "dark"} {
		if _, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}); err != nil {
			p.t.Fatal(err)
		}
		found := eval[[]string](p, string(axe)+`; axe.run(document, {resultTypes: ["violations"]}).then((r) => r.violations.map((v) => v.id + ": " + v.help + ": " + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200)).join(" | ")))`)
		for _, f := range found {
			p.t.Errorf("%s, %s: axe finds %s", where, scheme, f)
		}
	}
	p.fine(where)
}

// picture keeps a picture of the page for the docs, if ACPHOST_PICTURES names a folder for it.
func (p *webPage) picture(name string) {
	p.t.Helper()
	dir := os.Getenv("ACPHOST_PICTURES")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), png, 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// desktop and phone are sizes of a screen.
const (
	desktopWidth, desktopHeight = 1100, 750
	phoneWidth, phoneHeight     = 375, 667
)
