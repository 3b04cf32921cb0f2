package keyfiles

import (
	"crypto/x509"
	"errors"
	"net/url"
	"slices"
	"strings"
)

// The URIs among a certificate's alternative names: the role of a supervisor's caller ("acphost:role:viewer"), and the
// highest role for which a gateway may call ("acphost:acts-as:viewer").
const (
	roleScheme   = "acphost"
	rolePrefix   = "role:"
	actsAsPrefix = "acts-as:"
)

// RoleURI returns the URI of a role.
func RoleURI(role string) *url.URL { return &url.URL{Scheme: roleScheme, Opaque: rolePrefix + role} }

// RoleIn returns the role in a URI, and reports whether the URI is one of a role. Everything after the prefix is the
// role's name, including a query or a fragment, so that such a URI names an unknown role.
func RoleIn(u *url.URL) (role string, ok bool) { return after(u, rolePrefix) }

func after(u *url.URL, prefix string) (string, bool) {
	if u.Scheme != roleScheme {
		return "", false
	}
	return strings.CutPrefix(u.String(), roleScheme+":"+prefix)
}

// ActsAsURI returns the URI of the highest role for which a gateway may call.
func ActsAsURI(role string) *url.URL {
	return &url.URL{Scheme: roleScheme, Opaque: actsAsPrefix + role}
}

// ActsAsIn returns the highest role for which a gateway may call, and reports whether the URI names one.
func ActsAsIn(u *url.URL) (role string, ok bool) {
	return after(u, actsAsPrefix)
}

// CheckClient returns an error unless a certificate is for clients (extended key usage clientAuth): the same authority
// may sign certificates of servers.
func CheckClient(cert *x509.Certificate) error {
	if !slices.Contains(cert.ExtKeyUsage, x509.ExtKeyUsageClientAuth) {
		return errors.New("the certificate is not a client's: it needs the extended key usage clientAuth")
	}
	return nil
}
