package secretname

import (
	"strings"
	"unicode/utf8"

	"github.com/acphost/acphost/internal/lazyregexp"
)

// npmReference matches a value that npm replaces by a variable.
var npmReference = lazyregexp.New(`^\$\{[A-Za-z0-9_]+\??\}$`)

// PlainNPMConfig reports whether a text is a configuration of npm (".npmrc") without credentials: no token, password or
// key with a literal value, and no long value that may be a key. References to variables ("${NPM_TOKEN}") are not
// credentials.
func PlainNPMConfig(data []byte) bool {
	text := string(data)
	if !utf8.ValidString(text) || Replace(text, "") != text {
		return false
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if hasLongValue(line) {
			return false
		}
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") || strings.HasPrefix(line, "[") {
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		key = strings.ToLower(strings.TrimSuffix(strings.TrimSpace(key), "[]"))
		key = key[strings.LastIndex(key, ":")+1:] // "//registry.example.org/:_authToken"
		switch key {
		case "_auth", "_authtoken", "_password", "_token", "username", "email", "key", "otp":
			if !npmReference.MatchString(strings.Trim(strings.TrimSpace(value), `"'`)) {
				return false
			}
		}
	}
	return true
}
