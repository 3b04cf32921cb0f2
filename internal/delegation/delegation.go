// Package delegation has the contract between gateway and supervisor for calls that a gateway makes for a caller: the metadata that
// names the caller and the caller's role, and the role that each method requires, from its descriptor.
//
// It knows names, roles and descriptors of methods. It must not know how callers authenticate, nor which peers are gateways.
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
	// CallerKey is the key of the caller's name, in percent-encoding: an ordinary name stands as it is.
	CallerKey = "acphost-caller"
	// RoleKey is the key of the caller's role.
	RoleKey = "acphost-caller-role"
)

// MaxName is the longest name of a caller, in characters.
const MaxName = 64

// The roles of people, as certificates and tokens have them.
const (
	Viewer   = "viewer"
	Approver = "approver"
	Operator = "operator"
)

// Gateway is the role that OpenAgent takes. It is no person's.
const Gateway = "gateway"

// Roles are those that people have, the least first.
func Roles() []string { return []string{Viewer, Approver, Operator} }

// Caller is the client for which a gateway makes a call.
type Caller struct {
	// Name has 1 to MaxName characters, and looks as Presentable leaves it.
	Name string
	// Role is one of Roles.
	Role string
}

// Metadata is the caller as keys and values, one after the other.
func (c Caller) Metadata() []string {
	return []string{CallerKey, url.PathEscape(c.Name), RoleKey, c.Role}
}

// Read returns the caller that a call's metadata names, and reports whether it names one. It is an error if the metadata could
// be read in two ways, or not at all: then the call is refused, because it was meant to be for somebody.
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

// Presentable is a name on one line, of at most so many characters, all of which can be seen.
func Presentable(name string, most int) string {
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
	if r := []rune(name); len(r) > most {
		name = strings.TrimSpace(string(r[:most]))
	}
	return name
}
