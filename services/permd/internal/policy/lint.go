package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/hosts"
	"github.com/acphost/acphost/internal/pathglob"
	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// maxCompared limits the rules that are compared with one another.
const maxCompared = 2000

// warnings returns findings about rules that load but probably do not have the intended effect.
func (l *loaded) warnings() []*permissionv1.Finding {
	var found []*permissionv1.Finding
	warn := func(field, rule, format string, args ...any) {
		line, column := l.doc.Position(field)
		found = append(found, &permissionv1.Finding{Severity: permissionv1.Severity_SEVERITY_WARNING,
			Line: uint32(line), Column: uint32(column), Rule: rule, Message: fmt.Sprintf(format, args...)}) // bounded by the file
	}
	if l.policy.unattended == allow {
		warn("unattended", "", "unattended: allow lets through whatever would be asked while no one is there, but for "+
			"what a deny rule may match; say deny, and allow by rules what may go by itself")
	}
	rules := l.policy.rules
	compared := rules
	if len(rules) > maxCompared {
		compared = nil
		warn("rules", "", "there are more than %d rules: whether one leaves nothing for another to do was not looked into", maxCompared)
	}
	for i := range rules {
		r := &rules[i]
		at := fmt.Sprintf("rules[%d]", i)
		for _, odd := range r.oddities() {
			field := at
			if odd.field != "" {
				field += "." + odd.field
			}
			warn(field, r.id, "%s", odd.message)
		}
		if by := eclipsedBy(compared, r); by != nil {
			verb := "always wins"
			if by.effect == r.effect {
				verb = "already does the same"
			}
			warn(at, r.id, "this rule makes no difference: rule %s (%s, line %d) matches whatever it matches, and %s", by.id, by.effect, by.line, verb)
			continue
		}
		for _, odd := range r.shadowed(compared) {
			warn(at+"."+odd.field, r.id, "%s", odd.message)
		}
		if by := r.evadedBy(rules); by != nil {
			warn(at, r.id, "this rule cannot hold: rule %s (allow, line %d) allows commands of which it is not known what they run, and those can do "+
				"what this rule denies; name the commands that rule %s is for, or run agents in the sandbox, which judges every process", by.id, by.line, by.id)
		}
	}
	return found
}

// maxShadowed limits the entries of a rule that are compared one by one with the stricter rules.
const maxShadowed = 200

// shadowed returns the entries of an allow rule that a stricter rule makes ineffective: every action that only this
// entry allows is denied or asked about.
func (r *rule) shadowed(rules []rule) []oddity {
	if r.effect != "allow" || len(r.commands)+len(r.paths) > maxShadowed {
		return nil
	}
	var all []oddity
	report := func(part rule, field, text string) {
		by := eclipsedBy(rules, &part)
		if by == nil && part.commands != nil {
			by = networkRule(rules, &part)
		}
		if by == nil && part.commands != nil {
			if by := doubtingRule(rules, &part); by != nil {
				all = append(all, oddity{field, fmt.Sprintf("`%s` has no effect here: it is always asked about, since it is not known whether it does what rule %s "+
					"(%s, line %d) is about", text, by.id, by.effect, by.line)})
			}
			return
		}
		if by != nil && by.effect != "allow" {
			verdict := map[string]string{"deny": "denied", "ask": "asked about"}[by.effect]
			all = append(all, oddity{field, fmt.Sprintf("`%s` has no effect here: it is always %s by rule %s (line %d)", text, verdict, by.id, by.line)})
		}
	}
	for i, c := range r.commands {
		part := *r
		part.commands = []command{c}
		report(part, fmt.Sprintf("command[%d]", i), strings.Join(c.prefix, " "))
	}
	for i, g := range r.paths {
		if part := *r; len(r.paths) > 1 {
			part.paths = []glob{g}
			report(part, fmt.Sprintf("path[%d]", i), g.source)
		}
	}
	return all
}

// networkRule returns a stricter rule that concerns only commands that contact other machines, if the single command of
// an allow rule always contacts one; nil: none.
func networkRule(rules []rule, r *rule) *rule {
	words := r.commands[0].prefix
	if !shell.Contacts(words) && !shell.Contacts(append(slices.Clone(words), "x")) {
		return nil
	}
	for i := range rules {
		by := rules[i]
		if by.effect == "allow" || by.effects.network == nil || !*by.effects.network || by.effects.files() || by.effects.runsCode != nil {
			continue
		}
		by.effects = effects{}
		if by.coversAll(r) {
			return &rules[i]
		}
	}
	return nil
}

// doubtingRule returns a stricter rule that concerns only effects of commands, if the effects of the single command of
// an allow rule are uncertain, so that it is never allowed; nil: none.
func doubtingRule(rules []rule, r *rule) *rule {
	words := r.commands[0].prefix
	if slices.ContainsFunc(words, func(word string) bool { return strings.Contains(word, "*") }) {
		return nil
	}
	var alone, more *action // the command, and the same with an operand
	for i := range rules {
		by := rules[i]
		if by.effect == "allow" || !by.effects.any() {
			continue
		}
		does := by.effects
		if by.effects = (effects{}); !by.coversAll(r) {
			continue
		}
		if alone == nil {
			alone, more = exampleOf(words), exampleOf(append(slices.Clone(words), "x"))
		}
		if does.forbids(alone) == maybe && does.forbids(more) == maybe {
			return &rules[i]
		}
	}
	return nil
}

// exampleOf returns the action that runs words in the root of a session.
func exampleOf(words []string) *action {
	a := &permissionv1.Action{
		Kind: "terminal.create", Agent: "agent", Roots: []string{exampleRoot}, ResolvedRoots: []string{exampleRoot}, Door: permissionv1.Door_DOOR_CALL,
	}
	exampleCommand(a, shell.Quote(words), false)
	return newAction(a)
}

// evadedBy returns an allow rule that covers commands with unknown effects, which could evade a deny rule on commands
// or on the files that they name; nil: none.
func (r *rule) evadedBy(rules []rule) *rule {
	if r.effect != "deny" || r.commands == nil && r.paths == nil || r.on != nil && !slices.ContainsFunc(r.on, runsAny) {
		return nil
	}
	for i := range rules {
		by := &rules[i]
		if by.effect != "allow" || by.on != nil && !slices.ContainsFunc(by.on, runsAny) ||
			!namesMeet(r.agents, by.agents) || !namesMeet(r.modes, by.modes) {
			continue
		}
		if by.allowsEveryCommand() || !by.effects.any() && slices.ContainsFunc(by.commands, runsAnything) {
			return by
		}
	}
	return nil
}

// namesMeet reports whether two conditions on a name may hold together.
func namesMeet(a, b []string) bool {
	return len(a) == 0 || len(b) == 0 || slices.ContainsFunc(a, func(name string) bool {
		return slices.ContainsFunc(b, func(other string) bool { return starMatches(name, other) || starMatches(other, name) })
	})
}

// runsAnything reports whether a command of an allow rule covers any program, or an interpreter with any code.
func runsAnything(c command) bool {
	return len(c.prefix) == 1 && (c.prefix[0] == "*" || shell.Interpreter(c.prefix[0]) || c.prefix[0] == "npx" || c.prefix[0] == "uvx")
}

// allowsEveryCommand reports whether an allow rule covers all commands.
func (r *rule) allowsEveryCommand() bool {
	return !r.byCommand() && r.paths == nil && r.when == nil && len(r.contained) == 0 && !r.othersTools() && (r.on == nil || slices.ContainsFunc(r.on, runsAny))
}

// oddity is a suspicious property of a rule by itself.
type oddity struct{ field, message string }

func (r *rule) oddities() []oddity {
	var all []oddity
	add := func(odd bool, field, message string) {
		if odd {
			all = append(all, oddity{field, message})
		}
	}
	for i, g := range r.on {
		add(!g.exists(), fmt.Sprintf("on[%d]", i), fmt.Sprintf("no action has the kind %q, so that this never matches; the kinds are %s, and methods of "+
			"extensions, which begin with an underscore", string(g), strings.Join(kinds, ", ")))
	}
	add(r.on != nil && r.hosts != nil && !slices.ContainsFunc(r.on, func(g kindGlob) bool { return g.matches("net.connect") }), "host",
		"this rule never matches: no action of the kinds in on connects to a machine; take host away, or add net.connect to on")
	add(r.hosts != nil && (r.commands != nil || r.effects.any() || r.paths != nil), "host",
		"this rule never matches: an action that connects to a machine runs no command and touches no path; have a rule of its own for host")
	for i, p := range r.hosts {
		add(r.effect != "deny" && p.OnlyMetadata(), fmt.Sprintf("host[%d]", i),
			p.String()+" never counts here: it is where a cloud keeps keys of a machine, and acphost's proxy connects no agent to it")
	}
	add(r.on != nil && r.commands != nil && !slices.ContainsFunc(r.on, mayRunCommand), "command",
		"this rule never matches: no action of the kinds in on runs a command; take command away, or add terminal.create and tool.execute to on")
	add(r.on != nil && r.effects.any() && !slices.ContainsFunc(r.on, mayRunCommand), "on",
		"this rule never matches: reads, writes, runs_code and network are about commands, and no action of the kinds in on runs one; "+
			"for files that agents read and write themselves say path, or add terminal.create and tool.execute to on")
	for i, c := range r.commands {
		why := unmatchable(c.prefix, r.effect == "allow")
		add(why != "", fmt.Sprintf("command[%d]", i), why)
	}
	add(r.on != nil && !slices.ContainsFunc(r.on, func(g kindGlob) bool { return g != "tool.switch_mode" }), "on",
		"this rule never counts: a change of mode is always for a person to decide")
	if r.effect != "allow" {
		add(r.redirectAny, "redirect",
			"redirect: any changes nothing here: a deny or ask rule matches with redirections and without them; take it away")
		return all
	}
	if i := slices.IndexFunc(r.commands, onlyLooks); i >= 0 {
		add(r.workspacePrograms, fmt.Sprintf("command[%d]", i), fmt.Sprintf("workspace_programs lets a program of the workspace "+
			"that is named like the command `%s`, which only looks, run unasked: have commands that look in a rule of their own",
			strings.Join(r.commands[i].prefix, " ")))
	}
	add(r.redirectAny && r.paths == nil && r.byCommand(), "redirect",
		"redirect: any changes nothing without path: only files that path covers may be redirected to; add path")
	add(r.effects.any() && !r.effects.files() && r.commands == nil, "",
		"this rule allows commands that write any file: name commands, or the files that they may use in reads and writes")
	add(r.paths != nil && !r.byCommand() && r.on != nil && !slices.ContainsFunc(r.on, mayRunNone), "path",
		"this rule never matches: path alone does not allow an action that runs a command, since the command may touch other files; add command")
	add(r.allowsEveryCommand(), "",
		"this rule allows every command, with options that run or write something else included: name commands")
	return all
}

// unmatchable returns why no simple command begins with a rule's words, and what to write instead; empty: some command
// may. A rule is compared with the words of a simple command, without the quotes, variables and wrappers of a shell
// line.
func unmatchable(words prefix, allows bool) string {
	line := slices.Clone(words)
	for i, word := range line {
		if word == "*" {
			line[i] = "x" // any one word
		}
	}
	text := strings.Join(words, " ")
	subs, unparsed := shell.Parse(strings.Join(line, " "))
	if len(subs) > 1 {
		var each []string
		for _, sub := range subs {
			if len(sub.GetArgv()) > 0 {
				each = append(each, strings.Join(sub.GetArgv(), " "))
			}
		}
		return fmt.Sprintf("`%s` never matches: a line is taken apart before rules see it, into one command each; write %q", text, each)
	}
	if len(subs) == 0 || unparsed != "" && strings.ContainsAny(text, "\"'`$\\|&;<>()") {
		return fmt.Sprintf("`%s` never matches: it is not the beginning of a simple command; write the words that the program is given, without a shell's operators", text)
	}
	sub := subs[0]
	argv := strings.Join(sub.GetArgv(), " ")
	switch {
	case len(sub.GetRedirections()) > 0:
		return fmt.Sprintf("`%s` never matches: redirections are no words of a command; write `%s`, with redirect: any and the files in path", text, argv)
	case len(sub.GetAssignments()) > 0:
		return fmt.Sprintf("`%s` never matches: variables in front are no words of a command; write `%s` (harmless ones, like CI=1, may stand in front of it)", text, argv)
	case len(sub.GetWrappers()) > 0 && allows && len(sub.GetArgv()) > 0:
		return fmt.Sprintf("`%s` never matches: %s is taken off before an allow rule sees the command; write `%s`", text, strings.Join(sub.GetWrappers(), ", "), argv)
	case sub.GetDynamic() && slices.ContainsFunc(words, func(w string) bool { return w != "*" && mayExpand(w) }):
		return fmt.Sprintf("`%s` hardly ever matches: a shell puts something in place of variables and patterns; write * for any one word, or fewer words", text)
	case strings.ContainsAny(text, "&;|()"):
		return fmt.Sprintf("`%s` never matches: a shell's operators are no words of a command; write `%s`", text, argv)
	case !slices.Equal(sub.GetArgv(), line) && len(sub.GetWrappers()) == 0:
		return fmt.Sprintf("`%s` never matches: quotes and backslashes are no part of a command's words; write the words without them, and * for a word with a blank", text)
	}
	return ""
}

// onlyLooks reports whether a command only reads and prints.
func onlyLooks(c command) bool {
	_, looks := shell.Generalisable(c.prefix)
	return looks
}

// othersTools reports whether the rule concerns only tools of MCP servers, as agents name them: those run no shell.
func (r *rule) othersTools() bool {
	return r.tools != nil && !slices.ContainsFunc(r.tools, func(name string) bool { return !strings.HasPrefix(name, "mcp__") })
}

// mayRunCommand reports whether actions of the kinds may contain a command. Those of extensions may.
func mayRunCommand(g kindGlob) bool {
	space, _, _ := strings.Cut(string(g), ".")
	if space == "process" {
		return g.matches(processStart)
	}
	return runsAny(g) || g.matches("tool.other") || g.matches("unknown") || (space != "fs" && space != "terminal" && space != "tool" && space != "net" && g != "elicitation")
}

// mayRunNone reports whether actions of the kinds may have no command.
func mayRunNone(g kindGlob) bool { return g != "terminal.create" && g != "tool.execute" }

// runsAny reports whether one of the kinds runs commands.
func runsAny(g kindGlob) bool { return g.matches("terminal.create") || g.matches("tool.execute") }

// exists reports whether an action may have a kind that the pattern matches.
func (g kindGlob) exists() bool {
	return strings.ContainsAny(string(g), "./_") || slices.ContainsFunc(kinds, g.matches)
}

// eclipsedBy returns a rule that matches every action that r matches and is at least as strict, so that r has no
// effect; nil if none is known. Of two equal rules the later one is eclipsed.
func eclipsedBy(rules []rule, r *rule) *rule {
	for i := range rules {
		by := &rules[i]
		if by == r || by.index == r.index || by.strictness() < r.strictness() || !by.coversAll(r) {
			continue
		}
		if by.strictness() == r.strictness() && by.index > r.index && r.coversAll(by) {
			continue
		}
		return by
	}
	return nil
}

func (r *rule) strictness() int {
	switch {
	case r.effect == "deny":
		return 3
	case r.effect == "ask" && !r.grantable:
		return 2
	case r.effect == "ask":
		return 1
	}
	return 0
}

// coversAll reports whether the rule certainly matches every action that another matches. False: it is not certain.
func (r *rule) coversAll(other *rule) bool {
	if r.effect == "allow" && other.workspacePrograms && !r.workspacePrograms {
		return false
	}
	sameWhen := r.when == nil || (other.when != nil && r.when.source == other.when.source)
	return sameWhen && r.wallsCover(other) && r.exceptsOnlyOf(other) && namesCover(r.agents, other.agents) && namesCover(r.modes, other.modes) && namesCover(r.tools, other.tools) && r.hostsCover(other) &&
		r.kindsCover(other) && r.redirectionsCover(other) && r.commandsCover(other) && r.effects.cover(&other.effects) && r.pathsCover(other)
}

// exceptsOnlyOf reports whether the kinds that the rule is not for are excepted by another rule, too.
func (r *rule) exceptsOnlyOf(other *rule) bool {
	return len(r.notOn) == 0 || slices.Equal(r.notOn, other.notOn)
}

// wallsCover reports whether the rule's conditions on walls hold wherever those of another rule hold.
func (r *rule) wallsCover(other *rule) bool {
	isOthers := func(name string) bool { return slices.Contains(other.contained, name) }
	return !slices.ContainsFunc(r.contained, func(name string) bool { return !isOthers(name) }) &&
		(len(r.notContained) == 0 || slices.Equal(r.notContained, other.notContained))
}

func namesCover(names, others []string) bool {
	if len(names) == 0 || slices.Contains(names, "*") {
		return true
	}
	return len(others) > 0 && !slices.ContainsFunc(others, func(other string) bool {
		return !slices.Contains(names, other) && (strings.Contains(other, "*") || !matchesName(names, other))
	})
}

func (r *rule) hostsCover(other *rule) bool {
	if r.hosts == nil {
		return r.effect != "allow" || other.hosts == nil // without host it allows no special addresses
	}
	return other.hosts != nil && !slices.ContainsFunc(other.hosts, func(theirs hosts.Pattern) bool {
		return !slices.ContainsFunc(r.hosts, func(mine hosts.Pattern) bool { return mine.Includes(theirs) })
	})
}

func (r *rule) kindsCover(other *rule) bool {
	if r.on == nil {
		return true
	}
	// Only a star in this rule's pattern matches a star in the other's, and covers the same kinds.
	return other.on != nil && !slices.ContainsFunc(other.on, func(g kindGlob) bool {
		return !slices.ContainsFunc(r.on, func(mine kindGlob) bool { return mine.matches(string(g)) })
	})
}

func (r *rule) redirectionsCover(other *rule) bool {
	if r.effect == "allow" {
		// A rule on simple commands may cover those of a line in which others redirect to files.
		return r.redirectAny || !other.redirectAny && (r.byCommand() || !other.byCommand())
	}
	return !r.redirectNone || other.redirectNone || (other.effect == "allow" && !other.redirectAny)
}

func (r *rule) commandsCover(other *rule) bool {
	if r.commands == nil && r.effect == "allow" && r.effects.any() {
		return true // the effects select the commands
	}
	if r.commands == nil {
		// An allow rule with only a path covers no commands, nor does one with only a condition.
		return r.effect != "allow" || (r.paths == nil && (r.when == nil || r.on != nil)) || (other.commands == nil && other.on == nil)
	}
	return other.commands != nil && !slices.ContainsFunc(other.commands, func(theirs command) bool {
		return !slices.ContainsFunc(r.commands, func(mine command) bool {
			return mine.begins(theirs.prefix) && (r.effect != "allow" || shell.Names(mine.risks, theirs.risks))
		})
	})
}

// cover reports whether the conditions on effects certainly hold wherever the other's hold.
func (e *effects) cover(other *effects) bool {
	globs := func(a, b []glob) bool {
		return slices.EqualFunc(a, b, func(a, b glob) bool { return a.source == b.source })
	}
	flags := func(a, b *bool) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }
	return !e.any() || globs(e.reads, other.reads) && globs(e.writes, other.writes) && flags(e.runsCode, other.runsCode) && flags(e.network, other.network)
}

func (r *rule) pathsCover(other *rule) bool {
	if r.paths == nil {
		return true
	}
	if other.paths == nil || (other.redirectAny && other.byCommand() && r.effect != "allow") {
		return false // it may match without any path
	}
	return !slices.ContainsFunc(other.paths, func(theirs glob) bool {
		return !slices.ContainsFunc(r.paths, func(mine glob) bool { return mine.coversAll(&theirs) })
	})
}

// coversAll reports whether the glob certainly matches everything that another matches.
func (g *glob) coversAll(other *glob) bool {
	if g.limits.any() {
		return false // it is about some of these files
	}
	if g.source == other.source {
		return true
	}
	if g.rooted != other.rooted || len(g.exact) != 1 || len(other.exact) != 1 {
		return false
	}
	mine, theirs := g.exact[0], other.exact[0]
	if theirs.Literal {
		return mine.Matches(theirs.Text)
	}
	dir, all := strings.CutSuffix(mine.Text, "**")
	return all && !strings.ContainsAny(dir, pathglob.Meta) && strings.HasPrefix(theirs.Text, dir)
}
