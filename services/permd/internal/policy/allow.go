package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A line of several commands is allowed by one rule that takes all of it; or by several that take a command each. Then every
// one of them must hold for the line with all its conditions that are not about simple commands: on, agent, mode, tool, path
// and when. So several rules allow nothing that the agent could not do by several lines.

// allowance are the allow rules by which an action is allowed.
type allowance struct {
	// rules are in the order in which they are needed, each once.
	rules []*rule
	// of are the rules of the simple commands; nil: one rule takes the action as a whole.
	of []*rule
}

// allowedBy returns the rules of all parts that allow an action; nil: they do not.
func allowedBy(parts []Part, a *action) *allowance {
	var some []*rule
	for _, p := range parts {
		if !p.loosens() || p.Policy.digest == "" {
			continue
		}
		for _, r := range p.Policy.allow {
			if r.matches(a) == yes {
				return &allowance{rules: []*rule{r}}
			}
			if a.manyCommands() && r.holdsAround(a) {
				some = append(some, r)
			}
		}
	}
	if len(some) < 2 || !a.runs() {
		return nil
	}
	by := &allowance{of: make([]*rule, len(a.GetCommand().GetSubCommands()))}
	for i, sub := range a.GetCommand().GetSubCommands() {
		j := slices.IndexFunc(some, func(r *rule) bool { return r.takesSurely(a, i) })
		if j < 0 {
			return nil
		}
		by.of[i] = some[j]
		if len(sub.GetArgv()) > 0 && !slices.Contains(by.rules, some[j]) {
			by.rules = append(by.rules, some[j])
		}
	}
	return by
}

// allowedButForDoubts returns the rules that would allow an action if its commands were what their words say.
func allowedButForDoubts(parts []Part, a *action) *allowance {
	if a.whyDoubtful(func(int) *rule { return &rule{} }) == "" {
		return nil
	}
	a.trusting = true
	defer func() { a.trusting = false }()
	return allowedBy(parts, a)
}

// holdsAround reports whether the rule may take simple commands of an action: it is about those, and all its other conditions
// hold for the whole.
func (r *rule) holdsAround(a *action) bool {
	return r.byCommand() && (a.trusting || !a.changesGit()) &&
		!slices.ContainsFunc(allowingAround, func(c criterion) bool { return c.holds(r, a) != yes })
}

// takesSurely reports whether the rule takes simple command i, and it is what its words say.
func (r *rule) takesSurely(a *action, i int) bool {
	return (a.trusting || a.doubts[i].of(r) == "") && r.takes(a, i)
}

// taking is the rule that takes simple command i.
func (w *allowance) taking(i int) *rule {
	if w.of == nil {
		return w.rules[0]
	}
	return w.of[i]
}

// names are the ids of the rules, cut to the length that an id may have.
func (w *allowance) names() string {
	ids := make([]string, len(w.rules))
	for i, r := range w.rules {
		ids[i] = r.id
	}
	return cut(strings.Join(ids, ", "), maxID-1)
}

// reason is the one rule's, or says which rule takes which command.
func (w *allowance) reason(a *action) string {
	if len(w.rules) == 1 {
		return cmp.Or(w.rules[0].reason, "allowed by rule "+w.rules[0].id)
	}
	var texts []string
	for _, r := range w.rules {
		var taken []string
		for i, sub := range a.GetCommand().GetSubCommands() {
			if w.of[i] == r && len(sub.GetArgv()) > 0 {
				taken = append(taken, a.commandShown(i))
			}
		}
		f := finding{rule: r, parts: taken, why: cmp.Or(r.reason, "allowed")}
		texts = append(texts, fmt.Sprintf("%s (rule %s)", f.shortly(), r.id))
	}
	return firstOf(mostRules, texts, "; ")
}

// takesSome says which commands of a line an allow rule takes that does not take all of it; empty: none.
func (r *rule) takesSome(a *action) string {
	if r.effect != "allow" || !a.manyCommands() || !a.runs() || !r.holdsAround(a) {
		return ""
	}
	var taken []string
	for i, sub := range a.GetCommand().GetSubCommands() {
		if len(sub.GetArgv()) > 0 && r.takesSurely(a, i) {
			taken = append(taken, a.commandShown(i))
		}
	}
	return listOf(taken, ", ")
}
