// Package pathmap translates paths between a client and a sidecar that has the client's folders under other paths. Only
// the translation knows both: policies, records, questions and events use the client's paths, and the sidecar uses its
// own.
//
// A map is a folder of the client (here) and the same folder in the sidecar (there). Paths below it are translated
// component by component. All other paths are the same on both sides, with two exceptions that would give one name to
// two files: a path below there belongs to the sidecar only, and a path below here belongs to the client only. Both are
// rejected on the other side. So a decision about the client's path applies to the file that the sidecar uses.
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

// Map is a folder with two paths.
type Map struct {
	// Here is the folder's path at the client, There its path in the sidecar. Both are absolute and clean.
	Here, There string
}

// Maps are the maps of one handler. A nil Maps changes no paths. It is safe for concurrent use.
type Maps struct {
	maps     []Map    // sorted by the length of There, longest first, for ClientText
	messages sync.Map // positions of paths in messages, by descriptor: *transcode.Paths, nil for those without
}

// New returns maps. The error joins a *Mistake for each problem.
func New(maps []Map) (*Maps, error) {
	var problems []error
	for i, m := range maps {
		for _, side := range []string{SideHere, SideThere} {
			if why := unusable(m.side(side)); why != "" {
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

// The sides of a map, as named in the configuration.
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

// Mistake is an error in one side of one map.
type Mistake struct {
	Index int
	Side  string // SideHere or SideThere
	Why   string
}

func (m *Mistake) Error() string { return fmt.Sprintf("paths[%d].%s: %s", m.Index, m.Side, m.Why) }

// unusable returns the reason why a folder cannot be a side of a map, or "".
func unusable(folder string) string {
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

// overlaps reports folders that contain each other, on one side or across the sides: a path in one of them would be
// ambiguous. Names that differ only in case count as equal, because they are on some file systems.
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

// below reports whether a path is in a folder on some file system.
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

// SidecarPath returns the sidecar's path for a client's path. A path that is not absolute is unchanged. It returns an
// error if none exists: the path belongs to the sidecar only, leads out of or into a mapped folder by "..", or differs
// from a mapped one only in case.
func (m *Maps) SidecarPath(name string) (string, error) {
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

// ClientPath returns the client's path for a sidecar's path. A path that is not absolute is unchanged. It returns an
// error if none exists: the path is in a folder of the sidecar that has the same name as another folder of the client.
func (m *Maps) ClientPath(name string) (string, error) {
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

// ClientText replaces the sidecar's paths of mapped folders, and of files in them, in a text by the client's.
func (m *Maps) ClientText(text string) string {
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

// inside returns the part of a path after a folder, if the path begins with it. It removes doubled slashes and ".", and
// keeps a slash at the end.
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

// tidied returns a path without "." and doubled slashes. It keeps "..", because a component before it may be a symbolic
// link.
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

// climbs reports whether a path below a folder leads out of it by its names.
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

// maxShown limits the bytes of a path in an error, because agents choose paths.
const maxShown = 200

// shown returns a path for an error.
func shown(name string) string {
	if len(name) > maxShown {
		name = strings.ToValidUTF8(name[:maxShown], "") + "…"
	}
	if strings.ContainsFunc(name, unicode.IsControl) {
		return fmt.Sprintf("%q", name)
	}
	return name
}
