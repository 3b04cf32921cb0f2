package notices

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// got is a request that a server got.
type got struct {
	*http.Request
	body string
}

// serve serves answers, and returns the received requests.
func serve(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) (address string, requests chan got) {
	t.Helper()
	requests = make(chan got, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- got{r, string(body)}
		if answer != nil {
			answer(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, requests
}

func file(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return name
}

// hostile is a notice with what means something somewhere.
var hostile = Notice{
	Title: "acphost: a question waits", Text: "The agent a asks.", Details: `-u critical <a href="https://evil.example">" & quit & "`, Count: 1,
	Link: "https://acp.example/console/#/session/a/s", Questions: []Question{{AgentID: "a", Link: "https://acp.example/console/#/session/a/s", Asked: time.Unix(1, 0)}},
}

func TestWebhook_IsSignedWithoutAnswerSecret(t *testing.T) {
	address, requests := serve(t, nil)
	secret := file(t, "s3cret\n", 0o600)
	w, err := NewWebhook("@"+file(t, address+"/hook/KEY\n", 0o600), secret)
	if err != nil {
		t.Fatal(err)
	}
	if name := w.String(); strings.Contains(name, "KEY") {
		t.Errorf("the log would show the address: %s", name)
	}
	check := func(key string) {
		t.Helper()
		if err := w.Send(t.Context(), hostile); err != nil {
			t.Fatal(err)
		}
		r := <-requests
		mac := hmac.New(sha256.New, []byte(key))
		mac.Write([]byte(r.body))
		if want := "sha256=" + hex.EncodeToString(mac.Sum(nil)); r.Header.Get(SignatureHeader) != want || r.Method != http.MethodPost || r.URL.Path != "/hook/KEY" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s with %v", r.Method, r.URL, r.Header)
		}
		var m map[string]any
		if err := json.Unmarshal([]byte(r.body), &m); err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339Nano, m["time"].(string))
		if err != nil || time.Since(at).Abs() > time.Minute || m["id"] == "" || m["count"] != 1.0 || m["link"] != hostile.Link ||
			m["text"] != "acphost: a question waits. The agent a asks. "+hostile.Link {
			t.Errorf("the body is %s (%v)", r.body, err)
		}
	}
	check("s3cret")
	if err := os.WriteFile(secret, []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	check("another")
}

func TestNtfy_HeadersAreASCII(t *testing.T) {
	address, requests := serve(t, nil)
	n, err := NewNtfy(address+"/topic", file(t, "tk_1", 0o400))
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Send(t.Context(), hostile); err != nil {
		t.Fatal(err)
	}
	r := <-requests
	if r.Header.Get("Title") != hostile.Title || r.Header.Get("Click") != hostile.Link || r.Header.Get("Authorization") != "Bearer tk_1" || r.URL.Path != "/topic" ||
		r.body != hostile.Text+"\n"+hostile.Details {
		t.Errorf("%s %v: %q", r.URL, r.Header, r.body)
	}
}

func TestSend_ErrorsHaveReason(t *testing.T) {
	elsewhere, led := serve(t, nil)
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request)
		want   string
		final  bool
	}{
		"a redirect elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere, http.StatusTemporaryRedirect)
		}, "redirects are not followed", true},
		"a redirect to itself": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/other", http.StatusPermanentRedirect)
		}, "redirects are not followed", true},
		"it is not known": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no such\x1b[2J topic", http.StatusNotFound)
		}, `404 "no such[2J topic"`, true},
		"it is busy": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "later", http.StatusTooManyRequests) }, `429 "later"`, false},
		"it is broken": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, strings.Repeat("x", 1<<20), http.StatusInternalServerError)
		}, "500", false},
		"it hangs up":      {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF", false},
		"headers of 1 MiB": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) }, "headers", false},
	} {
		address, _ := serve(t, c.answer)
		w, err := NewWebhook(address+"/KEY", "")
		if err != nil {
			t.Fatal(err)
		}
		err = w.Send(t.Context(), hostile)
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, errFinal) != c.final || strings.Contains(err.Error(), "KEY") || len(err.Error()) > 500 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(led) > 0 {
		t.Errorf("a redirect was followed: %v", <-led)
	}
}

func TestWebhook_TimesOut(t *testing.T) {
	free := make(chan struct{})
	address, requests := serve(t, func(http.ResponseWriter, *http.Request) { <-free })
	defer close(free)
	w, err := NewWebhook(address, "")
	if err != nil {
		t.Fatal(err)
	}
	if limit := w.(*webhook).client.Timeout; limit != sendTimeout {
		t.Errorf("it may take %v", limit)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-requests; cancel() }()
	if err := w.Send(ctx, hostile); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	w.(*webhook).client.Timeout = 50 * time.Millisecond
	go func() { // on a busy machine, the time is over before the request arrives
		select {
		case <-requests:
		case <-t.Context().Done():
		}
	}()
	if err := w.Send(t.Context(), hostile); err == nil || errors.Is(err, errFinal) {
		t.Errorf("got %v", err)
	}
}

func TestChannels_RejectInvalidAddressesAndSecrets(t *testing.T) {
	for address, want := range map[string]string{
		"":                               "expected a URL",
		"example.org/x":                  "expected a URL",
		"ftp://example.org/x":            "expected a URL",
		"https://":                       "expected a URL",
		"https://exa mple/KEY":           "expected a URL",
		"https://user:KEY@example.org/x": "a user or a fragment",
		"https://example.org/x#KEY":      "a user or a fragment",
		"http://example.org/KEY":         "has no TLS",
		"http://127.0.0.1.example/KEY":   "has no TLS",
		"@/no/such":                      "there is no file",
		"@" + file(t, "a\nb", 0o600):     "expected one line",
		"@" + file(t, "", 0o600):         "expected one line",
		"@" + file(t, "https://example.org/KEY", 0o644): "open to others",
	} {
		if _, err := NewWebhook(address, ""); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "KEY") {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
	if _, err := NewWebhook("https://example.org", file(t, "x", 0o604)); err == nil || !strings.Contains(err.Error(), "open to others") {
		t.Errorf("a secret that others read: %v", err)
	}
	if _, err := NewNtfy("https://ntfy.sh/", ""); err == nil || !strings.Contains(err.Error(), "URL of a topic") {
		t.Errorf("without a topic: %v", err)
	}
	for _, address := range []string{"https://example.org/x?y=z", "http://localhost:1/x", "http://127.0.0.1/x", "http://[::1]:80/x"} {
		if _, err := NewWebhook(address, ""); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// program puts a program into an otherwise empty PATH. It writes its arguments to a file, each after a separate line.
func program(t *testing.T, name, then string) (args func() []string) {
	t.Helper()
	dir := t.TempDir()
	text := "#!/bin/sh\nfor a; do printf '%s\\000' \"$a\"; done > " + dir + "/args\n" + then + "\n"
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil { // #nosec G306 -- a program
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	return func() []string {
		b, err := os.ReadFile(filepath.Join(dir, "args"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
	}
}

func TestDesktop_EscapesAgentText(t *testing.T) {
	for system, c := range map[string]struct {
		name string
		want []string
	}{
		"linux": {"notify-send", []string{
			"--app-name=acphost", "--", hostile.Title,
			hostile.Text + "\n" + `-u critical &lt;a href="https://evil.example"&gt;" &amp; quit &amp; "` + "\n" + hostile.Link,
		}},
		"darwin": {"osascript", []string{
			"-e", "on run argv", "-e", "display notification (item 2 of argv) with title (item 1 of argv)", "-e", "end run",
			hostile.Title, hostile.Text + "\n" + hostile.Details + "\n" + hostile.Link,
		}},
	} {
		args := program(t, c.name, "")
		d, err := newDesktop(system)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Send(t.Context(), hostile); err != nil {
			t.Fatal(err)
		}
		if got := args(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %s gets %q, want %q", system, c.name, got, c.want)
		}
	}
	program(t, "notify-send", "echo no bus\x1b[2J >&2; exit 1")
	d, err := newDesktop("linux")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Send(t.Context(), hostile); err == nil || !strings.Contains(err.Error(), `exit status 1: "no bus[2J"`) {
		t.Errorf("got %v", err)
	}
	program(t, "notify-send", "kill -STOP $$") // it hangs
	if d, err = newDesktop("linux"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := d.Send(ctx, hostile); err == nil {
		t.Error("it hangs, and this is not reported")
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := newDesktop("linux"); err == nil || !strings.Contains(err.Error(), "libnotify-bin") {
		t.Errorf("without the program: %v", err)
	}
	if _, err := newDesktop("plan9"); err == nil {
		t.Error("there are notices on Plan 9")
	}
}
