package intent

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

const (
	// maxSummary bounds a summary, in characters.
	maxSummary = 200
	// maxSubject bounds each part of it that an agent chose.
	maxSubject = 110
)

// Summary tells a person in one line what an action will do: "run git push origin main in /w". It has at most 200
// characters. It is made of what was read from the action, never of its title; characters that do not show, that change
// the direction of writing or that begin a new line are written as escapes, and what is too long is cut in the middle,
// where "[…]" says so, which an agent's own text cannot spell.
func Summary(a *permissionv1.Action) string {
	s := subject(a)
	if a.GetUnparsed() != "" || a.GetCommand().GetUnparsed() != "" {
		s += " (not understood in full)"
	}
	return shorten(s, maxSummary)
}

func subject(a *permissionv1.Action) string {
	if c := a.GetCommand(); c != nil {
		s := "run " + shorten(visible(c.GetText()), maxSubject)
		if n := len(meaningful(c.GetEnv())); n > 0 {
			s += fmt.Sprintf(" with %d variables set", n)
			if n == 1 {
				s = strings.TrimSuffix(s, "variables set") + "variable set"
			}
		}
		dir := directoryOf(a)
		if dir == "" { // said too, so that the command cannot end in a place of its own
			return s + " in a folder that is not known"
		}
		s += " in " + quoted(visible(dir))
		return s
	}
	verb := verbOf(a)
	paths := a.GetPaths()
	if len(paths) == 0 {
		return verb
	}
	// Of several, the one that a person should know of most.
	shown := paths[0]
	for _, p := range paths {
		if weight(p) > weight(shown) {
			shown = p
		}
	}
	s := verb + " " + placed(shown, a.GetRoots())
	if n := len(paths) - 1; n > 0 {
		s += fmt.Sprintf(" and %d more", n)
	}
	return s
}

func weight(p *permissionv1.PathAccess) int {
	w := 0
	if p.GetAccess() == permissionv1.Access_ACCESS_WRITE {
		w++
	}
	if !p.GetInsideRoots() {
		w += 2
	}
	if p.GetProtected() {
		w += 4
	}
	return w
}

// placed writes a path and what is special about it.
func placed(p *permissionv1.PathAccess, roots []string) string {
	s := quoted(visible(p.GetPath()))
	var notes []string
	if to := p.GetResolvedPath(); to != "" && to != named(p.GetPath()) {
		notes = append(notes, "which is "+quoted(visible(to)))
	}
	switch {
	case p.GetProtected():
		notes = append(notes, "acphost's own")
	case !p.GetInsideRoots() && p.GetResolvedPath() == "" && below(p.GetPath(), roots):
		notes = append(notes, "where it leads is not known")
	case !p.GetInsideRoots():
		notes = append(notes, "outside the workspace")
	}
	if len(notes) > 0 {
		s += " (" + strings.Join(notes, ", ") + ")"
	}
	return s
}

// below reports whether a path, by its name, lies in one of some folders.
func below(file string, roots []string) bool {
	file = path.Clean(file)
	return slices.ContainsFunc(roots, func(root string) bool {
		root = path.Clean(root)
		return file == root || strings.HasPrefix(file, strings.TrimSuffix(root, "/")+"/")
	})
}

// quoted shortens a path, and puts quotes around one that could be taken for what stands around it.
func quoted(s string) string {
	if strings.ContainsAny(s, " ()\",") {
		return `"` + shorten(strings.ReplaceAll(s, `"`, `\"`), maxSubject/2) + `"`
	}
	return shorten(s, maxSubject/2)
}

func verbOf(a *permissionv1.Action) string {
	switch kind := a.GetKind(); kind {
	case "fs.read", "tool.read":
		return "read"
	case "fs.list":
		return "list"
	case "fs.write":
		return "write"
	case "tool.edit":
		return "edit"
	case "tool.delete":
		return "delete"
	case "tool.move":
		return "move"
	case "tool.search":
		return "search"
	case "tool.fetch":
		return "fetch something"
	case "tool.think":
		return "think"
	case "tool.switch_mode":
		return "switch the mode"
	case "elicitation":
		return "ask a question"
	case "terminal.create", "tool.execute":
		return "run a command that is not named"
	case "tool.other", "unknown", "":
		return "do something that is not named"
	default:
		return "call " + shorten(visible(kind), maxSubject)
	}
}

// visible writes s so that every character of it can be seen, stands where it stands, and is no other: characters of
// control and direction, invisible and combining ones, and blanks that are not spaces, are escaped, and so is the sign
// that marks where something was cut.
func visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == ' ':
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r == '…' || r == unicode.ReplacementChar || hidden(r):
			if r > 0xffff {
				fmt.Fprintf(&b, `\U%08x`, r)
			} else {
				fmt.Fprintf(&b, `\u%04x`, r)
			}
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// hidden reports whether a character does not show, or shows as part of another.
func hidden(r rune) bool {
	switch r {
	case '\u115f', '\u1160', '\u3164', '\uffa0', '\u2800': // letters and signs that are blank
		return true
	}
	return !unicode.IsPrint(r) || unicode.Is(unicode.M, r) || unicode.Is(unicode.Bidi_Control, r) ||
		unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) || rightToLeft(r)
}

// rightToLeft reports whether a character is written from right to left, by which it moves its neighbours.
func rightToLeft(r rune) bool {
	return 0x590 <= r && r <= 0x8ff || 0xfb1d <= r && r <= 0xfdff || 0xfe70 <= r && r <= 0xfeff ||
		0x10800 <= r && r <= 0x10fff || 0x1e800 <= r && r <= 0x1efff
}

// shorten cuts s in the middle to at most n characters, keeping both ends.
func shorten(s string, n int) string {
	const mark = " […] "
	runes := []rune(s)
	if len(runes) <= n {
		return s
	}
	keep := n - len([]rune(mark))
	return string(runes[:(keep+1)/2]) + mark + string(runes[len(runes)-keep/2:])
}
