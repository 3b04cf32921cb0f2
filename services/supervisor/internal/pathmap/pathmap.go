// Package pathmap translates paths between a client and a sidecar that sees the client's folders under other paths. Only the
// translation knows both: policies, records, questions and events speak the client's paths, and the sidecar speaks its own.
//
// A map is a folder of the client (here) and the same folder in the sidecar (there). Paths below it are translated component by
// component. All other paths are the same on both sides, with two exceptions that would give one name to two files: a path below
// there is the sidecar's and no path of the client, and a path below here is the client's and no path of the sidecar. Both are
// refused. So what is judged by the client's path is what happens at the sidecar's.
//
// The package knows paths, and the connection of a handler. It must not know methods, sessions or policies.
package pathmap

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/acphost/acphost/internal/fold"
	"github.com/acphost/acphost/internal/paths"
)

// Map is a folder that has two paths.
type Map struct {
	// Here is the folder's path at the client, There the one in the sidecar. Both are absolute and clean.
	Here, There string
}

// Maps are the maps of one handler. Nil maps nothing. It is safe for concurrent use.
type Maps struct {
	maps     []Map    // the longest There first, for HereText
	messages sync.Map // where messages have paths, by descriptor: *transcode.Paths, nil for those without
}

// New returns maps. The error joins what is wrong with them; each part is a *Mistake.
func New(maps []Map) (*Maps, error) {
	var problems []error
	for i, m := range maps {
		for _, side := range []string{SideHere, SideThere} {
			if why := unfit(m.side(side)); why != "" {
				problems = append(problems, &Mistake{Index: i, Side: side, Why: why})
			}
		}
	}
	if len(problems) == 0 {
		problems = overlaps(maps)
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	if len(maps) == 0 {
		return nil, nil
	}
	sorted := slices.Clone(maps)
	slices.SortStableFunc(sorted, func(a, b Map) int { return cmp.Compare(len(b.There), len(a.There)) })
	return &Maps{maps: sorted}, nil
}

// The sides of a map, as the configuration calls them.
const (
	SideHere  = "here"
	SideThere = "there"
)

func (m Map) side(side string) string {
	if side == SideHere {
		return m.Here
	}
	return m.There
}

// Mistake is what is wrong with one side of one map.
type Mistake struct {
	Index int
	Side  string // SideHere or SideThere
	Why   string
}

func (m *Mistake) Error() string { return fmt.Sprintf("paths[%d].%s: %s", m.Index, m.Side, m.Why) }

// unfit says why a folder cannot be one side of a map; empty: it can.
func unfit(folder string) string {
	switch {
	case !path.IsAbs(folder):
		return fmt.Sprintf("expected an absolute path, got %q", folder)
	case slices.Contains(strings.Split(folder, "/"), ".."):
		return fmt.Sprintf("expected a path without %q, got %q: name the folder itself", "..", folder)
	case path.Clean(folder) == "/":
		return "expected a folder below /, got /: it contains every path"
	case path.Clean(folder) != strings.TrimSuffix(folder, "/"):
		return fmt.Sprintf("expected %q, got %q", path.Clean(folder), folder)
	case paths.Kernel(path.Clean(folder)):
		return fmt.Sprintf("expected a folder of files, got %q: the system shows processes and devices there", folder)
	case strings.ContainsFunc(folder, func(c rune) bool {
		return unicode.IsControl(c) || c == unicode.ReplacementChar || strings.ContainsRune(`"'\`, c)
	}):
		return fmt.Sprintf("expected a path without quotes, backslashes and control characters, got %q", folder)
	}
	return ""
}

// overlaps finds folders that contain each other, on either side and across the sides: a path in one of them would have two
// meanings. Names that differ in case only count as the same, since on some file systems they are.
func overlaps(maps []Map) (problems []error) {
	type end struct {
		index int
		side  string
	}
	var ends []end
	for i := range maps {
		ends = append(ends, end{i, SideHere}, end{i, SideThere})
	}
	for i, a := range ends {
		for _, b := range ends[:i] {
			x, y := maps[a.index].side(a.side), maps[b.index].side(b.side)
			if !below(x, y) && !below(y, x) {
				continue
			}
			why := fmt.Sprintf("%s overlaps with %s (paths[%d].%s): a path in both would have two meanings", x, y, b.index, b.side)
			if a.index == b.index && path.Clean(x) == path.Clean(y) {
				why = fmt.Sprintf("%s is the same on both sides: paths that are not mapped are the same anyway, so leave it out", x)
			}
			problems = append(problems, &Mistake{Index: a.index, Side: a.side, Why: why})
		}
	}
	return problems
}

// below reports whether some file system takes a path for one in a folder.
func below(folder, name string) bool {
	return paths.Below(fold.Path(path.Clean(folder)), fold.Path(path.Clean(name)))
}

// All returns the maps.
func (m *Maps) All() []Map {
	if m == nil {
		return nil
	}
	return slices.Clone(m.maps)
}

// There returns the sidecar's path for one of the client's. A path that is not absolute stays as it is. An error says why
// there is none: the path is the sidecar's own, goes up (..) out of or into a mapped folder, or differs from one only in case.
func (m *Maps) There(name string) (string, error) {
	if m == nil || !path.IsAbs(name) {
		return name, nil
	}
	clean := path.Clean(name)
	for _, f := range m.maps {
		if rest, ok := inside(f.Here, name); ok {
			if climbs(rest) {
				return "", fmt.Errorf("%s goes up (..) out of %s, which has another path in the sidecar: name the file by a path that does not go up", shown(name), f.Here)
			}
			return f.There + rest, nil
		}
	}
	for _, f := range m.maps {
		switch {
		case paths.Below(f.Here, clean):
			return "", fmt.Errorf("%s goes up (..) into %s, which has another path in the sidecar: name the file by a path that does not go up", shown(name), f.Here)
		case below(f.There, clean):
			return "", fmt.Errorf("%s is not a path of this session: name files in %s by that path", shown(name), f.Here)
		case below(f.Here, clean):
			return "", fmt.Errorf("%s differs from a path in %s only in case: write %s as it is", shown(name), f.Here, f.Here)
		}
	}
	return name, nil
}

// Here returns the client's path for one of the sidecar's. A path that is not absolute stays as it is. An error says why there
// is none: the path leads to a folder of the sidecar that has the name of another one of the client's.
func (m *Maps) Here(name string) (string, error) {
	if m == nil || !path.IsAbs(name) {
		return name, nil
	}
	clean := path.Clean(name)
	for _, f := range m.maps {
		if paths.Below(f.There, clean) {
			return f.Here + clean[len(f.There):], nil
		}
	}
	for _, f := range m.maps {
		if below(f.Here, clean) || below(f.There, clean) {
			return "", fmt.Errorf("it leads to %s in the sidecar, which is another place than the client's %s, and has no path here", shown(clean), f.Here)
		}
	}
	return name, nil
}

// HereText returns a sidecar's text with the client's paths in place of the sidecar's, where it names a mapped folder or a path
// in it.
func (m *Maps) HereText(text string) string {
	var b strings.Builder
	last := 0
next:
	for i := 0; i < len(text); i++ {
		if text[i] != '/' || i > 0 && ofPath(text[i-1]) {
			continue
		}
		for _, f := range m.maps {
			if end := i + len(f.There); strings.HasPrefix(text[i:], f.There) && ends(text[end:]) {
				b.WriteString(text[last:i])
				b.WriteString(f.Here)
				last, i = end, end-1
				continue next
			}
		}
	}
	if last == 0 {
		return text
	}
	b.WriteString(text[last:])
	return b.String()
}

// ofPath reports whether a byte before a slash makes the slash part of a longer path.
func ofPath(c byte) bool {
	return c == '/' || c == '.' || c == '-' || c == '_' || c == '~' || c >= 0x80 ||
		'0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// ends reports whether a folder's name ends before the rest of a text.
func ends(rest string) bool {
	if trimmed := strings.TrimLeft(rest, "."); trimmed != rest { // the end of a sentence, not of a name
		return trimmed == "" || trimmed[0] == ' ' || trimmed[0] == '\n'
	}
	return rest == "" || rest[0] == '/' || !ofPath(rest[0])
}

// inside returns what a path has behind a folder, if the path begins with it. Doubled slashes and "." are left out, a slash at
// the end is kept.
func inside(folder, name string) (rest string, ok bool) {
	if name == folder {
		return "", true
	}
	if rest, ok := strings.CutPrefix(name, folder); ok && rest[0] == '/' && !strings.Contains(rest, "//") && !strings.Contains(rest, "/.") {
		return rest, true
	}
	tidy := tidied(name)
	if rest, ok = strings.CutPrefix(tidy, folder); ok && (rest == "" || rest[0] == '/') {
		return rest, true
	}
	return "", false
}

// tidied is a path without "." and doubled slashes. It keeps "..", behind which only the file system knows where a link leads.
func tidied(name string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(name, "/") {
		if part != "" && part != "." {
			b.WriteString("/" + part)
		}
	}
	if strings.HasSuffix(name, "/") || strings.HasSuffix(name, "/.") {
		b.WriteString("/")
	}
	return b.String()
}

// climbs reports whether a path that begins below a folder goes up out of it on its way, by its names alone.
func climbs(rest string) bool {
	if !strings.Contains(rest, "..") {
		return false
	}
	depth := 0
	for part := range strings.SplitSeq(rest, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return true
			}
		default:
			depth++
		}
	}
	return false
}

// maxShown bounds the bytes of a path in an error: agents choose them.
const maxShown = 200

// shown is a path in an error.
func shown(name string) string {
	if len(name) > maxShown {
		name = strings.ToValidUTF8(name[:maxShown], "") + "…"
	}
	if strings.ContainsFunc(name, unicode.IsControl) {
		return fmt.Sprintf("%q", name)
	}
	return name
}
