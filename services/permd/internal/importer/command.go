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

// command is what another program's pattern for commands says, in terms of words. The pattern is one of the line's text,
// where "*" stands for any characters, blanks too.
type command struct {
	// all: every command.
	all bool
	// words are what a command begins with, "*" standing for any one word. Every command that they match is matched by the
	// pattern too, unless odd says why there are no such words.
	words []string
	open  bool // more words may follow
	odd   string
	// narrow: words match fewer commands than the pattern.
	narrow bool
	// lead and parts are for the opposite: every command that the pattern matches begins with lead and has each of parts
	// in one of its words.
	lead, parts []string
	// assigned: parts may also be in an assignment before the command.
	assigned bool
}

// parseCommand reads a pattern. wild are the characters that stand for others: "*", and "?" for one.
func parseCommand(pattern, wild string) command {
	fields := strings.Fields(pattern)
	for len(fields) > 1 && isAssignment(fields[0]) && !strings.ContainsAny(fields[0], wild) {
		// Assignments are no words of a command here. Some programs look behind them, so that one that denies must.
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

// hidesWords reports whether a program is one of those that are seen through here, so that words of its own, which
// a pattern names, are not among those of a command.
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

// parsePrefix is for a text that commands begin with, taken as it is, up to the end of a word.
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

// isPlain reports whether a shell takes the word for itself.
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

// usable reports whether words are good enough to allow by.
func (c *command) usable() bool { return c.odd == "" }

// covers reports whether every command that other matches is matched by c, as far as words tell.
func (c *command) covers(other *command) bool {
	switch {
	case c.all:
		return true
	case !c.usable() || c.narrow || other.all || len(other.words) < len(c.words) || (!c.open && (other.open || len(other.words) > len(c.words))):
		return false
	}
	return slices.Equal(c.words, other.words[:len(c.words)])
}

// is is a condition in CEL on a simple command s that holds only if c matches it and nothing stands in front of it.
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

// begins is one that it begins with the words, and has as many as operator says.
func (c *command) begins(operator string) string {
	condition := fmt.Sprintf("s.argv.size() %s %d", operator, len(c.words))
	for i, word := range c.words {
		if word != "*" {
			condition += fmt.Sprintf(" && s.argv[%d] == %s", i, strconv.Quote(word))
		}
	}
	return condition
}

// runs are the kinds of actions that run a command.
func runs() []string { return []string{"terminal.create", "tool.execute"} }

// forbidding is the rule that denies or asks about all that c may match, but for what one of except matches.
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

// entry is one of an ordered list of entries about commands.
type entry struct {
	effect  string
	said    string // as it stands, for people
	reason  string
	command command
	modes   []string
	why     string // not empty: it cannot be carried over to allow, and why
}

func (e *entry) strictness() int { return slices.Index([]string{allow, ask, deny}, e.effect) }

// ordered adds rules for entries of which the first that matches counts.
func (d *draft) ordered(entries []entry, guard string) {
	for i := range entries {
		e := &entries[i]
		if e.effect == allow {
			d.allowed(e, entries[:i], guard)
			continue
		}
		if e.effect == ask && !slices.ContainsFunc(entries[i+1:], func(o entry) bool { return o.effect == allow }) {
			continue // what no rule matches is asked about
		}
		var except []*command
		for j := range entries[:i] {
			stronger := &entries[j]
			// A pattern of which the words are odd, or which counts in other modes, does not make an exception: the rule
			// is stricter then.
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
			return // it never counts there either
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
	// A line may hold commands of several entries, and one rule must cover all of it.
	i := slices.IndexFunc(d.allows, func(a allows) bool { return a.guard == guard && slices.Equal(a.modes, e.modes) })
	if i < 0 {
		i = len(d.allows)
		d.allows = append(d.allows, allows{guard: guard, modes: e.modes})
	}
	d.allows[i].commands = append(d.allows[i].commands, &e.command)
}

// allows are commands that are allowed under the same conditions.
type allows struct {
	guard    string
	modes    []string
	commands []*command
}

// addAllows adds the rules for the commands that are allowed.
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

// ends is a condition in CEL on a simple command s: if it begins with the words, nothing follows them.
func (c *command) ends() string { return "!(" + c.begins(">") + ")" }

// meaning says in words what words match.
func (c *command) meaning() string {
	if c.open {
		return "those that begin with the words " + strconv.Quote(strings.Join(c.words, " "))
	}
	return "those of the words " + strconv.Quote(strings.Join(c.words, " ")) + ", where * is one word"
}
