package facts

import (
	"path"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/lazyregexp"
	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// arguments parses the arguments of a command by an entry of the table, from position start on.
func (c *command) arguments(e *entry, start int) {
	a := &arguments{command: c, entry: e, words: c.argv[start:]}
	a.parse()
	if !c.facts.Known {
		return
	}
	if e.Toolchain && c.disk != nil && c.disk.OneGo != nil && !c.disk.OneGo(c.cwd) {
		c.unknown("go may download another version of itself, which a module wants")
	}
	if e.Modules && c.disk != nil && c.disk.GoModules != nil && !c.disk.GoModules(c.cwd) {
		c.unknown("go may download modules")
	}
	if by := c.pin(e); by != "" {
		c.unknown("%s may run something else because of %s", e.name, by)
	}
	switch {
	case e.Alone && len(c.argv) != start+1, e.Needs == "operand" && len(a.operands) == 0:
		c.unknown("%s with these arguments is not known to be harmless", e.name)
	case slices.Contains(strings.Fields(e.Needs), "operand") && len(a.operands) > 0:
	case e.Needs != "" && !has(a.given, e.Needs):
		c.unknown("%s without one of the options %s is not known to be harmless", e.name, e.Needs)
	}
	a.walks = e.Walks == "always" || has(a.given, e.Walks)
	a.place()
	for _, word := range a.strays {
		c.stray(word)
	}
}

// OptionsEnd returns the end of the options of a program in the table: the index of the word "--", unless that is the
// value of an option, or len(argv). It returns false if that is uncertain.
func OptionsEnd(argv []string) (int, bool) {
	if len(argv) == 0 {
		return 0, false
	}
	c := &command{argv: argv, facts: &permissionv1.Facts{Known: true}}
	e, args := entryOf(path.Base(argv[0]), argv)
	if e == nil || e.By != "" || e.Words {
		return 0, false
	}
	a := &arguments{command: c, entry: e, words: argv[args:], end: len(argv)}
	a.parse()
	return a.end, c.facts.GetKnown()
}

// pin returns the first file with which a program may run another version of itself, or load code: a file that pins a
// version, in the folder or above it, or a file in the folder with the name of a part of the program.
func (c *command) pin(e *entry) string {
	if c.disk == nil || c.disk.Names == nil || e.PinnedBy == "" && e.Shadows == "" {
		return ""
	}
	if c.cwd == "" {
		return "a file in the folder in which it runs, which is not known"
	}
	names, ok := c.disk.Names(c.cwd, e.PinnedBy != "")
	if !ok {
		return "a file in the folder in which it runs, whose files are not known"
	}
	pins, shadows := strings.Fields(e.PinnedBy), strings.Fields(e.Shadows)
	for _, name := range names {
		module, _, _ := strings.Cut(name, ".")
		fold := func(is string) bool { return strings.EqualFold(is, name) }
		if slices.ContainsFunc(pins, fold) || slices.ContainsFunc(shadows, func(is string) bool { return strings.EqualFold(is, module) }) {
			return name
		}
	}
	return ""
}

// arguments is the state of parsing the arguments of a command.
type arguments struct {
	*command
	entry    *entry
	words    []string // not parsed yet
	given    []string // the names of the given options
	operands []string
	values   []value  // the values of options
	strays   []string // words after an operand that were parsed as an option or its value
	end      int      // the index of the word "--", if it ends the options
	walks    bool
	found    bool // the operands include a path
}

type value struct{ role, text string }

func (a *arguments) next() string {
	word := a.words[0]
	a.words = a.words[1:]
	return word
}

func (a *arguments) parse() {
	for len(a.words) > 0 && a.facts.Known {
		word := a.next()
		switch {
		case a.entry.AtFiles && strings.HasPrefix(word, "@"):
			a.unknown("%s reads options from a file: %s", a.entry.name, word)
		case slices.Contains(strings.Fields(a.entry.Marks), word):
		case word == "--" && !a.entry.Words:
			a.end = len(a.argv) - len(a.words) - 1
			a.operands = append(a.operands, a.words...)
			return
		case len(word) < 2 || word[0] != '-':
			a.operands = append(a.operands, word)
			if a.entry.Stops {
				a.operands = append(a.operands, a.words...)
				return
			}
		case a.entry.number && numbers.MatchString(word):
		default:
			before := a.words
			if a.option(word); len(a.operands) > 0 {
				a.strays = append(append(a.strays, word), before[:len(before)-len(a.words)]...)
			}
		}
	}
	if a.entry.AtFiles && slices.ContainsFunc(a.argv, func(w string) bool { return strings.HasPrefix(w, "@") }) {
		a.unknown("%s reads options from a file", a.entry.name)
	}
}

var numbers = lazyregexp.New(`^-[0-9]+$`)

// option parses a word that begins with a dash: one option, or a cluster of short options.
func (a *arguments) option(word string) {
	name, text, attached := strings.Cut(word, "=")
	opt, known := a.entry.options[name]
	switch {
	case a.entry.Words && attached, !known && (a.entry.Words || strings.HasPrefix(word, "--")):
		a.unknown("%s %s is not known to be harmless", a.entry.name, name)
		return
	case known && (strings.HasPrefix(word, "--") || a.entry.Words || len(name) > 2 && !attached):
		a.take(name, opt, text, attached)
		return
	}
	for i := 1; i < len(word) && a.facts.Known; i++ {
		name := "-" + word[i:i+1]
		opt, known := a.entry.options[name]
		switch rest := word[i+1:]; {
		case !known:
			a.unknown("%s %s is not known to be harmless", a.entry.name, strings.ToValidUTF8(name, "?"))
		case len(opt.roles) == 0:
			a.given = append(a.given, name)
			continue
		case strings.HasPrefix(rest, "=") && opt.roles[0] != "text", rest != "" && opt.apart:
			// Some programs read the "=" as part of the value, and some do not.
			a.unknown("%s %s: where its value begins is not certain", a.entry.name, name)
		default:
			a.take(name, opt, rest, rest != "")
		}
		return
	}
}

// take records an option and its values: text, if it is attached, or the next words.
func (a *arguments) take(name string, opt option, text string, attached bool) {
	a.given = append(a.given, name)
	for i, role := range opt.roles {
		switch {
		case i == 0 && attached:
		case opt.attached:
			return
		case role == "command":
			a.skipCommand(name)
			return
		case len(a.words) == 0:
			a.unknown("%s %s has no value", a.entry.name, name)
			return
		default:
			text = a.next()
		}
		a.values = append(a.values, value{role, text})
	}
	if len(opt.roles) == 0 && attached {
		a.unknown("%s %s has a value, and takes none", a.entry.name, name)
	}
}

// skipCommand skips the words of a command that find runs. That command is another simple command of the line.
func (a *arguments) skipCommand(name string) {
	before := ""
	for len(a.words) > 0 {
		word := a.next()
		if word == ";" || word == "+" && before == "{}" {
			return
		}
		before = word
	}
	a.unknown("%s %s does not end", a.entry.name, name)
}

// place assigns a role to each operand and each value.
func (a *arguments) place() {
	for _, v := range a.values {
		a.word(v.role, v.text, false)
	}
	listed := a.entry.operands
	if len(listed) > 0 && has(a.given, a.entry.Instead) {
		listed = listed[1:]
	}
	here := "meta"
	if len(listed) > 0 {
		here = strings.TrimSuffix(listed[len(listed)-1], "...")
	}
	if here == "text" || here == "package" {
		here = "meta"
	}
	for _, operand := range a.operands {
		if len(listed) == 0 {
			a.unknown("%s has an operand that is not known: %s", a.entry.name, operand)
			return
		}
		role, repeats := strings.CutSuffix(listed[0], "...")
		if !repeats {
			listed = listed[1:]
		}
		a.word(role, operand, true)
	}
	if !a.found && (a.walks || a.entry.Here) {
		a.word(here, ".", true)
	}
}

// word interprets a word by its role.
func (a *arguments) word(role, text string, operand bool) {
	u := use{recursive: operand && a.walks, leavesOut: a.entry.LeaveOut}
	if text == pipe {
		if u.recursive || role != "read" && role != "data" {
			a.unknown("%s: what it does with a pipe is not known", a.entry.name)
		}
		a.found = a.found || operand
		return
	}
	switch role {
	case "text":
		return
	case "when":
		if strings.Contains(text, "TZ=") {
			a.unknown("%s reads the file of a time zone that the date %s names", a.entry.name, text)
		}
		return
	case "plus":
		if !strings.HasPrefix(text, "+") {
			a.unknown("%s %s changes something, or is not known", a.entry.name, text)
		}
		return
	case "name":
		if strings.Contains(text, "/") {
			a.file(text, use{metadata: true})
		}
		return
	case "data":
		if assigns.MatchString(text) {
			return
		}
	case "yq": // the first operand is a file if a file with that name exists
		a.script(role, text)
		if text == "." {
			return
		}
	case "sed", "awk", "jq", "keys", "template", "port", "shown", "package":
		a.script(role, text)
		return
	case "gofile", "gowrite": // for a folder, it follows links
		u.write = role == "gowrite"
		if !strings.HasSuffix(text, ".go") || a.mayBeFolder(text) {
			a.unknown("%s follows the links in folders", a.entry.name)
		}
	case "gz", "zip":
		if !compressed[role].MatchString(text) {
			a.unknown("%s may read a file with another name than %s", a.entry.name, text)
		}
	case "write":
		u.write = true
	case "folder":
		if text == "-" || text == "" {
			a.unknown("%s goes to a folder that is not known", a.entry.name)
			return
		}
		u.metadata = true
	case "meta":
		u.metadata = true
	case "read":
	default: // a list of alternatives
		if !slices.Contains(strings.Split(role, "|"), text) {
			a.unknown("%s with the value %s is not known to be harmless", a.entry.name, text)
		}
		return
	}
	if operand {
		a.found = true
	}
	if text == "-" && !u.metadata {
		a.stray(text)
		return // standard input or output
	}
	if operand && a.entry.Folders != "" {
		u.recursive, u.leavesOut = a.mayBeFolder(text), true
		if u.recursive && !has(a.given, a.entry.Folders) {
			a.unknown("%s follows the links in folders without %s", a.entry.name, a.entry.Folders)
		}
	}
	a.file(text, u)
	if role == "zip" { // programs try these names if the file is missing
		a.file(text+".zip", u)
		a.file(text+".ZIP", u)
	}
}

// compressed are names to which programs add no suffix, and which contain no pattern.
var compressed = map[string]*lazyregexp.Regexp{
	"gz":  lazyregexp.New(`^[A-Za-z0-9_+./][A-Za-z0-9_+./-]*\.(gz|tgz|Z)$`),
	"zip": lazyregexp.New(`^[A-Za-z0-9_+./][A-Za-z0-9_+./-]*\.(zip|jar|war|whl)$`),
}

func (c *command) mayBeFolder(word string) bool {
	file, ok := c.absolute(word)
	return !ok || c.disk != nil && !c.resolve(file).NoFolder
}

// goKeys are settings of go that contain no passwords, and whose value does not require running a C compiler.
var goKeys = lazyregexp.New(`^(GO(ARCH|BIN|CACHE|ENV|EXE|EXPERIMENT|FLAGS|HOSTARCH|HOSTOS|MOD|MODCACHE|NOPROXY|NOSUMDB|OS|PATH|PRIVATE|` +
	`ROOT|SUMDB|TMPDIR|TOOLCHAIN|TOOLDIR|VERSION|WORK|AMD64|ARM|ARM64)|GO111MODULE|CC|CXX|CGO_ENABLED)$`)

// port matches a protocol and port numbers of lsof, without names of machines, which lsof would resolve.
var port = lazyregexp.New(`^[46]?(?i:tcp|udp)?(:[0-9][0-9,-]*)?$`)

// goPackage matches a package or a module of go without a version, and no folder outside of the module.
var goPackage = lazyregexp.New(`^(\./)?([A-Za-z0-9_-][A-Za-z0-9_.-]*/)*([A-Za-z0-9_-][A-Za-z0-9_.-]*|\.\.\.|\.)$`)

// assigns matches operands of awk that are assignments.
var assigns = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*=`)

// script checks a text in a language.
func (a *arguments) script(language, text string) {
	harmless := false
	switch language {
	case "sed":
		harmless = shell.Risky([]string{"sed", "-e", text}) == ""
	case "awk":
		harmless = awkOnlyPrints(text)
	case "jq":
		harmless = jqOnlyFilters(text)
	case "yq":
		harmless = yqOnlyFilters(text)
	case "template":
		harmless = !goListReaches.MatchString(text)
	case "port":
		harmless = port.MatchString(text)
	case "package":
		harmless = goPackage.MatchString(text)
	case "shown":
		harmless = shell.Shown(text)
	case "keys":
		harmless = goKeys.MatchString(text)
	}
	if !harmless {
		a.unknown("%s: it is not certain that the text %q does no harm", a.entry.name, text)
	}
}
