package preset

import (
	"path/filepath"
	"strconv"
	"strings"
)

// maxAbove is how many folders above a program are looked at for the manifest of its package.
const maxAbove = 8

// NodeOf returns the npm package that a program belongs to, and which versions of Node.js the package says that it supports, as
// its manifest has them ("engines"). They are empty for a program of no package, or of one that says nothing.
func NodeOf(program string) (name, versions string) {
	file, err := filepath.EvalSymlinks(program)
	if err != nil {
		return "", ""
	}
	dir := filepath.Dir(file)
	for range maxAbove {
		if m, ok := readManifest(dir); ok && m.Name != "" {
			return m.Name, m.node()
		}
		dir = filepath.Dir(dir)
	}
	return "", ""
}

// SupportsNode reports whether a version of Node.js ("v20.1.0") is one of those that a package supports (">=22", "^20.1 || >=22").
// known is false if the versions are written in a way that is not understood.
func SupportsNode(versions, node string) (supported, known bool) {
	have, ok := parseVersion(strings.TrimPrefix(strings.TrimSpace(node), "v"))
	if !ok || strings.TrimSpace(versions) == "" {
		return false, false
	}
	for alternative := range strings.SplitSeq(versions, "||") {
		all := true
		words := strings.Fields(strings.NewReplacer(">= ", ">=", "<= ", "<=", "> ", ">", "< ", "<", "^ ", "^", "~ ", "~").Replace(alternative))
		for _, word := range words {
			fits, ok := have.fits(word)
			if !ok {
				return false, false
			}
			all = all && fits
		}
		supported = supported || all && len(words) > 0
	}
	return supported, true
}

// nodeVersion is a version of Node.js; parts that are not given are 0.
type nodeVersion struct {
	parts [3]int
	given int
}

func parseVersion(text string) (v nodeVersion, ok bool) {
	text, _, _ = strings.Cut(text, "-")
	for part := range strings.SplitSeq(text, ".") {
		if part == "x" || part == "*" {
			break
		}
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 || v.given == len(v.parts) {
			return v, false
		}
		v.parts[v.given] = n
		v.given++
	}
	return v, true
}

// compare is negative if v is less than w.
func (v nodeVersion) compare(w nodeVersion) int {
	for i := range v.parts {
		if v.parts[i] != w.parts[i] {
			return v.parts[i] - w.parts[i]
		}
	}
	return 0
}

// same reports whether the first n parts are the same.
func (v nodeVersion) same(w nodeVersion, n int) bool {
	for i := range n {
		if v.parts[i] != w.parts[i] {
			return false
		}
	}
	return true
}

// fits reports whether the version is one that a comparator means: ">=22", "^20.1", "18.x".
func (v nodeVersion) fits(comparator string) (fits, ok bool) {
	text := strings.TrimLeft(comparator, "<>=^~")
	operator := comparator[:len(comparator)-len(text)]
	w, ok := parseVersion(strings.TrimPrefix(text, "v"))
	if !ok {
		return false, false
	}
	switch operator {
	case ">=":
		return v.compare(w) >= 0, true
	case ">":
		return v.compare(w) > 0 && !v.same(w, w.given), true
	case "<":
		return v.compare(w) < 0, true
	case "<=":
		return v.compare(w) <= 0 || v.same(w, w.given), true
	case "^":
		return v.compare(w) >= 0 && v.same(w, 1), true
	case "~":
		return v.compare(w) >= 0 && v.same(w, min(2, max(1, w.given))), true
	case "", "=":
		return v.same(w, w.given), true
	}
	return false, false
}
