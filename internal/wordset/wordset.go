// Package wordset makes sets of words from lists separated by white space.
package wordset

import "strings"

// Of returns the set of the words in a list. It is for constant tables: callers must not modify the set.
func Of(list string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(list) {
		set[word] = true
	}
	return set
}
