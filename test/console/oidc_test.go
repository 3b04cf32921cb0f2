package console_test

import (
	"net/http"
	"strings"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/idp"
)

// newKnown is a console for people whom a provider knows.
func newKnown(t *testing.T, p *e2e.Place) (*e2e.Gateway, *idp.Provider) {
	t.Helper()
	provider := idp.New(t)
	g := e2e.NewConsoleWith(t, p, nil, []string{
		"--oidc-issuer", provider.URL, "--oidc-client-id", idp.Client, "--oidc-client-secret", p.File(t, "../client.secret", idp.Secret), "--oidc-audience", "acp",
		"--oidc-role", "approver=Reviewers", "--oidc-role", "operator=Admins",
	})
	return g, provider
}

func TestOIDC_PersonSignsIn(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := e2e.NewPlace(t)
	g, provider := newKnown(t, p)
	name := strings.TrimPrefix(provider.URL, "http://")
	agent := g.Start(p.Demo())
	s := g.Open(agent.GetId())
	turn := g.Prompt(s.GetSessionId(), "ask notes.txt")
	turn.Question()

	tab := b.open(console(g)+e2e.SessionAt(s), desktopWidth, desktopHeight)
	provider.Person(idp.Claims{"groups": []string{"Guests"}})
	tab.button("Sign in with " + name)
	tab.arrives("the page states the reason", `document.body.innerText.includes("none of the groups that have a role here")`)
	tab.clean("a sign-in that is refused")
	provider.Person(idp.Claims{"groups": []string{"Reviewers"}, "email": "ada@example.org", "email_verified": true})
	tab.button("Sign in with " + name)
	tab.arrives("the browser is in", `!!document.querySelector("nav")`)
	tab.shows("approver")
	if at, want := eval[string](tab, "location.href"), console(g)+e2e.SessionAt(s); at != want {
		t.Errorf("it is at %s, want %s", at, want)
	}
	tab.until("the answer is taken", `(document.querySelector("article.question button.allow:enabled")?.click(), document.querySelector(".answered")?.innerText.includes("allowed") ?? false)`)
	answered := turn.Until("the answer", func(e *supervisorv1.Event) bool { return e.GetQuestionAnswered() != nil }).GetQuestionAnswered()
	if by := answered.GetAnsweredBy(); !strings.Contains(by, "ada@example.org") {
		t.Errorf("it was answered by %q", by)
	}
	turn.Stopped("end_turn")
	tab.clean("signed in at a provider")
	g.Leave()
}

func TestOIDC_AcceptsBearerToken(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	g, provider := newKnown(t, p)
	token := func(groups ...string) e2e.RestClient {
		return e2e.RestClient{G: g, Token: provider.Sign("RS256", provider.Claims("acp", idp.Claims{"groups": groups}))}
	}
	if status, got := doRequest(token("Reviewers"), "GET", "/sessions", ""); status != http.StatusOK {
		t.Errorf("an approver sees sessions: %d %v", status, got)
	}
	if status, got := doRequest(token("Reviewers"), "POST", "/agents", `{"preset": "claude"}`); status != http.StatusForbidden {
		t.Errorf("an approver starts an agent: %d %v", status, got)
	}
	for want, c := range map[int]e2e.RestClient{
		http.StatusForbidden:     token("Guests"),
		http.StatusUnauthorized:  {G: g, Token: provider.Sign("none", provider.Claims("acp", idp.Claims{"groups": "Admins"}))},
		http.StatusNotAcceptable: {G: g, Token: provider.Sign("ES256", provider.Claims("acp", idp.Claims{"groups": []string{"Admins", "Reviewers"}}))},
	} { // /acp is served for the last one, and reports the required token
		if res := c.Request(g.Ctx, http.MethodGet, "/acp", ""); res.StatusCode != want { //nolint:bodyclose // request closes it
			t.Errorf("/acp: %s, want %d", res.Status, want)
		}
	}
	provider.Down(true)
	if status, _ := doRequest((e2e.RestClient{G: g, Token: g.Token("viewer")}), "GET", "/sessions", ""); status != http.StatusOK {
		t.Errorf("acphost's own token, while the provider is down: %d", status)
	}
	g.Leave()
}
