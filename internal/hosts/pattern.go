package hosts

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Pattern matches machines: "api.example.com" matches that name, "*.example.com" all names below it at any depth but
// not "example.com" itself, "192.0.2.1" and "2001:db8::1" that address, "10.0.0.0/8" a range of addresses, "*" all.
// With a port ("example.com:443", "[2001:db8::1]:443", "[fd00::/8]:22") it matches only that port.
type Pattern struct {
	source string
	name   string // exact
	suffix string // with its first dot
	prefix netip.Prefix
	all    bool
	port   uint16 // 0: any
}

// ParsePattern parses a pattern.
func ParsePattern(text string) (Pattern, error) {
	p := Pattern{source: text}
	body, port := text, ""
	switch i := strings.LastIndexByte(text, ':'); {
	case strings.HasPrefix(text, "["):
		end := strings.IndexByte(text, ']')
		if end < 0 {
			return p, errors.New("an address in brackets has to end with a bracket")
		}
		body = text[1:end]
		if end+1 < len(text) {
			if text[end+1] != ':' {
				return p, fmt.Errorf("after a bracket comes a colon and a port, got %q", text[end+1:])
			}
			port = text[end+2:]
		}
		if !strings.Contains(body, ":") {
			return p, errors.New("only addresses of IPv6 are in brackets")
		}
		if end+1 < len(text) && port == "" {
			return p, errors.New("a port is a number from 1 to 65535")
		}
	case i >= 0 && strings.IndexByte(text, ':') == i:
		body, port = text[:i], text[i+1:]
		if port == "" {
			return p, errors.New("a port is a number from 1 to 65535")
		}
	}
	if port != "" {
		var err error
		if p.port, err = parsePort(port); err != nil {
			return p, err
		}
	}
	return p, p.parseBody(body)
}

func (p *Pattern) parseBody(body string) error {
	if body == "*" {
		p.all = true
		return nil
	}
	if strings.Contains(body, "/") {
		prefix, err := netip.ParsePrefix(body)
		if err != nil || prefix.Addr().Is4In6() {
			return errors.New("expected addresses like 10.0.0.0/8 or fd00::/8")
		}
		if prefix != prefix.Masked() {
			return fmt.Errorf("expected %s, whose bits after the prefix are 0", prefix.Masked())
		}
		p.prefix = prefix
		return nil
	}
	name, below := strings.CutPrefix(body, "*.")
	if strings.Contains(name, "*") {
		return errors.New(`a star is allowed only at the beginning, before a dot ("*.example.com"), or alone`)
	}
	host, err := Parse(name)
	switch {
	case err != nil:
		return err
	case below && host.Name == "":
		return errors.New("addresses have no names below them; write a prefix like 10.0.0.0/8")
	case below:
		p.suffix = "." + host.Name
	case host.Name != "":
		p.name = host.Name
	default:
		p.prefix = netip.PrefixFrom(host.Address, host.Address.BitLen())
	}
	return nil
}

// String returns the pattern as written.
func (p Pattern) String() string { return p.source }

// Names reports whether the pattern matches the name or address with which the machine was requested.
func (p Pattern) Names(h Host, port uint16) bool {
	switch {
	case !p.onPort(port):
		return false
	case p.all:
		return true
	case h.Address.IsValid():
		return p.prefix.IsValid() && p.prefix.Contains(h.Address)
	case p.suffix != "":
		return strings.HasSuffix(h.Name, p.suffix)
	}
	return p.name != "" && p.name == h.Name
}

// Covers reports whether the pattern matches an address itself: by the address or a prefix, and "localhost" for
// loopback. "*" does not.
func (p Pattern) Covers(address netip.Addr, port uint16) bool {
	address = address.Unmap()
	return p.onPort(port) && (p.prefix.IsValid() && p.prefix.Contains(address) || p.name == "localhost" && address.IsLoopback())
}

// OnlyMetadata reports whether the pattern matches a single address, of a cloud's metadata service.
func (p Pattern) OnlyMetadata() bool {
	return p.prefix.IsValid() && p.prefix.IsSingleIP() && IsMetadata(p.prefix.Addr())
}

func (p Pattern) onPort(port uint16) bool { return p.port == 0 || p.port == port }

// Includes reports whether the pattern certainly matches everything that another pattern matches.
func (p Pattern) Includes(other Pattern) bool {
	switch {
	case p.port != 0 && p.port != other.port:
		return false
	case p.all:
		return true
	case other.all:
		return false
	case p.prefix.IsValid():
		return other.prefix.IsValid() && p.prefix.Bits() <= other.prefix.Bits() && p.prefix.Contains(other.prefix.Addr())
	case p.suffix != "":
		return other.suffix != "" && strings.HasSuffix(other.suffix, p.suffix) || other.name != "" && strings.HasSuffix(other.name, p.suffix)
	}
	return p.name == other.name && p.name != ""
}
