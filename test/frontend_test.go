package e2e_test

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

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// forPeople serves a gateway whose certificate lets it call for people up to a role; page is the origin of a page that may call.
func forPeople(t *testing.T, p *place, limit, page string, flags ...string) *gateway {
	t.Helper()
	p.file(t, "notes.md", "I recieve what you send.\n")
	g := &gateway{edge: newEdge(t, p, fmt.Sprintf("[{command: [%q]}]", program("demoagent")), flags...), at: testkit.FreePort(t), tokens: filepath.Join(p.home, "gateway", "tokens.json")}
	if status, out, errs := p.cli(t, "certs", "gateway", g.keys, "--name", "people", "--acts-as", limit); status != 0 || !strings.Contains(out, "up to the role "+limit) {
		t.Fatalf("acphost certs gateway --acts-as: %s%s", out, errs)
	}
	_ = g.token("viewer") // else there is no file yet
	g.begin(p, "people", "--origin", page)
	return g
}

// restClient calls a gateway's paths with a token.
type restClient struct {
	g     *gateway
	token string
}

func (c restClient) request(ctx context.Context, verb, path, body string, header ...string) *http.Response {
	c.g.t.Helper()
	req, err := http.NewRequestWithContext(ctx, verb, "http://"+c.g.at+path, strings.NewReader(body))
	if err != nil {
		c.g.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if verb == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		c.g.t.Fatal(err)
	}
	c.g.t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// do returns a request's status and answer.
func (c restClient) do(verb, path, body string) (int, map[string]any) {
	c.g.t.Helper()
	res := c.request(c.g.ctx, verb, path, body) //nolint:bodyclose // request closes it
	text, err := io.ReadAll(res.Body)
	if err != nil {
		c.g.t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		c.g.t.Fatalf("%s %s: %d %s", verb, path, res.StatusCode, text)
	}
	return res.StatusCode, got
}

// sse is a server-sent event.
type sse struct {
	id, name string
	data     map[string]any
}

// events follows a stream, until the gateway ends it or the test does.
func (c restClient) events(query, last string) <-chan sse {
	c.g.t.Helper()
	ctx, cancel := context.WithCancel(c.g.ctx)
	res := c.request(ctx, http.MethodGet, "/events?"+query, "", "Last-Event-ID", last) //nolint:bodyclose // request closes it
	if res.StatusCode != http.StatusOK {
		c.g.t.Fatalf("/events?%s: %s", query, res.Status)
	}
	all, done := make(chan sse, 10_000), make(chan struct{})
	c.g.t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		defer close(all)
		lines := bufio.NewScanner(res.Body)
		lines.Buffer(nil, 4<<20)
		for e := (sse{}); lines.Scan(); {
			switch key, value, _ := strings.Cut(lines.Text(), ": "); key {
			case "id":
				e.id = value
			case "event":
				e.name = value
			case "data":
				_ = json.Unmarshal([]byte(value), &e.data)
			case "":
				if e.name != "" {
					all <- e
				}
				e = sse{}
			}
		}
	}()
	return all
}

func TestASimpleFrontEndHasAWholeTurn(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	g := forPeople(t, p, "operator", "https://front.example", "--policy", p.file(t, "../rules.yaml", `
version: 1
rules:
  - {id: reading, effect: allow, on: [fs.read, fs.list], path: ["${root}/**"]}
`))
	operator, approver := restClient{g, g.token("operator", "--name", "ada")}, restClient{g, g.token("approver", "--name", "Łucja")}
	viewer := restClient{g, g.token("viewer")}
	must := func(status int, got map[string]any) map[string]any {
		t.Helper()
		if status >= 300 {
			t.Fatalf("%d %v", status, got)
		}
		return got
	}

	req := p.demo("-auth")
	req.Attended = true
	body, err := protojson.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	agent, _ := dig(must(operator.do("POST", "/agents", string(body))), "agent", "id").(string)
	open, _ := json.Marshal(map[string]any{"agentId": agent, "cwd": p.work})
	// That the agent wants a login is told from the caller's own sign-in having ended, by paths and by the services.
	for _, path := range []string{"/sessions", "/acphost.supervisor.v1.SessionService/NewSession"} {
		status, got := operator.do("POST", path, string(open))
		if status == http.StatusUnauthorized || got["code"] != "failed_precondition" || !strings.Contains(fmt.Sprint(got), "ERROR_KIND_AUTH_REQUIRED") {
			t.Errorf("%s before the login: %d %v", path, status, got)
		}
	}
	ofAgent := viewer.events("agent="+agent, "")
	if got := must(operator.do("POST", "/agents/"+agent+"/login", `{"methodId": "browser"}`)); got["url"] != "https://example.com/login?code=demo" || got["done"] != false {
		t.Errorf("the login answers %v", got)
	}
	for e := range ofAgent {
		if e.name == "auth.complete" {
			if e.data["agentId"] != agent || e.data["error"] != nil {
				t.Errorf("the login ends with %v", e.data)
			}
			break
		}
	}

	session, _ := dig(must(operator.do("POST", "/sessions", string(open))), "session", "sessionId").(string)
	path := "/sessions/" + url.PathEscape(session)
	must(operator.do("POST", path+"/mode", `{"modeId": "code"}`))
	if status, got := approver.do("POST", path+"/prompt", `{"text": "go"}`); status != http.StatusForbidden {
		t.Errorf("an approver prompts: %d %v", status, got)
	}
	cursor, _ := must(operator.do("POST", path+"/prompt", `{"text": "fix the spelling"}`))["cursor"].(string)
	seen, seenByViewer := approver.events("session="+url.QueryEscape(session), cursor), viewer.events("session="+url.QueryEscape(session), "")
	names, ids, last, diffs := map[string]int{}, map[string]bool{}, "", 0
	for e := range seen {
		names[e.name]++
		if e.id != "" {
			last = e.id
		}
		if e.name == "permission.request" {
			id, _ := dig(e.data, "questionAsked", "id").(string)
			ids[id] = true
			content, _ := dig(e.data, "questionAsked", "permission", "content").([]any)
			for _, c := range content {
				if dig(c.(map[string]any), "diff", "newText") != nil {
					diffs++
				}
			}
			option := ""
			for _, o := range dig(e.data, "questionAsked", "permission", "options").([]any) {
				if o.(map[string]any)["kind"] == "allow_once" {
					option, _ = o.(map[string]any)["optionId"].(string)
				}
			}
			yes := fmt.Sprintf(`{"optionId": %q}`, option)
			if status, got := viewer.do("POST", "/permissions/"+url.PathEscape(id), yes); status != http.StatusForbidden {
				t.Errorf("a viewer answers: %d %v", status, got)
			}
			got := must(approver.do("POST", "/permissions/"+url.PathEscape(id), yes))
			if by := dig(got, "answer", "answeredBy"); by != "gateway people for Łucja" {
				t.Errorf("answered by %v", by)
			}
		}
		if reason := dig(e.data, "turnEnded", "stopReason"); reason != nil {
			if reason != "end_turn" {
				t.Errorf("the turn ends with %v", reason)
			}
			break
		}
	}
	for _, name := range []string{"message.part.updated", "tool.execute", "tool.result", "permission.request", "session.updated"} {
		if names[name] == 0 {
			t.Errorf("no %s came: %v", name, names)
		}
	}
	if diffs == 0 {
		t.Error("no question showed a diff")
	}
	// A viewer is not told how a question is answered.
	for e := range seenByViewer {
		if id, ok := dig(e.data, "questionAsked", "id").(string); ok {
			if ids[id] {
				t.Errorf("a viewer is told the id of a question: %s", id)
			}
			break
		}
	}
	// What came after an event comes again.
	must(operator.do("POST", path+"/prompt", `{"text": "repeat that"}`))
	for e := range operator.events("session="+url.QueryEscape(session), last) {
		if text, ok := dig(e.data, "agentMessage", "content", "text", "text").(string); ok && strings.Contains(text, "that") {
			break
		}
		if dig(e.data, "turnEnded") != nil {
			t.Error("what the agent said did not come after Last-Event-ID")
			break
		}
	}
	if !slices.ContainsFunc(p.decisions(t), func(d decision) bool { return d.AnsweredBy == "gateway people for Łucja" && d.Outcome == "allowed" }) {
		t.Errorf("the audit does not say who answered: %+v", p.decisions(t))
	}
	http.DefaultClient.CloseIdleConnections()
	g.leave()
}

// What a gateway can be made to do is bounded by its certificate, whatever gatewayd believes of its callers.
func TestAGatewaysCertificateBoundsItsOperators(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	g := forPeople(t, p, "approver", "https://front.example")
	operator := restClient{g, g.token("operator")}
	if status, got := operator.do("GET", "/agents", ""); status != http.StatusOK {
		t.Errorf("looking: %d %v", status, got)
	}
	body, err := protojson.Marshal(p.demo())
	if err != nil {
		t.Fatal(err)
	}
	status, got := operator.do("POST", "/agents", string(body))
	if status != http.StatusForbidden || !strings.Contains(got["message"].(string), "has the role approver here") {
		t.Errorf("starting an agent: %d %v", status, got)
	}
	status, got = operator.do("POST", supervisorv1.SupervisorControlService_ReloadPolicy_FullMethodName, "{}")
	if status != http.StatusForbidden || got["code"] != "permission_denied" {
		t.Errorf("reloading the policy by Connect: %d %v", status, got)
	}
	http.DefaultClient.CloseIdleConnections()
	g.leave()
}

func TestThePageOfTheExampleShowsAWholeTurn(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := newPlace(t)
	site := httptest.NewServer(http.FileServer(http.Dir(filepath.Join("..", "examples", "frontend"))))
	defer site.Close()
	g := forPeople(t, p, "operator", site.URL)
	script := p.file(t, "agent.sh", "#!/bin/sh\nexec env DEMOAGENT_STATE="+filepath.Join(p.home, "kept")+" "+program("demoagent")+" -auth\n")
	if err := os.Chmod(script, 0o700); err != nil {
		t.Fatal(err)
	}
	tab := b.open(site.URL, desktopWidth, desktopHeight)
	fill, _ := json.Marshal(map[string]string{"gateway": "http://" + g.at, "token": g.token("operator"), "agent": script, "cwd": p.work, "text": "fix the spelling"})
	tab.run(`for (const [name, value] of Object.entries(` + string(fill) + `)) document.forms[0].elements[name].value = value; document.forms[0].requestSubmit()`)
	tab.until("the page shows the login's page", `document.querySelector("a[rel='noopener noreferrer']")?.href === "https://example.com/login?code=demo"`)
	tab.shows("Logged in.")
	tab.until("the page shows the diff", `document.querySelector("del")?.innerText.length > 0 && document.querySelector("ins")?.innerText.length > 0`)
	tab.click("fieldset button")
	tab.until("the page shows the end", `document.getElementById("end")?.innerText.includes("end_turn")`)
	tab.shows("✓ completed")
	tab.fine("the example")
	g.leave()
}

// An agent's words stay words, whatever they are.
func TestThePageOfTheExampleShowsTextAsText(t *testing.T) {
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
