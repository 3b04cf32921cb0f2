package secretfile

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/acphost/acphost/internal/lazyregexp"
	"github.com/acphost/acphost/internal/secretname"
	"github.com/acphost/acphost/internal/wordset"
)

var (
	// publicBlocks are the labels of PEM blocks that are not secret.
	publicBlocks = wordset.Of(`CERTIFICATE X509_CERTIFICATE TRUSTED_CERTIFICATE CERTIFICATE_REQUEST NEW_CERTIFICATE_REQUEST X509_CRL
		PUBLIC_KEY RSA_PUBLIC_KEY DSA_PUBLIC_KEY PGP_PUBLIC_KEY_BLOCK DH_PARAMETERS DSA_PARAMETERS EC_PARAMETERS`)
	blockBegins = lazyregexp.New(`^-----BEGIN ([A-Z0-9 ]+)-----$`)
	blockLine   = lazyregexp.New(`^([A-Za-z0-9+/]*={0,2}|=[A-Za-z0-9+/]{4}|[A-Za-z-]+: .*)$`)
	// sshPublicKey matches a line of a file of public keys. Before the key can be a marker, the hosts or signers to which
	// it belongs, and options of signers. Options that hold commands or variables do not match.
	sshPublicKey = lazyregexp.New(`^((?:(?:\|1\|[^ ]+|[^ =]+|(?:,?(?:namespaces|valid-(?:after|before))="?[\w.,:@*-]*"?)+) ){0,3})` +
		`(?:ssh|ecdsa|sk-ssh|sk-ecdsa)-[a-z0-9@.-]+ [A-Za-z0-9+/]+={0,2}( [^ ].*)?$`)
	longValue = lazyregexp.New(`[A-Za-z0-9+/]{31,}`)
	// serial matches the serial number of a certificate, which has at most 20 bytes, in decimal digits.
	serial = lazyregexp.New(`^[0-9]{31,49}$`)
)

// isPublicText reports whether a text consists of certificates, certificate requests, public keys and parameters, in
// the forms of PEM, OpenPGP and OpenSSH, with comments between them that contain no secret. It returns false for a
// text without any of these, for binary data, and for an incomplete block.
func isPublicText(data []byte) bool {
	if !utf8.Valid(data) {
		return false
	}
	found, within := false, ""
	var comments strings.Builder
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		key := publicKeyOf(line)
		begins := blockBegins.FindStringSubmatch(line)
		switch {
		case within != "":
			if line == "-----END "+within+"-----" {
				found, within = true, ""
			} else if !blockLine.MatchString(line) || strings.Contains(line, "PRIVATE") {
				return false
			}
		case begins != nil && publicBlocks[strings.ReplaceAll(begins[1], " ", "_")]:
			within = begins[1]
		case key != nil:
			found = true
			comments.WriteString(key[1] + "\n")
		case strings.Contains(line, "-----") && strings.Contains(line, "BEGIN"), strings.Contains(line, "PRIVATE"), hasLongValue(line):
			return false
		default:
			comments.WriteString(line + "\n")
		}
	}
	text := comments.String()
	return found && within == "" && secretname.Replace(text, "") == text
}

// publicKeyOf returns the match of sshPublicKey; nil: the line has no public key, or a value before it that may be a key.
func publicKeyOf(line string) []string {
	key := sshPublicKey.FindStringSubmatch(line)
	if key == nil || hasLongValue(key[1]) {
		return nil
	}
	return key
}

// hasLongValue reports whether a line contains a value that may be a key. A path is none: it has slashes, and not all
// kinds of characters.
func hasLongValue(line string) bool {
	return slices.ContainsFunc(longValue.FindAllString(line, -1), func(value string) bool {
		mixed := strings.ContainsAny(value, "0123456789") &&
			strings.ToLower(value) != value && strings.ToUpper(value) != value
		return !serial.MatchString(value) && (mixed || !strings.Contains(value, "/"))
	})
}
