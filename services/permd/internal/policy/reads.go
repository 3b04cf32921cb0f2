package policy

import (
	"slices"
	"strings"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// maxAsked is the contract's limit of globs of files that are decided separately.
const maxAsked = 400

// everyRead returns for which other reads of the session's processes a decision to allow one holds: all but those of
// files that some rule denies or asks about. nil: rules allow only some files, or do not decide by the file alone.
// Without rules for processes, only deny rules apply to reads.
func everyRead(parts []Part, a *action) *permissionv1.Reuse {
	processes := slices.ContainsFunc(parts, func(p Part) bool { return p.loosens() && p.Policy.processes })
	if a.process != processRead || processes && !allowsEveryRead(parts, a) {
		return nil
	}
	around := []criterion{ofKind, ofWalls, ofAgent, ofMode, ofTool, {holds: (*rule).forbidsCommand},
		{holds: func(r *rule, a *action) match { return r.effects.forbids(a) }}}
	asked := map[string]bool{}
	add := func(globs []glob) {
		if onlyKeys(globs) { // not about processes
			return
		}
		for i := range globs {
			for _, text := range globs[i].foldedTexts() {
				asked[text] = true
			}
		}
	}
	for _, p := range parts {
		add(p.Policy.protected)
		rules := p.Policy.deny
		if processes {
			rules = slices.Concat(rules, p.Policy.ask)
		}
		for _, r := range rules {
			if slices.ContainsFunc(around, func(c criterion) bool { return c.holds(r, a) == no }) {
				continue
			}
			if r.paths == nil {
				return nil
			}
			add(r.paths)
		}
	}
	if len(asked) > maxAsked {
		return nil
	}
	reuse := &permissionv1.Reuse{EveryFile: true}
	for text := range asked {
		reuse.Asked = append(reuse.Asked, text)
	}
	slices.Sort(reuse.Asked)
	return reuse
}

// allowsEveryRead reports whether an allow rule allows processes to read every file.
func allowsEveryRead(parts []Part, a *action) bool {
	around := []criterion{ofKind, ofWalls, ofAgent, ofMode, ofTool, {holds: (*rule).holdsAllowedCommand}}
	return slices.ContainsFunc(parts, func(p Part) bool {
		return p.loosens() && p.Policy.digest != "" && slices.ContainsFunc(p.Policy.allow, func(r *rule) bool {
			everywhere := r.paths == nil || slices.ContainsFunc(r.paths, func(g glob) bool { return g.source == "/**" || g.source == "**" })
			return r.when == nil && everywhere && !slices.ContainsFunc(around, func(c criterion) bool { return c.holds(r, a) == no })
		})
	})
}

// foldedTexts returns absolute globs that match whatever the glob of a deny or ask rule matches, and perhaps more.
func (g *glob) foldedTexts() []string {
	var texts []string
	for _, p := range g.folded {
		switch text := p.Text; {
		case !g.rooted:
			texts = append(texts, text)
		case text == "":
			texts = append(texts, "/**") // the roots themselves, wherever they are
		default:
			texts = append(texts, "/**/"+strings.TrimPrefix(text, "/"))
		}
	}
	return texts
}
