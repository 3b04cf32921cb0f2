package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/wire"
)

// playBrowser signs in to the console at a URL as its page does. It writes the code to a file, and asks every 50 ms
// whether a person has confirmed it. The last answer goes to the file with ".end" behind its name.
func playBrowser(url, file string) int {
	var cookies []*http.Cookie
	call := func(path, body string) (status int, answer string) {
		req, err := http.NewRequest(http.MethodPost, url+"api/"+path, strings.NewReader(body))
		if err != nil {
			return 0, err.Error()
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Origin", strings.TrimSuffix(url, "/console/"))
		for _, c := range cookies {
			req.AddCookie(c)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err.Error()
		}
		defer res.Body.Close()
		if all := res.Cookies(); len(all) > 0 {
			cookies = all
		}
		text, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(bytes.TrimSpace(text))
	}
	write := func(name, text string) {
		_ = os.WriteFile(name+".new", []byte(text), 0o600)
		_ = os.Rename(name+".new", name)
	}
	status, answer := call("begin", "{}")
	var shown struct{ Code, Secret string }
	if err := json.Unmarshal([]byte(answer), &shown); err != nil {
		write(file+".end", fmt.Sprintf("begin: %d %s", status, answer))
		return 1
	}
	write(file, shown.Code)
	for range time.Tick(50 * time.Millisecond) {
		if status, answer = call("claim", `{"secret":"`+shown.Secret+`"}`); !strings.Contains(answer, `"waiting"`) {
			break
		}
	}
	write(file+".end", fmt.Sprintf("%d %s", status, answer))
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// TestConsole_RefusesBrowsersOfAgents has the same program show a code twice: started by the test, and as an agent.
func TestConsole_RefusesBrowsersOfAgents(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells which process a connection belongs to")
	}
	p := newPlace(t)
	g := newConsole(t, p)
	other := &gateway{edge: g.edge, at: testkit.FreePort(t), tokens: g.tokens} // which does not know the codes
	other.begin(p, "gateway")
	shows := func(file string) (code string) {
		t.Helper()
		testkit.Eventually(t, "the program shows a code", func() bool {
			if end, err := os.ReadFile(file + ".end"); err == nil {
				t.Fatalf("the sign-in has ended with %s", end)
			}
			text, err := os.ReadFile(file)
			code = string(text)
			return err == nil
		})
		return code
	}
	ends := func(file string) (answer string) {
		t.Helper()
		testkit.Eventually(t, "the sign-in has ended", func() bool {
			text, err := os.ReadFile(file + ".end")
			answer = string(text)
			return err == nil
		})
		return answer
	}
	confirm := func(code, role string) (shown string) {
		cmd := wire.Command(t, program("acphost"), "console", code, "--role", role)
		cmd.Dir, cmd.Env = p.work, p.env()
		shown, _ = wire.TypeLetters(cmd, func(letters string) string { return letters })
		return strings.Join(strings.Fields(shown), " ")
	}

	for role, allows := range map[string]string{
		"viewer":   "The role viewer lets whoever has that browser read the sessions, with the files and the output that they show.",
		"approver": "The role approver lets whoever has that browser read the sessions, and answer the questions of agents: what it allows is done as you.",
		"operator": "The role operator lets whoever has that browser start agents, give them prompts and answer their questions: it can read and change all that you can.",
	} {
		file := filepath.Join(p.home, role+".code")
		browser := wire.Start(t, wire.Options{Name: role + "'s browser", Command: browserRole(g, file), Dir: p.work, Env: p.env()})
		expectContains(t, "the confirmation", confirm(shows(file), role), allows, "Agents can show codes, too", "signed in as "+role)
		if answer := ends(file); !strings.Contains(answer, `"state":"in"`) || !strings.Contains(answer, `"role":"`+role+`"`) {
			t.Errorf("the browser of a person was answered %s, want that it is in as %s", answer, role)
		}
		browser.Close()
		browser.ExpectExit()
	}

	file := filepath.Join(p.home, "agent.code")
	h := newPlace(t).start(t, nil, browserRole(g, file))
	const refused = "what shows this code is not a person's browser"
	shown := confirm(shows(file), "operator")
	if expectContains(t, "the confirmation", shown, refused); strings.Contains(shown, "Type ") || strings.Contains(shown, "signed in") {
		t.Errorf("the person was asked to confirm the agent's code: %s", shown)
	}
	if answer := ends(file); !strings.HasPrefix(answer, "403 "+refused) {
		t.Errorf("the agent was answered %s, want 403 and the reason", answer)
	}
	h.finish()
	send(t, other.process, syscall.SIGTERM)
	other.process.ExpectExit()
	g.leave()
}

// browserRole is the command of playBrowser.
func browserRole(g *gateway, file string) []string { return role("browser", g.console(), file) }
