// Package dialect describes, as data, how agents present their tools: the agents' names for themselves, their tools,
// and the meaning of each member of a tool's input.
//
// There is one file for each agent that was studied (agents/*.json), and common.json for what agents have in common. Users
// add dialects of their own, in the same form, to agents.json. The notes in a file say where its facts come from.
//
// The package holds data and checks it. How an input is read by it, intent knows.
package dialect

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Dialect is how one agent says what its tools are about to do.
type Dialect struct {
	// Agents are what such an agent calls itself, in lower case and without the scope of an npm package, or begins with. One with a
	// scope ("@scope/cli") is compared with the whole name, for a package whose name alone is not enough. A
	// user's dialect needs none: it is for the agent that it is configured for.
	Agents []string `json:"agents"`
	// Notes say where the facts come from, for people.
	Notes []string `json:"notes"`
	// Members are the meanings of the members of an input, by their names in lower case. They come before the common ones.
	Members map[string]Meaning `json:"members"`
	// Tools are the agent's own tools, by their names as the agent states them. If there are some, the input of another tool
	// that is named, an MCP server's say, is never certain.
	Tools map[string]Tool `json:"tools"`
	// ToolInTitle: a title begins with the name of the tool, and ": " if more follows.
	ToolInTitle bool `json:"tool_in_title"`
	// TitleIsCommand: if a call of kind execute has no input, its title is the command line. No built-in dialect says so: an
	// agent may write anything into a title, so it is for the user to trust it.
	TitleIsCommand bool `json:"title_is_command"`
	// Titled are the versions of the agent whose titles are commands; nil: none are.
	Titled *Titled `json:"titled"`
	// Elsewhere: a command may run in another directory than the session's, and the question does not say so. Nil: as the
	// dialect below says, or false.
	Elsewhere *bool `json:"elsewhere"`
	// Environment are variables that the agent sets on commands, each "NAME=VALUE", and that change nothing of what
	// runs. "*" as the value is any value, and at the end of a name, where no program but the agent reads such names,
	// the rest of it: "AGENT_*=*".
	Environment []string `json:"environment"`
	// Readings are what data cannot say, in order.
	Readings []Reading `json:"readings"`
	// Temporary are what the agent adds to the name of a file, as a pattern of path.Match's, to write it anew beside the
	// old one before it takes its place: ".tmp.*". Who has allowed a change to the file has allowed that.
	Temporary []string `json:"temporary"`
	// Wraps are how the agent wraps a command line if it starts the shell by itself.
	Wraps []Wrap `json:"wraps"`
}

// Titled says of versions of an agent, the program of which was read, that a call of kind execute without an input has the
// command as its title, whole and unchanged. Other versions may put the model's own words there.
type Titled struct {
	// Versions are as the agent states its own at initialize.
	Versions []string `json:"versions"`
	// Here is how the text beside a command that is asked about begins if the command runs in the session's folder: words of
	// the program, which the model cannot put there. Empty: the text says nothing of it.
	Here string `json:"here"`
}

// Sets reports whether an entry of an environment is a known one (see Environment).
func Sets(known, entry string) bool {
	name, value, _ := strings.Cut(known, "=")
	given, text, ok := strings.Cut(entry, "=")
	begin, rest := strings.CutSuffix(name, "*")
	return ok && (given == name || rest && strings.HasPrefix(given, begin)) && (text == value || value == "*")
}

// Tool is one of an agent's own tools.
type Tool struct {
	// Kind is ACP's, where the agent says that it is none or another; empty: as the agent says.
	Kind string `json:"kind"`
	// Members come before the dialect's.
	Members map[string]Meaning `json:"members"`
	// Input is what an input is that is no object; empty: it is not known.
	Input Meaning `json:"input"`
	// Here: it works in the session's folder if it names no other.
	Here bool `json:"here"`
	// Names: it looks for files by their names, and reads none.
	Names bool `json:"names"`
	// Elsewhere comes before the dialect's.
	Elsewhere *bool `json:"elsewhere"`
	// Doubt is why a call of it is never certain; empty: it can be.
	Doubt string `json:"doubt"`
}

// Meaning is what a member of an input stands for.
type Meaning string

// The meanings.
const (
	// Command is a command: a line for a shell, or a list of a program and its arguments.
	Command Meaning = "command"
	// Commands are several: a list of lines, or of objects with a command each; or one line.
	Commands Meaning = "commands"
	// Arguments are a list for the program that Command names.
	Arguments Meaning = "arguments"
	// Directory is where the command runs. Without a command it is a Path.
	Directory Meaning = "directory"
	// Environment are variables for the command.
	Environment Meaning = "environment"
	// Path is a file or folder, or a list of some; a member of a list may be an object with members of its own.
	Path Meaning = "path"
	// End is one end of a move or a copy, such as "source". It is a path if the other one is there too, if the tool moves
	// something, or if it cannot be anything else.
	End Meaning = "end"
	// URL is an address, or a list of some. One of a file is a Path.
	URL Meaning = "url"
	// Patch is a text in the form of a patch: unified, git's, or that of apply_patch. The files are those that it names.
	Patch Meaning = "patch"
	// Changes is an object whose names are files, and which says what is done to each.
	Changes Meaning = "changes"
	// Pattern is a pattern of files or of text below the folder that is searched.
	Pattern Meaning = "pattern"
	// Text is what is written, searched for or asked; it names nothing. Beside a command it is not certain what it is for.
	Text Meaning = "text"
	// Written is Text that is written into the file. A call that has it reads nothing alone, whatever the agent calls it.
	Written Meaning = "written"
	// Note says nothing of what is done: a description, a limit.
	Note Meaning = "note"
	// Nested is an object, or a list of objects, with members that mean the same there.
	Nested Meaning = "nested"
	// More asks for more than the action itself.
	More Meaning = "more"
	// Question is a question of the agent's own, which allowing it does not answer.
	Question Meaning = "question"
	// Subagent names another agent that is started, of which nothing is told or asked any more.
	Subagent Meaning = "subagent"
	// Whole is in an input that holds all that the question asks for, so that words beside it only repeat it.
	Whole Meaning = "whole"
	// Unknown takes a common meaning away.
	Unknown Meaning = "unknown"
	// PatchedFiles is OpenCode's list of the files of a patch; PatchedNames is a path, unless such a list is beside it.
	PatchedFiles Meaning = "patched_files"
	PatchedNames Meaning = "patched_names"
)

// Meanings are all of them, in the order of the documentation.
func Meanings() []Meaning {
	return []Meaning{
		Command, Commands, Arguments, Directory, Environment, Path, End, URL, Patch, Changes, Pattern, Text, Written, Note, Nested, More,
		Question, Subagent, Whole, Unknown, PatchedFiles, PatchedNames,
	}
}

// Reading is something that is done with a call beside what data says.
type Reading string

// The readings.
const (
	// Requote takes off quotes that Codex leaves around a line.
	Requote Reading = "requote"
	// WordsAskForMore: words in the content of a question about a command ask for more than the command.
	WordsAskForMore Reading = "words_ask_for_more"
	// PatchIsShown: a patch has no input; its files are the locations and its diffs those of the report before it.
	PatchIsShown Reading = "patch_is_shown"
	// Located: the directory of a command is in the report of it, before or just after the question.
	Located Reading = "located"
	// OnlyExecuteRuns: what is called a command in a call of another kind is no command of the agent's.
	OnlyExecuteRuns Reading = "only_execute_runs"
	// FoldersFirst: questions of kind other with locations ask about the folders of a command before the command itself.
	FoldersFirst Reading = "folders_first"
	// ShellTakenOff: the agent takes a shell off the beginning of a line, and spaces off its ends, and not as a shell reads the
	// line.
	ShellTakenOff Reading = "shell_taken_off"
)

// Readings are all of them.
func Readings() []Reading {
	return []Reading{Requote, WordsAskForMore, PatchIsShown, Located, FoldersFirst, OnlyExecuteRuns, ShellTakenOff}
}

// kinds are ACP's kinds of tools.
var kinds = []string{"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"}

// Mistake is what is wrong with a dialect.
type Mistake struct {
	// At is the JSON pointer of the place, from the dialect on.
	At string
	// Message says what was expected.
	Message string
}

// Check returns what is wrong with a dialect; nil: nothing.
func (d *Dialect) Check() *Mistake {
	if m := checkMembers("/members", d.Members); m != nil {
		return m
	}
	for _, name := range slices.Sorted(maps.Keys(d.Tools)) {
		tool, at := d.Tools[name], "/tools/"+escaped(name)
		switch {
		case name == "":
			return &Mistake{"/tools", "expected the names of tools, got an empty one"}
		case tool.Kind != "" && !slices.Contains(kinds, tool.Kind):
			return &Mistake{at + "/kind", fmt.Sprintf("expected one of %s, got %q", strings.Join(kinds, ", "), tool.Kind)}
		case tool.Input != "" && !slices.Contains(Meanings(), tool.Input):
			return &Mistake{at + "/input", unknownMeaning(tool.Input)}
		}
		if m := checkMembers(at+"/members", tool.Members); m != nil {
			return m
		}
	}
	if d.Titled != nil && slices.Contains(d.Titled.Versions, "") {
		return &Mistake{"/titled/versions", "expected the versions of the agent, got an empty one"}
	}
	for i, entry := range d.Environment {
		name, _, ok := strings.Cut(entry, "=")
		begin, rest := strings.CutSuffix(name, "*")
		if !ok || name == "" || strings.ContainsRune(entry, 0) || rest && (len(begin) < 3 || !strings.HasSuffix(begin, "_")) {
			return &Mistake{fmt.Sprintf("/environment/%d", i), fmt.Sprintf("expected NAME=VALUE, or * for any value, got %q", entry)}
		}
	}
	for i, pattern := range d.Temporary {
		if _, err := path.Match(pattern, ""); err != nil || len(pattern) < 2 || pattern[0] != '.' || strings.Contains(pattern, "/") {
			return &Mistake{fmt.Sprintf("/temporary/%d", i), fmt.Sprintf("expected the end of a name, like .tmp.*, got %q", pattern)}
		}
	}
	for i, w := range d.Wraps {
		if len(w.Options) == 0 || w.Before == "" || w.Raw && w.After == "" || !w.Raw && strings.Contains(w.Before+w.After, "'") {
			return &Mistake{fmt.Sprintf("/wraps/%d", i), "expected options, and what stands before the quoted line, without quotes"}
		}
	}
	for i, r := range d.Readings {
		if !slices.Contains(Readings(), r) {
			return &Mistake{fmt.Sprintf("/readings/%d", i), fmt.Sprintf("expected one of %s, got %q", join(Readings()), r)}
		}
	}
	return nil
}

func checkMembers(at string, members map[string]Meaning) *Mistake {
	for _, name := range slices.Sorted(maps.Keys(members)) {
		switch m := members[name]; {
		case name != strings.ToLower(name):
			return &Mistake{at + "/" + escaped(name), fmt.Sprintf("expected the name in lower case, got %q: names count in any case", name)}
		case !slices.Contains(Meanings(), m):
			return &Mistake{at + "/" + escaped(name), unknownMeaning(m)}
		}
	}
	return nil
}

func unknownMeaning(m Meaning) string {
	return fmt.Sprintf("expected one of %s, got %q", join(Meanings()), m)
}

func join[T ~string](list []T) string {
	words := make([]string, len(list))
	for i, w := range list {
		words[i] = string(w)
	}
	return strings.Join(words, ", ")
}

// escaped is a name as a JSON pointer has it.
func escaped(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom. Members that a dialect does not have are refused: a slip of the pen must not
// leave a doubt out.
func (d *Dialect) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	type plain Dialect
	return json.UnmarshalDecode(dec, (*plain)(d), json.RejectUnknownMembers(true))
}

// Over returns the dialect with another one below it, which says what this one does not.
func (d *Dialect) Over(below *Dialect) *Dialect {
	switch {
	case d == nil:
		return below
	case below == nil:
		return d
	}
	both := *below
	both.Members = laid(below.Members, d.Members)
	both.Tools = laid(below.Tools, d.Tools)
	both.ToolInTitle = below.ToolInTitle || d.ToolInTitle
	both.TitleIsCommand = below.TitleIsCommand || d.TitleIsCommand
	both.Titled = cmp.Or(d.Titled, below.Titled)
	both.Elsewhere = cmp.Or(d.Elsewhere, below.Elsewhere)
	both.Environment = slices.Concat(below.Environment, d.Environment)
	both.Temporary = slices.Concat(below.Temporary, d.Temporary)
	both.Wraps = slices.Concat(below.Wraps, d.Wraps)
	for _, r := range d.Readings {
		if !slices.Contains(both.Readings, r) {
			both.Readings = append(slices.Clip(both.Readings), r)
		}
	}
	return &both
}

func laid[V any](below, above map[string]V) map[string]V {
	both := make(map[string]V, len(below)+len(above))
	maps.Copy(both, below)
	maps.Copy(both, above)
	return both
}

// Common is what agents have in common. It is shared: nobody may change it.
func Common() *Dialect { return known()[commonFile] }

// Of returns the dialect of an agent by the name that it gives itself: the one whose own name is the longest beginning of it;
// nil if there is none. npm packages carry a scope: "@scope/codex-acp" (see Dialect.Agents). It is shared: nobody may change it.
func Of(name string) *Dialect {
	whole := strings.ToLower(name)
	base := path.Base(whole)
	var found *Dialect
	longest := 0
	for _, d := range known() {
		for _, a := range d.Agents {
			name := base
			if strings.Contains(a, "/") {
				name = whole
			}
			if len(a) > longest && strings.HasPrefix(name, a) {
				found, longest = d, len(a)
			}
		}
	}
	return found
}

//go:embed common.json agents/*.json
var files embed.FS

const commonFile = "common.json"

// known are the built-in dialects, by their files.
var known = sync.OnceValue(func() map[string]*Dialect {
	all := map[string]*Dialect{}
	names, _ := fs.Glob(files, "agents/*.json") // the pattern is well-formed
	for _, name := range append(names, commonFile) {
		d, err := parse(name)
		if err != nil {
			panic(err) // a test reads every file
		}
		all[name] = d
	}
	return all
})

func parse(name string) (*Dialect, error) {
	data, err := files.ReadFile(name)
	if err != nil {
		return nil, err
	}
	d := &Dialect{}
	if err := json.Unmarshal(data, d, json.DefaultOptionsV2()); err != nil {
		return nil, fmt.Errorf("the built-in dialect %s: %w", name, err)
	}
	if m := d.Check(); m != nil {
		return nil, fmt.Errorf("the built-in dialect %s: %s: %s", name, m.At, m.Message)
	}
	return d, nil
}
