// Package delegation is the contract between gateway and supervisor for calls that a gateway makes for a caller: the
// metadata that names the caller and the caller's role, and the role that each method requires, from its descriptor.
//
// It knows names, roles and descriptors of methods. It must not know how callers authenticate, nor which peers are
// gateways.
package delegation

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/acphost/acphost/internal/invisible"
)

// The metadata of a delegated call. Either each key is present once, or both are absent.
const (
	// CallerKey is the key of the caller's name, in percent-encoding, which leaves ordinary names unchanged.
	CallerKey = "acphost-caller"
	// RoleKey is the key of the caller's role.
	RoleKey = "acphost-caller-role"
)

// MaxName is the longest name of a caller, in characters.
const MaxName = 64

// The roles of people, as in certificates and tokens.
const (
	Viewer   = "viewer"
	Approver = "approver"
	Operator = "operator"
)

// Gateway is the role that OpenAgent requires. People do not have it.
const Gateway = "gateway"

// Roles returns the roles of people in ascending order.
func Roles() []string { return []string{Viewer, Approver, Operator} }

// Caller is the client for which a gateway makes a call.
type Caller struct {
	// Name has 1 to MaxName characters, and equals its Presentable form.
	Name string
	// Role is one of Roles.
	Role string
}

// Metadata returns the caller as alternating keys and values.
func (c Caller) Metadata() []string {
	return []string{CallerKey, url.PathEscape(c.Name), RoleKey, c.Role}
}

// Read returns the caller that a call's metadata names, and reports whether it names one. It returns an error if the
// metadata is ambiguous or malformed. The call must then be rejected, because it was meant to be delegated.
func Read(metadata map[string][]string) (c Caller, named bool, err error) {
	for key := range metadata {
		switch lower := strings.ToLower(key); {
		case lower == CallerKey, lower == RoleKey:
			named = true
		case strings.HasPrefix(lower, CallerKey):
			return Caller{}, true, fmt.Errorf("%s: there is no such metadata; a caller is named by %s and %s", key, CallerKey, RoleKey)
		}
	}
	if !named {
		return Caller{}, false, nil
	}
	names, roles := metadata[CallerKey], metadata[RoleKey]
	if len(names) != 1 || len(roles) != 1 {
		return Caller{}, true, fmt.Errorf("%s and %s go together, each once; there are %d and %d", CallerKey, RoleKey, len(names), len(roles))
	}
	name, err := url.PathUnescape(names[0])
	switch {
	case err != nil:
		return Caller{}, true, fmt.Errorf("%s: it is not percent-encoded", CallerKey)
	case name == "":
		return Caller{}, true, fmt.Errorf("%s: it is empty", CallerKey)
	case utf8.RuneCountInString(name) > MaxName:
		return Caller{}, true, fmt.Errorf("%s: it has more than %d characters", CallerKey, MaxName)
	case name != Presentable(name, MaxName):
		return Caller{}, true, errors.New(CallerKey + ": it takes characters that can be seen, on one line")
	case !slices.Contains(Roles(), roles[0]):
		return Caller{}, true, fmt.Errorf("%s: expected %s", RoleKey, strings.Join(Roles(), ", "))
	}
	return Caller{Name: name, Role: roles[0]}, true, nil
}

// Presentable returns a name on one line, without invisible characters, of at most maxRunes characters.
func Presentable(name string, maxRunes int) string {
	name = strings.Map(func(c rune) rune {
		switch {
		case unicode.IsSpace(c):
			return ' '
		case invisible.Is(c) || !unicode.IsPrint(c) || c == unicode.ReplacementChar:
			return -1
		}
		return c
	}, name)
	name = strings.Join(strings.Fields(name), " ")
	if r := []rune(name); len(r) > maxRunes {
		name = strings.TrimSpace(string(r[:maxRunes]))
	}
	return name
}
