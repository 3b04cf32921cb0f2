// Package certs creates and parses the certificates of callers over the network. The operator has their own authority,
// and a certificate contains the role of its owner.
//
// The package creates the authority and the certificates, reads a role from a certificate, and reloads a server's
// certificate when its file changes. It knows files and TLS. It must not know which calls a role may make.
package certs

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/keyfiles"
)

// Role is the set of rights of the owner of a certificate.
type Role int

// The roles.
const (
	// NoRole is the role of a certificate without one.
	NoRole Role = iota
	// Viewer reads everything and changes nothing.
	Viewer
	// Approver also answers questions.
	Approver
	// Operator has all rights.
	Operator
	// Gateway forwards the frames of clients, and nothing else: it cannot even read what a Viewer can. Its certificate
	// may allow it to represent other callers, up to a role; see RightsOf.
	Gateway
	// Metrics reads the metrics, and nothing else: it can call no other service.
	Metrics
)

var roleNames = [...]string{NoRole: "none", Viewer: "viewer", Approver: "approver", Operator: "operator", Gateway: "gateway", Metrics: "metrics"}

// May reports whether a role has the rights of the role need. A higher role has all rights of the lower ones, except
// for Gateway and Metrics, which are outside of this order.
func (r Role) May(need Role) bool {
	switch {
	case r == need, r == Operator, need == NoRole:
		return true
	case r >= Gateway, need >= Gateway:
		return false
	}
	return r > need
}

// RoleNames returns the roles that a certificate can have, the lowest first, and then those outside of the order.
func RoleNames() []string { return slices.Clone(roleNames[Viewer:]) }

// String returns the name of the role: "viewer".
func (r Role) String() string {
	if r < 0 || int(r) >= len(roleNames) {
		return roleNames[NoRole]
	}
	return roleNames[r]
}

// ParseRole returns the role with a name.
func ParseRole(name string) (Role, error) {
	for r, n := range roleNames {
		if n == name && Role(r) != NoRole {
			return Role(r), nil
		}
	}
	return NoRole, fmt.Errorf("%q is no role; there are %s", name, strings.Join(RoleNames(), ", "))
}

func (r Role) uri() *url.URL {
	return keyfiles.RoleURI(r.String())
}

// RoleOf returns the role in a certificate. It returns NoRole and an error for a certificate with several roles, with
// an unknown role, or of a server.
func RoleOf(cert *x509.Certificate) (Role, error) {
	if err := keyfiles.CheckClient(cert); err != nil {
		return NoRole, err
	}
	role := NoRole
	for _, u := range cert.URIs {
		name, ok := keyfiles.RoleIn(u)
		if !ok {
			continue
		}
		if role != NoRole {
			return NoRole, errors.New("the certificate contains more than one role")
		}
		var err error
		if role, err = ParseRole(name); err != nil {
			return NoRole, fmt.Errorf("the certificate's role: %w", err)
		}
	}
	if role == NoRole {
		return NoRole, errors.New(`the certificate contains no role: it requires a URI such as "acphost:role:viewer" among its alternative names`)
	}
	return role, nil
}

// RightsOf returns the role in a certificate, as RoleOf, and the highest role of the callers that its owner may
// represent. NoRole means that it may not represent callers. Only a gateway's certificate may have such a limit, and
// only one.
func RightsOf(cert *x509.Certificate) (role, limit Role, err error) {
	role, err = RoleOf(cert)
	if err != nil {
		return NoRole, NoRole, err
	}
	for _, u := range cert.URIs {
		name, ok := keyfiles.ActsAsIn(u)
		if !ok {
			continue
		}
		if limit != NoRole {
			return NoRole, NoRole, errors.New("the certificate contains the role limit of a gateway more than once")
		}
		if limit, err = ParseRole(name); err != nil {
			return NoRole, NoRole, fmt.Errorf("for whom the certificate's owner may call: %w", err)
		}
		if err := checkActsAs(role, limit); err != nil {
			return NoRole, NoRole, err
		}
	}
	return role, limit, nil
}

// checkActsAs rejects a limit in a certificate that is not a gateway's, and a limit that is not a role of a person.
func checkActsAs(role, limit Role) error {
	switch {
	case limit == NoRole:
		return nil
	case role != Gateway:
		return fmt.Errorf("only a gateway calls for others, and the certificate's role is %s", role)
	case limit > Operator:
		return fmt.Errorf("a gateway calls for people with a role up to viewer, approver or operator, not %s", limit)
	}
	return nil
}
