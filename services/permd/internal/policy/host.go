package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/hosts"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// maxAddresses is the contract's limit of addresses of a machine.
const maxAddresses = 16

// machine is the machine that an action connects to.
type machine struct {
	host      hosts.Host
	port      uint16
	addresses []netip.Addr
}

// machineOf parses an endpoint; nil if it is missing or invalid.
func machineOf(e *permissionv1.Endpoint) *machine {
	if e == nil || e.GetPort() == 0 || e.GetPort() > 65535 || len(e.GetAddresses()) > maxAddresses {
		return nil
	}
	host, err := hosts.Parse(e.GetHost())
	if err != nil {
		return nil
	}
	m := &machine{host: host, port: uint16(e.GetPort())}
	for _, text := range e.GetAddresses() {
		address, err := netip.ParseAddr(text)
		if err != nil || address.Zone() != "" {
			return nil
		}
		m.addresses = append(m.addresses, address.Unmap())
	}
	if len(m.addresses) == 0 && host.Address.IsValid() {
		m.addresses = []netip.Addr{host.Address}
	}
	return m
}

// shown returns the machine for people.
func (m *machine) shown() string {
	text := show(m.host.WithPort(m.port))
	if m.host.Address.IsValid() || len(m.addresses) == 0 {
		return text
	}
	var addresses []string
	for _, address := range m.addresses {
		addresses = append(addresses, address.String())
	}
	return text + " (" + listOf(addresses, ", ") + ")"
}

var ofHost = criterion{(*rule).holdsHost, (*rule).whyHost}

func (r *rule) holdsHost(a *action) match {
	switch {
	case r.effect == "allow" && a.to != nil:
		return sureIf(r.unnamedPrivateAddress(a.to) == nil && (r.hosts == nil || r.allowsMachine(a.to)))
	case r.hosts == nil:
		return yes
	case a.to == nil && r.effect != "allow" && a.GetKind() == "net.connect" && (a.GetEndpoint() != nil || a.GetUnparsed() != ""):
		return maybe
	case a.to == nil:
		return no
	}
	return sureIf(slices.ContainsFunc(r.hosts, func(p hosts.Pattern) bool { return p.Names(a.to.host, a.to.port) }) ||
		slices.ContainsFunc(a.to.addresses, func(address netip.Addr) bool { return r.covers(address, a.to.port) }))
}

// allowsMachine reports whether the rule covers a machine by its name, or all of its addresses.
func (r *rule) allowsMachine(m *machine) bool {
	return slices.ContainsFunc(r.hosts, func(p hosts.Pattern) bool { return p.Names(m.host, m.port) }) ||
		len(m.addresses) > 0 && !slices.ContainsFunc(m.addresses, func(address netip.Addr) bool { return !r.covers(address, m.port) })
}

// covers reports whether the rule names an address itself.
func (r *rule) covers(address netip.Addr, port uint16) bool {
	return slices.ContainsFunc(r.hosts, func(p hosts.Pattern) bool { return p.Covers(address, port) })
}

// unnamedPrivateAddress returns an address of a machine that is not on the internet and that the rule does not name;
// nil: none. A host name does not limit its addresses: the owner of the name may point it to this machine or its
// network.
func (r *rule) unnamedPrivateAddress(m *machine) *netip.Addr {
	i := slices.IndexFunc(m.addresses, func(address netip.Addr) bool { return !hosts.IsPublic(address) && !r.covers(address, m.port) })
	if i < 0 {
		return nil
	}
	return &m.addresses[i]
}

func (r *rule) whyHost(a *action, held match) string {
	switch {
	case held == maybe:
		return "it cannot be told which machine the action connects to"
	case a.to == nil && r.hosts == nil:
		return ""
	case a.to == nil:
		return "the action connects to no machine"
	case held == yes && r.hosts == nil:
		return ""
	case held == yes:
		return "host is " + a.to.shown()
	}
	if strange := r.unnamedPrivateAddress(a.to); r.effect == "allow" && strange != nil && (r.hosts == nil || r.allowsMachine(a.to)) {
		return fmt.Sprintf("host %s has the address %s, which is not on the internet, and the rule does not name it", show(a.to.host.String()), strange)
	}
	var names []string
	for _, p := range r.hosts {
		names = append(names, p.String())
	}
	return fmt.Sprintf("host is %s, the rule is for %s", a.to.shown(), listOf(names, ", "))
}

// exampleHost parses the machine of a rule's test.
func exampleHost(t *permissionv1.RuleTest) (*permissionv1.Endpoint, error) {
	host, port, err := hosts.Split(t.GetHost())
	if err != nil {
		if host, err = hosts.Parse(t.GetHost()); err != nil {
			return nil, fmt.Errorf("expected a machine like api.example.com or 192.0.2.1:443, got %q: %w", t.GetHost(), err)
		}
		port = 443
	}
	e := &permissionv1.Endpoint{Host: host.String(), Port: uint32(port), Addresses: t.GetAddresses()}
	if machineOf(e) == nil {
		return nil, fmt.Errorf("expected at most %d addresses like 192.0.2.1, got %s", maxAddresses, strings.Join(t.GetAddresses(), ", "))
	}
	return e, nil
}
