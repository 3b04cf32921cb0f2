package audit

import (
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// redacted stands in place of a secret.
const redacted = "[redacted]"

// redact takes out of a record what looks like a secret: by the name that it has, or by its own form. It goes by looks,
// so it takes more than it must and cannot know a secret that looks like nothing. What names a command, its options and
// its files stays: a policy judges by that.
func redact(r *supervisorv1.AuditRecord) {
	r.Reason = redactText(r.GetReason())
	a := r.GetAction()
	if a == nil {
		return
	}
	a.Title = redactText(a.GetTitle())
	if len(a.GetRawInput()) >= MaxLine {
		dropRawInput(a) // it would not fit
	}
	a.RawInput = redactJSON(a.GetRawInput())
	c := a.GetCommand()
	if c == nil {
		return
	}
	c.Text = redactText(c.GetText())
	redactArgv(c.GetArgv())
	redactEach(c.GetEnv())
	for _, sub := range c.GetSubCommands() {
		redactArgv(sub.GetArgv())
		redactEach(sub.GetAssignments())
	}
}

// redactEach redacts variables, "NAME=VALUE".
func redactEach(variables []string) {
	for i, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		if secretName(name) && worthHiding(name, value) {
			variables[i] = name + "=" + redacted
		} else {
			variables[i] = redactText(v)
		}
	}
}

// redactArgv redacts "--token=VALUE", "--token VALUE" and what redactText finds in each argument.
func redactArgv(argv []string) {
	before := ""
	for i, arg := range argv {
		argv[i] = redactWord(before, arg)
		before = arg
	}
}

// redactWord redacts an argument that stands behind another.
func redactWord(before, arg string) string {
	if secretOption(before) && worthHiding(before, arg) && !strings.HasPrefix(arg, "-") {
		return redacted
	}
	if (before == "-u" || before == "--user") && !strings.Contains(arg, "://") {
		if user, password, ok := strings.Cut(arg, ":"); ok && password != "" {
			return user + ":" + redacted
		}
	}
	if name, value, ok := strings.Cut(arg, "="); ok && simpleName.MatchString(name) && secretName(name) && worthHiding(name, value) {
		return name + "=" + redacted // whole, blanks and all
	}
	return redactText(arg)
}

func secretOption(word string) bool {
	return len(word) > 2 && word[0] == '-' && !strings.Contains(word, "=") && simpleName.MatchString(word) && secretName(word)
}

// redactText redacts what stands in free text, such as a command line.
func redactText(s string) string {
	if !suspicious(s) {
		return s
	}
	s = pemKey.ReplaceAllString(s, redacted)
	s = urlPassword.ReplaceAllString(s, "${1}"+redacted+"@")
	s = authorization.ReplaceAllString(s, "${1}"+redacted)
	s = bearer.ReplaceAllString(s, "${1}"+redacted)
	s = replaceNamed(assigned, s, secretName)
	s = replaceNamed(stated, s, func(name string) bool {
		return secretPart.MatchString(name) && secretName(name) && !strings.HasSuffix(strings.ToLower(name), "authorization")
	})
	s = replaceNamed(option, s, secretName)
	s = userPassword.ReplaceAllString(s, "${1}"+redacted)
	return knownForm.ReplaceAllString(s, redacted)
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
			b.WriteString(q + redacted + q)
		} else {
			b.WriteString(redacted)
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

// secretName reports whether a name looks like that of a secret, however it is cased: GITHUB_TOKEN, apiKey, --password.
func secretName(name string) bool {
	name = wordBreak.ReplaceAllString(strings.TrimLeft(name, "-"), "${1}_${2}")
	return (secretPart.MatchString(name) || secretWord.MatchString(name)) && !secretPlace.MatchString(name)
}

// worthHiding reports whether a value can be a secret: a variable's name is none, nor is a count of tokens.
func worthHiding(name, value string) bool {
	switch {
	case value == "" || value == redacted || strings.HasPrefix(value, "$"):
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

// redactJSON redacts the strings of a JSON value by the names that they have, and by their own form. What is no JSON is
// taken as text.
func redactJSON(raw string) string {
	if !suspicious(raw) && !strings.Contains(raw, `\u`) {
		return raw
	}
	var out strings.Builder
	lenient := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	d := jsontext.NewDecoder(strings.NewReader(raw), lenient...)
	e := jsontext.NewEncoder(&out, lenient...)
	var open []jsonScope
	for {
		token, err := d.ReadToken()
		if err != nil {
			break
		}
		switch token.Kind() {
		case '{', '[':
			inner := jsonScope{secret: len(open) > 0 && open[len(open)-1].hides()}
			open = append(open, inner)
		case '}', ']':
			open = open[:len(open)-1]
		case '"':
			if len(open) > 0 {
				text := token.String()
				if replaced := open[len(open)-1].text(d, text); replaced != text {
					token = jsontext.String(replaced)
				}
			} else {
				token = jsontext.String(redactText(token.String()))
			}
		}
		if err := e.WriteToken(token); err != nil {
			return redactText(raw)
		}
	}
	if len(open) > 0 || out.Len() == 0 || d.InputOffset() < int64(len(strings.TrimRight(raw, " \t\r\n"))) {
		return redactText(raw)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// jsonScope is an object or a list that is being read.
type jsonScope struct {
	secret bool   // all of it is
	name   string // of the member
	named  string // the value of the member "name": {"name": "API_TOKEN", "value": …}
	before string // the string before, in a list
}

// hides tells whether the value that comes next is a secret by its name.
func (s *jsonScope) hides() bool {
	return s.secret || secretName(s.name) || s.name == "value" && secretName(s.named)
}

// text returns a string of the object or list as it may be recorded.
func (s *jsonScope) text(d *jsontext.Decoder, text string) string {
	kind, n := d.StackIndex(d.StackDepth())
	if kind == '{' && n%2 == 1 {
		s.name = text
		return text
	}
	if kind == '[' {
		before := s.before
		s.before = text
		if s.secret && text != "" {
			return redacted
		}
		return redactWord(before, text)
	}
	if s.name == "name" {
		s.named = text
	}
	if s.hides() && worthHiding(s.name, text) {
		return redacted
	}
	return redactText(text)
}
