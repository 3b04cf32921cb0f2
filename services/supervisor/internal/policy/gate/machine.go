package gate

import (
	"github.com/acphost/acphost/internal/hosts"
	"github.com/acphost/acphost/internal/reason"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// machineOf returns the machine that an action connects to; false: there is none, or it cannot be parsed.
func machineOf(a *permissionv1.Action) (hosts.Endpoint, bool) {
	e := a.GetEndpoint()
	return hosts.NewEndpoint(e.GetHost(), e.GetPort(), e.GetAddresses())
}

// machineText describes the machine that an action connects to, with its addresses that are not on the internet; empty: no machine. An
// answer holds for all actions with the same text, because the person has read that text.
func machineText(a *permissionv1.Action) string {
	to, ok := machineOf(a)
	if !ok {
		return ""
	}
	return to.String()
}

// rulingAheadOfPolicies returns the ruling on a connection before policies are asked; nil: policies are asked.
func rulingAheadOfPolicies(r Request) *Ruling {
	switch {
	case r.Closed != "":
		return &Ruling{Deny, RuleNetwork, r.Closed}
	case r.Proxied:
		return ReachAhead(r.Action)
	}
	return nil
}

// ReachAhead returns the ruling on a machine that acphost's proxy never connects to; nil: policies are asked.
func ReachAhead(a *permissionv1.Action) *Ruling {
	if to, ok := machineOf(a); ok && to.Metadata().IsValid() {
		return &Ruling{Deny, RuleMetadata, reason.CloudKeys.String()}
	}
	return nil
}

// ReachBehind returns the ruling on a proxied connection after policies have decided; nil: their verdict applies. If they ask, and the
// agent is known not to work without the machine, it is allowed; if the agent works as well without the machine, it is
// denied. If they allow a name that resolves to an address that is not on the internet, a person is asked, because the
// owner of the name chooses the address.
func ReachBehind(a *permissionv1.Action, known hosts.Known, said *permissionv1.DecideResponse) *Ruling {
	to, ok := machineOf(a)
	switch {
	case !ok:
	case said.GetVerdict() == Ask && to.Named(known.Needed):
		return &Ruling{Allow, RuleAgentHosts, reason.AgentHost.String()}
	case said.GetVerdict() == Ask && to.Named(known.Unneeded):
		return &Ruling{Deny, RuleAgentHosts, reason.AgentHostUnneeded.String()}
	case said.GetVerdict() == Allow && !said.GetNamesAddresses() && len(to.Special()) > 0:
		return &Ruling{Ask, RuleAddress, unnamed(to)}
	}
	return nil
}

// applyMachineRuling applies ReachBehind.
func applyMachineRuling(r Request, d *Decision, said *permissionv1.DecideResponse) {
	if !r.Proxied {
		return
	}
	d.special = said.GetNamesAddresses()
	if ruling := ReachBehind(r.Action, r.Machines, said); ruling != nil {
		d.Verdict, d.Rule, d.Reason, d.Detail = ruling.Verdict, ruling.Rule, ruling.Reason, ""
		d.By, d.special = ByAcphost, ruling.Verdict == Allow
		d.Grantable, d.Unattended = true, Deny
	}
}

func unnamed(to hosts.Endpoint) string {
	return reason.PrivateAddress.With(to.Special()[0])
}

// decideMachineWithoutPolicy decides about Ask if no policy applies. It allows all connections, like calls, except proxied ones to
// addresses that are not on the internet, because no rule can name these.
func (g *Gate) decideMachineWithoutPolicy(r Request, d *Decision) {
	to, ok := machineOf(r.Action)
	switch {
	case !r.Proxied || !ok || len(to.Special()) == 0:
		d.Verdict = Allow
	case to.Named(r.Machines.Needed):
		d.Verdict, d.special = Allow, true
	default:
		d.Verdict, d.Rule, d.Reason = Deny, RuleAddress, unnamed(to)
	}
}

// Special reports whether an allowance covers addresses that are not on the internet: a rule or a person named them, or a person read them
// in a question.
func (d *Decision) Special() bool {
	return d.Verdict == Allow && (d.special || d.By == ByGrant || d.By == ByEarlier && d.person)
}
