package keyfiles

import (
	"net/url"
	"strings"
)

// The URI among a certificate's alternative names that says what a caller of a supervisor may do: "acphost:role:viewer".
const (
	roleScheme = "acphost"
	rolePrefix = "role:"
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
