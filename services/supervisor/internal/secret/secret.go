// Package secret takes secrets out of what is kept and shown: out of the record of decisions, and out of the frames that go
// to the journal and to those who watch.
//
// It goes by names and by looks, so it takes more than it must, and cannot know a secret that looks like nothing. It knows
// ACP's messages as far as they carry keys. It writes nothing, and never touches what goes over the wire.
package secret

import (
	"regexp"
	"strings"
)

// Redacted stands in place of a secret.
const Redacted = "[redacted]"

// Name reports whether a name looks like that of a secret, however it is cased: GITHUB_TOKEN, apiKey, --password.
func Name(name string) bool {
	name = wordBreak.ReplaceAllString(strings.TrimLeft(name, "-"), "${1}_${2}")
	return (secretPart.MatchString(name) || secretWord.MatchString(name)) && !secretPlace.MatchString(name)
}

// worthHiding reports whether a value can be a secret: a variable's name is none, nor is a count of tokens.
func worthHiding(name, value string) bool {
	switch {
	case value == "" || value == Redacted || strings.HasPrefix(value, "$"):
		return false
	case strings.HasSuffix(strings.ToLower(name), "tokens") && strings.Trim(value, "0123456789") == "":
		return false
	}
	return true
}

var (
	secretPart  = regexp.MustCompile(`(?i)secret|token|passw|passphrase|credential|api[-_]?key|private[-_]?key|authorization`)
	secretWord  = regexp.MustCompile(`(?i)[_.-](key|keys)$|(^|[_.-])(auth|bearer|cookie|pat|passwd|pin|sig|signature)$|[_.-]pwd$`)
	secretPlace = regexp.MustCompile(`(?i)[_.-](file|path|dir|sock)$`)
	wordBreak   = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	simpleName  = regexp.MustCompile(`^-{0,2}[A-Za-z_][A-Za-z0-9_.-]*$`)
)
