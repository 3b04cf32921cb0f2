package shell

import (
	"strings"

	"github.com/acphost/acphost/internal/lazyregexp"
	"github.com/acphost/acphost/internal/wordset"
)

// sedHarmless are the options that change only how a script is read and what is printed.
var sedHarmless = wordset.Of(`-n -E -r -s -z -u -nE -En -nr --quiet --silent --regexp-extended --posix --sandbox --debug --help
	--version`)

// riskySed accepts only very simple scripts: sed's language can write files ("w") and run programs ("e").
func riskySed(args []string) string {
	var scripts []string
	given := false
	for i := 0; i < len(args); i++ {
		arg := args[i]
		value, attached := strings.CutPrefix(arg, "--expression=")
		switch {
		case arg == "-e" || arg == "--expression":
			if i++; i < len(args) {
				scripts, given = append(scripts, args[i]), true
			}
		case attached:
			scripts, given = append(scripts, value), true
		case sedHarmless[arg]:
		case strings.HasPrefix(arg, "-") && arg != "-":
			return "sed has an option that is not known to be harmless"
		case !given && len(scripts) == 0:
			scripts, given = []string{arg}, true
			// With a later -e, this was a file, not a script. Checking it as a script does no harm.
		}
	}
	for _, script := range scripts {
		if !printsOnly(script) {
			return "sed's script may write a file or run a program"
		}
	}
	return ""
}

// sedScript is the unparsed rest of a script of sed.
type sedScript struct {
	rest   string
	blocks int
}

var (
	// sedAddress matches an address that is not a regular expression; the second of two may be relative to the first.
	sedAddress = lazyregexp.New(`^([0-9]+(~[0-9]+)?|\$)`)
	sedSecond  = lazyregexp.New(`^([0-9]+|\$|[+~][0-9]+)`)
	// sedCommand matches a command that only changes lines in memory and prints them, with a number or a label.
	// Versions differ in where a label ends, but the rest of a label is always read as such commands.
	sedCommand = lazyregexp.New(`^([pdPDnNhHgGxz=]|[lqQ] *[0-9]*|[:bt] *[A-Za-z0-9_]*)`)
	// sedFlags matches the flags of a substitution that only print.
	sedFlags = lazyregexp.New(`^[gpiIm0-9]*`)
	// sedBrackets matches a bracket expression that ends at the same position in all versions of sed.
	sedBrackets = lazyregexp.New(`^\[\^?(\[:[a-z]+:\]|[^][\\\n\r])+\]`)
)

// printsOnly reports whether a script certainly only prints, in every version of sed.
func printsOnly(script string) bool {
	s := &sedScript{rest: script}
	for {
		s.rest = strings.TrimLeft(s.rest, " \t\n;")
		if s.rest == "" {
			return s.blocks == 0
		}
		if !s.addresses() || !s.command() {
			return false
		}
		if s.rest = strings.TrimLeft(s.rest, " \t"); s.rest != "" && !strings.ContainsRune(";\n}", rune(s.rest[0])) {
			return false
		}
		for strings.HasPrefix(s.rest, "}") {
			if s.blocks--; s.blocks < 0 {
				return false
			}
			s.rest = strings.TrimLeft(s.rest[1:], " \t;\n")
		}
	}
}

// addresses consumes the addresses of a command, and the "!" after them.
func (s *sedScript) addresses() bool {
	if s.address(sedAddress) && strings.HasPrefix(s.rest, ",") {
		s.rest = strings.TrimLeft(s.rest[1:], " ")
		if !s.address(sedSecond) {
			return false
		}
	}
	s.rest = strings.TrimLeft(s.rest, " ")
	if strings.HasPrefix(s.rest, "!") {
		s.rest = strings.TrimLeft(s.rest[1:], " ")
	}
	return true
}

func (s *sedScript) address(kind *lazyregexp.Regexp) bool {
	if strings.HasPrefix(s.rest, "/") {
		s.rest = s.rest[1:]
		if !s.until('/', true) {
			s.rest = "e" // it is not terminated
			return false
		}
		s.rest = strings.TrimPrefix(s.rest, "I")
		return true
	}
	n := len(kind.FindString(s.rest))
	s.rest = s.rest[n:]
	return n > 0
}

func (s *sedScript) command() bool {
	switch {
	case strings.HasPrefix(s.rest, "{"):
		s.blocks++
		s.rest = ";" + s.rest[1:]
		return true
	case len(s.rest) > 3 && (s.rest[0] == 's' || s.rest[0] == 'y') && strings.IndexByte("/|#,:@!%+~", s.rest[1]) >= 0:
		letter, delimiter := s.rest[0], s.rest[1]
		s.rest = s.rest[2:]
		if !s.until(delimiter, letter == 's') || !s.until(delimiter, false) {
			return false
		}
		if letter == 's' {
			s.rest = s.rest[len(sedFlags.FindString(s.rest)):]
		}
		return true
	}
	n := len(sedCommand.FindString(s.rest))
	s.rest = s.rest[n:]
	return n > 0
}

// until consumes the text up to a delimiter, and the delimiter. Versions of sed differ about a delimiter in brackets in
// a pattern.
func (s *sedScript) until(delimiter byte, pattern bool) bool {
	for i := 0; i < len(s.rest); i++ {
		switch c := s.rest[i]; {
		case c == '\n' || c == '\r':
			return false
		case c == '\\':
			if i++; i < len(s.rest) && s.rest[i] == '\n' {
				return false
			}
		case c == delimiter:
			s.rest = s.rest[i+1:]
			return true
		case pattern && c == '[':
			n := len(sedBrackets.FindString(s.rest[i:]))
			if n == 0 || strings.IndexByte(s.rest[i:i+n], delimiter) >= 0 {
				return false
			}
			i += n - 1
		}
	}
	return false
}
