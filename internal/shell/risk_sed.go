package shell

import (
	"regexp"
	"strings"

	"github.com/acphost/acphost/internal/wordset"
)

// sedPrints are scripts of nothing but printing and deleting by line number or by a plain expression.
var sedPrints = regexp.MustCompile(`^(([0-9]+|\$|/[A-Za-z0-9_ .*^$-]*/)(,([0-9]+|\$|/[A-Za-z0-9_ .*^$-]*/))?)?!?[pdq=]$`)

// sedFlags are the flags of a substitution that only print.
var sedFlags = regexp.MustCompile(`^[gpiIm0-9]*$`)

// sedHarmless are the options that change nothing but how a script is read and what is printed.
var sedHarmless = wordset.Of(`-n -E -r -s -z -u -nE -En -nr --quiet --silent --regexp-extended --posix --sandbox --debug --help
	--version`)

// riskySed warns of all scripts but the plainest: sed's own language writes files ("w") and runs programs ("e").
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
			// With -e further on, this was a file and no script; then it is judged too, which does no harm.
		}
	}
	for _, script := range scripts {
		if !printsOnly(script) {
			return "sed's script may write a file or run a program"
		}
	}
	return ""
}

// printsOnly reports whether a script certainly does nothing but print. Where it begins a substitution it has exactly
// three unescaped delimiters, so that every reading of it ends at the same place.
func printsOnly(script string) bool {
	if strings.ContainsAny(script, "\n\r") {
		return false
	}
	if len(script) > 3 && script[0] == 's' && strings.IndexByte("/|#,:@!%+~", script[1]) >= 0 {
		count, last := 0, 0
		for i := 1; i < len(script); i++ {
			switch script[i] {
			case '\\':
				i++
			case script[1]:
				count, last = count+1, i
			}
		}
		return count == 3 && sedFlags.MatchString(script[last+1:])
	}
	for part := range strings.SplitSeq(script, ";") {
		if !sedPrints.MatchString(strings.TrimSpace(part)) {
			return false
		}
	}
	return true
}
