package console_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
)

func TestFrontend_RunsWholeTurn(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	g := e2e.ForPeople(t, p, "operator", "https://front.example", "--policy", p.File(t, "../rules.yaml", `
version: 1
rules:
  - {id: reading, effect: allow, on: [fs.read, fs.list], path: ["${root}/**"]}
`))
	operator, approver := e2e.RestClient{G: g, Token: g.Token("operator", "--name", "ada")}, e2e.RestClient{G: g, Token: g.Token("approver", "--name", "Łucja")}
	viewer := e2e.RestClient{G: g, Token: g.Token("viewer")}
	must := func(status int, got map[string]any) map[string]any {
		t.Helper()
		if status >= 300 {
			t.Fatalf("%d %v", status, got)
		}
		return got
	}

	req := p.Demo("-auth")
	req.Attended = true
	body, err := protojson.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	agent, _ := e2e.Dig(must(doRequest(operator, "POST", "/agents", string(body))), "agent", "id").(string)
	open, _ := json.Marshal(map[string]any{"agentId": agent, "cwd": p.Work})
	// The page distinguishes an agent that requires a login from an ended sign-in of the caller, by paths and by
	// services.
	for _, path := range []string{"/sessions", "/acphost.supervisor.v1.SessionService/NewSession"} {
		status, got := doRequest(operator, "POST", path, string(open))
		if status == http.StatusUnauthorized || got["code"] != "failed_precondition" || !strings.Contains(fmt.Sprint(got), "ERROR_KIND_AUTH_REQUIRED") {
			t.Errorf("%s before the login: %d %v", path, status, got)
		}
	}
	ofAgent := events(viewer, "agent="+agent, "")
	if got := must(doRequest(operator, "POST", "/agents/"+agent+"/login", `{"methodId": "browser"}`)); got["url"] != "https://example.com/login?code=demo" || got["done"] != false {
		t.Errorf("the login answers %v", got)
	}
	for e := range ofAgent {
		if e.Name == "auth.complete" {
			if e.Data["agentId"] != agent || e.Data["error"] != nil {
				t.Errorf("the login ends with %v", e.Data)
			}
			break
		}
	}

	session, _ := e2e.Dig(must(doRequest(operator, "POST", "/sessions", string(open))), "session", "sessionId").(string)
	path := "/sessions/" + url.PathEscape(session)
	must(doRequest(operator, "POST", path+"/mode", `{"modeId": "code"}`))
	if status, got := doRequest(approver, "POST", path+"/prompt", `{"text": "go"}`); status != http.StatusForbidden {
		t.Errorf("an approver prompts: %d %v", status, got)
	}
	cursor, _ := must(doRequest(operator, "POST", path+"/prompt", `{"text": "fix the spelling"}`))["cursor"].(string)
	seen, seenByViewer := events(approver, "session="+url.QueryEscape(session), cursor), events(viewer, "session="+url.QueryEscape(session), "")
	names, ids, last, diffs := map[string]int{}, map[string]bool{}, "", 0
	for e := range seen {
		names[e.Name]++
		if e.ID != "" {
			last = e.ID
		}
		if e.Name == "permission.request" {
			id, _ := e2e.Dig(e.Data, "questionAsked", "id").(string)
			ids[id] = true
			content, _ := e2e.Dig(e.Data, "questionAsked", "permission", "content").([]any)
			for _, c := range content {
				if e2e.Dig(c.(map[string]any), "diff", "newText") != nil {
					diffs++
				}
			}
			option := ""
			for _, o := range e2e.Dig(e.Data, "questionAsked", "permission", "options").([]any) {
				if o.(map[string]any)["kind"] == "allow_once" {
					option, _ = o.(map[string]any)["optionId"].(string)
				}
			}
			yes := fmt.Sprintf(`{"optionId": %q}`, option)
			if status, got := doRequest(viewer, "POST", "/permissions/"+url.PathEscape(id), yes); status != http.StatusForbidden {
				t.Errorf("a viewer answers: %d %v", status, got)
			}
			got := must(doRequest(approver, "POST", "/permissions/"+url.PathEscape(id), yes))
			if by := e2e.Dig(got, "answer", "answeredBy"); by != "gateway people for Łucja" {
				t.Errorf("answered by %v", by)
			}
		}
		if reason := e2e.Dig(e.Data, "turnEnded", "stopReason"); reason != nil {
			if reason != "end_turn" {
				t.Errorf("the turn ends with %v", reason)
			}
			break
		}
	}
	for _, name := range []string{"message.part.updated", "tool.execute", "tool.result", "permission.request", "session.updated"} {
		if names[name] == 0 {
			t.Errorf("no %s arrived: %v", name, names)
		}
	}
	if diffs == 0 {
		t.Error("no question showed a diff")
	}
	// A viewer does not receive the answer to a question.
	for e := range seenByViewer {
		if id, ok := e2e.Dig(e.Data, "questionAsked", "id").(string); ok {
			if ids[id] {
				t.Errorf("a viewer receives the id of a question: %s", id)
			}
			break
		}
	}
	// Events after a given event are sent again.
	must(doRequest(operator, "POST", path+"/prompt", `{"text": "repeat that"}`))
	for e := range events(operator, "session="+url.QueryEscape(session), last) {
		if text, ok := e2e.Dig(e.Data, "agentMessage", "content", "text", "text").(string); ok && strings.Contains(text, "that") {
			break
		}
		if e2e.Dig(e.Data, "turnEnded") != nil {
			t.Error("what the agent sent did not come after Last-Event-ID")
			break
		}
	}
	if !slices.ContainsFunc(p.Decisions(t), func(d e2e.Decision) bool {
		return d.AnsweredBy == "gateway people for Łucja" && d.Outcome == "allowed"
	}) {
		t.Errorf("the audit does not state who answered: %+v", p.Decisions(t))
	}
	http.DefaultClient.CloseIdleConnections()
	g.Leave()
}

// TestGateway_CertificateLimitsOperators: the certificate of a gateway limits its calls, whatever role gatewayd gives
// to its callers.
func TestGateway_CertificateLimitsOperators(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	g := e2e.ForPeople(t, p, "approver", "https://front.example")
	operator := e2e.RestClient{G: g, Token: g.Token("operator")}
	if status, got := doRequest(operator, "GET", "/agents", ""); status != http.StatusOK {
		t.Errorf("looking: %d %v", status, got)
	}
	body, err := protojson.Marshal(p.Demo())
	if err != nil {
		t.Fatal(err)
	}
	status, got := doRequest(operator, "POST", "/agents", string(body))
	if status != http.StatusForbidden || !strings.Contains(got["message"].(string), "has the role approver here") {
		t.Errorf("starting an agent: %d %v", status, got)
	}
	status, got = doRequest(operator, "POST", supervisorv1.SupervisorControlService_ReloadPolicy_FullMethodName, "{}")
	if status != http.StatusForbidden || got["code"] != "permission_denied" {
		t.Errorf("reloading the policy by Connect: %d %v", status, got)
	}
	http.DefaultClient.CloseIdleConnections()
	g.Leave()
}

func TestExamplePage_ShowsWholeTurn(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := e2e.NewPlace(t)
	site := httptest.NewServer(http.FileServer(http.Dir(filepath.Join("..", "examples", "frontend"))))
	defer site.Close()
	g := e2e.ForPeople(t, p, "operator", site.URL)
	script := p.File(t, "agent.sh", "#!/bin/sh\nexec env DEMOAGENT_STATE="+filepath.Join(p.Home, "kept")+" "+e2e.Program("demoagent")+" -auth\n")
	if err := os.Chmod(script, 0o700); err != nil {
		t.Fatal(err)
	}
	tab := b.open(site.URL, desktopWidth, desktopHeight)
	fill, _ := json.Marshal(map[string]string{"gateway": "http://" + g.At, "token": g.Token("operator"), "agent": script, "cwd": p.Work, "text": "fix the spelling"})
	tab.run(`for (const [name, value] of Object.entries(` + string(fill) + `)) document.forms[0].elements[name].value = value; document.forms[0].requestSubmit()`)
	tab.until("the page shows the login's page", `document.querySelector("a[rel='noopener noreferrer']")?.href === "https://example.com/login?code=demo"`)
	tab.shows("Logged in.")
	tab.until("the page shows the diff", `document.querySelector("del")?.innerText.length > 0 && document.querySelector("ins")?.innerText.length > 0`)
	tab.click("fieldset button")
	tab.until("the page shows the end", `document.getElementById("end")?.innerText.includes("end_turn")`)
	tab.shows("✓ completed")
	tab.fine("the example")
	g.Leave()
}

// TestExamplePage_EscapesText: the page shows an agent's text without interpreting it.
func TestExamplePage_EscapesText(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "examples", "frontend", "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, way := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "DOMParser"} {
		if bytes.Contains(page, []byte(way)) {
			t.Errorf("the page uses %s", way)
		}
	}
}

// doRequest returns a request's status and answer.
func doRequest(c e2e.RestClient, verb, path, body string) (int, map[string]any) {
	c.G.T.Helper()
	res := c.Request(c.G.Ctx, verb, path, body) //nolint:bodyclose // request closes it
	text, err := io.ReadAll(res.Body)
	if err != nil {
		c.G.T.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		c.G.T.Fatalf("%s %s: %d %s", verb, path, res.StatusCode, text)
	}
	return res.StatusCode, got
}

// sse is a server-sent event.
type sse struct {
	ID, Name string
	Data     map[string]any
}

// events follows a stream, until the gateway ends it or the test does.
func events(c e2e.RestClient, query, last string) <-chan sse {
	c.G.T.Helper()
	ctx, cancel := context.WithCancel(c.G.Ctx)
	res := c.Request(ctx, http.MethodGet, "/events?"+query, "", "Last-Event-ID", last) //nolint:bodyclose // request closes it
	if res.StatusCode != http.StatusOK {
		c.G.T.Fatalf("/events?%s: %s", query, res.Status)
	}
	all, done := make(chan sse, 10_000), make(chan struct{})
	c.G.T.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		defer close(all)
		lines := bufio.NewScanner(res.Body)
		lines.Buffer(nil, 4<<20)
		for e := (sse{}); lines.Scan(); {
			switch key, value, _ := strings.Cut(lines.Text(), ": "); key {
			case "id":
				e.ID = value
			case "event":
				e.Name = value
			case "data":
				_ = json.Unmarshal([]byte(value), &e.Data)
			case "":
				if e.Name != "" {
					all <- e
				}
				e = sse{}
			}
		}
	}()
	return all
}
