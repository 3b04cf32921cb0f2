package config

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// path leads to a value in the file: names of fields and keys of maps, and indices of lists in decimal.
type path []string

// to returns a path that goes on from p, which stays as it is.
func (p path) to(steps ...string) path {
	return append(append(path(nil), p...), steps...)
}

// String writes a path as errors show it and yamlproto finds it: agent.quirks[0], routes["fs/*"].
func (p path) String() string {
	var b strings.Builder
	for i, step := range p {
		switch {
		case i == 0:
			b.WriteString(step)
		case slices.Contains(lists, p[i-1]): //nolint:gosec // i is not 0 here
			b.WriteString("[" + step + "]")
		case plain.MatchString(step):
			b.WriteString("." + step)
		default:
			b.WriteString("[" + strconv.Quote(step) + "]")
		}
	}
	return b.String()
}

var (
	lists = []string{"command", "quirks", "extra_roots", "chain", "gate", "agents"} // the fields whose elements have an index
	plain = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)
)
