package certs

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
)

// The folders that InitSidecar creates in the folder of an authority: one for the sidecar, the other for its
// supervisor.
const (
	SidecarDir    = "sidecar"
	SupervisorDir = "supervisor"
)

// sidecarUnit is the organizational unit of the authority of a single sidecar. Certificates of such an authority allow
// to call the sidecar without any policy, so it signs only for the sidecar's supervisors.
const sidecarUnit = "sidecar"

// InitSidecar creates the certificates of a sidecar and of its supervisor, in a folder that is missing or empty: an
// authority for this sidecar only, the sidecar's certificate, and the supervisor's. name is the name of the handler,
// such as "fs". After an error, the folder is not created. Keys have mode 0600, the folder 0700. It uses only Hosts,
// Days and Now of Options.
func InitSidecar(dir, name string, o Options) error {
	if err := errors.Join(checkName("handler", name), o.fill()); err != nil {
		return err
	}
	return createFolder(dir, func(dir string) error {
		a, err := newAuthority(pkix.Name{Organization: organization, OrganizationalUnit: []string{sidecarUnit}, CommonName: "sidecar " + name}, o)
		if err != nil {
			return err
		}
		server, err := serverTemplate(name, o)
		if err != nil {
			return err
		}
		return errors.Join(a.write(dir),
			a.folder(filepath.Join(dir, SidecarDir), ServerFiles, server, o),
			a.folder(filepath.Join(dir, SupervisorDir), ClientFiles, clientTemplate(name+"-supervisor"), o))
	})
}

// isSidecars reports whether InitSidecar created an authority.
func (a *authority) isSidecars() bool {
	return slices.Contains(a.cert.Subject.OrganizationalUnit, sidecarUnit)
}

// checkClients rejects the authority of a sidecar, whose certificates would let callers of a supervisor call the
// sidecar.
func (a *authority) checkClients(dir string) error {
	if a.isSidecars() {
		return fmt.Errorf("%s is the authority of a sidecar: every owner of its certificates can call the sidecar past every policy; "+
			`make an authority for a supervisor's callers with "acphost certs init"`, dir)
	}
	return nil
}

// clientTemplate returns the template of a client's certificate.
func clientTemplate(name string, uris ...*url.URL) *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{Organization: organization, CommonName: name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		URIs:        uris,
	}
}
