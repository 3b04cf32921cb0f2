// Package certs creates and parses the certificates of callers over the network. The operator has an authority of their
// own, and a certificate says which role its owner has.
//
// The package makes the authority and the certificates, reads a role from a certificate, and loads a server's certificate
// again when its file changes. It knows files and TLS. It must not know which calls a role may make.
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

// Role is what the owner of a certificate may do.
type Role int

// The roles.
const (
	// NoRole is that of a certificate that says none.
	NoRole Role = iota
	// Viewer sees everything and changes nothing.
	Viewer
	// Approver answers questions too.
	Approver
	// Operator does everything.
	Operator
	// Gateway carries the frames of clients elsewhere, and nothing else: it does not even see what a Viewer sees. Its certificate
	// may say that it calls for others too, up to a role; see RightsOf.
	Gateway
	// Metrics reads the metrics, and nothing else: it reaches no other service.
	Metrics
)

var roleNames = [...]string{NoRole: "none", Viewer: "viewer", Approver: "approver", Operator: "operator", Gateway: "gateway", Metrics: "metrics"}

// May reports whether a role may do what another one is needed for. A greater role may do all that a lesser one may, but
// for the gateway's and that for metrics, which are beside the others.
func (r Role) May(need Role) bool {
	switch {
	case r == need, r == Operator, need == NoRole:
		return true
	case r >= Gateway, need >= Gateway:
		return false
	}
	return r > need
}

// RoleNames are the roles that a certificate can have, the least first, and then those that are beside them.
func RoleNames() []string { return slices.Clone(roleNames[Viewer:]) }

// String is the role's name: "viewer".
func (r Role) String() string {
	if r < 0 || int(r) >= len(roleNames) {
		return roleNames[NoRole]
	}
	return roleNames[r]
}

// ParseRole is the role of a name.
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

// RoleOf is the role that a certificate says. One that says several, one that is not known, or that is
// no client's, has none, and the error says so.
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
			return NoRole, errors.New("the certificate says more than one role")
		}
		var err error
		if role, err = ParseRole(name); err != nil {
			return NoRole, fmt.Errorf("the certificate's role: %w", err)
		}
	}
	if role == NoRole {
		return NoRole, errors.New(`the certificate says no role: it takes a URI such as "acphost:role:viewer" among its alternative names`)
	}
	return role, nil
}

// RightsOf is the role that a certificate says, as RoleOf, and the greatest role of those for whom its owner may call; NoRole:
// it may call for nobody. Only a gateway's certificate may say one, and only once.
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
			return NoRole, NoRole, errors.New("the certificate says more than once for whom its owner may call")
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

// checkActsAs refuses a certificate whose owner may call for others and is no gateway, and others who are no people.
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
