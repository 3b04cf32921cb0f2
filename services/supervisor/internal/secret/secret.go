// Package secret removes secrets from records and displayed data: the audit log, the frames of the journal, and the
// frames for watchers.
//
// It knows a secret by the name beside it, or by its look. So it removes more than it must, and misses a secret that looks
// like ordinary text. It knows ACP's messages as far as they carry keys. It writes nothing, and never changes what goes over
// the wire.
package secret

import (
	"strings"

	"github.com/acphost/acphost/internal/secretname"
)

// Redacted stands in place of a secret.
const Redacted = "[redacted]"

// Name reports whether a name looks like that of a secret; see secretname.Is.
func Name(name string) bool { return secretname.Is(name) }

// worthHiding reports whether a value can be a secret: a variable's name is none, nor is a count of tokens.
func worthHiding(name, value string) bool {
	switch {
	case value == "" || strings.HasPrefix(value, Redacted) || strings.HasPrefix(value, "$"):
		return false
	case strings.HasSuffix(strings.ToLower(name), "tokens") && strings.Trim(value, "0123456789") == "":
		return false
	}
	return true
}
