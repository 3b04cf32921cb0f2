package keyfiles

import (
	"crypto/x509"
	"errors"
	"net/url"
	"slices"
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

// RoleIn returns the role that a URI says, and reports whether it says one. All that follows the prefix is the role's name, a
// query or a fragment too, so that such a URI names no role that there is.
func RoleIn(u *url.URL) (role string, ok bool) { return after(u, rolePrefix) }

func after(u *url.URL, prefix string) (string, bool) {
	if u.Scheme != roleScheme {
		return "", false
	}
	return strings.CutPrefix(u.String(), roleScheme+":"+prefix)
}

// ActsAsURI is the URI of the greatest role for which a gateway may call.
func ActsAsURI(role string) *url.URL {
	return &url.URL{Scheme: roleScheme, Opaque: actsAsPrefix + role}
}

// ActsAsIn returns the greatest role for which a gateway may call, and reports whether a URI says one.
func ActsAsIn(u *url.URL) (role string, ok bool) {
	return after(u, actsAsPrefix)
}

// CheckClient refuses a certificate that does not say that it is a client's (extended key usage clientAuth): the same authority
// may sign certificates for other ends.
func CheckClient(cert *x509.Certificate) error {
	if !slices.Contains(cert.ExtKeyUsage, x509.ExtKeyUsageClientAuth) {
		return errors.New("the certificate is not a client's: it needs the extended key usage clientAuth")
	}
	return nil
}
