// Package dialect describes, as data, how agents present their tools: the agents' names for themselves, their tools,
// and the meaning of each member of a tool's input.
//
// There is one file for each supported agent (agents/*.json), and common.json for members that agents have in common.
// Users add dialects of their own, in the same format, to agents.json. The notes in a file give the sources of its
// facts.
//
// The package holds and validates data. Package intent interprets inputs by it.
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

// Dialect describes the tool calls of one agent.
type Dialect struct {
	// Agents are the names, or beginnings of names, that the agent gives itself, in lower case and without the scope of
	// an npm package. An entry with a scope ("@scope/cli") is compared with the whole name, for packages whose name
	// alone is ambiguous. A user's dialect needs no entry: it belongs to the agent for which it is configured.
	Agents []string `json:"agents"`
	// Notes give the sources of the facts, for readers.
	Notes []string `json:"notes"`
	// Members maps the names of members of an input, in lower case, to their meanings. They have precedence over the
	// common ones.
	Members map[string]Meaning `json:"members"`
	// Tools are the agent's own tools, by the names that the agent uses. If there are any, the input of another named
	// tool, such as a tool of an MCP server, is never certain.
	Tools map[string]Tool `json:"tools"`
	// ToolInTitle means that a title begins with the name of the tool, followed by ": " if it is longer.
	ToolInTitle bool `json:"tool_in_title"`
	// TitleIsCommand means that the title of a call of kind execute without input is its command line. No built-in
	// dialect sets it, because an agent may write anything into a title; a user may decide to trust it.
	TitleIsCommand bool `json:"title_is_command"`
	// Titled lists the versions of the agent whose titles are commands. Nil means none.
	Titled *Titled `json:"titled"`
	// Elsewhere means that a command may run in another directory than the session's without a mention in the question.
	// Nil means the value of the dialect below, or false.
	Elsewhere *bool `json:"elsewhere"`
	// Environment lists variables, "NAME=VALUE", that the agent sets on commands, and that do not change what is run.
	// The value "*" means any value. A "*" at the end of a name means any rest, for names that only the agent reads:
	// "AGENT_*=*".
	Environment []string `json:"environment"`
	// Readings are special rules for calls, in order.
	Readings []Reading `json:"readings"`
	// Temporary lists suffixes of temporary files, as patterns of path.Match: ".tmp.*". The agent writes a new version
	// of a file to such a file beside it, and then renames it. Approving a change to the file covers its temporary
	// copy.
	Temporary []string `json:"temporary"`
	// Wraps is accepted in older files, and ignored.
	Wraps jsontext.Value `json:"wraps"`
}

// Titled lists versions of an agent whose program was examined: the title of a call of kind execute without input is
// the command, complete and unchanged. Other versions may use the model's own words.
type Titled struct {
	// Versions are the versions in the agent's answer to initialize.
	Versions []string `json:"versions"`
	// Here is the beginning of the text beside a command if the command runs in the session's folder. It is a text of
	// the program, which the model cannot produce. Empty means that the text does not say it.
	Here string `json:"here"`
}

// Sets reports whether an entry of an environment matches an entry of Environment.
func Sets(known, entry string) bool {
	name, value, _ := strings.Cut(known, "=")
	given, text, ok := strings.Cut(entry, "=")
	begin, rest := strings.CutSuffix(name, "*")
	return ok && (given == name || rest && strings.HasPrefix(given, begin)) && (text == value || value == "*")
}

// Tool is one of an agent's own tools.
type Tool struct {
	// Kind is the ACP kind of the tool, for agents that report none or a wrong one. Empty means the agent's kind.
	Kind string `json:"kind"`
	// Members have precedence over the dialect's.
	Members map[string]Meaning `json:"members"`
	// Input is the meaning of an input that is not an object. Empty means unknown.
	Input Meaning `json:"input"`
	// Here means that the tool works in the session's folder if its input names no other.
	Here bool `json:"here"`
	// Names means that the tool searches names of files, and reads no contents.
	Names bool `json:"names"`
	// Elsewhere has precedence over the dialect's.
	Elsewhere *bool `json:"elsewhere"`
	// Doubt is the reason why a call of the tool is never certain, or empty.
	Doubt string `json:"doubt"`
}

// Meaning is the meaning of a member of an input.
type Meaning string

// The meanings.
const (
	// Command is a command: a line for a shell, or a list of a program and its arguments.
	Command Meaning = "command"
	// Commands are several commands: a list of lines, a list of objects with a command each, or one line.
	Commands Meaning = "commands"
	// Arguments is a list of arguments for the program in Command.
	Arguments Meaning = "arguments"
	// Directory is the working directory of the command. Without a command it is a Path.
	Directory Meaning = "directory"
	// Environment are variables for the command.
	Environment Meaning = "environment"
	// Path is a file or folder, or a list of them. An element of a list may be an object with members.
	Path Meaning = "path"
	// End is one end of a move or a copy, such as "source". It is a path if the other end is present, too, if the tool
	// moves something, or if no other meaning is possible.
	End Meaning = "end"
	// URL is an address, or a list of addresses. The URL of a file is a Path.
	URL Meaning = "url"
	// Patch is a patch in unified format, git's format, or the format of apply_patch. Its files are those that it
	// names.
	Patch Meaning = "patch"
	// Changes is an object that maps files to their changes.
	Changes Meaning = "changes"
	// Pattern is a pattern of files or of text below the searched folder.
	Pattern Meaning = "pattern"
	// Text is a text to write, to search for or to ask. It names no file. Beside a command, its purpose is not certain.
	Text Meaning = "text"
	// Written is Text that is written into the file. A call with it is never only a read, whatever its kind.
	Written Meaning = "written"
	// Note does not affect the action: a description or a limit.
	Note Meaning = "note"
	// Nested is an object, or a list of objects, whose members have the same meanings.
	Nested Meaning = "nested"
	// More requests more than the action itself.
	More Meaning = "more"
	// Question is a question of the agent, which allowing the call does not answer.
	Question Meaning = "question"
	// Subagent names another agent that is started, whose actions are not reported or asked about.
	Subagent Meaning = "subagent"
	// Whole occurs in an input that contains everything that the question asks for, so that other text only repeats it.
	Whole Meaning = "whole"
	// Unknown removes a common meaning.
	Unknown Meaning = "unknown"
	// PatchedFiles is OpenCode's list of the files of a patch. PatchedNames is a path, unless such a list is present.
	PatchedFiles Meaning = "patched_files"
	PatchedNames Meaning = "patched_names"
)

// Meanings returns all meanings, in the order of the documentation.
func Meanings() []Meaning {
	return []Meaning{
		Command, Commands, Arguments, Directory, Environment, Path, End, URL, Patch, Changes, Pattern, Text, Written, Note, Nested, More,
		Question, Subagent, Whole, Unknown, PatchedFiles, PatchedNames,
	}
}

// Reading is a special rule for calls that data cannot describe.
type Reading string

// The readings.
const (
	// Requote removes quotes that Codex leaves around a line.
	Requote Reading = "requote"
	// WordsAskForMore means that text in the content of a question about a command requests more than the command.
	WordsAskForMore Reading = "words_ask_for_more"
	// PatchIsShown means that a patch has no input; its files are the locations, and its diffs are in the report before
	// it.
	PatchIsShown Reading = "patch_is_shown"
	// Located means that the directory of a command is in its report, before or just after the question.
	Located Reading = "located"
	// OnlyExecuteRuns means that a Command in a call of another kind than execute is not a command of the agent.
	OnlyExecuteRuns Reading = "only_execute_runs"
	// FoldersFirst means that questions of kind other with locations ask about the folders of a command before the
	// command itself.
	FoldersFirst Reading = "folders_first"
	// ShellTakenOff means that the agent removes a shell at the beginning of a line, and spaces at its ends, by other
	// rules than a shell's.
	ShellTakenOff Reading = "shell_taken_off"
)

// Readings returns all readings.
func Readings() []Reading {
	return []Reading{Requote, WordsAskForMore, PatchIsShown, Located, FoldersFirst, OnlyExecuteRuns, ShellTakenOff}
}

// kinds are the kinds of tools in ACP.
var kinds = []string{"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"}

// Mistake is an error in a dialect.
type Mistake struct {
	// At is the JSON pointer of its position in the dialect.
	At string
	// Message describes the expected value.
	Message string
}

// Check returns the first error in a dialect, or nil.
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

// escaped returns a name escaped for a JSON pointer.
func escaped(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom. Unknown members are rejected, because a misspelled member could
// omit a doubt.
func (d *Dialect) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	type plain Dialect
	return json.UnmarshalDecode(dec, (*plain)(d), json.RejectUnknownMembers(true))
}

// Over returns the dialect with the values of below for all that it does not set.
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

// Common returns the dialect that all agents have in common. It is shared and must not be modified.
func Common() *Dialect { return known()[commonFile] }

// Of returns the dialect of an agent by the name that it gives itself: the dialect with the longest entry of Agents
// that the name begins with, or nil. npm packages have a scope: "@scope/codex-acp" (see Dialect.Agents). The result is
// shared and must not be modified.
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

// known returns the built-in dialects, by their files.
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
