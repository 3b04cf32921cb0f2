package intent

import (
	"fmt"
	"strings"

	"github.com/acphost/acphost/internal/hosts"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/safetext"
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

func subject(a *permissionv1.Action) string {
	if c := a.GetCommand(); c != nil {
		s := "run " + Excerpt(c.GetText())
		if n := len(meaningful(c.GetEnv())); n > 0 {
			s += fmt.Sprintf(" with %d variables set", n)
			if n == 1 {
				s = strings.TrimSuffix(s, "variables set") + "variable set"
			}
		}
		if dir := directoryOf(a); dir != "" {
			return s + " in " + quoted(safetext.Strict(dir), maxSubject/2)
		}
		return s + " in a folder that is not known" // said too, so that the command cannot end in a place of its own
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
	s := verb + " " + placed(shown, a.GetRoots())
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
func placed(p *permissionv1.PathAccess, roots []string) string {
	most := maxSubject
	var notes []string
	if to := p.GetResolvedPath(); to != "" && to != named(p.GetPath()) {
		most /= 2 // there are two paths
		notes = append(notes, "which is "+quoted(safetext.Strict(to), most))
	}
	s := quoted(safetext.Strict(p.GetPath()), most)
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
