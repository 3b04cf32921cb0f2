package console_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

// TestConsole_RejectsBrowsersOfAgents has the same program show a code twice: started by the test, and as an agent.
func TestConsole_RejectsBrowsersOfAgents(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the process of a connection is known on Linux only")
	}
	p := e2e.NewPlace(t)
	g := e2e.NewConsole(t, p)
	other := &e2e.Gateway{Edge: g.Edge, At: testkit.FreePort(t), Tokens: g.Tokens} // which does not know the codes
	other.Begin(p, "gateway")
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
		cmd := wire.Command(t, e2e.Program("acphost"), "console", code, "--role", role)
		cmd.Dir, cmd.Env = p.Work, p.Env()
		shown, _ = wire.TypeLetters(cmd, func(letters string) string { return letters })
		return strings.Join(strings.Fields(shown), " ")
	}

	for role, allows := range map[string]string{
		"viewer":   "The role viewer lets whoever has that browser read the sessions, with the files and the output that they show.",
		"approver": "The role approver lets whoever has that browser read the sessions, and answer the questions of agents: what it allows is done as you.",
		"operator": "The role operator lets whoever has that browser start agents, give them prompts and answer their questions: it can read and change all that you can.",
	} {
		file := filepath.Join(p.Home, role+".code")
		browser := wire.Start(t, wire.Options{Name: role + "'s browser", Command: browserRole(g, file), Dir: p.Work, Env: p.Env()})
		e2e.ExpectContains(t, "the confirmation", confirm(shows(file), role), allows, "Agents can show codes, too", "signed in as "+role)
		if answer := ends(file); !strings.Contains(answer, `"state":"in"`) || !strings.Contains(answer, `"role":"`+role+`"`) {
			t.Errorf("the browser of a person was answered %s, want that it is in as %s", answer, role)
		}
		browser.Close()
		browser.ExpectExit()
	}

	file := filepath.Join(p.Home, "agent.code")
	h := e2e.NewPlace(t).Start(t, nil, browserRole(g, file))
	const refused = "this code is shown by a program of an agent, not by a person's browser"
	shown := confirm(shows(file), "operator")
	if e2e.ExpectContains(t, "the confirmation", shown, refused); strings.Contains(shown, "Type ") || strings.Contains(shown, "signed in") {
		t.Errorf("the person was asked to confirm the agent's code: %s", shown)
	}
	if answer := ends(file); !strings.HasPrefix(answer, "403 "+refused) {
		t.Errorf("the agent was answered %s, want 403 and the reason", answer)
	}
	h.Finish()
	e2e.Send(t, other.Running, syscall.SIGTERM)
	other.Running.ExpectExit()
	g.Leave()
}

// browserRole is the command of playBrowser.
func browserRole(g *e2e.Gateway, file string) []string { return e2e.Role("browser", console(g), file) }
