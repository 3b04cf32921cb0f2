package intent

import (
	"fmt"
	"path"
	"strings"

	"github.com/acphost/acphost/internal/hosts"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

const (
	// maxSummary bounds a summary, in characters.
	maxSummary = 200
	// maxSubject bounds each part that an agent chose, in characters.
	maxSubject = 110
)

// Summary describes an action to a person in one line: "run git push origin main in /w". It has at most 200 characters.
// It uses the parsed action, never its title. Invisible characters, characters that change the writing direction and
// line breaks are escaped. Long parts are cut in the middle and marked with "[…]", which an agent's own text cannot
// contain.
func Summary(a *permissionv1.Action) string { return summarize(a, subject(a, "")) }

// Title is a Summary for a question in the session of the action: paths below the session's first root are relative to
// it. The folder of a command is named only if it differs from this root. It comes first, so that a command cannot
// imitate it: "in sub: run ls".
func Title(a *permissionv1.Action) string {
	root := ""
	if len(a.GetRoots()) > 0 {
		root = named(a.GetRoots()[0])
	}
	return summarize(a, subject(a, root))
}

func summarize(a *permissionv1.Action, s string) string {
	if down := a.GetUnreachableHandler(); down != "" {
		s += fmt.Sprintf(" (handler %s is down, so it is not known where every path leads)", Excerpt(down))
	}
	if a.GetUnparsed() != "" || a.GetCommand().GetUnparsed() != "" {
		s += " (not understood in full)"
	}
	return safetext.Middle(s, maxSummary)
}

// Excerpt returns an agent's text in a form that is safe in a sentence of acphost's: at most 110 characters, escaped as
// in Summary.
func Excerpt(text string) string { return safetext.Middle(safetext.Strict(text), maxSubject) }

// subject returns the verb and the object of an action. Paths are relative to home; empty: paths are absolute.
func subject(a *permissionv1.Action, home string) string {
	if c := a.GetCommand(); c != nil {
		s := "run " + Excerpt(c.GetText())
		if n := len(meaningful(c.GetEnv())); n > 0 {
			s += fmt.Sprintf(" with %d variables set", n)
			if n == 1 {
				s = strings.TrimSuffix(s, "variables set") + "variable set"
			}
		}
		// named too, so that the end of the command cannot imitate a folder
		dir, shown := directoryOf(a), "a folder that is not known"
		if dir != "" {
			shown = quoted(safetext.Strict(relative(dir, home)), maxSubject/2)
		}
		switch {
		case home == "":
			return s + " in " + shown
		case dir == home:
			return s
		}
		return "in " + shown + ": " + s
	}
	if a.GetKind() == refusedKind {
		return "enter " + Excerpt(a.GetTitle())
	}
	verb := verbOf(a)
	if to, ok := hosts.NewEndpoint(a.GetEndpoint().GetHost(), a.GetEndpoint().GetPort(), a.GetEndpoint().GetAddresses()); ok {
		return verb + " " + Excerpt(to.String())
	}
	all := a.GetPaths()
	switch {
	case len(all) == 0 && a.GetKind() == "net.connect":
		return verb + " something that is not named"
	case len(all) == 0:
		return verb
	}
	// Of several paths, show the most dangerous one.
	shown := all[0]
	for _, p := range all {
		if weight(p) > weight(shown) {
			shown = p
		}
	}
	s := verb + " " + placed(shown, a.GetRoots(), home)
	if n := len(all) - 1; n > 0 {
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

// placed formats a path with its special properties.
func placed(p *permissionv1.PathAccess, roots []string, home string) string {
	most := maxSubject
	var notes []string
	if to := p.GetResolvedPath(); to != "" && to != named(p.GetPath()) {
		most /= 2 // two paths share the space
		notes = append(notes, "which is "+quoted(safetext.Strict(to), most))
	}
	s := p.GetPath()
	if p.GetInsideRoots() {
		s = relative(s, home)
	}
	s = quoted(safetext.Strict(s), most)
	switch {
	case p.GetProtected():
		notes = append(notes, "acphost's own")
	case !p.GetInsideRoots() && p.GetResolvedPath() == "" && insideAny(roots, p.GetPath()):
		notes = append(notes, "where it leads is not known")
	case !p.GetInsideRoots():
		notes = append(notes, "outside the workspace")
	}
	if len(notes) > 0 {
		s += " (" + strings.Join(notes, ", ") + ")"
	}
	return s
}

// relative returns a path below a folder relative to it. It returns other paths, and paths with unusual spelling,
// unchanged.
func relative(file, folder string) string {
	below, ok := strings.CutPrefix(file, strings.TrimSuffix(folder, "/")+"/")
	if !ok || folder == "" || below == "" || path.Clean(file) != file {
		return file
	}
	return below
}

// quoted shortens a path to the limit most, in characters, and quotes it if it could be confused with the text around
// it.
func quoted(s string, most int) string {
	if strings.ContainsAny(s, " ()\",") {
		return `"` + safetext.MiddlePath(strings.ReplaceAll(s, `"`, `\"`), most) + `"`
	}
	return safetext.MiddlePath(s, most)
}

// verbs are the descriptions of the kinds of actions.
var verbs = map[string]string{
	"fs.read": "read", "fs.list": "list", "fs.write": "write",
	"tool.read": "read", "tool.edit": "edit", "tool.delete": "delete", "tool.move": "move", "tool.search": "search",
	"tool.fetch": "fetch something", "tool.think": "think", "tool.switch_mode": "switch the mode",
	"elicitation": "ask a question", "net.connect": "connect to",
	"terminal.create": "run a command that is not named", "tool.execute": "run a command that is not named",
	"tool.other": "do something that is not named", "unknown": "do something that is not named",
	"": "do something that is not named",
}

func verbOf(a *permissionv1.Action) string {
	if verb, known := verbs[a.GetKind()]; known {
		return verb
	}
	return "call " + Excerpt(a.GetKind())
}
