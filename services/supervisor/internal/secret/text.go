package secret

import (
	"regexp"
	"slices"
	"strings"
)

// Env redacts variables, "NAME=VALUE".
func Env(variables []string) {
	for i, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		if Name(name) && worthHiding(name, value) {
			variables[i] = name + "=" + Redacted
		} else {
			variables[i] = Text(v)
		}
	}
}

// Argv redacts "--token=VALUE", "--token VALUE" and what Text finds in each argument.
func Argv(argv []string) {
	before := ""
	for i, arg := range argv {
		argv[i] = Word(before, arg)
		before = arg
	}
}

// Word redacts an argument that stands behind another.
func Word(before, arg string) string {
	if secretOption(before) && worthHiding(before, arg) && !strings.HasPrefix(arg, "-") {
		return Redacted
	}
	if (before == "-u" || before == "--user") && !strings.Contains(arg, "://") {
		if user, password, ok := strings.Cut(arg, ":"); ok && password != "" {
			return user + ":" + Redacted
		}
	}
	if name, value, ok := strings.Cut(arg, "="); ok && simpleName.MatchString(name) && Name(name) && worthHiding(name, value) {
		return name + "=" + Redacted // whole, blanks and all
	}
	return Text(arg)
}

func secretOption(word string) bool {
	return len(word) > 2 && word[0] == '-' && !strings.Contains(word, "=") && simpleName.MatchString(word) && Name(word)
}

// Text redacts what stands in free text, such as a command line.
func Text(s string) string {
	if !suspicious(s) {
		return s
	}
	s = pemKey.ReplaceAllString(s, Redacted)
	s = urlPassword.ReplaceAllString(s, "${1}"+Redacted+"@")
	s = authorization.ReplaceAllString(s, "${1}"+Redacted)
	s = bearer.ReplaceAllString(s, "${1}"+Redacted)
	s = replaceNamed(assigned, s, Name)
	s = replaceNamed(stated, s, func(name string) bool {
		return secretPart.MatchString(name) && Name(name) && !strings.HasSuffix(strings.ToLower(name), "authorization")
	})
	s = replaceNamed(option, s, Name)
	s = userPassword.ReplaceAllString(s, "${1}"+Redacted)
	return knownForm.ReplaceAllString(s, Redacted)
}

// replaceNamed redacts the value, the third group, of each match whose name, the first, is that of a secret.
func replaceNamed(pattern *regexp.Regexp, s string, secret func(string) bool) string {
	matches := pattern.FindAllStringSubmatchIndex(s, -1)
	if matches == nil {
		return s
	}
	var b strings.Builder
	last := 0
	for _, m := range matches {
		name, value := s[m[2]:m[3]], s[m[6]:m[7]]
		if !secret(name) || !worthHiding(name, strings.Trim(value, `'"`)) {
			continue
		}
		b.WriteString(s[last:m[6]])
		if q := value[:1]; len(value) > 1 && (q == `'` || q == `"`) {
			b.WriteString(q + Redacted + q)
		} else {
			b.WriteString(Redacted)
		}
		last = m[7]
	}
	b.WriteString(s[last:])
	return b.String()
}

// suspicious is a quick look for anything that the patterns may find, so that most text is not searched at all.
func suspicious(s string) bool {
	if s == "" {
		return false
	}
	lower := strings.ToLower(s)
	return slices.ContainsFunc(hints, func(hint string) bool { return strings.Contains(lower, hint) })
}

// hints are in lower case. Every pattern needs one of them.
var hints = []string{
	"secret", "token", "passw", "passphrase", "credential", "key", "auth", "bearer", "://", "pat=", "pwd=", "pin=",
	"cookie", "sig=", "signature=", "-u", "sk-", "k_live", "k_test", "ghp_", "gho_", "ghu_", "ghs_", "ghr_",
	"github_pat_", "glpat-", "xox", "akia", "asia", "aiza", "npm_", "hf_", "eyj",
}

var (
	pemKey        = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----(?s:.*?)(-----END [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----|$)`)
	urlPassword   = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://(?:[^/\s:@'"]*:))[^/\s@'"]+@`)
	authorization = regexp.MustCompile(`(?i)(authorization["']?\s*[:=]\s*["']?(?:(?:bearer|basic|token|digest|negotiate)\s+)?)[^\s'"\\,;]+`)
	bearer        = regexp.MustCompile(`(?i)(\bbearer\s+)[A-Za-z0-9._~+/=-]{6,}`)
	userPassword  = regexp.MustCompile(`((?:^|\s)(?:-u|--user)[\s=]+["']?[^\s:'"/]+:)[^\s'"]+`)
	assigned      = regexp.MustCompile(`([A-Za-z_-][A-Za-z0-9_.-]*)(=)("[^"]*"|'[^']*'|[^\s'"&;|,)]+)`)
	stated        = regexp.MustCompile(`([A-Za-z_-][A-Za-z0-9_.-]*)(["']?\s*:\s*)("[^"]*"|'[^']*'|[^\s'"&;|,)}]+)`)
	option        = regexp.MustCompile(`(--?[A-Za-z][A-Za-z0-9_.-]*)(\s+)("[^"]*"|'[^']*'|[^-\s'"&;|][^\s'"&;|]*)`)
	knownForm     = regexp.MustCompile(`\b(?:sk-[A-Za-z0-9_-]{12,}|[rs]k_(?:live|test)_[A-Za-z0-9]{8,}|gh[pousr]_[A-Za-z0-9]{8,}|github_pat_[A-Za-z0-9_]{8,}|glpat-[A-Za-z0-9_-]{8,}|xox[abeprs]-[A-Za-z0-9-]{8,}|(?:AKIA|ASIA)[0-9A-Z]{12,}|AIza[0-9A-Za-z_-]{20,}|npm_[A-Za-z0-9]{20,}|hf_[A-Za-z0-9]{20,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)`)
)
