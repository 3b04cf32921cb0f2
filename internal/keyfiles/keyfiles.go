// Package keyfiles reads the PEM files with which one end of a TLS connection authenticates itself and verifies the
// other end.
//
// It knows files and TLS. It must not know who makes the files, or the rights of a certificate's owner.
package keyfiles

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/acphost/acphost/internal/regular"
)

// The names of the files in a client's folder, as "acphost certs init" makes it.
const (
	CAFile        = "ca.crt"
	ClientFile    = "client.crt"
	ClientKeyFile = "client.key"
)

// Files are the PEM files of one end of a connection.
type Files struct {
	// CA is the authority that verifies the other end's certificate.
	CA string
	// Cert is this end's certificate, with the intermediate certificates.
	Cert string
	// Key is the private key of Cert. Only its owner may read it.
	Key string
}

// ClientFiles returns the files of a client's folder.
func ClientFiles(dir string) Files {
	return Files{CA: filepath.Join(dir, CAFile), Cert: filepath.Join(dir, ClientFile), Key: filepath.Join(dir, ClientKeyFile)}
}

// Client returns a client's configuration for a server whose certificate the authority signed: TLS 1.3 and HTTP/2. host
// is the name or address that the server's certificate must contain. An error names the unusable file and the reason.
func (f Files) Client(host string) (*tls.Config, error) {
	pool, pair, err := f.Load(time.Now())
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, ServerName: host, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}}, nil
}

// Load reads the files. It returns an error if other users can read the key, and if the certificate is not valid at the
// time now.
func (f Files) Load(now time.Time) (*x509.CertPool, tls.Certificate, error) {
	none := tls.Certificate{}
	pool, pair, err := f.read(ReadPrivate)
	if err != nil {
		return nil, none, err
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return nil, none, fmt.Errorf("the certificate %s: %w", f.Cert, err)
		}
	}
	switch {
	case now.After(pair.Leaf.NotAfter):
		return nil, none, fmt.Errorf("the certificate %s expired on %s; \"acphost certs renew DIR\" makes a new one in the folder DIR of its authority", f.Cert, pair.Leaf.NotAfter.Format(time.DateOnly))
	case now.Before(pair.Leaf.NotBefore):
		return nil, none, fmt.Errorf("the certificate %s is not valid before %s; is the clock right?", f.Cert, pair.Leaf.NotBefore.Format(time.DateTime))
	}
	return pool, pair, nil
}

// Pair reads the files like Load, but does not check who can read the key or when the certificate is valid: it is for
// keys that an operator made with other tools. An error names the unusable file and the reason.
func (f Files) Pair() (*x509.CertPool, tls.Certificate, error) { return f.read(Read) }

func (f Files) read(readKey func(name string) ([]byte, error)) (*x509.CertPool, tls.Certificate, error) {
	none := tls.Certificate{}
	authority, err := Read(f.CA)
	if err != nil {
		return nil, none, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, none, fmt.Errorf("%s holds no certificate in PEM", f.CA)
	}
	cert, err := Read(f.Cert)
	if err != nil {
		return nil, none, err
	}
	key, err := readKey(f.Key)
	if err != nil {
		return nil, none, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, none, fmt.Errorf("the certificate %s and the key %s: %w", f.Cert, f.Key, err)
	}
	return pool, pair, nil
}

// Read returns the content of a regular file of at most 1 MiB. The error wraps fs.ErrNotExist if the file is missing.
func Read(name string) ([]byte, error) {
	return readIf(name, func(fs.FileInfo) error { return nil })
}

// ReadPrivate is Read for a file that only its owner can read. It rejects other files.
func ReadPrivate(name string) ([]byte, error) {
	return readIf(name, func(info fs.FileInfo) error {
		if forOthers(info) {
			return fmt.Errorf("the key %s is open to others (mode %04o); chmod 0600 %s, and make a new one if another user may have read it", name, info.Mode().Perm(), name)
		}
		return nil
	})
}

// maxFileBytes is the limit of a key file.
const maxFileBytes = 1 << 20

func readIf(name string, accept func(fs.FileInfo) error) ([]byte, error) {
	if name == "" {
		return nil, errors.New("ca, cert and key: all three files are needed")
	}
	data, err := regular.ReadIf(name, maxFileBytes, accept)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, missingError(name)
	}
	return data, err
}

// missingError is the name of a missing file.
type missingError string

func (e missingError) Error() string {
	if name, err := filepath.Abs(string(e)); err == nil {
		return "there is no file " + name
	}
	return "there is no file " + string(e)
}

func (missingError) Is(target error) bool { return target == fs.ErrNotExist }
