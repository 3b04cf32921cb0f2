package git

import (
	"strconv"
	"strings"
)

// maxSettings bounds the settings that an environment may hold; git itself takes more.
const maxSettings = 10_000

// number reads GIT_CONFIG_COUNT. What is no number counts as none: git would refuse it.
func number(value string) int {
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 || n > maxSettings {
		return 0
	}
	return n
}

// numbered is the number of an entry GIT_CONFIG_KEY_n or GIT_CONFIG_VALUE_n.
func numbered(entry string) (int, bool) {
	name, _, _ := strings.Cut(entry, "=")
	for _, prefix := range []string{"GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"} {
		if n, ok := strings.CutPrefix(name, prefix); ok {
			at, err := strconv.Atoi(n)
			return at, err == nil
		}
	}
	return 0, false
}
