package e2e_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/wire"
)

const stateService = "acphost.supervisor.v1.SupervisorStateService/"

// socket is the admin socket's path, as "acphost ps" tells it.
func (h *host) socket() string {
	h.t.Helper()
	cmd := wire.Command(h.t, program("acphost"), "ps", "--json")
	cmd.Env = h.env()
	out, err := cmd.Output()
	if err != nil {
		h.t.Fatalf("acphost ps: %v", err)
	}
	list, err := testkit.JSONLines[struct {
		PID           int
		Socket, State string
	}](out)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, s := range list { // supervisors of others may be listed, too
		if s.PID == h.PID() {
			return s.Socket
		}
	}
	h.t.Fatalf("acphost ps does not list the supervisor %d: %s", h.PID(), out)
	return ""
}

// grpcurl is the client that people use.
func grpcurl(t testing.TB, args ...string) []byte {
	t.Helper()
	tool := filepath.Join("..", ".tools", "bin", "grpcurl")
	if _, err := os.Stat(tool); err != nil {
		t.Fatalf("grpcurl is not installed; run \"make test-deps\": %v", err)
	}
	out, err := wire.Command(t, tool, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("grpcurl %q: %v\n%s", args, err, out)
	}
	return out
}

// state calls a method of the state service and decodes the answer.
func (h *host) state(method string, v any) {
	h.t.Helper()
	out := grpcurl(h.t, "-plaintext", "-emit-defaults", "-unix", h.socket(), stateService+method)
	if err := json.Unmarshal(out, v); err != nil {
		h.t.Fatalf("%s: %v\n%s", method, err, out)
	}
}

type handlerState struct {
	Name, State, Description, SHA256 string
	PID, Restarts                    json.Number
	MutualTLS                        bool
	Error                            string
}

func (h *host) handler(name string) handlerState {
	h.t.Helper()
	var list struct{ Handlers []handlerState }
	h.state("ListHandlers", &list)
	for _, s := range list.Handlers {
		if s.Name == name {
			return s
		}
	}
	h.t.Fatalf("there is no handler %q among %+v", name, list.Handlers)
	return handlerState{}
}

func TestAPersonCanLookIntoARunningSupervisor(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.file(t, "a", "text")
	more := `  - {id: reading, effect: allow, on: [fs.read], path: ["/**"]}
  - {id: waiting, effect: allow, command: [sleep]}
`
	s := p.scene(t, p.policy(t, rules+more, "handlers: {echo: {command: ["+program("echo")+"]}}"))
	s.agent.Request("fs/read_text_file", params("path", p.path("a")), nil)
	s.agent.Send("fs/read_text_file", params("path", "/etc/hosts")).Refused(-32602)
	if got := chosen(t, s.ask(edit(p.path("a")), options)); got != "yes" {
		t.Fatalf("the policy answered %q", got)
	}
	var made struct{ TerminalID string }
	s.agent.Request("terminal/create", params("command", "sleep 600"), &made)

	socket := s.socket()
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket has mode %v (%v), want 0600", info.Mode(), err)
	}
	services := string(grpcurl(t, "-plaintext", "-unix", socket, "list"))
	for _, want := range []string{"acphost.supervisor.v1.SupervisorStateService", "grpc.health.v1.Health"} {
		if !strings.Contains(services, want) {
			t.Errorf("reflection does not list %s:\n%s", want, services)
		}
	}
	if out := grpcurl(t, "-plaintext", "-unix", socket, "grpc.health.v1.Health/Check"); !bytes.Contains(out, []byte("SERVING")) {
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
	s.state("GetStatus", &status)
	if status.Mode != "run" || status.PID.String() != strconv.Itoa(s.PID()) || status.AdminSocket != socket ||
		status.Agent.State != "running" || status.Agent.ProtocolVersion != 1 || status.Link.RoutedRequests != "3" ||
		status.Gate.Questions != "1" || status.Gate.Allowed != "1" || status.Gate.Observed["fs.read"] != "2" {
		t.Errorf("the status is %+v", status)
	}

	for _, name := range []string{"fs", "terminal", "permission", "echo"} {
		if h := s.handler(name); h.State != "HANDLER_STATE_READY" || !h.MutualTLS || len(h.SHA256) != 64 || h.Description == "" {
			t.Errorf("the handler %s is %+v", name, h)
		}
	}
	var routes struct {
		Routes []struct {
			Method, Target, Handler, RPC string
			Calls, Errors                json.Number
		}
	}
	s.state("ListRoutes", &routes)
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
	s.state("ListSessions", &sessions)
	if len(sessions.Sessions) != 1 || sessions.Sessions[0].SessionID != "s1" || sessions.Sessions[0].Roots[0] != p.work || len(sessions.Sessions[0].ToolCalls) != 1 {
		t.Errorf("the sessions are %+v", sessions)
	}
	var terminals struct {
		Terminals []struct {
			TerminalID, SessionID string
			Running               bool
		}
	}
	s.state("ListTerminals", &terminals)
	if len(terminals.Terminals) != 1 || terminals.Terminals[0].TerminalID != made.TerminalID || terminals.Terminals[0].SessionID != "s1" || !terminals.Terminals[0].Running {
		t.Errorf("the terminals are %+v", terminals)
	}
	s.finish()
}

func TestAHandlerThatTheSupervisorHasNeverSeenAnswersItsMethod(t *testing.T) {
	t.Parallel()
	for name, entry := range map[string]string{
		"told by its descriptors": "",
		"asked by reflection":     `, env: {ECHO_REFLECTION: "1"}`,
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			s := p.scene(t, append(p.config(t, `handlers: {echo: {command: [`+program("echo")+`], settings: {prefix: "> "}`+entry+`}}`), "--agent-name", "me"))
			var answer struct {
				Text, Agent string
				Number      json.Number
				List        []string
			}
			m := s.agent.Request("_test.acphost/echo", params("text", "hä", "number", 9007199254740993, "context", map[string]any{"agent": "root"}), &answer)
			if answer.Text != "> hä" || answer.Number != "9007199254740993" || answer.Agent != "me" || answer.List == nil {
				t.Errorf("the answer is %s", m.Raw)
			}
			s.agent.Send("_test.acphost/echo", params("number", "x")).Refused(-32602)
			s.finish()
		})
	}
}

func TestAWrongConfigurationSaysWhere(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	file := p.config(t, "agent:\n  name: x\nlimits:\n  max_message_bytez: 1\n")[1]
	cmd := wire.Command(t, program("acphost"), "config", "check", file)
	cmd.Env = p.env()
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), file+":4:3: ") || !strings.Contains(string(out), "max_message_bytez") {
		t.Errorf("acphost config check: %v\n%s", err, out)
	}
}
