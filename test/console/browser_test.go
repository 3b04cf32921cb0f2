package console_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/tracing"
	"github.com/chromedp/chromedp"

	"github.com/acphost/acphost/internal/testkit"
)

// chromium is a browser with its own cookies and storage, separate from those of other tests.
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

// browserProcess is a process of Chromium, with a new profile.
type browserProcess struct {
	ctx  context.Context
	stop func() // ends the process, and removes the profile
}

// startBrowser starts Chromium: its headless shell if that is installed, since a whole Chromium runs a renderer for the
// toolbar of each window besides, which takes half of the processor time of these tests. The error is exec.ErrNotFound
// if neither is installed.
func startBrowser() (*browserProcess, error) {
	program, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		program, err = exec.LookPath("chromium")
	}
	if err != nil {
		return nil, err
	}
	home, err := os.MkdirTemp("", "acphost-browser-") // Chromium writes to its home as well as to its profile
	if err != nil {
		return nil, err
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(program), chromedp.Env("HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home),
		chromedp.UserDataDir(filepath.Join(home, "profile")), chromedp.WSURLReadTimeout(testkit.Timeout()), chromedp.Flag("force-color-profile", "srgb"))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocated, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocated)
	stop := func() {
		_ = chromedp.Cancel(ctx)
		cancel()
		end()
		_ = os.RemoveAll(home)
	}
	if err := chromedp.Do(ctx); err != nil {
		stop()
		return nil, fmt.Errorf("start chromium: %w", err)
	}
	return &browserProcess{ctx, stop}, nil
}

// sharedBrowser is the process that tests share, since to start Chromium takes several seconds of processor time. It is
// started by the first test that needs it, and stopped by stopSharedBrowser.
var sharedBrowser = sync.OnceValues(startBrowser)

// browserUsed reports whether sharedBrowser was called.
var browserUsed atomic.Bool

// stopSharedBrowser ends the shared process, if there is one. No test runs any more.
func stopSharedBrowser() {
	if !browserUsed.Load() {
		return
	}
	if b, err := sharedBrowser(); err == nil {
		b.stop()
	}
}

// newBrowser returns a browser. The test is skipped if Chromium is not installed.
func newBrowser(t *testing.T) *chromium {
	t.Helper()
	browserUsed.Store(true)
	process, err := sharedBrowser()
	return newContext(t, process, err)
}

// newBrowserProcess returns a browser with its own process, for a test that traces it: a process can have one trace.
func newBrowserProcess(t *testing.T) *chromium {
	t.Helper()
	process, err := startBrowser()
	if err == nil {
		t.Cleanup(process.stop)
	}
	return newContext(t, process, err)
}

func newContext(t *testing.T, process *browserProcess, err error) *chromium {
	t.Helper()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("Chromium is not installed (Debian: apt-get install chromium)")
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(process.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(func() { _ = chromedp.Cancel(ctx); cancel() })
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("open a context in chromium: %v", err)
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
			ctx, cancel := context.WithTimeout(ctx, testkit.Timeout())
			defer cancel()
			text, _ := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
			b.t.Logf("the page showed:\n%s", text)
		}
	})
	return p
}

func (p *webPage) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, testkit.Timeout())
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// click clicks the element that a selector of CSS finds.
func (p *webPage) click(selector chromedp.CSS) { p.t.Helper(); p.do(chromedp.Click(selector)) }

// task is one of a page's main thread.
type task struct {
	ms    float64 // of CPU time
	parts string  // what took most of it
}

// busiest traces what a page does until do returns, and is the task that took its main thread most CPU time meanwhile:
// CPU time, because other tests take the processors away, too. What asks the page from outside is one of the tasks.
func (p *webPage) busiest(do func()) task {
	p.t.Helper()
	ctx, stop := context.WithCancel(p.ctx)
	defer stop()
	type entry struct {
		Name  string  `json:"name"`
		Phase string  `json:"ph"`
		PID   int     `json:"pid"`
		TID   int     `json:"tid"`
		At    float64 `json:"ts"`   // µs, and so are the others
		Took  float64 `json:"dur"`  // of the clock
		CPU   float64 `json:"tdur"` // of the processor
		Args  struct {
			Name string `json:"name"`
		} `json:"args"`
	}
	var all []entry
	lost, done := false, make(chan struct{})
	if err := chromedp.Listen(ctx, func(e any) {
		switch e := e.(type) {
		case *tracing.EventDataCollected:
			for _, v := range e.Value {
				var one entry
				if json.Unmarshal(v, &one) == nil {
					all = append(all, one)
				}
			}
		case *tracing.EventTracingComplete:
			lost = e.DataLossOccurred
			close(done)
		}
	}); err != nil {
		p.t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, tracing.Start, tracing.StartParams{TraceConfig: &tracing.TraceConfig{
		IncludedCategories: []string{"devtools.timeline", "disabled-by-default-devtools.timeline", "__metadata"}, ExcludedCategories: []string{"*"},
	}}); err != nil {
		p.t.Fatal(err)
	}
	do()
	if _, err := chromedp.Call(ctx, tracing.End, cdp.Empty{}); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-done:
	case <-testkit.After():
		p.t.Fatal("the trace does not end")
	}
	if lost {
		p.t.Fatal("a part of the trace is lost")
	}
	main := map[[2]int]bool{}
	for _, e := range all {
		if e.Name == "thread_name" && e.Args.Name == "CrRendererMain" {
			main[[2]int{e.PID, e.TID}] = true
		}
	}
	all = slices.DeleteFunc(all, func(e entry) bool { return e.Phase != "X" || !main[[2]int{e.PID, e.TID}] })
	var most entry
	for _, e := range all {
		if e.Name == "RunTask" && e.CPU > most.CPU {
			most = e
		}
	}
	if most.CPU == 0 {
		p.t.Fatalf("the trace has no CPU time of a task of the main thread, in %d entries", len(all))
	}
	parts := map[string]float64{}
	for _, e := range all {
		if e.PID == most.PID && e.TID == most.TID && e.Name != "RunTask" && e.At >= most.At && e.At+e.Took <= most.At+most.Took {
			parts[e.Name] += e.CPU / 1000
		}
	}
	names := slices.SortedFunc(maps.Keys(parts), func(a, b string) int { return cmp.Compare(parts[b], parts[a]) })
	t := task{ms: most.CPU / 1000}
	for _, name := range names[:min(6, len(names))] {
		t.parts += fmt.Sprintf(" %s %.1f", name, parts[name])
	}
	return t
}

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
	ctx, cancel := context.WithTimeout(p.ctx, testkit.Timeout())
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%.200s: %v", expression, err)
	}
	return v
}

// until waits until an expression is true. It evaluates from outside of the page, whose policy permits no evaluation in
// it.
func (p *webPage) until(what, expression string) {
	p.t.Helper()
	if !testkit.Poll(func() bool { return eval[bool](p, "!!("+expression+")") }) {
		p.t.Fatalf("it is not so that %s", what)
	}
}

// arrives waits until an expression is true while the browser opens one page after another, between which no page can
// be evaluated.
func (p *webPage) arrives(what, expression string) {
	p.t.Helper()
	if !testkit.Poll(func() bool {
		ctx, cancel := context.WithTimeout(p.ctx, testkit.Timeout())
		defer cancel()
		v, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!(document.body && ("+expression+"))"))
		return err == nil && v
	}) {
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

// fine expects that the page's policy rejected nothing, and that there was no error.
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
