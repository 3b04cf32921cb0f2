// Package secretname recognizes secrets by their names, of variables, options, headers and JSON members, and by the
// forms of values under any name.
//
// All parts of acphost use this package, for the environment of commands, for records and for output. It is a
// heuristic: it has false positives, and misses a secret without a typical form. It does not know command lines or
// JSON. All functions are safe for concurrent use.
package secretname

import (
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/wordset"
)

// Is reports whether a name looks like that of a secret, in any case and with any separators: GITHUB_TOKEN, apiKey,
// --db-password, X-Api-Key, PGPASSWORD. It returns false for the location of a secret (PASSWORD_FILE, SSH_AUTH_SOCK), a
// property of one (TOKEN_TYPE) and a number of a model's tokens (MAX_TOKENS).
func Is(name string) bool {
	ws := words(name)
	if len(ws) == 0 {
		return false
	}
	if name == "KEY" { // the usual spelling of a variable
		return true
	}
	last := ws[len(ws)-1]
	switch {
	case about[last] && !identifies(ws):
		return false
	case name[0] == '-' && len(ws) > 1 && flags[ws[0]]:
		return false
	}
	for i, w := range ws {
		if anywhere(w) && !plainAt(ws, i) {
			return true
		}
		if i+1 < len(ws) && joined[w+"_"+ws[i+1]] && !public(ws) {
			return true
		}
	}
	return ending(ws, last)
}

// Variable reports whether a variable is a secret: by its name, or because its value is one.
func Variable(name, value string) bool { return Is(name) || Value(value) }

// about are the last words of names of locations and properties of secrets.
var about = wordset.Of(`
	file files path paths dir dirs directory folder home sock socket jar fd pid stdin tty store storage
	name names id ids type types kind ttl timeout expiry expires expiration expire age length len size count counts limit limits
	max min budget enabled disabled required require optional supported ready profile user username email region host hostname
	port provider providers issuer audience scope scopes realm helper program command cmd manager method methods mode policy
	format algorithm alg version url uri uris endpoint domain prefix suffix help hint hints regex pattern rule rules status
	parallelism env mount namespace ref label labels field fields column backend plugin prompt usage used remaining callback
	title description example`)

// flags are the first words of boolean options about secrets.
var flags = wordset.Of("no without ask prompt require show hide skip list allow disable enable has is")

// identifies reports whether a name ends in words for a location or an identifier, and is a secret all the same: an
// address that accepts posts without authentication, an id that is half of a key.
func identifies(ws []string) bool {
	if len(ws) < 2 {
		return false
	}
	switch ws[len(ws)-2] + " " + ws[len(ws)-1] {
	case "secret id", "webhook url", "webhook uri", "hook url":
		return true
	case "key id":
		return slices.Contains(ws, "access")
	}
	return false
}

// anywhere reports whether a word makes a name that of a secret at any position.
func anywhere(w string) bool {
	return certain[w] || slices.ContainsFunc(endings, func(end string) bool { return strings.HasSuffix(w, end) })
}

// certain are words that make a name that of a secret, and endings are the ends of such words.
var (
	certain = wordset.Of(`
		secrets tokens passwords passcode credential credentials creds authorization bearer jwt webhook connectionstring connstr`)
	endings = []string{"secret", "token", "password", "passwd", "passphrase", "apikey", "accesskey", "secretkey", "privatekey",
		"authkey", "signingkey", "masterkey", "accountkey", "encryptionkey"}
)

// plainAt reports whether the word at i, which makes most names secret, does not do so here: counts of tokens, and page
// tokens.
func plainAt(ws []string, i int) bool {
	if ws[i] != "token" && ws[i] != "tokens" {
		return false
	}
	return slices.ContainsFunc(ws[:i], func(w string) bool { return counted[w] }) ||
		i+1 < len(ws) && counted[ws[i+1]]
}

// counted are words before tokens that are not secret.
var counted = wordset.Of(`
	max min num total count used input output prompt completion cached cache thinking reasoning page next previous
	continuation cancel cancellation progress sync pad eos bos unk mask stop special budget limit per usage`)

// joined are pairs of words that make a name that of a secret.
var joined = wordset.Of(`
	api_key access_key private_key secret_key account_key master_key signing_key encryption_key license_key deploy_key
	service_key app_key auth_config connection_string auth_header custom_headers otlp_headers traces_headers metrics_headers
	logs_headers op_session bw_session session_cookie session_key client_key shared_key`)

// ending reports whether the last word of a name makes it that of a secret.
func ending(ws []string, last string) bool {
	switch last {
	case "key", "keys":
		return len(ws) > 1 && !public(ws) && !tables[ws[len(ws)-2]]
	case "auth", "cookie", "cookies", "pat", "pats", "pin", "sig", "signature", "pass", "pw", "cred", "dsn", "otp", "totp", "authn":
		return true
	case "pwd":
		return len(ws) > 1 && ws[0] != "old"
	case "compass", "bypass", "askpass", "surpass", "trespass", "overpass", "underpass", "encompass", "multipass":
		return false
	}
	return len(last) > 4 && strings.HasSuffix(last, "pass")
}

// public reports whether a key is a public one.
func public(ws []string) bool {
	return slices.Contains(ws, "public") || slices.Contains(ws, "publishable")
}

// tables are words right before the keys of tables, keyboards and the like.
var tables = wordset.Of(`
	pub primary foreign sort cache partition range hash compose modifier mod shortcut project translation lookup idempotency
	gpg pgp meta object super ctrl arrow row dict json hot group order index map locale message trusted authorized known host
	keyboard up down left right enter escape tab`)

// words splits a name into its words, in lower case: at characters that are not letters or digits, and at camel case.
// It drops digits at the end of a word.
func words(name string) []string {
	var out []string
	start := 0
	add := func(end int) {
		if w := strings.TrimRight(name[start:end], "0123456789"); w != "" {
			out = append(out, strings.ToLower(w))
		}
	}
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case !letter(c) && !digit(c):
			add(i)
			start = i + 1
		case i > start && upper(c) && (lower(name[i-1]) || digit(name[i-1]) && hasLower(name[start:i]) ||
			upper(name[i-1]) && i+1 < len(name) && lower(name[i+1]) && name[i+1] != 's'):
			add(i)
			start = i
		}
	}
	add(len(name))
	return out
}

func letter(c byte) bool { return upper(c) || lower(c) }
func upper(c byte) bool  { return c >= 'A' && c <= 'Z' }
func lower(c byte) bool  { return c >= 'a' && c <= 'z' || c >= 0x80 }
func digit(c byte) bool  { return c >= '0' && c <= '9' }

func hasLower(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r >= 'a' && r <= 'z' })
}
