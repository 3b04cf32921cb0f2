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
	// maxSubject bounds each part of it that an agent chose.
	maxSubject = 110
)

// Summary tells a person in one line what an action will do: "run git push origin main in /w". It has at most 200
// characters. It is made of what was read from the action, never of its title; characters that do not show, that change
// the direction of writing or that begin a new line are written as escapes, and what is too long is cut in the middle,
// where "[…]" says so, which an agent's own text cannot spell.
func Summary(a *permissionv1.Action) string { return summarize(a, subject(a, "")) }

// Title is a Summary for a question in the session of the action: paths below the session's first root are relative to it, and the folder
// of a command is named only if it is another than this root. It comes first then, where a command cannot imitate it: "in sub: run ls".
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

// Excerpt is a text of the agent's as it may stand in a sentence of acphost's own: of at most 110 characters, as in Summary.
func Excerpt(text string) string { return safetext.Middle(safetext.Strict(text), maxSubject) }

// subject is the verb and the object of an action. home is the folder to which paths are relative; empty: paths are absolute.
func subject(a *permissionv1.Action, home string) string {
	if c := a.GetCommand(); c != nil {
		s := "run " + Excerpt(c.GetText())
		if n := len(meaningful(c.GetEnv())); n > 0 {
			s += fmt.Sprintf(" with %d variables set", n)
			if n == 1 {
				s = strings.TrimSuffix(s, "variables set") + "variable set"
			}
		}
		dir, shown := directoryOf(a), "a folder that is not known" // said too, so that the command cannot end in a place of its own
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
	// Of several, the one that a person should know of most.
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

// placed writes a path and what is special about it.
func placed(p *permissionv1.PathAccess, roots []string, home string) string {
	most := maxSubject
	var notes []string
	if to := p.GetResolvedPath(); to != "" && to != named(p.GetPath()) {
		most /= 2 // there are two paths
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

// relative returns a path below a folder relative to it; any other path, and one with strange spelling, as it is.
func relative(file, folder string) string {
	below, ok := strings.CutPrefix(file, strings.TrimSuffix(folder, "/")+"/")
	if !ok || folder == "" || below == "" || path.Clean(file) != file {
		return file
	}
	return below
}

// quoted shortens a path to so many characters, and puts quotes around one that could be taken for what stands around it.
func quoted(s string, most int) string {
	if strings.ContainsAny(s, " ()\",") {
		return `"` + safetext.MiddlePath(strings.ReplaceAll(s, `"`, `\"`), most) + `"`
	}
	return safetext.MiddlePath(s, most)
}

// verbs say what actions of the kinds do.
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
