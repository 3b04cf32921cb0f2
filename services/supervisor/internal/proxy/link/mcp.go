package link

import (
	"context"
	"fmt"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
)

// mcpServers decides about the MCP servers that a client names for a session, if the agent starts them as commands. Each is an action of
// the kind mcp.start, and is recorded. If a policy denies one, the session is refused, and the error says so. If the policy returns Ask,
// the client has answered already: it would be asked, and it has named the command.
//
// mcpServers waits for the policy, at most gate.DecideTimeout for each decision, and for nothing that needs the client to be read.
func (p *clientPump) mcpServers(method string, o acp.Opening, params []byte) error {
	servers, err := acp.MCPCommands(params)
	if err != nil || len(servers) == 0 {
		return err
	}
	if len(servers) > maxMCPServers {
		return fmt.Errorf("it names %d MCP servers, more than the %d that are taken", len(servers), maxMCPServers)
	}
	if err := p.out.flush(); err != nil { // earlier messages do not wait for a policy
		return err
	}
	cc := &acpv1.CallContext{}
	for _, dir := range append([]string{o.Cwd}, o.AdditionalDirectories...) {
		if dir != "" {
			cc.Roots = append(cc.Roots, &acpv1.Root{Path: dir})
		}
	}
	ctx := context.Background() // each decision has its own timeout
	s := p.judging(ctx, "", cc, nil)
	for _, server := range servers {
		a := intent.StartsMCP(s, method, server.Name, server.Argv, server.EnvNames)
		d, err := p.opts.Gate.Decide(ctx, gate.Request{Action: a})
		if err != nil {
			return err
		}
		if d.Verdict == gate.Deny {
			_ = p.conclude("", "", d, gate.Outcome{}) // a denial is enforced without a record
			return fmt.Errorf("the MCP server %q is denied: %s", server.Name, d.Denial())
		}
		outcome := gate.Outcome{Allowed: true}
		if d.Verdict == gate.Ask {
			outcome.By = gate.ByClient
		}
		if err := p.conclude("", "", d, outcome); err != nil {
			return fmt.Errorf("the MCP server %q is denied, because its start cannot be recorded: %w", server.Name, err)
		}
	}
	return nil
}

// maxMCPServers limits the MCP servers of a session that are commands.
const maxMCPServers = 64
