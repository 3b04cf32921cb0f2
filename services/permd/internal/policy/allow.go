package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/reason"
)

// A line of several commands is allowed by one rule that covers all of it, or by several rules that each cover some of
// the commands. In the second case, all conditions of each rule that do not concern simple commands must hold for the
// whole line: on, agent, mode, tool, path and when. So several rules allow nothing that the agent could not do with
// several lines.

// allowance are the allow rules by which an action is allowed.
type allowance struct {
	// rules are in the order in which they are needed, without duplicates.
	rules []*rule
	// of are the rules of the simple commands; nil: one rule covers the action as a whole.
	of []*rule
}

// allowedBy returns the rules of all parts that together allow an action; nil: they do not.
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

// allowedButForDoubts returns the rules that would allow an action if its commands were the programs that they name.
func allowedButForDoubts(parts []Part, a *action) *allowance {
	if a.whyDoubtful(func(int) *rule { return &rule{} }) == "" {
		return nil
	}
	a.trusting = true
	defer func() { a.trusting = false }()
	return allowedBy(parts, a)
}

// holdsAround reports whether the rule may cover simple commands of an action: it concerns simple commands, and all its
// other conditions hold for the whole action.
func (r *rule) holdsAround(a *action) bool {
	return r.byCommand() && (a.trusting || !a.changesGit()) &&
		!slices.ContainsFunc(allowingAround, func(c criterion) bool { return c.holds(r, a) != yes })
}

// takesSurely reports whether the rule covers simple command i, and there is no doubt about the command.
func (r *rule) takesSurely(a *action, i int) bool {
	return (a.trusting || a.doubts[i].of(r) == "") && r.takes(a, i)
}

// taking returns the rule that covers simple command i.
func (w *allowance) taking(i int) *rule {
	if w.of == nil {
		return w.rules[0]
	}
	return w.of[i]
}

// byCommand reports whether one of the rules judges commands one by one, and so what they read.
func (w *allowance) byCommand() bool { return slices.ContainsFunc(w.rules, (*rule).byCommand) }

// names returns the ids of the rules, cut to the maximum length of an id.
func (w *allowance) names() string {
	ids := make([]string, len(w.rules))
	for i, r := range w.rules {
		ids[i] = r.id
	}
	return cut(strings.Join(ids, ", "), maxID-1)
}

// reason returns the reason of the only rule, or which rule covers which command.
func (w *allowance) reason(a *action) string {
	if len(w.rules) == 1 {
		return cmp.Or(w.rules[0].reason, reason.RuleAllows.With(w.rules[0].id))
	}
	var texts []string
	for _, r := range w.rules {
		var taken []string
		for i, sub := range a.GetCommand().GetSubCommands() {
			if w.of[i] == r && len(sub.GetArgv()) > 0 {
				taken = append(taken, a.commandShown(i))
			}
		}
		f := finding{rule: r, parts: taken, why: cmp.Or(r.reason, reason.PolicyAllows.String())}
		texts = append(texts, fmt.Sprintf("%s (rule %s)", f.brief(), r.id))
	}
	return firstOf(maxRules, texts, "; ")
}

// takesSome returns the commands of a line that an allow rule covers, if it does not cover the whole line; empty: none.
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
