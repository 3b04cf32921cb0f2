// Package hosts parses names and addresses of machines, and patterns of them. Different spellings of one machine get
// the same form, and spellings that programs read in different ways are rejected, so that rules judge the machine that
// is connected to.
//
// The package does not resolve names, and must not know who connects, nor why.
package hosts

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// longestName is DNS's limit of a name without the last dot, longestLabel that of a part between dots.
const (
	longestName  = 253
	longestLabel = 63
)

// Host is a machine by its name or its address.
type Host struct {
	// Name is in lower case, in ASCII (IDNA's xn-- for other scripts), and without a final dot. Empty if the host is an
	// address.
	Name string
	// Address has no zone. An IPv4 address in IPv6 form is converted to IPv4. Invalid if the host is a name.
	Address netip.Addr
}

// String returns the name, or the address in its shortest form without brackets.
func (h Host) String() string {
	if h.Address.IsValid() {
		return h.Address.String()
	}
	return h.Name
}

// WithPort returns "host:443", with brackets around an IPv6 address.
func (h Host) WithPort(port uint16) string {
	if h.Address.Is6() {
		return "[" + h.String() + "]:" + strconv.Itoa(int(port))
	}
	return h.String() + ":" + strconv.Itoa(int(port))
}

// Parse parses a name or an address, which may be in brackets. It rejects IPv4 addresses that programs read in
// different ways ("127.1", "0x7f.0.0.1", "2130706433", "0177.0.0.1"), IPv6 zones ("fe80::1%eth0"), and invalid names.
func Parse(text string) (Host, error) {
	bracketed := strings.HasPrefix(text, "[")
	if bracketed || strings.Contains(text, ":") {
		inner := text
		if bracketed {
			if !strings.HasSuffix(text, "]") {
				return Host{}, errors.New("an address in brackets has to end with a bracket")
			}
			inner = text[1 : len(text)-1]
		}
		return parse6(inner)
	}
	ascii, err := lower(text)
	if err != nil {
		return Host{}, err
	}
	name := strings.TrimSuffix(ascii, ".")
	if endsInNumber(name) {
		address, err := netip.ParseAddr(name)
		if err != nil || !address.Is4() || name != ascii {
			return Host{}, errors.New("an address of IPv4 is four decimal numbers without leading zeros")
		}
		return Host{Address: address}, nil
	}
	return Host{Name: name}, check(name)
}

func parse6(text string) (Host, error) {
	address, err := netip.ParseAddr(text)
	if err != nil || !address.Is6() {
		return Host{}, errors.New("it is no address of IPv6")
	}
	if address.Zone() != "" {
		return Host{}, errors.New("an address with a zone means something only on this machine")
	}
	return Host{Address: address.Unmap()}, nil
}

// lower returns a name in lower case and in ASCII.
func lower(text string) (string, error) {
	if len(text) > 4*longestName {
		return "", fmt.Errorf("the name has more than %d characters", longestName)
	}
	for i := range len(text) {
		if text[i] < utf8.RuneSelf {
			continue
		}
		ascii, err := idna.Lookup.ToASCII(text)
		if err != nil || !utf8.ValidString(text) {
			return "", errors.New("it is no name that IDNA allows")
		}
		return ascii, nil
	}
	return strings.ToLower(text), nil
}

// endsInNumber reports whether the last part of a name is a number, so that programs read the name as an address
// (WHATWG's "ends in a number").
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if hex, is := strings.CutPrefix(last, "0x"); is {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}

// check returns an error for an invalid name.
func check(name string) error {
	if name == "" {
		return errors.New("there is no name")
	}
	if len(name) > longestName {
		return fmt.Errorf("the name has more than %d characters", longestName)
	}
	for label := range strings.SplitSeq(name, ".") {
		switch {
		case label == "":
			return errors.New("a part of the name is empty")
		case len(label) > longestLabel:
			return fmt.Errorf("a part of the name has more than %d characters", longestLabel)
		case label[0] == '-' || label[len(label)-1] == '-':
			return errors.New("a part of the name begins or ends with a hyphen")
		}
		for i := range len(label) {
			c := label[i]
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return errors.New("a name has letters, digits, hyphens and dots only")
			}
		}
	}
	return nil
}

// Split parses "host:port", with brackets around an IPv6 address. The port is decimal and not 0.
func Split(text string) (Host, uint16, error) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return Host{}, 0, errors.New("there is no port")
	}
	name := text[:i]
	if strings.Contains(name, ":") && !strings.HasPrefix(name, "[") {
		return Host{}, 0, errors.New("an address of IPv6 before a port has to be in brackets")
	}
	port, err := parsePort(text[i+1:])
	if err != nil {
		return Host{}, 0, err
	}
	host, err := Parse(name)
	return host, port, err
}

func parsePort(text string) (uint16, error) {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 || strings.Trim(text, "0123456789") != "" || len(text) > 5 {
		return 0, errors.New("a port is a number from 1 to 65535")
	}
	return uint16(port), nil
}
