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
	// the words match, unless odd is set: the reason why no such words exist.
	words []string
	open  bool // more words may follow
	odd   string
	// narrow: words match fewer commands than the pattern.
	narrow bool
	// lead and parts are the converse: every command that the pattern matches begins with lead, and contains each of
	// parts in one of its words.
	lead, parts []string
	// assigned: parts may also be in an assignment before the command.
	assigned bool
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
			c.odd = "there are no words of which only a part is given"
		}
	}
	switch {
	case c.odd != "":
	case strings.TrimSpace(pattern) != pattern && pattern != "" || strings.Contains(pattern, "  "):
		c.odd = "it depends on blanks that a command's words do not keep"
	case len(c.words) == 0 || c.words[0] == "*":
		c.odd = "it would allow any program"
	case isAssignment(strings.Fields(pattern)[0]):
		c.odd = "it sets a variable, which an allow rule does not take"
	case slices.ContainsFunc(c.words, func(w string) bool { return w != "*" && !isPlain(w) }):
		c.odd = "it has characters that a shell reads as more than text"
	}
	c.lead, c.parts = leadAndParts(fields, wild)
	switch {
	case len(fields) > 0 && (isAssignment(fields[0]) || strings.ContainsAny(fields[0], wild)):
		c.parts, c.assigned = append(c.lead, c.parts...), true
		c.lead = nil
	case len(c.lead) > 1 && hidesWords(c.lead):
		c.lead, c.parts = c.lead[:1], nil
	}
	return c
}

// hidesWords reports whether actions do not contain all words of a program: it is replaced by the program that it
// starts, or its options are skipped.
func hidesWords(lead []string) bool {
	switch lead[0] {
	case "git":
		return strings.HasPrefix(lead[1], "-")
	case "sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "busybox", "env", "timeout", "nice", "ionice", "stdbuf", "time",
		"taskset", "xargs", "setsid", "watch", "flock", "chrt", "doas", "sudo":
		return lead[0] != "sudo" && lead[0] != "doas" || strings.HasPrefix(lead[1], "-")
	}
	return false
}

// parsePrefix parses a text, without wildcards, with which commands begin, up to the end of a word.
func parsePrefix(prefix string) command {
	c := parseCommand(prefix, "")
	c.open = true
	return c
}

func leadAndParts(fields []string, wild string) (lead, parts []string) {
	for i, field := range fields {
		if strings.ContainsAny(field, wild) || !isPlain(field) || (i == 0 && field == "*") {
			break
		}
		lead = append(lead, field)
	}
	for _, field := range fields[len(lead):] {
		parts = append(parts, strings.FieldsFunc(field, func(r rune) bool {
			return strings.ContainsRune(wild, r) || !plainRune(r)
		})...)
	}
	return lead, parts
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
func (c *command) usable() bool { return c.odd == "" }

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

// is returns a CEL condition on a simple command s, which holds only if c matches s and no wrapper or assignment
// precedes it.
func (c *command) is() string {
	operator := "=="
	switch {
	case c.all:
		return "true"
	case c.open:
		operator = ">="
	}
	return "s.wrappers.size() == 0 && s.assignments.size() == 0 && " + c.begins(operator)
}

// begins returns a CEL condition on s: it begins with the words, and its number of words compares to theirs as operator
// says.
func (c *command) begins(operator string) string {
	condition := fmt.Sprintf("s.argv.size() %s %d", operator, len(c.words))
	for i, word := range c.words {
		if word != "*" {
			condition += fmt.Sprintf(" && s.argv[%d] == %s", i, strconv.Quote(word))
		}
	}
	return condition
}

// runs returns the kinds of actions that run a command.
func runs() []string { return []string{"terminal.create", "tool.execute"} }

// forbidding returns the rule that denies or asks about all commands that c may match, without those that one of except
// matches.
func (c *command) forbidding(effect string, except []*command) *permissionv1.Rule {
	rule := &permissionv1.Rule{Effect: effect}
	var conditions []string
	words := "s.argv"
	if c.assigned {
		words = "(s.argv + s.assignments)"
	}
	for _, part := range c.parts {
		conditions = append(conditions, words+".exists(w, w.contains("+strconv.Quote(part)+"))")
	}
	for _, other := range except {
		conditions = append(conditions, "!("+other.is()+")")
	}
	if len(c.lead) > 0 {
		rule.Command = []string{strings.Join(c.lead, " ")}
	} else {
		rule.On = runs()
	}
	if len(conditions) > 0 {
		rule.When = "action.command.sub_commands.exists(s, " + strings.Join(conditions, " && ") + ")"
	}
	return rule
}

// entry is an entry of an ordered list of entries about commands.
type entry struct {
	effect  string
	said    string // the original text, for people
	reason  string
	command command
	modes   []string
	why     string // why the entry cannot be converted to a rule that allows; empty: it can
}

func (e *entry) strictness() int { return slices.Index([]string{allow, ask, deny}, e.effect) }

// ordered adds rules for entries of which the first match applies.
func (d *draft) ordered(entries []entry, guard string) {
	for i := range entries {
		e := &entries[i]
		if e.effect == allow {
			d.allowed(e, entries[:i], guard)
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
			if stronger.strictness() < e.strictness() && stronger.why == "" && (stronger.command.all || stronger.command.usable()) &&
				(len(stronger.modes) == 0 || slices.Equal(stronger.modes, e.modes)) {
				except = append(except, &stronger.command)
			}
		}
		rule := e.command.forbidding(e.effect, except)
		rule.Mode, rule.Reason = e.modes, e.reason
		d.add(e.said, rule)
	}
}

func (d *draft) allowed(e *entry, stronger []entry, guard string) {
	for i := range stronger {
		if o := &stronger[i]; len(o.modes) == 0 && o.effect != allow && o.command.covers(&e.command) {
			return // another entry always has precedence
		}
	}
	switch {
	case e.why != "":
		d.drop(e.said, e.why)
		return
	case !e.command.all && !e.command.usable():
		d.drop(e.said, "rules look at a command's words, not at its text, and "+e.command.odd+
			": write an allow rule with the words that it may begin with")
		return
	case e.command.narrow:
		d.drop(e.said, "it is carried over for fewer commands: "+e.command.meaning()+"; write an allow rule for each of the others")
	}
	if e.command.all {
		rule := &permissionv1.Rule{Effect: allow, On: runs(), Mode: e.modes, Reason: e.reason}
		if guard != "" {
			rule.When = "action.command.sub_commands.all(s, " + guard + ")"
		}
		d.add(e.said, rule)
		return
	}
	// A line may contain commands of several entries, and one rule must match them all.
	i := slices.IndexFunc(d.allows, func(a allows) bool { return a.guard == guard && slices.Equal(a.modes, e.modes) })
	if i < 0 {
		i = len(d.allows)
		d.allows = append(d.allows, allows{guard: guard, modes: e.modes})
	}
	d.allows[i].commands = append(d.allows[i].commands, &e.command)
}

// allows are the commands that are allowed under the same conditions.
type allows struct {
	guard    string
	modes    []string
	commands []*command
}

// addAllows adds the rules for the allowed commands.
func (d *draft) addAllows() {
	for _, a := range d.allows {
		rule := &permissionv1.Rule{Effect: allow, Mode: a.modes, Reason: d.origin + " allows these commands."}
		conditions := []string{}
		for _, c := range a.commands {
			if words := strings.Join(c.words, " "); !slices.Contains(rule.Command, words) {
				rule.Command = append(rule.Command, words)
			}
			if !c.open && !slices.ContainsFunc(a.commands, func(o *command) bool { return o.open && o.covers(c) }) {
				conditions = append(conditions, c.ends())
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

// ends returns a CEL condition on a simple command s: if it begins with the words, no further words follow.
func (c *command) ends() string { return "!(" + c.begins(">") + ")" }

// meaning describes the commands that the words match.
func (c *command) meaning() string {
	if c.open {
		return "those that begin with the words " + strconv.Quote(strings.Join(c.words, " "))
	}
	return "those of the words " + strconv.Quote(strings.Join(c.words, " ")) + ", where * is one word"
}
