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

// CallerKeys returns the keys that lie about a server's own and by which somebody could be its caller: that of its
// authority and those of its clients, as "acphost certs init" lays them out. It looks into the folders of the server's
// files and into those above them. Whoever reads one of them calls with the role that it gives. Keys that cannot be
// the authority's, or whose certificates are another one's, are left out.
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

// foldersOf are those that keys of callers may lie in, by the names of the files and by where those lead.
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

// signedBy reports whether one of the certificates in PEM signed that in a file. A file that cannot be read counts as
// signed: what it is cannot be told.
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
