package hosts

import (
	"net/netip"
	"slices"
	"strings"
)

// Endpoint is a port of a machine.
type Endpoint struct {
	Host Host
	Port uint16
	// Addresses are the machine's addresses. Empty until its name has been resolved.
	Addresses []netip.Addr
}

// NewEndpoint parses the parts of an endpoint. ok is false if a part is invalid. If host is an address, Addresses
// contain it.
func NewEndpoint(host string, port uint32, addresses []string) (Endpoint, bool) {
	h, err := Parse(host)
	e := Endpoint{Host: h, Port: uint16(port)}
	if err != nil || port == 0 || port > 65535 {
		return Endpoint{}, false
	}
	for _, text := range addresses {
		address, err := netip.ParseAddr(text)
		if err != nil || address.Zone() != "" {
			return Endpoint{}, false
		}
		e.Addresses = append(e.Addresses, address.Unmap())
	}
	if len(e.Addresses) == 0 && h.Address.IsValid() {
		e.Addresses = []netip.Addr{h.Address}
	}
	return e, true
}

// Special returns the addresses outside of the public internet.
func (e Endpoint) Special() []netip.Addr {
	return slices.DeleteFunc(slices.Clone(e.Addresses), IsPublic)
}

// Metadata returns an address of a cloud's metadata service; invalid if none exists.
func (e Endpoint) Metadata() netip.Addr {
	if i := slices.IndexFunc(e.Addresses, IsMetadata); i >= 0 {
		return e.Addresses[i]
	}
	return netip.Addr{}
}

// String returns "host:443". Addresses outside of the public internet follow in parentheses, unless the host shows this
// itself, as "127.0.0.1" and "localhost" do: "db.example:5432 (10.0.0.7)".
func (e Endpoint) String() string {
	var notes []string
	for _, address := range e.Special() {
		if address != e.Host.Address && !(e.Host.Name == "localhost" && address.IsLoopback()) {
			notes = append(notes, address.String())
		}
	}
	text := e.Host.WithPort(e.Port)
	if len(notes) > 0 {
		slices.Sort(notes)
		text += " (" + strings.Join(slices.Compact(notes), ", ") + ")"
	}
	return text
}

// Named reports whether one of the patterns matches the host, and the patterns together match all of its addresses
// outside of the public internet. A name alone is not sufficient for those, because its owner decides which address it
// has.
func (e Endpoint) Named(patterns []Pattern) bool {
	named := slices.ContainsFunc(patterns, func(p Pattern) bool { return p.Names(e.Host, e.Port) })
	return named && !slices.ContainsFunc(e.Special(), func(address netip.Addr) bool {
		return !slices.ContainsFunc(patterns, func(p Pattern) bool { return p.Covers(address, e.Port) })
	})
}
