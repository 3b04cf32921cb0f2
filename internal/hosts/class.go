package hosts

import (
	"net/netip"
	"slices"
)

// metadata are the addresses of the metadata services of clouds, which give programs on a machine its identity and
// keys. Alibaba's and Azure's addresses are not link-local.
var metadata = []netip.Addr{
	netip.MustParseAddr("169.254.169.254"), // Amazon, Google, Azure, Oracle, DigitalOcean, OpenStack
	netip.MustParseAddr("169.254.170.2"),   // Amazon's containers
	netip.MustParseAddr("169.254.170.23"),  // Amazon's pods
	netip.MustParseAddr("fd00:ec2::254"),   // Amazon
	netip.MustParseAddr("fd00:ec2::23"),    // Amazon's pods
	netip.MustParseAddr("fd20:ce::254"),    // Google
	netip.MustParseAddr("100.100.100.200"), // Alibaba
	netip.MustParseAddr("168.63.129.16"),   // Azure's agent
	netip.MustParseAddr("192.0.0.192"),     // Oracle
}

// special are the addresses outside of the public internet, from IANA's registries of special-purpose addresses.
var special = func() (list []netip.Prefix) {
	for _, text := range []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
		"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	} {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}()

// global are the IPv6 addresses of the public internet; specialIn6 are the exceptions among them.
var (
	global     = netip.MustParsePrefix("2000::/3")
	specialIn6 = []netip.Prefix{
		netip.MustParsePrefix("2001::/23"), // with Teredo, which carries IPv4
		netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("3fff::/20"),
	}
	sixToFour = netip.MustParsePrefix("2002::/16")
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
)

// IsMetadata reports whether an address belongs to a cloud's metadata service, directly or through an IPv6 address that
// embeds it.
func IsMetadata(address netip.Addr) bool {
	return slices.Contains(metadata, address.WithZone("").Unmap()) || slices.Contains(metadata, carried(address))
}

// IsPublic reports whether an address belongs to the public internet: it is not loopback, private, link-local, shared,
// multicast or reserved, and not an IPv6 address that embeds such an IPv4 address.
func IsPublic(address netip.Addr) bool {
	address = address.WithZone("").Unmap()
	in := func(list []netip.Prefix) bool {
		return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(address) })
	}
	inner := carried(address)
	switch {
	case !address.IsValid() || IsMetadata(address):
		return false
	case address.Is4():
		return !in(special)
	case inner.IsValid():
		return IsPublic(inner)
	}
	return global.Contains(address) && !in(specialIn6)
}

// carried returns the IPv4 address that an IPv6 address embeds; invalid if none exists.
func carried(address netip.Addr) netip.Addr {
	if !address.Is6() {
		return netip.Addr{}
	}
	bytes := address.As16()
	switch {
	case nat64.Contains(address):
		return netip.AddrFrom4([4]byte(bytes[12:]))
	case sixToFour.Contains(address):
		return netip.AddrFrom4([4]byte(bytes[2:]))
	}
	return netip.Addr{}
}
