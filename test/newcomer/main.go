// Command newcomer is a person with a browser: it opens the console of a gateway, types the code that the page shows
// into "acphost console", goes to the first session that the console shows, and looks for texts in it. newcomer.sh
// starts it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/acphost/acphost/test/wire"
)

// patience is how long anything may take.
const patience = time.Minute

func main() {
	url := flag.String("url", "http://127.0.0.1:7480/console/", "the console")
	picture := flag.String("picture", "", "a file for a picture of the session")
	var looksFor []string
	flag.Func("for", "a text that the session has to show; may be repeated", func(s string) error { looksFor = append(looksFor, s); return nil })
	flag.Parse()
	if err := visit(*url, *picture, looksFor, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "newcomer:", err)
		os.Exit(1)
	}
}

// visit signs in by a command in which the page's code replaces CODE.
func visit(url, picture string, looksFor, command []string) error {
	profile, err := os.MkdirTemp("", "newcomer")
	if err != nil {
		return err
	}
	defer os.RemoveAll(profile)
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath("chromium"), chromedp.UserDataDir(profile),
		chromedp.Env("HOME="+profile, "XDG_CONFIG_HOME="+profile, "XDG_CACHE_HOME="+profile), chromedp.WSURLReadTimeout(patience))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer func() { _ = chromedp.Cancel(ctx); cancel() }()
	if err := chromedp.Do(ctx); err != nil { // the browser was there before
		return fmt.Errorf("start chromium: %w", err)
	}
	begun := time.Now()
	report := func(what string) {
		fmt.Printf("%6d ms  %s\n", time.Since(begun).Milliseconds(), what)
		begun = time.Now()
	}
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1100, 750), chromedp.Navigate(url)); err != nil {
		return fmt.Errorf("open %s: %w", url, err)
	}
	if err := until(ctx, "a code", `/[a-z2-9]{5}-[a-z2-9]{5}/.test(document.body.innerText)`); err != nil {
		return err
	}
	code, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.body.innerText.match(/[a-z2-9]{5}-[a-z2-9]{5}/)[0]`))
	if err != nil {
		return err
	}
	report("the page shows a code")
	if err := confirm(ctx, command, code); err != nil {
		return err
	}
	if err := until(ctx, "that the browser is in", `!!document.querySelector("nav")`); err != nil {
		return err
	}
	report("the browser is signed in")
	if err := chromedp.Do(ctx, chromedp.Click(chromedp.CSS(`nav a[href="#/board"]`))); err != nil {
		return fmt.Errorf("go to the board: %w", err)
	}
	if err := until(ctx, "a session", `(() => { const a = document.querySelector('main a[href^="#/session/"]'); a?.click(); return !!a; })()`); err != nil {
		return err
	}
	for _, text := range looksFor {
		if err := until(ctx, text, fmt.Sprintf(`document.body.innerText.includes(%q)`, text)); err != nil {
			return err
		}
	}
	report("the session shows " + strings.Join(looksFor, ", "))
	if picture == "" {
		return nil
	}
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		return fmt.Errorf("make a picture: %w", err)
	}
	return os.WriteFile(picture, png, 0o644)
}

// until waits until an expression is true.
func until(ctx context.Context, what, expression string) error {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		ok, err := chromedp.Run(within, chromedp.Evaluate[bool](expression))
		if ok {
			return nil
		}
		if within.Err() == nil && err == nil {
			select {
			case <-within.Done():
			case <-time.After(20 * time.Millisecond):
			}
			continue
		}
		shown, _ := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
		return fmt.Errorf("the page does not show %s (%w); it shows:\n%s", what, errors.Join(err, within.Err()), shown)
	}
}

// confirm types the letters that the command asks for, on a terminal.
func confirm(ctx context.Context, command []string, code string) error {
	if len(command) == 0 {
		return errors.New("expected a command that takes the code in place of CODE")
	}
	for i := range command {
		command[i] = strings.ReplaceAll(command[i], "CODE", code)
	}
	shown, err := wire.TypeLetters(exec.CommandContext(ctx, command[0], command[1:]...), func(letters string) string { return letters })
	if err != nil {
		return fmt.Errorf("%q: %w\n%s", command, err, shown)
	}
	return nil
}
