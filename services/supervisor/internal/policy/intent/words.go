package intent

import (
	"path"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// Bounds on the words of a command that are resolved as paths. A command beyond them is unparsed. Each path may cost a
// request to the file system handler.
const (
	maxWords = 256          // of one action
	maxAsked = 8 * maxWords // paths that the words may spell
	maxLocal = 4            // factor for both, if no handler has to be asked
	maxWord  = 4096         // bytes; the longest path of any system
	maxName  = 255          // bytes; the longest name in a path
)

// words resolves the words of a command and records those that lead elsewhere: a symbolic link in a repository must not
// hide from a rule which file a command opens.
type words struct {
	*paths
	command *permissionv1.Command
	times   int  // the factor of the bounds
	looked  int  // resolved words
	asked   int  // resolved paths
	full    bool // the bounds are reached
	long    bool // a word was too long
	lost    bool // a path inside the roots could not be resolved
}

// words adds to each part of a line the real paths of its words.
func (p *paths) words(c *permissionv1.Command) {
	if p.session.Place == nil {
		return
	}
	w := &words{paths: p, command: c, times: 1}
	if p.session.Local {
		w.times = maxLocal
	}
	for _, sub := range c.GetSubCommands() {
		if w.part(sub); w.full {
			break
		}
	}
	switch {
	case c.Unparsed != "":
	case w.full:
		c.Unparsed = "more words than are looked at"
	case w.long:
		c.Unparsed = "a word is longer than is looked at"
	case w.lost:
		c.Unparsed = "it is not known where a word leads"
	}
}

// part resolves the words of one simple command.
func (w *words) part(sub *permissionv1.SubCommand) {
	if sub.GetDynamic() && len(sub.GetDynamicWords()) == 0 {
		return // each word may differ at run time
	}
	dir := w.directoryOf(w.command, sub)
	operands := false // the following words are not options
	for i, word := range sub.GetArgv() {
		if i == 0 && !strings.Contains(word, "/") || slices.Contains(sub.GetDynamicWords(), uint32(i)) {
			continue
		}
		w.word(sub, i, word, dir, operands)
		if w.full {
			return
		}
		operands = operands || i > 0 && word == "--"
	}
}

// directoryOf returns the directory to which the words of a part of c are relative; empty if unknown.
func (p *paths) directoryOf(c *permissionv1.Command, sub *permissionv1.SubCommand) string {
	dir := sub.GetCwd()
	switch {
	case sub.GetCwdUnknown():
		return ""
	case dir == "":
		dir = c.GetCwd()
	}
	if dir == "" && len(p.session.Roots) > 0 {
		dir = p.session.Roots[0]
	}
	if !path.IsAbs(dir) {
		return ""
	}
	return dir
}

// word resolves every path that a word may spell.
func (w *words) word(sub *permissionv1.SubCommand, i int, word, dir string, operand bool) {
	if strings.ContainsRune(word, 0) {
		return // longer than any argument of a program
	}
	spelled, all := shell.Spellings(word, operand)
	if len(spelled) > 0 && (len(word) > maxWord || !all) {
		w.long = true
		return
	}
	counted := false
	for _, file := range spelled {
		if !path.IsAbs(file) {
			if dir == "" {
				continue
			}
			file = under(dir, file)
		} else {
			file = named(file)
		}
		at, seen := w.known[file]
		if !seen {
			if !counted {
				if w.looked == w.times*maxWords {
					w.full = true
					return
				}
				w.looked++
				counted = true
			}
			if w.asked++; w.asked > w.times*maxAsked {
				w.full = true
				return
			}
			at = w.look(file)
			w.known[file] = at
		}
		w.record(sub, i, file, at)
	}
}

// inRoots reports whether a path, as written, is inside the roots and could exist.
func (w *words) inRoots(file string) bool {
	tooLong := func(name string) bool { return len(name) > maxName }
	return !slices.ContainsFunc(strings.Split(file, "/"), tooLong) && insideAny(slices.Concat(w.session.Roots, w.session.ResolvedRoots), file)
}

// record stores the real path of a word if it differs from the written path.
func (w *words) record(sub *permissionv1.SubCommand, i int, file string, at Place) {
	if at.Protected {
		w.protect(file, at)
	}
	if at.Resolved == "" && w.inRoots(file) {
		w.lost = true
	}
	if at.Resolved == "" || at.Resolved == path.Clean(file) || w.sameBelow(path.Clean(file), at.Resolved) {
		return
	}
	led := &permissionv1.ResolvedWord{Word: uint32(i), ResolvedPath: at.Resolved, InsideRoots: at.Inside}
	if !slices.ContainsFunc(sub.GetResolvedWords(), func(have *permissionv1.ResolvedWord) bool {
		return have.GetWord() == led.GetWord() && have.GetResolvedPath() == led.GetResolvedPath()
	}) {
		sub.ResolvedWords = append(sub.ResolvedWords, led)
	}
}

// SameBelow reports whether real is the target of dir, which contains no links other than the action's own roots. dir
// is absolute, or empty for the session's directory; it may begin with a root or with the real path of a root. real is
// clean.
func SameBelow(a *permissionv1.Action, dir, real string) bool {
	if dir == "" && len(a.GetRoots()) > 0 {
		dir = a.GetRoots()[0]
	}
	return sameBelow(a.GetRoots(), a.GetResolvedRoots(), path.Clean(dir), real)
}

func sameBelow(roots, resolved []string, dir, real string) bool {
	if dir == real {
		return true
	}
	for i, root := range roots {
		if i >= len(resolved) || resolved[i] == "" || !path.IsAbs(root) {
			continue
		}
		if rest, ok := inside(path.Clean(root), dir); ok && path.Join(resolved[i], rest) == real {
			return true
		}
	}
	return false
}

// insideAny reports whether a path, by its name, is inside one of the folders. Empty folders are skipped.
func insideAny(folders []string, file string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool {
		_, in := inside(path.Clean(folder), path.Clean(file))
		return folder != "" && in
	})
}

// inside returns the rest of a path inside a folder. Both are clean.
func inside(folder, file string) (rest string, ok bool) {
	if folder == "/" {
		return file, path.IsAbs(file)
	}
	rest, ok = strings.CutPrefix(file, folder)
	return rest, ok && (rest == "" || rest[0] == '/')
}
