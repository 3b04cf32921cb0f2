package e2e

import (
	"encoding/json"
	"fmt"
	"testing"
)

// Far is an agent behind a gateway: the supervisor there leaves files and commands to the client.
func Far(t *testing.T, p *Place, command []string) *Gateway {
	t.Helper()
	list, err := json.Marshal(command)
	if err != nil {
		t.Fatal(err)
	}
	g := NewGateway(t, p, fmt.Sprintf("[{name: there, command: %s}]}\nroutes: {\"fs/*\": front, \"terminal/*\": front", list))
	return g
}

// Connect is the command that is the agent there.
func (g *Gateway) Connect(more ...string) []string {
	return append([]string{Program("acphost"), "connect", g.URL("ws"), "--agent", "there", "--token-file", g.TokenFile}, more...)
}
