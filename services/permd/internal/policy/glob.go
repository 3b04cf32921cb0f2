package policy

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/acphost/acphost/internal/pathglob"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// glob is a compiled path glob. A path matches a glob if it matches one of its patterns, which are the same glob for
// the several names of its directory.
type glob struct {
	// source is the glob as written in the file.
	source string
	// rooted: the patterns are relative to a root of the session.
	rooted bool
	// exact are the patterns for allow rules.
	exact []pattern
	// folded are the patterns for deny and ask rules. They also include the directory's real name, if it is reached by
	// a symbolic link. exact does not include that name, because an agent may have made the link.
	folded []pattern
	// folders are the patterns of the folders that the folded patterns name: "/**/.a" for "/**/.a/b".
	folders []pattern
	// texts are the folded patterns as written.
	texts []string
	// limits are those of the deny or ask rule that has the glob.
	limits limits
}

// limits restrict the files that the globs of a deny or ask rule match. The zero value matches all files.
type limits struct {
	// reads and writes exclude files that are only changed, or only read.
	reads, writes bool
	// unlessPublic excludes files that are known to hold nothing secret.
	unlessPublic bool
	// onlyKeys excludes files that are not known to hold a private key.
	onlyKeys bool
	// unlessCommitted excludes changes that put nothing new at a path.
	unlessCommitted bool
	// except excludes the files that these match, by the same spelling.
	except []glob
}

// concern reports whether globs with these limits are about a file, whatever its name is.
func (l *limits) concern(p *pathAccess) bool {
	return !(l.reads && p.access == permissionv1.Access_ACCESS_WRITE || l.writes && p.access == permissionv1.Access_ACCESS_READ ||
		l.unlessPublic && p.public || l.onlyKeys && !p.holdsKey || l.unlessCommitted && p.committed)
}

// onlyKeys reports whether globs of a rule are only about files that hold a private key. They match no path whose
// content is not known.
func onlyKeys(globs []glob) bool { return len(globs) > 0 && globs[0].limits.onlyKeys }

// excepts reports whether the limits exclude a file by its spelling.
func (l *limits) excepts(a *action, spelling string) bool {
	return slices.ContainsFunc(l.except, func(e glob) bool { return e.forbids(a, spelling) })
}

// any reports whether there are limits.
func (l *limits) any() bool {
	return l.reads || l.writes || l.unlessPublic || l.onlyKeys || l.unlessCommitted || len(l.except) > 0
}

// places are the locations of directories, for globs.
type places struct {
	// homes are the paths that "~" stands for, all of one directory; empty: unknown.
	homes []string
	// real resolves the symbolic links in an absolute path. Nil: there are none.
	real func(path string) (string, error)
}

// pattern is a doublestar pattern, absolute or relative to a root.
type pattern struct{ pathglob.Pattern }

// newGlob compiles a glob: absolute, or with the prefix ${root}, ~ or **.
func newGlob(source string, at places) (glob, error) {
	g := glob{source: source}
	texts := []string{source}
	switch {
	case source == "":
		return g, errors.New("expected a glob, got nothing")
	case strings.ContainsAny(source, "\x00\n\r"):
		return g, fmt.Errorf("expected a glob on one line, got %q", source)
	case source == "${root}" || strings.HasPrefix(source, "${root}/"):
		g.rooted = true
		texts[0] = strings.TrimPrefix(strings.TrimPrefix(source, "${root}"), "/")
	case source == "~" || strings.HasPrefix(source, "~/"):
		texts = texts[:0]
		for _, home := range at.homes {
			texts = append(texts, path.Clean("/"+pathglob.Escape(home)+source[1:]))
		}
		if len(texts) == 0 {
			return g, fmt.Errorf("expected a glob without ~, since the home directory is not known (set HOME), got %q", source)
		}
	case source == "**" || strings.HasPrefix(source, "**/"):
		texts[0] = "/" + source
	case !strings.HasPrefix(source, "/"):
		return g, fmt.Errorf("expected an absolute glob, or one with ${root} or ~ in front, got %q", source)
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(source, "${root}"), "~")
	if err := checkGlob(strings.TrimPrefix(rest, "/"), source); err != nil {
		return g, err
	}
	for _, text := range texts {
		g.exact = append(g.exact, newPattern(text))
		g.texts = append(g.texts, text)
		if real := realText(text, at); !g.rooted && real != text {
			g.texts = append(g.texts, real)
		}
	}
	for _, text := range g.texts {
		g.folded = append(g.folded, newPattern(fold(text)))
		for _, folder := range folderTexts(fold(text)) {
			g.folders = append(g.folders, newPattern(folder))
		}
	}
	return g, nil
}

// folderTexts returns the beginnings of a pattern that end with a name of a folder, or a pattern of one.
func folderTexts(text string) []string {
	var all []string
	for _, text := range withoutChoices(text) {
		parts := strings.Split(text, "/")
		for i, part := range parts[:len(parts)-1] {
			if part != "" && part != "**" {
				all = append(all, strings.Join(parts[:i+1], "/"))
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// withoutChoices returns patterns that together match what a pattern matches, and of which no part in braces contains a
// slash.
func withoutChoices(text string) []string {
	for start := 0; start < len(text); start++ {
		if text[start] == '\\' {
			start++
			continue
		}
		if text[start] != '{' {
			continue
		}
		end, choices := choicesOf(text[start:])
		if !strings.Contains(text[start:start+end], "/") {
			start += end - 1
			continue
		}
		var all []string
		for _, choice := range choices {
			all = append(all, withoutChoices(text[:start]+choice+text[start+end:])...)
		}
		return all
	}
	return []string{text}
}

// choicesOf returns the parts between the first braces of a text that begins with one, and the length up to the closing
// brace.
func choicesOf(text string) (end int, choices []string) {
	depth, begun := 0, 1
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '{':
			depth++
		case ',':
			if depth == 1 {
				choices, begun = append(choices, text[begun:i]), i+1
			}
		case '}':
			if depth--; depth == 0 {
				return i + 1, append(choices, text[begun:i])
			}
		}
	}
	return len(text), []string{text[1:]} // the pattern is not valid
}

// checkGlob checks the part of a glob after its prefix.
func checkGlob(text, source string) error {
	if strings.Contains(text, "${") {
		return fmt.Errorf("expected ${root} only in front and no other variable, got %q", source)
	}
	for segment := range strings.SplitSeq(text, "/") {
		switch {
		case segment == "." || segment == "..":
			return fmt.Errorf("expected a glob without %q, got %q", segment, source)
		case segment == "" && text != "":
			return fmt.Errorf("expected a glob without empty parts, got %q (for all that is in a directory write DIRECTORY/**)", source)
		case strings.Contains(segment, "**") && segment != "**" && !strings.ContainsAny(segment, "{},"):
			return fmt.Errorf("expected ** only as a part of its own, got %q", source)
		}
	}
	if !doublestar.ValidatePattern(text) {
		return fmt.Errorf("expected a well-formed glob, got %q", source)
	}
	return nil
}

// realText returns the glob with the symbolic links in its directory resolved, or the glob itself if there are none.
func realText(text string, at places) string {
	if at.real == nil || !strings.HasPrefix(text, "/") {
		return text
	}
	end := strings.IndexAny(text, pathglob.Meta)
	if end < 0 {
		end = len(text)
	}
	end = strings.LastIndexByte(text[:end], '/')
	// A path that does not exist yet gets the real name of its nearest existing directory.
	for dir, rest := text[:end], text[end:]; dir != ""; {
		if real, err := at.real(dir); err == nil {
			return strings.TrimSuffix(pathglob.Escape(path.Clean(real)), "/") + rest
		}
		i := strings.LastIndexByte(dir, '/')
		dir, rest = dir[:i], dir[i:]+rest
	}
	return text
}

func newPattern(text string) pattern { return pattern{pathglob.New(text)} }

// matchesAny reports whether one of the patterns matches a path.
func matchesAny(patterns []pattern, name string) bool {
	return slices.ContainsFunc(patterns, func(p pattern) bool { return p.Matches(name) })
}

// belowAny reports whether the pattern matches the rest of a path below one of the roots.
func (p *pattern) belowAny(roots []string, name string) bool {
	return slices.ContainsFunc(roots, func(root string) bool {
		tail, below := tailBelow(root, name)
		return below && p.below(tail)
	})
}

// below reports whether the pattern matches the rest of a path below a root; the root itself is "".
func (p *pattern) below(tail string) bool {
	if tail == "" {
		return p.Text == "" || p.Everything // "*" would match the empty name, but means an entry
	}
	return p.Matches(tail)
}

// tailBelow returns the rest of a path below a root. Both are clean.
func tailBelow(root, name string) (string, bool) {
	if root == "/" {
		return strings.TrimPrefix(name, "/"), true
	}
	rest, ok := strings.CutPrefix(name, root)
	if rest == "" {
		return "", ok
	}
	return rest[1:], ok && rest[0] == '/'
}
