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

// The folders that InitSidecar makes below an authority's: the one goes to the sidecar, the other to its supervisor.
const (
	SidecarDir    = "sidecar"
	SupervisorDir = "supervisor"
)

// sidecarUnit is the organizational unit of an authority that is one sidecar's. What such an authority signs may call the
// sidecar past every policy, so it signs for nobody but the sidecar's supervisors.
const sidecarUnit = "sidecar"

// InitSidecar makes what a sidecar and its supervisor show each other, in a folder that is not there yet, or is empty: an
// authority that is this sidecar's alone, the sidecar's certificate, and the supervisor's. name is the handler's, as "fs".
// The folder is there whole or not at all. Keys have mode 0600, the folder 0700. Of Options, Hosts, Days and Now count.
func InitSidecar(dir, name string, o Options) error {
	if err := errors.Join(checkName("handler", name), o.fill()); err != nil {
		return err
	}
	return whole(dir, func(dir string) error {
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

// isSidecars reports whether an authority is one that InitSidecar made.
func (a *authority) isSidecars() bool {
	return slices.Contains(a.cert.Subject.OrganizationalUnit, sidecarUnit)
}

// checkClients refuses to sign for callers of a supervisor what lets them call a sidecar.
func (a *authority) checkClients(dir string) error {
	if a.isSidecars() {
		return fmt.Errorf("%s is the authority of a sidecar: whoever has a certificate of it can call the sidecar past every policy; "+
			`make an authority for a supervisor's callers with "acphost certs init"`, dir)
	}
	return nil
}

// clientTemplate is what is particular to the certificate of a client.
func clientTemplate(name string, uris ...*url.URL) *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{Organization: organization, CommonName: name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		URIs:        uris,
	}
}
