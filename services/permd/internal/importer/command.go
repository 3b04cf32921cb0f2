package importer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

const (
	allow = "allow"
	deny  = "deny"
	ask   = "ask"
)

// command is another program's pattern for commands, converted to words. The pattern matches the text of a line, where
// "*" matches any characters, including spaces.
type command struct {
	// all: the pattern matches every command.
	all bool
	// words are the first words of a command, where "*" matches any one word. The pattern matches every command that
	// the words match, unless problem is set: the reason why no such words exist.
	words   []string
	open    bool // more words may follow
	problem string
	// narrow: words match fewer commands than the pattern.
	narrow bool
	// prefix and substrings are the converse: every command that the pattern matches begins with prefix, and contains
	// each of substrings in one of its words.
	prefix, substrings []string
	// inAssignments: substrings may also be in an assignment before the command.
	inAssignments bool
}

// parseCommand parses a pattern. wild contains its wildcards: "*", and "?" for one character.
func parseCommand(pattern, wild string) command {
	fields := strings.Fields(pattern)
	for len(fields) > 1 && isAssignment(fields[0]) && !strings.ContainsAny(fields[0], wild) {
		// In an action, assignments are not words of a command. Some programs match the words after them, so a rule
		// that denies must do the same.
		fields = fields[1:]
	}
	c := command{all: strings.Trim(pattern, "*") == "" && strings.Contains(wild, "*")}
	if c.all {
		return c
	}
	for i, field := range fields {
		last := i == len(fields)-1
		stem := strings.TrimRight(field, wild)
		switch {
		case !strings.ContainsAny(field, wild):
			c.words = append(c.words, field)
		case field == "*" && last:
			c.open = true
		case field == "*":
			c.words, c.narrow = append(c.words, field), true
		case last && stem != "" && !strings.ContainsAny(stem, wild) && strings.Trim(field[len(stem):], "*") == "":
			c.words, c.open, c.narrow = append(c.words, stem), true, true
		default:
			c.problem = "there are no words of which only a part is given"
		}
	}
	switch {
	case c.problem != "":
	case strings.TrimSpace(pattern) != pattern && pattern != "" || strings.Contains(pattern, "  "):
		c.problem = "it depends on blanks that a command's words do not keep"
	case len(c.words) == 0 || c.words[0] == "*":
		c.problem = "it would allow any program"
	case isAssignment(strings.Fields(pattern)[0]):
		c.problem = "it sets a variable, which an allow rule does not take"
	case slices.ContainsFunc(c.words, func(w string) bool { return w != "*" && !isPlain(w) }):
		c.problem = "it has characters that a shell reads as more than text"
	}
	c.prefix, c.substrings = prefixAndSubstrings(fields, wild)
	switch {
	case len(fields) > 0 && (isAssignment(fields[0]) || strings.ContainsAny(fields[0], wild)):
		c.substrings, c.inAssignments = append(c.prefix, c.substrings...), true
		c.prefix = nil
	case len(c.prefix) > 1 && hidesWords(c.prefix):
		c.prefix, c.substrings = c.prefix[:1], nil
	}
	return c
}

// hidesWords reports whether actions do not contain all words of a program: it is replaced by the program that it
// starts, or its options are skipped.
func hidesWords(prefix []string) bool {
	switch prefix[0] {
	case "git":
		return strings.HasPrefix(prefix[1], "-")
	case "sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "busybox", "env", "timeout", "nice", "ionice", "stdbuf", "time",
		"taskset", "xargs", "setsid", "watch", "flock", "chrt", "doas", "sudo":
		return prefix[0] != "sudo" && prefix[0] != "doas" || strings.HasPrefix(prefix[1], "-")
	}
	return false
}

// parsePrefix parses a text, without wildcards, with which commands begin, up to the end of a word.
func parsePrefix(prefix string) command {
	c := parseCommand(prefix, "")
	c.open = true
	return c
}

func prefixAndSubstrings(fields []string, wild string) (prefix, substrings []string) {
	for i, field := range fields {
		if strings.ContainsAny(field, wild) || !isPlain(field) || (i == 0 && field == "*") {
			break
		}
		prefix = append(prefix, field)
	}
	for _, field := range fields[len(prefix):] {
		substrings = append(substrings, strings.FieldsFunc(field, func(r rune) bool {
			return strings.ContainsRune(wild, r) || !plainRune(r)
		})...)
	}
	return prefix, substrings
}

// isPlain reports whether a shell does not change the word.
func isPlain(word string) bool {
	return word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plainRune(r) })
}

func plainRune(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_-./:@%+,=^", r)
}

func isAssignment(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	return ok && name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	})
}

// usable reports whether the words can be used in a rule that allows.
func (c *command) usable() bool { return c.problem == "" }

// covers reports whether c matches every command that other matches, according to their words.
func (c *command) covers(other *command) bool {
	switch {
	case c.all:
		return true
	case !c.usable() || c.narrow || other.all || len(other.words) < len(c.words) || (!c.open && (other.open || len(other.words) > len(c.words))):
		return false
	}
	return slices.Equal(c.words, other.words[:len(c.words)])
}

// matchCondition returns a CEL condition on a simple command s, which holds only if c matches s and no wrapper or
// assignment precedes it.
func (c *command) matchCondition() string {
	operator := "=="
	switch {
	case c.all:
		return "true"
	case c.open:
		operator = ">="
	}
	return "s.wrappers.size() == 0 && s.assignments.size() == 0 && " + c.prefixCondition(operator)
}

// prefixCondition returns a CEL condition on s: it begins with the words, and operator compares its number of words to
// theirs.
func (c *command) prefixCondition(operator string) string {
	condition := fmt.Sprintf("s.argv.size() %s %d", operator, len(c.words))
	for i, word := range c.words {
		if word != "*" {
			condition += fmt.Sprintf(" && s.argv[%d] == %s", i, strconv.Quote(word))
		}
	}
	return condition
}

// commandKinds returns the kinds of actions that run a command.
func commandKinds() []string { return []string{"terminal.create", "tool.execute"} }

// restrictingRule returns the rule that denies or asks about all commands that c may match, without those that one of
// except matches.
func (c *command) restrictingRule(effect string, except []*command) *permissionv1.Rule {
	rule := &permissionv1.Rule{Effect: effect}
	var conditions []string
	words := "s.argv"
	if c.inAssignments {
		words = "(s.argv + s.assignments)"
	}
	for _, part := range c.substrings {
		conditions = append(conditions, words+".exists(w, w.contains("+strconv.Quote(part)+"))")
	}
	for _, other := range except {
		conditions = append(conditions, "!("+other.matchCondition()+")")
	}
	if len(c.prefix) > 0 {
		rule.Command = []string{strings.Join(c.prefix, " ")}
	} else {
		rule.On = commandKinds()
	}
	if len(conditions) > 0 {
		rule.When = "action.command.sub_commands.exists(s, " + strings.Join(conditions, " && ") + ")"
	}
	return rule
}

// entry is an entry of an ordered list of entries about commands.
type entry struct {
	effect     string
	source     string // the original text, for people
	reason     string
	command    command
	modes      []string
	dropReason string // why the entry cannot be converted to a rule that allows; empty: it can
}

func (e *entry) strictness() int { return slices.Index([]string{allow, ask, deny}, e.effect) }

// addOrdered adds rules for entries of which the first match applies.
func (d *draft) addOrdered(entries []entry, guard string) {
	for i := range entries {
		e := &entries[i]
		if e.effect == allow {
			d.addAllowed(e, entries[:i], guard)
			continue
		}
		if e.effect == ask && !slices.ContainsFunc(entries[i+1:], func(o entry) bool { return o.effect == allow }) {
			continue // the default for actions without a matching rule
		}
		var except []*command
		for j := range entries[:i] {
			stronger := &entries[j]
			// A pattern without usable words, or for other modes, does not become an exception; the rule is stricter
			// then.
			if stronger.strictness() < e.strictness() && stronger.dropReason == "" && (stronger.command.all || stronger.command.usable()) &&
				(len(stronger.modes) == 0 || slices.Equal(stronger.modes, e.modes)) {
				except = append(except, &stronger.command)
			}
		}
		rule := e.command.restrictingRule(e.effect, except)
		rule.Mode, rule.Reason = e.modes, e.reason
		d.add(e.source, rule)
	}
}

func (d *draft) addAllowed(e *entry, stronger []entry, guard string) {
	for i := range stronger {
		if o := &stronger[i]; len(o.modes) == 0 && o.effect != allow && o.command.covers(&e.command) {
			return // another entry always has precedence
		}
	}
	switch {
	case e.dropReason != "":
		d.drop(e.source, e.dropReason)
		return
	case !e.command.all && !e.command.usable():
		d.drop(e.source, "rules look at a command's words, not at its text, and "+e.command.problem+
			": write an allow rule with the words that it may begin with")
		return
	case e.command.narrow:
		d.drop(e.source, "it is carried over for fewer commands: "+e.command.describe()+"; write an allow rule for each of the others")
	}
	if e.command.all {
		rule := &permissionv1.Rule{Effect: allow, On: commandKinds(), Mode: e.modes, Reason: e.reason}
		if guard != "" {
			rule.When = "action.command.sub_commands.all(s, " + guard + ")"
		}
		d.add(e.source, rule)
		return
	}
	// A line may contain commands of several entries, and one rule must match them all.
	i := slices.IndexFunc(d.allowGroups, func(a allowGroup) bool { return a.guard == guard && slices.Equal(a.modes, e.modes) })
	if i < 0 {
		i = len(d.allowGroups)
		d.allowGroups = append(d.allowGroups, allowGroup{guard: guard, modes: e.modes})
	}
	d.allowGroups[i].commands = append(d.allowGroups[i].commands, &e.command)
}

// allowGroup are the commands that are allowed under the same conditions.
type allowGroup struct {
	guard    string
	modes    []string
	commands []*command
}

// addAllows adds the rules for the allowed commands.
func (d *draft) addAllows() {
	for _, a := range d.allowGroups {
		rule := &permissionv1.Rule{Effect: allow, Mode: a.modes, Reason: d.origin + " allows these commands."}
		conditions := []string{}
		for _, c := range a.commands {
			if words := strings.Join(c.words, " "); !slices.Contains(rule.Command, words) {
				rule.Command = append(rule.Command, words)
			}
			if !c.open && !slices.ContainsFunc(a.commands, func(o *command) bool { return o.open && o.covers(c) }) {
				conditions = append(conditions, c.exactCondition())
			}
		}
		if a.guard != "" {
			conditions = append(conditions, a.guard)
		}
		if len(conditions) > 0 {
			slices.Sort(conditions)
			rule.When = "action.command.sub_commands.all(s, " + strings.Join(slices.Compact(conditions), " && ") + ")"
		}
		d.add("commands", rule)
	}
}

// exactCondition returns a CEL condition on a simple command s: if it begins with the words, no further words follow.
func (c *command) exactCondition() string { return "!(" + c.prefixCondition(">") + ")" }

// describe describes the commands that the words match.
func (c *command) describe() string {
	if c.open {
		return "those that begin with the words " + strconv.Quote(strings.Join(c.words, " "))
	}
	return "those of the words " + strconv.Quote(strings.Join(c.words, " ")) + ", where * is one word"
}
