package facts

import (
	"bytes"
	_ "embed" // the table
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

//go:embed programs.yaml
var programs []byte

// entry is the table's row for a program. The head of programs.yaml explains the fields.
type entry struct {
	Names     string   `yaml:"names"`
	Options   string   `yaml:"options"`
	Operands  string   `yaml:"operands"`
	Instead   string   `yaml:"instead"`
	Walks     string   `yaml:"walks"`
	Folders   string   `yaml:"folders"`
	Needs     string   `yaml:"needs"`
	Marks     string   `yaml:"marks"`
	By        string   `yaml:"by"`
	Words     bool     `yaml:"words"`
	Stops     bool     `yaml:"stops"`
	Alone     bool     `yaml:"alone"`
	Toolchain bool     `yaml:"toolchain"`
	Modules   bool     `yaml:"modules"`
	Here      bool     `yaml:"here"`
	LeaveOut  bool     `yaml:"leave_out"`
	AtFiles   bool     `yaml:"at_files"`
	RunsCode  bool     `yaml:"runs_code"`
	Network   bool     `yaml:"network"`
	Changes   bool     `yaml:"changes"`
	PinnedBy  string   `yaml:"pinned_by"`
	Shadows   string   `yaml:"shadowed_by"`
	Tests     []string `yaml:"tests"`

	name     string // as in the command
	options  map[string]option
	number   bool // -20
	operands []string
}

// option is an option of a program.
type option struct {
	// roles are the roles of its values, in order; none for a flag.
	roles []string
	// attached: the value is optional, and in the same word. apart: the value is in the next word.
	attached, apart bool
}

// roles are the possible roles of a word of a command.
var roles = []string{
	"text",                     // not a file
	"read",                     // a file whose content is read
	"meta",                     // a file or folder whose name, size and other metadata are read
	"folder",                   // meta, where "-" or a missing word means another folder
	"write",                    // a file that is written
	"name",                     // a program; with a slash, as meta
	"when",                     // a date
	"plus",                     // text that begins with "+"
	"data",                     // a file of awk, or an assignment
	"port", "shown", "package", // text that a regular expression proves harmless
	"gofile",    // a file of go, not a folder
	"gowrite",   // the same, written
	"gz", "zip", // a compressed file, with the suffix that programs add if the file is missing
	"sed", "awk", "jq", "keys", "yq", "template", // text that must be harmless in the language
	"command", // for find: a command up to ";" or "{} +", which is another simple command
}

func isRole(role string) bool { return slices.Contains(roles, role) || strings.Contains(role, "|") }

// table is programs.yaml by the names of programs. It is parsed at first use.
var table = sync.OnceValues(func() (map[string]*entry, error) {
	var entries []*entry
	decoder := yaml.NewDecoder(bytes.NewReader(programs))
	decoder.KnownFields(true)
	if err := decoder.Decode(&entries); err != nil {
		return nil, fmt.Errorf("programs.yaml: %w", err)
	}
	byName := map[string]*entry{}
	var errs []error
	for _, e := range entries {
		if err := e.prepare(); err != nil {
			errs = append(errs, fmt.Errorf("programs.yaml: %s: %w", e.Names, err))
		}
		for name := range strings.FieldsSeq(e.Names) {
			name = strings.NewReplacer("_", " ", "~", "_").Replace(name) // "go_version" is "go version"
			if byName[name] != nil {
				errs = append(errs, fmt.Errorf("programs.yaml: two entries are about %s", name))
			}
			named := *e
			named.name = name
			byName[name] = &named
		}
	}
	return byName, errors.Join(errs...)
})

// entryOf returns the row for a program, or for its command that the first one or two arguments name, and the position
// of the following arguments. nil if there is no row, or the table cannot be read; then no command is known.
func entryOf(name string, argv []string) (e *entry, args int) {
	byName, err := table()
	if err != nil {
		return nil, 0
	}
	for words := min(len(argv), 3); words > 1; words-- {
		if slices.ContainsFunc(argv[1:words], func(word string) bool { return strings.Contains(word, " ") }) {
			continue
		}
		if e := byName[name+" "+strings.Join(argv[1:words], " ")]; e != nil {
			return e, words
		}
	}
	return byName[name], 1
}

func (e *entry) prepare() error {
	e.options = map[string]option{"--version": {}}
	if !e.Alone {
		e.options["--help"] = option{}
	}
	for text := range strings.FieldsSeq(e.Options) {
		if text == "-NUM" {
			e.number = true
			continue
		}
		name, opt, err := parseOption(text)
		if err != nil {
			return err
		}
		e.options[name] = opt
	}
	e.operands = strings.Fields(e.Operands)
	for i, role := range e.operands {
		role, repeats := strings.CutSuffix(role, "...")
		if !isRole(role) || repeats && i+1 < len(e.operands) {
			return fmt.Errorf("the operand %q is not known", role)
		}
	}
	for name := range strings.FieldsSeq(e.Instead + " " + e.Walks + " " + e.Folders + " " + e.Needs) {
		if _, ok := e.options[name]; !ok && name != "always" && name != "operand" {
			return fmt.Errorf("%s is not one of its options", name)
		}
	}
	if e.By != "" && reading(e.By) == nil {
		return fmt.Errorf("nothing reads the words of %q", e.By)
	}
	return nil
}

// parseOption parses "-q", "-n=text", "-P:text" and "--color[=text]".
func parseOption(text string) (name string, o option, err error) {
	name = text
	if i := strings.IndexAny(text, "=:["); i > 1 {
		name = text[:i]
		value := text[i:]
		o.attached = strings.HasPrefix(value, "[=") && strings.HasSuffix(value, "]")
		o.apart = value[0] == ':'
		o.roles = strings.Split(strings.Trim(value, "[=:]"), ",")
		for _, role := range o.roles {
			if !isRole(role) {
				return "", o, fmt.Errorf("%s: the role %q is not known", text, role)
			}
		}
	}
	if !strings.HasPrefix(name, "-") || len(name) < 2 {
		return "", o, fmt.Errorf("%q is no option", text)
	}
	return name, o, nil
}

// has reports whether one of the options in listed, in the syntax of the table, was given.
func has(given []string, listed string) bool {
	return slices.ContainsFunc(strings.Fields(listed), func(o string) bool { return slices.Contains(given, o) })
}
