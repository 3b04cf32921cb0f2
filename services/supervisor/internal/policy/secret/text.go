package secret

import (
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/lazyregexp"
	"github.com/acphost/acphost/internal/secretname"
	"github.com/acphost/acphost/internal/wordset"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// Env redacts variables in the form "NAME=VALUE", in place.
func Env(variables []string) {
	for i, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		variables[i] = name + "=" + Variable(name, value)
		if !strings.Contains(v, "=") || strings.HasPrefix(value, "$(") || strings.HasPrefix(value, "`") {
			variables[i] = Text(v)
		}
	}
}

// Variable returns the redacted value of a variable, or of another named value.
func Variable(name, value string) string {
	switch {
	case !mayBeSecret(name, value):
		return value
	case secretname.Is(name):
		return Redacted
	}
	if value = Text(value); secretname.Value(value) && !strings.Contains(value, Redacted) {
		return Redacted
	}
	return value
}

// Command redacts a command in place: its line, and the parsed commands. A word that is a secret in the line is
// redacted in the parsed commands, too.
func Command(c *permissionv1.Command) {
	if c == nil {
		return
	}
	q := &search{found: map[string]bool{}}
	c.Text = q.text(c.GetText())
	q.argv(c.GetArgv())
	Env(c.GetEnv())
	for _, sub := range c.GetSubCommands() {
		q.argv(sub.GetArgv())
		Env(sub.GetAssignments())
		for _, text := range repeats(sub) {
			*text = q.text(*text)
		}
	}
	for _, sub := range c.GetSubCommands() {
		for word := range q.found {
			for _, text := range repeats(sub) {
				*text = strings.ReplaceAll(*text, word, Redacted)
			}
		}
		for i, arg := range sub.GetArgv() {
			if q.found[arg] {
				sub.Argv[i] = Redacted
			}
		}
	}
}

// repeats returns the texts of a simple command that repeat words of its line.
func repeats(sub *permissionv1.SubCommand) []*string {
	texts := []*string{&sub.Written}
	if f := sub.GetFacts(); f != nil {
		texts = append(texts, &f.Unknown)
		for _, file := range f.GetFiles() {
			texts = append(texts, &file.Path, &file.ResolvedPath)
		}
	}
	return texts
}

// RedactedArgv returns the redacted argv of a command. It does not modify argv.
func RedactedArgv(argv []string) []string {
	argv = slices.Clone(argv)
	Argv(argv)
	return argv
}

// Lines returns redacted lines of text. It does not modify lines.
func Lines(lines []string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = Text(l)
	}
	return out
}

// Argv redacts secrets in the arguments of programs, in place: "--token=VALUE", "--token VALUE", "mysql -pVALUE", and
// secrets that Text finds in each argument.
func Argv(words []string) { (&search{}).argv(words) }

func (q *search) argv(words []string) {
	now, _ := arguments(words)
	before := ""
	for i, arg := range words {
		if words[i] = now[i]; now[i] == arg {
			words[i] = q.word(before, arg)
		}
		if words[i] == Redacted && q.found != nil {
			q.found[arg] = true
		}
		before = arg
	}
}

// Word redacts an argument of an unknown program. before is the previous argument.
func Word(before, arg string) string {
	if before == "-u" || before == "--user" {
		if now := userPassword(arg, ":"); now != arg {
			return now
		}
	}
	return (&search{}).word(before, arg)
}

func (q *search) word(before, arg string) string {
	if secretOption(before) && mayBeSecret(before, arg) && !strings.HasPrefix(arg, "-") {
		if before == "--cookie" {
			return cookies(arg)
		}
		return Redacted
	}
	if printsSecret(before, arg) {
		return arg[:strings.IndexByte(arg, ' ')+1] + Redacted
	}
	if name, value, ok := strings.Cut(arg, "="); ok && simpleName.MatchString(name) && Name(name) && mayBeSecret(name, value) {
		return name + "=" + Redacted // the whole value, including spaces
	}
	if strings.IndexByte(arg[:min(len(arg), maxHeader)], ':') > 0 {
		if m := header.FindStringSubmatch(arg); m != nil && Name(m[1]) && !weak(m[1]) && mayBeSecret(m[1], m[4]) {
			return m[1] + m[2] + m[3] + Redacted
		}
	}
	return q.text(arg)
}

// cookies redacts the values of cookies. A text without values is the name of a file.
func cookies(arg string) string {
	if !strings.Contains(arg, "=") {
		return arg
	}
	return cookiePair.ReplaceAllString(arg, "${1}="+Redacted)
}

// maxHeader limits the length of the name of a header.
const maxHeader = 128

func secretOption(word string) bool {
	return len(word) > 2 && word[0] == '-' && (word[1] == '-' || !weak(word)) && !strings.Contains(word, "=") &&
		simpleName.MatchString(word) && Name(word)
}

// weak reports whether a name means that its value is a secret in a command or a message, but not in free text.
func weak(name string) bool {
	return weakNames[strings.ToLower(strings.TrimLeft(name, "-"))]
}

var weakNames = wordset.Of("auth pat pin sig signature otp pass pw key keys")

// Text redacts secrets in free text, such as a command line.
func Text(s string) string { return (&search{}).text(s) }

func (q *search) text(s string) string {
	s = q.line(s, 0)
	if has := suspicious(s); has.any {
		if has.named("authorization") {
			s = replaceValue(authorization, s)
		}
		if has.named("bearer") {
			s = replaceValue(bearer, s)
		}
		if has.named("cookie") {
			s = replaceValue(cookieHeader, s)
		}
		if has.named("password") || has.named("identified") || has.named("pragma") {
			s = replaceValue(sqlPassword, s)
			s = replaceValue(netrcPassword, s)
		}
		if strings.Contains(s, "=") {
			s = replaceNamed(assigned, s, Name)
		}
		if strings.Contains(s, ":") {
			s = replaceNamed(stated, s, func(name string) bool {
				return Name(name) && !weak(name) && !strings.HasSuffix(strings.ToLower(name), "authorization")
			})
		}
		if strings.Contains(s, "-") {
			s = replaceNamed(option, s, func(name string) bool { return secretOption(name) && name != "--cookie" })
		}
	}
	return secretname.Replace(s, Redacted)
}

// replaceValue redacts the second group of each match.
func replaceValue(pattern *lazyregexp.Regexp, s string) string {
	return pattern.ReplaceAllStringFunc(s, func(match string) string {
		m := pattern.FindStringSubmatch(match)
		if m == nil || !mayBeSecret("", m[2]) {
			return match
		}
		return m[1] + Redacted
	})
}

// named matches a named value: the name, which is the first group, and the value after it.
type named struct{ name, value *lazyregexp.Regexp }

// replaceNamed redacts the value of each name of a secret. The value of another name may contain further names.
func replaceNamed(pattern named, s string, secret func(string) bool) string {
	var b strings.Builder
	last := 0
	for at := 0; at < len(s); {
		m := pattern.name.FindStringSubmatchIndex(s[at:])
		if m == nil {
			break
		}
		name, from := s[at+m[2]:at+m[3]], at+m[1]
		at += m[3]
		if !secret(name) || name == "passwd" && strings.HasSuffix(s[:at-len(name)], "/") { // a file of users
			continue
		}
		v := pattern.value.FindStringIndex(s[from:])
		if v == nil {
			continue
		}
		value := s[from : from+v[1]]
		at = from + v[1]
		if !mayBeSecret(name, strings.Trim(value, `'"`)) {
			continue
		}
		b.WriteString(s[last:from])
		if q := value[:1]; len(value) > 1 && (q == `'` || q == `"`) {
			b.WriteString(q + Redacted + q)
		} else {
			b.WriteString(Redacted)
		}
		last = at
	}
	if last == 0 {
		return s
	}
	b.WriteString(s[last:])
	return b.String()
}

// hint lists the kinds of patterns that may match a text.
type hint struct {
	any   bool
	lower string
}

func (h hint) named(word string) bool { return strings.Contains(h.lower, word) }

// suspicious is a fast check for texts that the patterns may match, so that most texts are not searched.
func suspicious(s string) hint {
	if !strings.ContainsAny(s, "=:-'\"") && !strings.Contains(s, "machine ") && !strings.Contains(s, "earer") && !strings.Contains(s, "EARER") {
		return hint{}
	}
	lower := strings.ToLower(s)
	return hint{lower: lower, any: slices.ContainsFunc(hints, func(part string) bool { return strings.Contains(lower, part) })}
}

// hints are in lower case. The name of every secret contains a hint, and every pattern needs a name.
var hints = []string{
	"secret", "token", "pass", "pw", "cred", "key", "auth", "bearer", "cookie", "jwt", "pat", "pin", "otp", "sig", "dsn", "hook",
	"connection", "connstr", "headers", "session", "identified", "pragma",
}

var (
	simpleName    = lazyregexp.New(`^-{0,2}[A-Za-z_][A-Za-z0-9_.-]*$`)
	header        = lazyregexp.New(`(?s)^([A-Za-z][A-Za-z0-9_-]*)(:\s*)((?:(?i:bearer|basic|token|digest|negotiate)\s+)?)(\S.*)$`)
	cookiePair    = lazyregexp.New(`([A-Za-z0-9_.$%!#&*+^|~-]+)=([^;\s'"]+)`)
	cookieHeader  = lazyregexp.New(`(?i)(\b(?:set-)?cookie2?["']?\s*:\s*["']?)([^\s'"][^'"\n]*=[^'"\n]*)`)
	authorization = lazyregexp.New(`(?i)(authorization["']?\s*[:=]\s*["']?(?:(?:bearer|basic|token|digest|negotiate)\s+)?)([^\s'"\\,;]+)`)
	bearer        = lazyregexp.New(`(?i)(\bbearer\s+)([A-Za-z0-9._~+/=-]{6,})`)
	assigned      = named{lazyregexp.New(`([A-Za-z_-][A-Za-z0-9_.-]*)(=|["']\]\s*=\s*)`), lazyregexp.New(`^("[^"]*"|'[^']*'|\([^()]*\)|[^\s'"&;|,)]+)`)}
	stated        = named{lazyregexp.New(`([A-Za-z_-][A-Za-z0-9_.-]*)(["']?\s*:\s*)`), lazyregexp.New(`^("[^"]*"|'[^']*'|[^\s'"&;|,)}]+)`)}
	sqlPassword   = lazyregexp.New(`(?i)(\b(?:password\s+for\s+\S+\s*=\s*|password\s+=\s*|password\s+|identified(?:\s+with\s+\S+)?\s+(?:by|as)(?:\s+password)?\s+|pragma\s+(?:hex)?(?:re)?key\s*=\s*)['"])([^'"]+)`)
	netrcPassword = lazyregexp.New(`(?i)(\bmachine\s+\S+\s+login\s+\S+\s+password\s+)([^\s'"]+)`)
	option        = named{lazyregexp.New(`(?:^|[\s'"(\[,=])(--?[A-Za-z][A-Za-z0-9_.-]*)(\s+)`), lazyregexp.New(`^("[^"]*"|'[^']*'|[^-\s'"&;|<>][^\s'"&;|]*)`)}
)
