package gate

import (
	"fmt"

	"github.com/acphost/acphost/internal/hosts"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// machineOf is what an action connects to; false: it is no machine, or one that cannot be read.
func machineOf(a *permissionv1.Action) (hosts.Endpoint, bool) {
	e := a.GetEndpoint()
	return hosts.NewEndpoint(e.GetHost(), e.GetPort(), e.GetAddresses())
}

// machineText names what an action connects to, with those of its addresses that are not on the internet; empty: no machine. An
// answer holds for all actions of which this is the same: whoever gave it has read it.
func machineText(a *permissionv1.Action) string {
	to, ok := machineOf(a)
	if !ok {
		return ""
	}
	return to.String()
}

// machineAhead is the ruling on a connection that no policy is asked about; nil: policies are.
func machineAhead(r Request) *Ruling {
	if r.Closed != "" {
		return &Ruling{Deny, RuleNetwork, r.Closed}
	}
	if to, ok := machineOf(r.Action); r.Proxied && ok && to.Metadata().IsValid() {
		return &Ruling{Deny, RuleMetadata, fmt.Sprintf("%s is where a cloud keeps keys of this machine", to.Metadata())}
	}
	return nil
}

// machineBehind is for a machine that policies have decided on. What they ask about is allowed if the agent does not work without it.
// What they allow by a name that leads to an address that is not on the internet is asked about: whoever serves the name chooses that.
func machineBehind(r Request, d *Decision, named bool) {
	to, ok := machineOf(r.Action)
	switch {
	case !r.Proxied || !ok:
	case d.Verdict == Ask && to.Named(r.Needs):
		d.Verdict, d.Rule, d.By, d.special = Allow, RuleAgentHosts, ByPreset, true
		d.Reason = "the agent does not work without this machine"
	case d.Verdict == Allow && !named && len(to.Special()) > 0:
		d.Verdict, d.Rule, d.Reason = Ask, RuleAddress, unnamed(to)
		d.Grantable, d.Unattended, d.By = true, Deny, ByAcphost
	case d.Verdict == Allow:
		d.special = named
	}
}

func unnamed(to hosts.Endpoint) string {
	return fmt.Sprintf("%s is not an address on the internet, and no rule names it", to.Special()[0])
}

// machineUndecided is for what would be asked about where no policy counts: all is allowed, as at door two, but for addresses that
// are not on the internet, if the proxy connects: nobody can have named these.
func (g *Gate) machineUndecided(r Request, d *Decision) {
	to, ok := machineOf(r.Action)
	switch {
	case !r.Proxied || !ok || len(to.Special()) == 0:
		d.Verdict = Allow
	case to.Named(r.Needs):
		d.Verdict, d.special = Allow, true
	default:
		d.Verdict, d.Rule, d.Reason = Deny, RuleAddress, unnamed(to)+"; without a policy there is none"
	}
}

// Special reports whether an allowance holds for addresses that are not on the internet: somebody has named them, or has read them
// in a question.
func (d *Decision) Special() bool {
	return d.Verdict == Allow && (d.special || d.By == ByGrant || d.By == ByEarlier && d.person)
}
