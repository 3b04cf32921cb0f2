package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/wire"
)

// StateService is the beginning of the names of the state service's methods.
const StateService = "acphost.supervisor.v1.SupervisorStateService/"

// Socket is the admin socket's path, as "acphost ps" prints it.
func (h *Host) Socket() string {
	h.T.Helper()
	cmd := wire.Command(h.T, Program("acphost"), "ps", "--json")
	cmd.Env = h.Env()
	out, err := cmd.Output()
	if err != nil {
		h.T.Fatalf("acphost ps: %v", err)
	}
	list, err := testkit.JSONLines[struct {
		PID           int
		Socket, State string
	}](out)
	if err != nil {
		h.T.Fatal(err)
	}
	for _, s := range list { // supervisors of others may be listed, too
		if s.PID == h.PID() {
			return s.Socket
		}
	}
	h.T.Fatalf("acphost ps does not list the supervisor %d: %s", h.PID(), out)
	return ""
}

// Grpcurl is the client that people use.
func Grpcurl(t testing.TB, args ...string) []byte {
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

// State calls a method of the state service and decodes the answer.
func (h *Host) State(method string, v any) {
	h.T.Helper()
	out := Grpcurl(h.T, "-plaintext", "-emit-defaults", "-unix", h.Socket(), StateService+method)
	if err := json.Unmarshal(out, v); err != nil {
		h.T.Fatalf("%s: %v\n%s", method, err, out)
	}
}

// HandlerState is a handler as the state service has it.
type HandlerState struct {
	Name, State, Description, SHA256 string
	PID, Restarts                    json.Number
	MutualTLS                        bool
	Error                            string
}

// Handler is the state of a handler.
func (h *Host) Handler(name string) HandlerState {
	h.T.Helper()
	var list struct{ Handlers []HandlerState }
	h.State("ListHandlers", &list)
	for _, s := range list.Handlers {
		if s.Name == name {
			return s
		}
	}
	h.T.Fatalf("there is no handler %q among %+v", name, list.Handlers)
	return HandlerState{}
}
