package safetext

import "strconv"

// Number formats a number that is not negative, with a comma between thousands: "1,240".
func Number[T ~int | ~uint64](n T) string {
	s := strconv.FormatUint(uint64(n), 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Count formats a number with its noun, which gets an s in the plural: "1 rule", "1,240 rules".
func Count[T ~int | ~uint64](n T, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return Number(n) + " " + noun
}

// Paint is Color if on is set. Otherwise it returns text.
func Paint(on bool, codes, text string) string {
	if !on {
		return text
	}
	return Color(codes, text)
}

// Color returns text with colours and attributes, given as the codes of a terminal, such as "1;31".
func Color(codes, text string) string {
	if codes == "" || text == "" {
		return text
	}
	return "\x1b[" + codes + "m" + text + "\x1b[0m"
}
