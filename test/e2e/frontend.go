package e2e

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
)

// ForPeople serves a gateway whose certificate permits calls in the name of people up to a role; page is the origin of
// a page that may call.
func ForPeople(t *testing.T, p *Place, limit, page string, flags ...string) *Gateway {
	t.Helper()
	p.File(t, "notes.md", "I recieve what you send.\n")
	g := &Gateway{Edge: NewEdge(t, p, fmt.Sprintf("[{command: [%q]}]", Program("demoagent")), flags...), At: testkit.FreePort(t), Tokens: filepath.Join(p.Home, "gateway", "tokens.json")}
	if status, out, errs := p.Cli(t, "certs", "gateway", g.Keys, "--name", "people", "--acts-as", limit); status != 0 || !strings.Contains(out, "up to the role "+limit) {
		t.Fatalf("acphost certs gateway --acts-as: %s%s", out, errs)
	}
	_ = g.Token("viewer") // else there is no file yet
	g.Begin(p, "people", "--origin", page)
	return g
}

// RestClient calls a gateway's paths with a token.
type RestClient struct {
	G     *Gateway
	Token string
}

// Request sends a request, with pairs of header names and values, and returns the response. The test's end closes it.
func (c RestClient) Request(ctx context.Context, verb, path, body string, header ...string) *http.Response {
	c.G.T.Helper()
	req, err := http.NewRequestWithContext(ctx, verb, "http://"+c.G.At+path, strings.NewReader(body))
	if err != nil {
		c.G.T.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.Token)
	if verb == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		c.G.T.Fatal(err)
	}
	c.G.T.Cleanup(func() { _ = res.Body.Close() })
	return res
}
