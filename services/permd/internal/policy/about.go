package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/reason"
	"github.com/acphost/acphost/internal/shell"
)

// A person who decides about a long line or many paths reads only the start of it. So if a decision concerns only some
// parts, its reason names those first.

// naming prefixes a reason with the parts of an action that it concerns; none: it concerns the whole action.
func naming(parts []string, reason string) string { return namingFirst(maxNamed, parts, reason) }

func namingFirst(most int, parts []string, reason string) string {
	if len(parts) == 0 {
		return reason
	}
	return firstOf(most, parts, ", ") + ": " + reason
}

// finding is a deny or ask rule that matches an action, or may match it.
type finding struct {
	rule *rule
	sure match
	// parts are the commands and paths that the rule concerns, as they are shown; none: it concerns the whole action.
	parts []string
	// why is the rule's own reason, else a text without the rule's name.
	why string
	// detail is why it is not certain that the rule matches; empty: it is certain.
	detail string
}

func (r *rule) finding(a *action, sure match) finding {
	f := finding{rule: r, sure: sure, parts: r.about(a), why: r.reason}
	switch {
	case sure == maybe:
		f.why, f.detail = r.whyMaybe(a)
		f.detail = fmt.Sprintf("rule %s (%s) may match: %s", r.id, r.effect, f.detail)
	case r.reason == "" && r.effect == "deny":
		f.why = reason.PolicyDenies.String()
	case r.reason == "":
		f.why = reason.PolicyAsks.String()
	}
	return f
}

// Limits of the reason of several rules: an agent must not hide a rule by long commands that match another.
const (
	maxRules     = 4
	maxRuleParts = 160 // bytes; one part is always named
	maxRuleWhy   = 200 // characters
)

// reasonOf returns the reason of a decision by the first of the rules, and its detail. If other rules also concern
// single parts, or match for certain, it names each rule with its parts and its own reason.
func reasonOf(found []finding) (why, detail string) {
	var texts, details []string
	for i, f := range found {
		if i > 0 && f.sure != yes && len(f.parts) == 0 {
			continue
		}
		if text := fmt.Sprintf("%s (rule %s)", f.brief(), f.rule.id); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
		if f.detail != "" {
			details = append(details, f.detail)
		}
	}
	detail = firstOf(maxRules, details, "; ")
	if len(texts) > 1 {
		return firstOf(maxRules, texts, "; "), detail
	}
	switch f := found[0]; {
	case f.sure == maybe || f.rule.reason != "":
		return naming(f.parts, f.why), detail
	case f.rule.effect == "deny":
		return naming(f.parts, reason.RuleDenies.With(f.rule.id)), detail
	default:
		return naming(f.parts, reason.RuleAsks.With(f.rule.id)), detail
	}
}

// brief returns the parts and the reason, for a text that names several rules.
func (f *finding) brief() string {
	why := strings.TrimSuffix(cut(f.why, maxRuleWhy), ".")
	size := 0
	for i, part := range f.parts {
		if size += len(part); i > 0 && size > maxRuleParts {
			return namingFirst(min(i, maxNamed), f.parts, why)
		}
	}
	return naming(f.parts, why)
}

// about returns the commands and paths of an action that a deny or ask rule matches, as they are shown. It returns none
// if they are the whole action.
func (r *rule) about(a *action) []string {
	var parts []string
	if r.commands != nil && a.manyCommands() {
		last := -1
		r.eachSpelling(a, func(of int, w words, _ string) bool {
			if of > last && slices.ContainsFunc(r.commands, func(c command) bool { return c.judge(w) == yes }) {
				parts, last = append(parts, a.commandShown(of)), of
			}
			return true
		})
	}
	if r.paths != nil && (len(a.paths) > 1 || a.command) {
		for _, p := range a.paths {
			if forbidsPath(r.paths, a, p) {
				parts = append(parts, p.shown())
			}
		}
	}
	for i := range a.uses {
		u := &a.uses[i]
		globs := r.effects.reads
		if u.writes() {
			globs = r.effects.writes
		}
		if forbidsPath(r.paths, a, u.pathAccess) || forbidsPath(globs, a, u.pathAccess) {
			if shown := u.shown(); !slices.Contains(parts, shown) {
				parts = append(parts, shown)
			}
		}
	}
	return parts
}

// uncovered returns the commands, or the paths, that no allow rule covers, as they are shown. It returns none if that
// is all of them.
func uncovered(parts []Part, a *action) []string {
	taken := func(covers func(r *rule) bool) bool {
		return slices.ContainsFunc(parts, func(p Part) bool {
			return p.loosens() && slices.ContainsFunc(p.Policy.allow, func(r *rule) bool {
				return covers(r)
			})
		})
	}
	var shown []string
	all := 0
	switch {
	case a.certain && a.manyCommands():
		for i, sub := range a.GetCommand().GetSubCommands() {
			if len(sub.GetArgv()) == 0 {
				continue
			}
			all++
			if !taken(func(r *rule) bool { return r.holdsAround(a) && r.takes(a, i) }) {
				shown = append(shown, a.commandShown(i))
			}
		}
	case !a.command && !a.vague:
		for i := range a.paths {
			all++
			if p := &a.paths[i]; !taken(func(r *rule) bool {
				return !r.byCommand() && r.matchesKind(a.GetKind()) && r.matchesNames(a) && r.allowsPath(a, p)
			}) {
				shown = append(shown, p.shown())
			}
		}
	}
	if len(shown) == all {
		return nil
	}
	return shown
}

// notTaken returns why no rule on effects of commands covers the first command that no allow rule covers; empty: there
// is no such rule, or no reason.
func notTaken(parts []Part, a *action) string {
	var rules []*rule
	for _, p := range parts {
		if p.loosens() {
			rules = append(rules, slices.DeleteFunc(slices.Clone(p.Policy.allow), func(r *rule) bool { return !r.holdsAround(a) })...)
		}
	}
	if !a.runs() {
		return ""
	}
	for i, sub := range a.GetCommand().GetSubCommands() {
		if len(sub.GetArgv()) == 0 || slices.ContainsFunc(rules, func(r *rule) bool { return r.takes(a, i) }) {
			continue
		}
		for _, r := range rules {
			if r.commands == nil && plain(sub) && a.inPlace(sub) {
				return r.effects.whyNot(a, i)
			}
		}
		return ""
	}
	return ""
}

func (p *action) manyCommands() bool { return len(p.GetCommand().GetSubCommands()) > 1 }

// commandShown returns simple command i of a line with several commands.
func (p *action) commandShown(i int) string {
	return shell.Part(p.GetCommand().GetSubCommands(), i, show)
}

// shown returns the path as the agent named it, and where it leads.
func (p *pathAccess) shown() string {
	if p.resolved == "" || p.resolved == p.asked {
		return show(p.asked)
	}
	return fmt.Sprintf("%s (which is %s)", show(p.asked), show(p.resolved))
}
