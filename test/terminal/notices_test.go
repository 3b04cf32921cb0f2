package terminal_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

// hook is the data that a webhook received.
type hook struct {
	header http.Header
	body   string
}

// TestNotices_OnlyForWaitingQuestions has a policy decide one question and another question wait. Each channel gets one
// notice, which links to the waiting question.
func TestNotices_OnlyForWaitingQuestions(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	hooks := make(chan hook, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		hooks <- hook{r.Header, string(body)}
	}))
	defer receiver.Close()
	secret := p.File(t, "../secret", "s3cret\n")
	desktop := p.File(t, "../desktop/notify-send", "#!/bin/sh\nfor a; do printf '%s\\n' \"$a\"; done >> \"$HOME/shown\"\n")
	if err := os.Chmod(desktop, 0o700); err != nil {
		t.Fatal(err)
	}
	denied := p.File(t, ".env", "TOKEN=1\n")
	g := e2e.NewConsoleWith(t, p, []string{"--policy", "workspace"}, []string{
		"--notices-webhook", receiver.URL + "/hook", "--notices-webhook-secret", secret, "--notices-ntfy", receiver.URL + "/topic", "--notices-desktop",
		"--notices-grace", "100ms", "--public-url", "https://acp.example",
	}, "PATH="+filepath.Dir(desktop)+":"+os.Getenv("PATH"))
	agent := g.Start(p.Demo())
	s := g.Open(agent.GetId())
	g.Prompt(s.GetSessionId(), "/read "+denied).Stopped("end_turn")
	turn := g.Prompt(s.GetSessionId(), "/run made-up-program notes.txt")
	question := turn.Question()

	link := "https://acp.example/console/" + e2e.SessionAt(s)
	testkit.Eventually(t, "there are two notices", func() bool { return len(hooks) >= 2 })
	for range 2 {
		h := <-hooks
		if strings.Contains(h.body, "notes.txt") || strings.Contains(h.body, p.Work) {
			t.Errorf("a notice shows what the agent wants: %s", h.body)
		}
		if h.header.Get("Title") != "" {
			if h.header.Get("Click") != link || h.body != "The agent "+agent.GetId()+" asks." {
				t.Errorf("ntfy got %v, %s", h.header, h.body)
			}
			continue
		}
		mac := hmac.New(sha256.New, []byte("s3cret"))
		mac.Write([]byte(h.body))
		var m struct {
			Count int
			Link  string
		}
		if err := json.Unmarshal([]byte(h.body), &m); err != nil || m.Count != 1 || m.Link != link || h.header.Get("Acphost-Signature") != "sha256="+hex.EncodeToString(mac.Sum(nil)) {
			t.Errorf("the webhook got %v, %s (%v)", h.header, h.body, err)
		}
	}
	var shown []byte
	testkit.Eventually(t, "the desktop shows the notice", func() bool {
		shown, _ = os.ReadFile(filepath.Join(p.Home, "shown"))
		return strings.HasSuffix(string(shown), link+"\n")
	})
	if want := "--app-name=acphost\n--\nacphost: a question waits\nThe agent " + agent.GetId() + " asks.\n" + link + "\n"; string(shown) != want {
		t.Errorf("the desktop shows\n%s\nwant\n%s", shown, want)
	}
	if _, err := g.Approvals.AnswerApproval(g.Ctx, e2e.Yes(question, "tester")); err != nil {
		t.Fatal(e2e.Explain(err))
	}
	turn.Stopped("end_turn")
	g.Leave()
	if len(hooks) > 0 {
		t.Errorf("there are more notices: %+v", <-hooks)
	}
}

// TestGatewayd_RejectsInvalidFlags: the errors of gatewayd describe what to change, and contain no secret.
func TestGatewayd_RejectsInvalidFlags(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	for _, c := range []struct {
		status int
		says   string
		flags  []string
	}{
		{2, "--notices-webhook-secret is for --notices-webhook", []string{"--notices-webhook-secret", "x"}},
		{2, "--notices-ntfy-token is for --notices-ntfy", []string{"--notices-ntfy-token", "x"}},
		{2, "set --public-url", []string{"--notices-desktop", "--listen", "0.0.0.0:0", "--plaintext"}},
		{2, "set --public-url", []string{"--notices-desktop", "--listen", ":0", "--plaintext"}},
		{2, "--no-console disables", []string{"--notices-desktop", "--no-console", "--tokens", "x"}},
		{2, "--public-url: expected", []string{"--public-url", "https://acp.example/console"}},
		{2, "--public-url: expected", []string{"--public-url", "httpx://acp.example"}},
		{2, "--notices-grace: expected", []string{"--notices-grace", "-1s"}},
		{2, "flags need --oidc-issuer", []string{"--oidc-audience", "x"}},
		{2, "--oidc-issuer: expected a URL", []string{"--oidc-issuer", "http://login.example", "--oidc-audience", "x", "--oidc-role", "viewer=x"}},
		{2, "give --oidc-client-id", []string{"--oidc-issuer", "https://login.example", "--oidc-role", "viewer=x"}},
		{2, "needs a group with a role", []string{"--oidc-issuer", "https://login.example", "--oidc-audience", "x"}},
		{2, "--oidc-role: expected ROLE=GROUP", []string{"--oidc-issuer", "https://login.example", "--oidc-audience", "x", "--oidc-role", "root=x"}},
		{2, "--oidc-role: expected ROLE=GROUP", []string{"--oidc-issuer", "https://login.example", "--oidc-audience", "x", "--oidc-role", "viewer="}},
		{2, "--no-console disables", []string{"--oidc-issuer", "https://login.example", "--oidc-client-id", "x", "--oidc-role", "viewer=x", "--no-console", "--tokens", "x"}},
		{1, "--oidc-client-secret: there is no file", []string{"--oidc-issuer", "https://login.example", "--oidc-client-id", "x", "--oidc-role", "viewer=x", "--oidc-client-secret", "x"}},
		{1, "--notices-webhook: http://example.org has no TLS", []string{"--notices-webhook", "http://example.org/not-to-be-shown"}},
		{1, "--notices-ntfy: expected the URL of a topic", []string{"--notices-ntfy", "https://ntfy.sh"}},
		{1, "libnotify-bin", []string{"--notices-desktop"}},
	} {
		command := append([]string{e2e.Program("gatewayd"), "--listen", "127.0.0.1:0", "--socket", filepath.Join(p.Home, "no.sock")}, c.flags...)
		g := wire.Start(t, wire.Options{Name: "gateway's starter", Command: command, Dir: p.Work, Env: p.Env("PATH=" + p.Home)})
		if got := g.ExpectExit(); got != c.status || !strings.Contains(g.Stderr(), c.says) || strings.Contains(g.Stderr(), "not-to-be-shown") {
			t.Errorf("%q: status %d, %s", c.flags, got, g.Stderr())
			_ = g.Cmd.Process.Signal(syscall.SIGTERM)
		}
	}
}
