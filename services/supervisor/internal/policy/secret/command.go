package secret

import (
	"cmp"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/lazyregexp"
	"github.com/acphost/acphost/internal/secretfile"
	"github.com/acphost/acphost/internal/secretname"
	"github.com/acphost/acphost/internal/shell"
	"github.com/acphost/acphost/internal/wordset"
)

// maxLines limits the nesting of command lines in arguments of other command lines.
const maxLines = 4

// maxRead limits the bytes that are parsed as command lines for one text or one command. It is larger than any line
// with the words of its commands and the lines in these words. Only nested substitutions exceed it, because each one is
// also a part of the words around it.
const maxRead = 1 << 20

// search is the state of the search for secrets in a text or a command.
type search struct {
	found map[string]bool // collects whole words that are secrets; nil: not collected
	read  int             // bytes that were parsed as command lines
}

// line redacts a command line by the known programs in it. A text that is not a command line is almost always
// unchanged.
func (q *search) line(s string, depth int) string {
	if depth > maxLines || !mayContainSecret(s) {
		return s
	}
	if q.read += len(s); q.read > maxRead {
		if depth > 0 {
			return s // the enclosing line contains its commands
		}
		return Redacted
	}
	commands, ok := shell.Layout(s)
	if !ok {
		commands = splitRoughly(s)
	}
	var cuts []cut
	change := func(w shell.Placed, now string) {
		if now == Redacted && q.found != nil {
			q.found[w.Text] = true
		}
		if now != w.Text {
			cuts = append(cuts, cut{w.Start, w.End, requote(s[w.Start:w.End], w.Text, now)})
		}
	}
	reading := map[int]bool{} // pipelines with a command that reads a secret
	for _, c := range commands {
		args := texts(c.Words)
		now, reads := arguments(args)
		for i, w := range c.Words {
			text := now[i]
			if text == w.Text && strings.ContainsAny(text, " \t\n") && !substituted(s[w.Start:w.End]) {
				if i > 0 && printsSecret(args[i-1], text) {
					text = text[:strings.IndexByte(text, ' ')+1] + Redacted
				} else {
					text = q.line(text, depth+1)
				}
			}
			change(w, text)
		}
		if reads && c.Pipeline > 0 {
			reading[c.Pipeline] = true
		}
		if kept := keptInSecret(c); kept || isSecretValue(s, c) {
			for _, w := range c.Words[min(1, len(c.Words)):] {
				if writers[base(c.Words[0].Text)] && hideable(w.Text) {
					change(w, Redacted)
				}
			}
			reads = reads || kept
		}
		reads = reads || len(args) > 0 && args[0] == "read" && slices.ContainsFunc(args[1:], secretname.Is)
		for _, in := range c.Input {
			switch {
			case reads && mayBeSecret("", strings.TrimSpace(in.Text)):
				change(in, hidden(in.Text))
			case slices.ContainsFunc(args, func(a string) bool { return shells[base(a)] }):
				change(in, q.line(in.Text, depth+1))
			}
		}
	}
	for _, c := range commands {
		if !reading[c.Pipeline] {
			continue
		}
		for _, in := range c.Input {
			change(in, hidden(in.Text))
		}
		if len(c.Words) == 0 || !writers[base(c.Words[0].Text)] {
			continue
		}
		for _, w := range c.Words[1:] {
			if hideable(w.Text) {
				change(w, Redacted)
			}
		}
	}
	return replaced(s, cuts)
}

// substituted reports whether a raw word is one substitution, whose commands Layout returns, too. It compares the first
// parenthesis with the one that closes it.
func substituted(word string) bool {
	word = strings.Trim(word, `"`)
	if !strings.HasPrefix(word, "$(") {
		return false
	}
	open := 0
	for i := range len(word) {
		switch word[i] {
		case '(':
			open++
		case ')':
			if open--; open == 0 {
				return i == len(word)-1
			}
		}
	}
	return false
}

// printsSecret reports whether the value of an option is a line that prints a secret: --password-command 'echo x'.
func printsSecret(option, text string) bool {
	program, what, _ := strings.Cut(text, " ")
	if !mayBeSecret("", what) {
		return false
	}
	for _, end := range [...]string{"-command", "command", "eval", "-cmd"} {
		if name, ok := strings.CutSuffix(option, end); ok && strings.HasPrefix(name, "-") && secretname.Is(name) {
			return writers[base(program)]
		}
	}
	return false
}

// hideable reports whether a word that a command prints can be a secret.
func hideable(word string) bool {
	return !strings.HasPrefix(word, "-") && !strings.Contains(word, "%s") && mayBeSecret("", word)
}

// keptInSecret reports whether a command is redirected to a file for secrets.
func keptInSecret(c shell.Simple) bool {
	return slices.ContainsFunc(c.Files, func(f shell.Placed) bool {
		name := base(f.Text)
		stem, ext, _ := strings.Cut(strings.TrimPrefix(name, "."), ".")
		return secretfile.Named(f.Text) || (ext == "" || secretExtensions[ext]) && secretname.Is(stem)
	})
}

// secretExtensions are the extensions of files for secrets whose names without them are names of secrets.
var secretExtensions = wordset.Of("txt key pass pw token secret")

// behindName matches a name before a substitution that is its value.
var behindName = lazyregexp.New("(-{0,2}[A-Za-z_][A-Za-z0-9_.-]*)(?:=|\\s+)[\"']?(?:\\$\\(|<\\(|`)\\s*$")

// isSecretValue reports whether a command is a substitution whose output is the value of a secret: TOKEN=$(echo x).
func isSecretValue(s string, c shell.Simple) bool {
	if len(c.Words) == 0 {
		return false
	}
	at := c.Words[0].Start
	m := behindName.FindStringSubmatch(s[max(0, at-maxHeader):at])
	if m == nil {
		return false
	}
	name := m[1]
	for _, end := range [...]string{"-file", "_file", "-user-pass", "-command"} {
		name = strings.TrimSuffix(name, end)
	}
	return secretname.Is(name)
}

// hidden returns the replacement of a program's input. It keeps the last line feed of a here-document.
func hidden(text string) string {
	if strings.HasSuffix(text, "\n") {
		return Redacted + "\n"
	}
	return Redacted
}

var (
	// prompts are programs that copy their input to a file or a variable.
	prompts = wordset.Of("cat tee read")
	writers = wordset.Of("echo printf print")
	shells  = wordset.Of("sh bash zsh dash ksh ssh")
)

// base returns the name of a program without its folder.
func base(word string) string { return word[strings.LastIndexByte(word, '/')+1:] }

func texts(words []shell.Placed) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = w.Text
	}
	return out
}

// mayContainSecret is a fast check for a known program, or for a word that means that a secret is read.
func mayContainSecret(s string) bool {
	for w := range strings.FieldsFuncSeq(s, func(r rune) bool { return strings.ContainsRune(" \t\n\"'`(){}|;&<>$", r) }) {
		if _, known := programs[base(w)]; known || writers[w] || prompts[w] || w == "-u" || w == "--user" || readsByName(w) {
			return true
		}
	}
	return false
}

// splitRoughly splits a text that is not a valid command line into commands and words.
func splitRoughly(s string) []shell.Simple {
	var all []shell.Simple
	var c shell.Simple
	start := -1
	end := func(i int) {
		if start >= 0 {
			text := strings.TrimLeft(s[start:i], "'\"`")
			from := i - len(text)
			text = strings.TrimRight(text, "'\"`")
			c.Words = append(c.Words, shell.Placed{Text: text, Start: from, End: from + len(text)})
			start = -1
		}
	}
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case ' ', '\t':
			end(i)
		case '\n', ';', '|', '&', '(', ')':
			end(i)
			all, c = append(all, c), shell.Simple{}
		default:
			if start < 0 {
				start = i
			}
		}
	}
	end(len(s))
	return append(all, c)
}

// cut is a part of a line that is to be replaced.
type cut struct {
	from, to int
	with     string
}

// replaced returns a line with its cuts replaced. It does not modify line.
func replaced[T string | []byte](line T, cuts []cut) T {
	slices.SortStableFunc(cuts, func(a, b cut) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) // an outer word before the parts of it
	})
	out := make([]byte, 0, len(line)+len(marker))
	at := 0
	for _, c := range cuts {
		if c.from >= at {
			out = append(append(out, line[at:c.from]...), c.with...)
			at = c.to
		}
	}
	return T(append(out, line[at:]...))
}

// requote returns the raw form of a word after its text has changed from was to now. It keeps the quotes, and
// replaces only the secret part if that occurs literally in source.
func requote(source, was, now string) string {
	if at := strings.Index(now, Redacted); at >= 0 && strings.Count(now, Redacted) == 1 {
		before, after := now[:at], now[at+len(Redacted):]
		if len(before)+len(after) < len(was) && strings.HasPrefix(was, before) && strings.HasSuffix(was, after) {
			if gone := was[at : len(was)-len(after)]; strings.Count(source, gone) == 1 {
				return strings.Replace(source, gone, Redacted, 1)
			}
		}
	}
	if len(source) > 1 && (source[0] == '\'' || source[0] == '"') && source[len(source)-1] == source[0] {
		return source[:1] + now + source[:1]
	}
	return now
}

// arguments redacts a program and its arguments by the known programs among them. reads reports that the program reads
// a secret from its standard input.
func arguments(argv []string) (now []string, reads bool) {
	now = slices.Clone(argv)
	for i, w := range argv {
		reads = reads || readsByName(w)
		if i > 0 && (nonRunners[base(argv[0])] || labels[argv[i-1]]) {
			continue
		}
		for _, p := range programs[base(w)] {
			if p.redact(argv[i+1:], now[i+1:]) {
				reads = true
			}
		}
	}
	for i := 1; i < len(argv); i++ {
		if (argv[i-1] == "-u" || argv[i-1] == "--user") && now[i] == argv[i] && !accounts[base(argv[0])] {
			now[i] = userPassword(argv[i], ":")
		}
	}
	return now, reads
}

// readsByName reports whether the name of an option means that a secret is read from standard input.
func readsByName(option string) bool {
	name, _, _ := strings.Cut(option, "=")
	for _, end := range [...]string{"-stdin", "-fd"} {
		if what, ok := strings.CutSuffix(name, end); ok && strings.HasPrefix(what, "-") && secretname.Is(what) {
			return true
		}
	}
	return false
}

// userPassword redacts the text after the first separator.
func userPassword(word, split string) string {
	user, password, ok := strings.Cut(word, split)
	switch {
	case !ok, strings.Contains(word, "://"), strings.Trim(word, "0123456789:") == "", !mayBeSecret("", password):
		return word
	}
	return user + split + Redacted
}

// redact replaces the secrets of args in now. reads reports that the program reads a secret from its standard input.
func (p *program) redact(args, now []string) (reads bool) {
	start := 0
	reads = slices.Contains(p.reads, "")
	if p.verbs != nil && p.verbs[0] != "" {
		verb := slices.IndexFunc(args, func(a string) bool {
			return slices.Contains(p.verbs, a) || p.flag != "" && len(a) > 1 && a[0] == '-' && a[1] != '-' && strings.Contains(a, p.flag)
		})
		if verb < 0 {
			return false
		}
		start = verb + 1
	}
	hide := func(i, from int) {
		if value := args[i][from:]; mayBeSecret("", value) && !ports.MatchString(value) {
			now[i] = args[i][:from] + Redacted
		}
	}
	for i, a := range args {
		reads = reads || slices.ContainsFunc(p.reads, func(r string) bool { return r == a || r != "" && r[0] == '=' && strings.HasSuffix(a, r) })
		next := i+1 < len(args)
		switch {
		case len(a) > 1 && a[0] == '-' && a[1] != '-' && strings.IndexByte(p.attached+p.short, a[1]) >= 0 && len(a) > 2 && !wholeNames[a]:
			hide(i, 2)
		case next && p.short != "" && cluster(a, p.short) && !strings.HasPrefix(args[i+1], "--"):
			hide(i+1, 0)
		}
		for _, name := range p.long {
			switch value, attached := strings.CutPrefix(a, name); {
			case name == "--from-literal": // NAME=VALUE
				if value, ok := strings.CutPrefix(value, "="); attached && ok {
					if at := strings.IndexByte(value, '='); at >= 0 {
						hide(i, len(name)+1+at+1)
					}
				} else if a == name && next {
					if at := strings.IndexByte(args[i+1], '='); at >= 0 {
						hide(i+1, at+1)
					}
				}
			case !attached:
			case strings.HasSuffix(name, ":"):
				hide(i, len(name))
			case value == "" && next:
				hide(i+1, 0)
			case strings.HasPrefix(value, "="):
				hide(i, len(name)+1)
			}
		}
		for _, name := range p.cookies {
			switch {
			case a == name && next:
				now[i+1] = cookies(args[i+1])
			case strings.HasPrefix(a, name) && len(name) == 2:
				now[i] = name + cookies(a[2:])
			case strings.HasPrefix(a, name+"="):
				now[i] = name + "=" + cookies(a[len(name)+1:])
			}
		}
		for _, name := range p.users {
			switch {
			case name == "": // an operand
				if user, _, ok := strings.Cut(a, p.split); ok && user != "" && a[0] != '-' && strings.Contains(a, "@") {
					at := len(user) + 1
					now[i] = a[:at] + Redacted + a[strings.LastIndexByte(a, '@'):]
				}
			case a == name && next, len(name) == 2 && next && p.flags != "" && p.letters(a) == name[1:]:
				now[i+1] = userPassword(args[i+1], p.split)
			case len(name) == 2 && p.flags != "" && strings.HasPrefix(p.letters(a), name[1:]):
				at := len(a) - len(p.letters(a)) + 1
				now[i] = a[:at] + userPassword(a[at:], p.split)
			case strings.HasPrefix(a, name+"=") && len(name) > 2:
				now[i] = name + "=" + userPassword(a[len(name)+1:], p.split)
			case len(name) == 2 && strings.HasPrefix(a, name) && len(a) > 2:
				now[i] = name + userPassword(a[2:], p.split)
			}
		}
		if next && slices.Contains(p.sources, a) {
			for _, kind := range [...]string{"pass:", "key:", "hexkey:"} {
				if strings.HasPrefix(args[i+1], kind) {
					hide(i+1, len(kind))
				}
			}
		}
		if next && slices.Contains(p.after, a) && secretname.Is(args[i+1]) && i+2 < len(args) {
			hide(i+2, 0)
		}
		if p.pairs && i+2 < len(args) && strings.HasPrefix(a, "http-basic.") {
			hide(i+2, 0)
		}
		if p.pairs && next && (strings.HasPrefix(a, "github-oauth.") || strings.HasPrefix(a, "gitlab-oauth.") || strings.HasPrefix(a, "bearer.")) {
			hide(i+1, 0)
		}
		if p.pairs && i >= start && next && !strings.HasPrefix(a, "-") && !strings.Contains(a, "=") && !strings.HasPrefix(args[i+1], "-") && secretname.Is(a) {
			hide(i+1, 0)
		}
	}
	p.hideOperands(args[start:], now[start:])
	return reads
}

// wholeNames are long options with one dash. Without this list they would be a letter with an attached value.
var wholeNames = wordset.Of("-password -passwd -passphrase -token -pass")

// letters returns the short options of a word after those without a value: "u" for "-sSu".
func (p *program) letters(word string) string {
	if len(word) < 2 || word[0] != '-' || word[1] == '-' {
		return ""
	}
	return strings.TrimLeft(word[1:], p.flags)
}

// hideOperands hides words that are secrets by their position. Position -2 means the last one of two or more.
func (p *program) hideOperands(args, now []string) {
	if len(p.operands) == 0 {
		return
	}
	var at []int
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-" || a == "":
		case a[0] == '-':
			if p.values != "" && cluster(a, p.values) {
				i++
			}
		default:
			at = append(at, i)
		}
	}
	hide := func(i int) {
		if mayBeSecret("", args[i]) && !strings.Contains(args[i], "=") {
			now[i] = Redacted
		}
	}
	for _, n := range p.operands {
		switch {
		case n == -1:
			for _, i := range at {
				hide(i)
			}
		case n == -2 && len(at) > 0:
			hide(at[len(at)-1])
		case n > 0 && n <= len(at):
			hide(at[n-1])
		}
	}
}

// ports matches the value of "-p" in programs that publish ports.
var ports = lazyregexp.New(`^[0-9.]*:?[0-9-]+:[0-9-]+(/[a-z]+)?$`)

// cluster reports whether a word consists of short options of which the last one is in letters.
func cluster(word, letters string) bool {
	if len(word) < 2 || len(word) > 5 || word[0] != '-' || strings.IndexByte(letters, word[len(word)-1]) < 0 {
		return false
	}
	return !strings.ContainsFunc(word[1:], func(c rune) bool { return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') })
}
