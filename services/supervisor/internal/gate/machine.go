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
	switch {
	case r.Closed != "":
		return &Ruling{Deny, RuleNetwork, r.Closed}
	case r.Proxied:
		return ReachAhead(r.Action)
	}
	return nil
}

// ReachAhead is the ruling on a machine that acphost's proxy reaches for no agent; nil: policies are asked.
func ReachAhead(a *permissionv1.Action) *Ruling {
	if to, ok := machineOf(a); ok && to.Metadata().IsValid() {
		return &Ruling{Deny, RuleMetadata, fmt.Sprintf("%s is where a cloud keeps keys of this machine", to.Metadata())}
	}
	return nil
}

// ReachBehind is the ruling on a machine that acphost's proxy is to reach and that policies have decided on; nil: their verdict stands.
// What they ask about is allowed if the agent does not work without it: needs are such machines. What they allow by a name that leads
// to an address that is not on the internet is asked about: whoever serves the name chooses that.
func ReachBehind(a *permissionv1.Action, needs []hosts.Pattern, said *permissionv1.DecideResponse) *Ruling {
	to, ok := machineOf(a)
	switch {
	case !ok:
	case said.GetVerdict() == Ask && to.Named(needs):
		return &Ruling{Allow, RuleAgentHosts, "the agent does not work without this machine"}
	case said.GetVerdict() == Allow && !said.GetNamesAddresses() && len(to.Special()) > 0:
		return &Ruling{Ask, RuleAddress, unnamed(to)}
	}
	return nil
}

// machineBehind has ReachBehind count.
func machineBehind(r Request, d *Decision, said *permissionv1.DecideResponse) {
	if !r.Proxied {
		return
	}
	d.special = said.GetNamesAddresses()
	if ruling := ReachBehind(r.Action, r.Needs, said); ruling != nil {
		d.Verdict, d.Rule, d.Reason = ruling.Verdict, ruling.Rule, ruling.Reason
		d.By, d.special = ByAcphost, ruling.Verdict == Allow
		d.Grantable, d.Unattended = true, Deny
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
