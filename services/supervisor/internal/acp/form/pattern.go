package form

import "regexp/syntax"

const (
	// maxPattern limits the bytes of a pattern that is compiled.
	maxPattern = 1 << 10
	// maxProgram limits the steps of a pattern's program: a short pattern can expand to a very long one.
	maxProgram = 1 << 12
	// maxWork limits the steps times characters of all patterns of a form. The limit takes well under a second.
	maxWork = 1 << 23
)

// programSize returns approximately the number of steps of a pattern with its repetitions expanded. It returns
// maxProgram+1 for a larger number, and 0 for a pattern that Go does not support.
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
