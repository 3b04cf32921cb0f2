package git

import (
	"slices"
	"strings"
)

// HarmlessRefs returns "" if a new content of packed-refs replaces no further objects. Otherwise it returns a reason:
// with a ref below refs/replace, git shows another commit or file in place of the one that it sends. before is the
// present content, nil if there is none. Removing the file is an empty data. The file system is not read.
func HarmlessRefs(data, before []byte) (why string) {
	replaced := func(data []byte) (lines []string) {
		for line := range strings.Lines(string(data)) {
			if _, ref, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(ref, "refs/replace/") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		return lines
	}
	present := replaced(before)
	for _, line := range replaced(data) {
		if !slices.Contains(present, line) {
			return "refs/replace"
		}
	}
	return ""
}
