// Package secret removes secrets from records and displayed data: the audit log, the frames of the journal, and the
// frames for watchers.
//
// It finds a secret by the name beside it, or by its form. So it removes more than it must, and misses a secret that
// looks like ordinary text. It knows the messages of ACP that may contain keys. It writes no records, and never changes
// messages on the wire.
package secret

import (
	"strings"

	"github.com/acphost/acphost/internal/secretname"
)

// Redacted replaces a secret.
const Redacted = "[redacted]"

// Name reports whether a name looks like the name of a secret; see secretname.Is.
func Name(name string) bool { return secretname.Is(name) }

// mayBeSecret reports whether a value can be a secret. The name of a variable and a number of tokens cannot.
func mayBeSecret(name, value string) bool {
	switch {
	case value == "" || strings.HasPrefix(value, Redacted) || strings.HasPrefix(value, "$"):
		return false
	case strings.HasSuffix(strings.ToLower(name), "tokens") && strings.Trim(value, "0123456789") == "":
		return false
	}
	return true
}
