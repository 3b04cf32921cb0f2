package keyfiles

import (
	"net/url"
	"strings"
)

// The URIs among a certificate's alternative names that say what a caller of a supervisor may do, "acphost:role:viewer", and up
// to which role a gateway may call for others, "acphost:acts-as:viewer".
const (
	roleScheme   = "acphost"
	rolePrefix   = "role:"
	actsAsPrefix = "acts-as:"
)

// RoleURI is the URI of a role.
func RoleURI(role string) *url.URL { return &url.URL{Scheme: roleScheme, Opaque: rolePrefix + role} }

// RoleIn returns the role that a URI says, and reports whether it says one.
func RoleIn(u *url.URL) (role string, ok bool) {
	if u.Scheme != roleScheme {
		return "", false
	}
	return strings.CutPrefix(u.Opaque, rolePrefix)
}

// ActsAsURI is the URI of the greatest role for which a gateway may call.
func ActsAsURI(role string) *url.URL {
	return &url.URL{Scheme: roleScheme, Opaque: actsAsPrefix + role}
}

// ActsAsIn returns the greatest role for which a gateway may call, and reports whether a URI says one.
func ActsAsIn(u *url.URL) (role string, ok bool) {
	if u.Scheme != roleScheme {
		return "", false
	}
	return strings.CutPrefix(u.Opaque, actsAsPrefix)
}
