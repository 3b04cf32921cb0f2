package secretfile

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"strings"

	"github.com/acphost/acphost/internal/lazyregexp"
)

// minKey is the number of base64 characters that a private key has at least. An Ed25519 key in PKCS #8 has 64.
const minKey = 48

var (
	// privateHeader matches the first line of a private key in PEM, OpenPGP and SSH2 form, wherever a text has it.
	privateHeader = lazyregexp.New(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----|---- BEGIN [A-Z0-9 ]*PRIVATE KEY ----`)
	base64Word    = lazyregexp.New(`^[A-Za-z0-9+/]+={0,2}$`)
	// ageKey matches an identity of age.
	ageKey = lazyregexp.New(`AGE-SECRET-KEY-(?:PQ-)?1[0-9A-Z]{50,}`)
	// jwkPrivate matches the private member of a JSON Web Key: the exponent or scalar "d", or the symmetric key "k".
	jwkPrivate = lazyregexp.New(`"[dk]"\s*:\s*"[A-Za-z0-9_-]{32,}={0,2}"`)
	// gnupgKey matches a file of GnuPG's private-keys-v1.d, in its old and its present form.
	gnupgKey = lazyregexp.New(`^\((11:private-key|21:protected-private-key)|(?m)^Key: \((protected-)?private-key`)
	// wireguardKey matches a private key in a configuration of WireGuard.
	wireguardKey = lazyregexp.New(`(?m)^[ \t]*PrivateKey[ \t]*=[ \t]*[A-Za-z0-9+/]{43}=[ \t\r]*$`)
)

// holdsKey reports whether content holds a private key in a well-known form. complete is as for Judge.
func holdsKey(content []byte, complete bool) bool {
	if isKeystore(content) {
		return !complete || !isPublicKeystore(content)
	}
	return hasPrivateBlock(content) || hasKeyText(content) || isBinaryKey(content)
}

// hasPrivateBlock reports whether a text contains a private key in PEM, OpenPGP or SSH2 form: the header and, behind
// it, enough of the key. So a header in a program's source, or a template without a key, does not count.
func hasPrivateBlock(content []byte) bool {
	for bytes.Contains(content, []byte("PRIVATE KEY")) {
		at := privateHeader.FindIndex(content)
		if at == nil {
			return false
		}
		content = content[at[1]:]
		if keyLength(content[:min(len(content), 4096)]) >= minKey {
			return true
		}
	}
	return false
}

// keyLength returns the number of base64 characters that follow the header of a key, without other text between them.
// The lines may be indented, quoted, commented out, or separated by "\n" in a string.
func keyLength(body []byte) int {
	text := strings.NewReplacer(`\r`, "\n", `\n`, "\n").Replace(string(body))
	n := 0
	for line := range strings.Lines(text) {
		if strings.Contains(line, ": ") { // "Proc-Type: 4,ENCRYPTED", "Version: GnuPG v2"
			continue
		}
		for word := range strings.FieldsSeq(line) {
			word = strings.Trim(word, "\"'`,;>#*\\|")
			if word == "" || word == "+" || word == "//" {
				continue
			}
			if !base64Word.MatchString(word) {
				return n
			}
			n += len(word)
		}
	}
	return n
}

// hasKeyText reports whether a text holds a private key in another form of text.
func hasKeyText(content []byte) bool {
	if gnupgKey.Match(content) {
		return true
	}
	first, _, _ := bytes.Cut(content, []byte("\n"))
	switch {
	case bytes.HasPrefix(content, []byte("PuTTY-User-Key-File-")):
		return bytes.Contains(content, []byte("\nPrivate-Lines:"))
	case bytes.HasPrefix(first, []byte("untrusted comment:")): // signify, minisign
		return bytes.Contains(first, []byte("secret key"))
	case bytes.Contains(content, []byte(`"kty"`)):
		return jwkPrivate.Match(content)
	}
	return bytes.Contains(content, []byte("AGE-SECRET-KEY-")) && ageKey.Match(content) ||
		bytes.Contains(content, []byte("PrivateKey")) && wireguardKey.Match(content)
}

// isBinaryKey reports whether content is a private key in DER form (PKCS #1, PKCS #8, SEC 1, encrypted PKCS #8), or
// begins with a secret key of OpenPGP.
func isBinaryKey(content []byte) bool {
	if len(content) < 32 {
		return false
	}
	if content[0] != 0x30 {
		return isOpenPGPSecret(content)
	}
	if _, err := x509.ParsePKCS8PrivateKey(content); err == nil {
		return true
	}
	if _, err := x509.ParsePKCS1PrivateKey(content); err == nil {
		return true
	}
	if _, err := x509.ParseECPrivateKey(content); err == nil {
		return true
	}
	var encrypted struct {
		Algorithm pkix.AlgorithmIdentifier
		Data      []byte
	}
	rest, err := asn1.Unmarshal(content, &encrypted)
	return err == nil && len(rest) == 0 && (hasPrefix(encrypted.Algorithm.Algorithm, 1, 2, 840, 113549, 1, 5) ||
		hasPrefix(encrypted.Algorithm.Algorithm, 1, 2, 840, 113549, 1, 12, 1))
}

func hasPrefix(id asn1.ObjectIdentifier, prefix ...int) bool {
	return len(id) >= len(prefix) && id[:len(prefix)].Equal(prefix)
}

// isOpenPGPSecret reports whether content begins with a secret key packet of OpenPGP (tag 5), of a known version and
// algorithm.
func isOpenPGPSecret(content []byte) bool {
	var body []byte
	switch content[0] {
	case 0x94, 0x95, 0x96: // old format, with a length of 1, 2 or 4 bytes
		body = content[1+1<<(content[0]&3):]
	case 0xc5: // new format
		switch n := content[1]; {
		case n < 192:
			body = content[2:]
		case n < 224:
			body = content[3:]
		case n == 255:
			body = content[6:]
		}
	}
	if len(body) < 6 || body[0] < 4 || body[0] > 6 {
		return false
	}
	switch algorithm := body[5]; algorithm {
	case 1, 2, 3, 16, 17, 18, 19, 22, 25, 26, 27, 28:
		return true
	}
	return false
}
