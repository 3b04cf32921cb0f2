// Package wordset makes sets of words that a program knows, of lists with white space between them.
package wordset

import "strings"

// Of returns the set of the words in a list. It is for tables, which nobody writes to.
func Of(list string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(list) {
		set[word] = true
	}
	return set
}
