package certs

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Renew makes new keys, and certificates that say the same, for the server or the sidecar of the authority in a folder and
// for the clients whose folders still lie in it. They take the place of the old ones, which stay valid for as long as they say. It returns
// the certificates that were made, also where it fails half way; calling it again is then right. Of Options, Days and Now
// count. If root calls it, the new files have the owners of the old ones, because the programs that read them run as these users.
func Renew(dir string, o Options) (renewed []string, err error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	a, err := openAuthority(dir)
	if err != nil {
		return nil, err
	}
	// A supervisor's own, which an older acphost put beside the authority's, or a sidecar's.
	pairs := []Files{ServerFiles(filepath.Join(dir, ServerDir)), ServerFiles(dir), ServerFiles(filepath.Join(dir, SidecarDir))}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if files := ClientFiles(filepath.Join(dir, entry.Name())); entry.IsDir() && entry.Name() != ServerDir && clientName.MatchString(entry.Name()) {
			pairs = append(pairs, files)
		}
	}
	for _, files := range pairs {
		switch err := a.renew(files, o); {
		case err == nil:
			renewed = append(renewed, files.Cert)
		case errors.Is(err, fs.ErrNotExist): // it was taken away
		default:
			return renewed, err
		}
	}
	if len(renewed) == 0 {
		return nil, fmt.Errorf("%s holds no certificates to renew", dir)
	}
	return renewed, nil
}

// renew replaces one key and its certificate.
func (a *authority) renew(files Files, o Options) error {
	old, err := readCert(files.Cert)
	if err != nil {
		return err
	}
	if err := old.CheckSignatureFrom(a.cert); err != nil {
		return fmt.Errorf("%s is not of this authority: %w", files.Cert, err)
	}
	template := &x509.Certificate{
		Subject: old.Subject, ExtKeyUsage: old.ExtKeyUsage, URIs: old.URIs, DNSNames: old.DNSNames, IPAddresses: old.IPAddresses,
	}
	made, err := os.MkdirTemp(filepath.Dir(files.Cert), ".renew-*") // 0700
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(made) }()
	cert, key := filepath.Join(made, "crt"), filepath.Join(made, "key")
	if err := a.issue(template, o.Now, o.Days, cert, key); err != nil {
		return err
	}
	if err := errors.Join(keepOwner(files.Key, key), keepOwner(files.Cert, cert)); err != nil {
		return err
	}
	// Between the two there is a key without its certificate. A server that looks then goes on with what it has.
	return errors.Join(os.Rename(key, files.Key), os.Rename(cert, files.Cert))
}

// keepOwner gives the file made the owner and the group of the file old. Only root can do so: for other users it does nothing.
func keepOwner(old, made string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(old)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("read the owner of %s: %w", old, errors.ErrUnsupported)
	}
	return os.Chown(made, int(owner.Uid), int(owner.Gid))
}
