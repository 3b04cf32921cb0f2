package certs

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"

	"github.com/acphost/acphost/internal/keyfiles"
)

// CallerKeys returns the keys beside a server's own keys that would let their reader call the server: the key of its
// authority and those of its clients, as "acphost certs init" places them. It searches the folders of the server's
// files and their parent folders. Anyone who can read one of them can call with its role. It omits keys of
// other authorities.
func CallerKeys(f Files) []string {
	authority, _ := keyfiles.Read(f.CA)
	var found []string
	for _, dir := range foldersOf(f) {
		if name := filepath.Join(dir, CAKeyFile); isThere(name) {
			if beside, err := keyfiles.Read(filepath.Join(dir, CAFile)); err != nil || bytes.Equal(beside, authority) {
				found = append(found, name)
			}
		}
		entries, _ := os.ReadDir(dir)
		for _, entry := range entries {
			client := ClientFiles(filepath.Join(dir, entry.Name()))
			if isThere(client.Key) && signedBy(client.Cert, authority) {
				found = append(found, client.Key)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// foldersOf returns the folders that may contain keys of callers, by the names of the files and by the targets of
// symbolic links.
func foldersOf(f Files) []string {
	var all []string
	for _, name := range []string{f.Key, f.Cert, f.CA} {
		all = append(all, filepath.Dir(name))
		if real, err := filepath.EvalSymlinks(name); err == nil {
			all = append(all, filepath.Dir(real))
		}
	}
	for _, dir := range slices.Clone(all) {
		all = append(all, filepath.Dir(dir))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// signedBy reports whether a certificate in authority, in PEM, signed the certificate in a file. It returns true if the
// file cannot be read, because its signer is unknown.
func signedBy(name string, authority []byte) bool {
	data, err := keyfiles.Read(name)
	if err != nil {
		return true
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return false
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return false
	}
	for block, rest := pem.Decode(authority); block != nil; block, rest = pem.Decode(rest) {
		if signer, err := x509.ParseCertificate(block.Bytes); err == nil && cert.CheckSignatureFrom(signer) == nil {
			return true
		}
	}
	return false
}

func isThere(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}
