package policy_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

func TestState_ReadWithGrpcurl(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "a", "text")
	more := `  - {id: reading, effect: allow, on: [fs.read], path: ["/**"]}
  - {id: waiting, effect: allow, command: [sleep]}
`
	s := p.Fixture(t, p.Policy(t, e2e.Rules+more, "handlers: {echo: {command: ["+e2e.Program("echo")+"]}}"))
	s.Agent.Request("fs/read_text_file", e2e.Params("path", p.Path("a")), nil)
	s.Agent.Send("fs/read_text_file", e2e.Params("path", "/etc/hosts")).Refused(-32602)
	if got := e2e.Chosen(t, s.Ask(e2e.Edit(p.Path("a")), e2e.Options)); got != "yes" {
		t.Fatalf("the policy answered %q", got)
	}
	var made struct{ TerminalID string }
	s.Agent.Request("terminal/create", e2e.Params("command", "sleep 600"), &made)

	socket := s.Socket()
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket has mode %v (%v), want 0600", info.Mode(), err)
	}
	services := string(e2e.Grpcurl(t, "-plaintext", "-unix", socket, "list"))
	for _, want := range []string{"acphost.supervisor.v1.SupervisorStateService", "grpc.health.v1.Health"} {
		if !strings.Contains(services, want) {
			t.Errorf("reflection does not list %s:\n%s", want, services)
		}
	}
	if out := e2e.Grpcurl(t, "-plaintext", "-unix", socket, "grpc.health.v1.Health/Check"); !bytes.Contains(out, []byte("SERVING")) {
		t.Errorf("health is %s", out)
	}

	var status struct {
		Mode, AdminSocket string
		PID               json.Number
		Agent             struct {
			State           string
			PID             json.Number
			ProtocolVersion int
		}
		Protection struct{ Undumpable bool }
		Link       struct{ RoutedRequests, PendingRequests json.Number }
		Gate       struct {
			Questions, Allowed json.Number
			Observed           map[string]json.Number
		}
	}
	s.State("GetStatus", &status)
	if status.Mode != "run" || status.PID.String() != strconv.Itoa(s.PID()) || status.AdminSocket != socket ||
		status.Agent.State != "running" || status.Agent.ProtocolVersion != 1 || status.Link.RoutedRequests != "3" ||
		status.Gate.Questions != "1" || status.Gate.Allowed != "1" || status.Gate.Observed["fs.read"] != "2" {
		t.Errorf("the status is %+v", status)
	}

	for _, name := range []string{"fs", "terminal", "permission", "echo"} {
		if h := s.Handler(name); h.State != "HANDLER_STATE_READY" || !h.MutualTLS || len(h.SHA256) != 64 || h.Description == "" {
			t.Errorf("the handler %s is %+v", name, h)
		}
	}
	var routes struct {
		Routes []struct {
			Method, Target, Handler, RPC string
			Calls, Errors                json.Number
		}
	}
	s.State("ListRoutes", &routes)
	found := map[string]string{}
	for _, r := range routes.Routes {
		found[r.Method] = r.Target + " " + r.Handler + " " + r.Calls.String() + "/" + r.Errors.String()
	}
	for method, want := range map[string]string{"fs/read_text_file": "handler fs 2/1", "terminal/create": "handler terminal 1/0", "_test.acphost/echo": "handler echo 0/0"} {
		if found[method] != want {
			t.Errorf("the route of %s is %q, want %q", method, found[method], want)
		}
	}
	var sessions struct {
		Sessions []struct {
			SessionID string
			Roots     []string
			ToolCalls []struct{ ToolCallID string }
		}
	}
	s.State("ListSessions", &sessions)
	if len(sessions.Sessions) != 1 || sessions.Sessions[0].SessionID != "s1" || sessions.Sessions[0].Roots[0] != p.Work || len(sessions.Sessions[0].ToolCalls) != 1 {
		t.Errorf("the sessions are %+v", sessions)
	}
	var terminals struct {
		Terminals []struct {
			TerminalID, SessionID string
			Running               bool
		}
	}
	s.State("ListTerminals", &terminals)
	if len(terminals.Terminals) != 1 || terminals.Terminals[0].TerminalID != made.TerminalID || terminals.Terminals[0].SessionID != "s1" || !terminals.Terminals[0].Running {
		t.Errorf("the terminals are %+v", terminals)
	}
	s.Finish()
}

func TestRoutes_ForeignHandler(t *testing.T) {
	t.Parallel()
	for name, entry := range map[string]string{
		"from its descriptors": "",
		"asked by reflection":  `, env: {ECHO_REFLECTION: "1"}`,
	} {
		t.Run(name, func(t *testing.T) {
			p := e2e.NewPlace(t)
			s := p.Fixture(t, append(p.Config(t, `handlers: {echo: {command: [`+e2e.Program("echo")+`], settings: {prefix: "> "}`+entry+`}}`), "--agent-name", "me"))
			var answer struct {
				Text, Agent string
				Number      json.Number
				List        []string
			}
			m := s.Agent.Request("_test.acphost/echo", e2e.Params("text", "hä", "number", 9007199254740993, "context", map[string]any{"agent": "root"}), &answer)
			if answer.Text != "> hä" || answer.Number != "9007199254740993" || answer.Agent != "me" || answer.List == nil {
				t.Errorf("the answer is %s", m.Raw)
			}
			s.Agent.Send("_test.acphost/echo", e2e.Params("number", "x")).Refused(-32602)
			s.Finish()
		})
	}
}

func TestConfiguration_ErrorNamesPlace(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	file := p.Config(t, "agent:\n  name: x\nlimits:\n  max_message_bytez: 1\n")[1]
	cmd := wire.Command(t, e2e.Program("acphost"), "config", "check", file)
	cmd.Env = p.Env()
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), file+":4:3: ") || !strings.Contains(string(out), "max_message_bytez") {
		t.Errorf("acphost config check: %v\n%s", err, out)
	}
}
