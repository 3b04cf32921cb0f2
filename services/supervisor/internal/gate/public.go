package gate

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/regular"
	"github.com/acphost/acphost/internal/secretname"
)

// maxKeyFile is the maximum size in bytes of a file that is read: collections of certificate authorities have 250 kB.
const maxKeyFile = 1 << 20

// keyNames are the ends of names that say of a file that it holds keys or certificates, and not whether these are
// private.
var keyNames = []string{".pem", ".key", ".crt", ".cer", ".pub", ".asc"}

// HoldsNoSecret reports whether a file on this machine has a name of files with secrets, and holds none: only
// certificates or public keys, or the configuration of npm without credentials. In a folder ".ssh" every name counts.
// Files with other names are not read. path is absolute and resolved, or empty.
func HoldsNoSecret(path string) bool {
	isPlain := secretname.Public
	switch {
	case filepath.Base(path) == ".npmrc":
		isPlain = secretname.PlainNPMConfig
	case filepath.Base(filepath.Dir(path)) == ".ssh":
	case !slices.Contains(keyNames, strings.ToLower(filepath.Ext(path))):
		return false
	}
	data, err := regular.Read(path, maxKeyFile)
	return err == nil && isPlain(data)
}
