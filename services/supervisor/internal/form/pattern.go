package form

import "regexp/syntax"

const (
	// maxPattern is the longest pattern that is looked at, in bytes.
	maxPattern = 1 << 10
	// maxProgram is how many steps a pattern's program may have: a short pattern can stand for a very long one.
	maxProgram = 1 << 12
	// maxWork bounds the steps times characters of all patterns of a form; that many take well under a second.
	maxWork = 1 << 23
)

// programSize is about how many steps a pattern has once its repetitions are written out, maxProgram+1 if it is more, and 0
// for one that Go does not know.
func programSize(pattern string) int {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0
	}
	return sizeOf(re)
}

func sizeOf(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		if n += sizeOf(sub); n > maxProgram {
			return maxProgram + 1
		}
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 0) + 1
	}
	return min(n, maxProgram+1)
}
