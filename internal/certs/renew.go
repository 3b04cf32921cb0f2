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

// Renew creates new keys and certificates with the same contents, for the server or the sidecar of the authority in a
// folder and for the clients whose folders are still in it. They replace the old ones, which remain valid until they
// expire. It returns the certificates that it created, also with an error; it can be called again then. It uses only
// Days and Now of Options. If root calls it, the new files have the owners of the old ones, because the programs that
// read them run as these users.
func Renew(dir string, o Options) (renewed []string, err error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	a, err := openAuthority(dir)
	if err != nil {
		return nil, err
	}
	// The files of a supervisor, which older versions of acphost put into the folder of the authority, or of a sidecar.
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
		case errors.Is(err, fs.ErrNotExist): // the folder was removed
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
	// Between the two renames, the key does not fit the certificate. A server that reads the files then keeps its
	// current ones.
	return errors.Join(os.Rename(key, files.Key), os.Rename(cert, files.Cert))
}

// keepOwner gives the file made the owner and the group of the file old. It does nothing for users other than root, who
// cannot change owners.
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
