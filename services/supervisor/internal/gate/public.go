package gate

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/regular"
	"github.com/acphost/acphost/internal/secretname"
)

// maxKeyFile is the longest file, in bytes, that is read for certificates and public keys: collections of authorities have 250 kB.
const maxKeyFile = 1 << 20

// keyNames are the ends of names that say of a file that it holds keys or certificates, and not whether these are private.
var keyNames = []string{".pem", ".key", ".crt", ".cer", ".pub", ".asc"}

// HoldsPublicKeys reports whether a file on this machine holds certificates or public keys and nothing else. Files with other names than
// those of keys are not read. path is absolute and resolved, or empty.
func HoldsPublicKeys(path string) bool {
	if !slices.Contains(keyNames, strings.ToLower(filepath.Ext(path))) {
		return false
	}
	data, err := regular.Read(path, maxKeyFile)
	return err == nil && secretname.Public(data)
}
