package e2e

import (
	"testing"

	"github.com/acphost/acphost/test/wire"
)

// NewStream starts the client's transport of the TypeScript SDK, with the test as the editor that uses it.
func (g *Gateway) NewStream(t *testing.T, p *Place, url string) *Host {
	t.Helper()
	command := []string{"node", Peer(t, "ts-stream.mjs"), url}
	return &Host{
		Process: wire.Start(t, wire.Options{Name: "editor elsewhere", Command: command, Dir: p.Work, Env: p.Env("EDITOR_TOKEN_FILE=" + g.TokenFile)}),
		Place:   p, T: t,
	}
}
