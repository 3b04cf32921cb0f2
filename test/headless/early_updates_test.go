package headless_test

import (
	"bufio"
	"fmt"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

// TestRun_HoldsUpdatesUntilSessionIsOpen has an agent send an update before the answer that opens its session.
func TestRun_HoldsUpdatesUntilSessionIsOpen(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"session/new", "session/fork", "session/resume"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			cmd := wire.Command(t, e2e.Program("acphost"), append([]string{"run", "--"}, e2e.Role("teller", "-early", "hello")...)...)
			cmd.Dir, cmd.Env = p.Work, p.Env()
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}`+"\n")
			lines, order := bufio.NewScanner(out), ""
			lines.Scan()
			fmt.Fprintf(in, `{"jsonrpc":"2.0","id":2,"method":%q,"params":{"sessionId":"s1","cwd":%q,"mcpServers":[]}}`+"\n", method, p.Work)
			for range 2 {
				if lines.Scan(); strings.Contains(lines.Text(), "session/update") {
					order += "update "
				} else {
					order += "answer "
				}
			}
			_ = in.Close()
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
			if order != "answer update " {
				t.Errorf("the editor got %q, want the answer first", order)
			}
		})
	}
}

func TestPrompt_PrintsUpdatesBeforeSession(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	for _, format := range []string{"text", "json"} {
		status, out, errs := p.Cli(t, append([]string{"prompt", "--output", format, "go on", "--"}, e2e.Role("teller", "-early", "hello")...)...)
		if status != 0 {
			t.Errorf("the exit status is %d, want 0: %s", status, errs)
		}
		if strings.Count(out, "hello") == 0 || strings.Index(out, "hello") > strings.Index(out, "first half") {
			t.Errorf("with --output %s, standard output is %q, want hello before the turn", format, out)
		}
	}
}

// TestGateway_HoldsUpdatesUntilSessionIsOpen is the same for clients of a gateway.
func TestGateway_HoldsUpdatesUntilSessionIsOpen(t *testing.T) {
	t.Parallel()
	for name, connect := range map[string]func(*testing.T, *e2e.Gateway) *wire.Peer{
		"WebSocket": func(t *testing.T, g *e2e.Gateway) *wire.Peer {
			return g.Client(t, "client", g.Token("operator"), "").Peer
		},
		"acphost connect": func(t *testing.T, g *e2e.Gateway) *wire.Peer {
			editor := wire.Start(t, wire.Options{Name: "editor", Command: g.Connect(), Dir: g.Work, Env: g.Place.Env()})
			editor.Send("initialize", map[string]any{"protocolVersion": 1, "clientCapabilities": map[string]any{}}).Result(nil)
			return editor.Peer
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			g := e2e.Far(t, p, e2e.Role("teller", "-early", "hello"))
			for _, method := range []string{"session/new", "session/fork", "session/resume"} {
				client := connect(t, g)
				client.Send(method, map[string]any{"sessionId": "s1", "cwd": p.Work, "mcpServers": []any{}})
				if first, second := client.Next(), client.Next(); first.Method != "" || first.Error != nil || second.Method != "session/update" {
					t.Errorf("%s: the client got %s, then %s; want the answer first", method, first.Raw, second.Raw)
				}
				client.Close()
			}
			g.Leave()
		})
	}
}
