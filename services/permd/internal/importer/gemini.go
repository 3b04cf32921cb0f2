package importer

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// geminiFile is a policy file of Gemini CLI.
type geminiFile struct {
	Rule          []geminiRule     `toml:"rule"`
	SafetyChecker []map[string]any `toml:"safety_checker"`
}

type geminiRule struct {
	ToolName          any            `toml:"toolName"`
	Subagent          *string        `toml:"subagent"`
	MCPName           *string        `toml:"mcpName"`
	ArgsPattern       *string        `toml:"argsPattern"`
	CommandPrefix     any            `toml:"commandPrefix"`
	CommandRegex      *string        `toml:"commandRegex"`
	Decision          string         `toml:"decision"`
	Priority          *int64         `toml:"priority"`
	Modes             []string       `toml:"modes"`
	Interactive       *bool          `toml:"interactive"`
	ToolAnnotations   map[string]any `toml:"toolAnnotations"`
	AllowRedirection  *bool          `toml:"allowRedirection"`
	AllowRedirection2 *bool          `toml:"allow_redirection"`
	DenyMessage       string         `toml:"denyMessage"`
	DenyMessage2      string         `toml:"deny_message"`

	tools, prefixes []string
}

// gemini converts a policy of Gemini CLI. The facts are from its repository: docs/reference/policy-engine.md, and in
// packages/core/src/policy: toml-loader.ts (the fields), utils.ts (the conversion of commandPrefix) and
// policy-engine.ts (the choice of rules and the splitting of lines):
//
//   - Of the matching rules, the one with the highest priority applies; of equal ones, the first. An action that no
//     rule matches is asked about, unless the program's own rules allow it.
//   - commandPrefix is the beginning of a command, up to the end of a word; commandRegex matches the beginning of a
//     command. Both apply only to run_shell_command. argsPattern is a regular expression on the arguments as JSON.
//   - Rules apply to every command of a line, and to the line as a whole. Redirections turn an allow into an ask,
//     unless the rule permits them.
//   - Files are read and written only inside the workspace. Files that builds run (isBuildFile) are always asked about.
//   - A rule that allows all commands does not allow those in isDangerousCommand.
//   - modes are default, autoEdit, yolo and plan, which are also the ids of its session modes.
func (d *draft) gemini(content []byte) error {
	d.origin = "Gemini CLI"
	d.notes = []string{
		"What Gemini CLI's own rules allow, reading in the workspace, is asked about here; the ready policy \"workspace\" has",
		"rules for it. The rules are for every agent: to keep one to some, add \"agent\".",
	}
	var file geminiFile
	if err := toml.Unmarshal(content, &file); err != nil {
		return fmt.Errorf("expected a policy in TOML: %w", err)
	}
	rules := file.Rule
	for i := range rules {
		if err := rules[i].check(); err != nil {
			return fmt.Errorf("rule %d: %w", i+1, err)
		}
	}
	if len(file.SafetyChecker) > 0 {
		d.drop("safety_checker", "programs that check a call stay with Gemini CLI: write a policy of your own, and chain it")
	}
	slices.SortStableFunc(rules, func(a, b geminiRule) int { return cmp.Compare(*b.Priority, *a.Priority) })

	var commands []entry
	for i := range rules {
		r := &rules[i]
		if r.redirects() && r.effect() == allow {
			d.drop(r.source(), "it is carried over without redirections: add redirect: any, and path for the files that may be written")
		}
		for _, tool := range r.tools {
			if tool == "run_shell_command" || tool == "*" {
				commands = append(commands, r.commands()...)
			}
		}
	}
	d.addOrdered(commands, "")
	d.geminiTools(rules)
	d.geminiAlwaysAsk(commands)
	return nil
}

// geminiAlwaysAsk adds rules for actions that Gemini CLI asks about although a rule allows them: dangerous commands, if
// a rule allows all commands, and edits of the files that builds run.
func (d *draft) geminiAlwaysAsk(commands []entry) {
	if slices.ContainsFunc(commands, func(e entry) bool {
		return e.effect == allow && e.dropReason == "" && e.command.all && !slices.Equal(e.modes, []string{"yolo"})
	}) {
		d.add("dangerous commands", &permissionv1.Rule{Effect: ask, Command: []string{"rm -f", "rm -rf", "rm -fr", "ln"},
			Reason: "Gemini CLI asks about these whatever else is allowed."})
	}
	if d.allowsEdits() {
		d.add("files that builds run", &permissionv1.Rule{Effect: ask, On: writeKinds(), Path: []string{
			"**/{BUILD,WORKSPACE,MODULE}{,.bazel}", "**/.{bazelrc,blazerc}", "**/*.{bzl,bazel,bzlmod,mk,cmake}",
			"**/{Makefile,makefile,GNUmakefile,CMakeLists.txt}", "**/{package.json,package-lock.json,pnpm-lock.yaml,yarn.lock,bun.lockb}",
			"**/{setup.py,setup.cfg,pyproject.toml,go.mod,go.sum,Cargo.toml,Cargo.lock,pom.xml}",
			"**/{build,settings}.gradle{,.kts}", "**/{Dockerfile,Containerfile}{,.*}",
		}, Reason: "Gemini CLI asks about the files that builds run, whatever else is allowed."})
	}
}

func (r *geminiRule) check() error {
	var ok bool
	if r.tools, ok = oneOrMore(r.ToolName); !ok {
		return fmt.Errorf("expected text or a list of texts as toolName, got %v", r.ToolName)
	}
	if r.prefixes, ok = oneOrMore(r.CommandPrefix); !ok {
		return fmt.Errorf("expected text or a list of texts as commandPrefix, got %v", r.CommandPrefix)
	}
	switch r.Decision {
	case "allow", "deny", "ask_user":
	default:
		return fmt.Errorf("expected allow, deny or ask_user as decision, got %q", r.Decision)
	}
	switch {
	case r.Priority == nil:
		return fmt.Errorf("expected a priority, got none")
	case *r.Priority < 0 || *r.Priority > 999:
		return fmt.Errorf("expected a priority from 0 to 999, got %d", *r.Priority)
	case (len(r.prefixes) > 0 || r.CommandRegex != nil) && !slices.Equal(r.tools, []string{"run_shell_command"}):
		return fmt.Errorf("expected toolName run_shell_command with commandPrefix or commandRegex, got %q", r.tools)
	case len(r.tools) == 0 && r.MCPName == nil:
		return fmt.Errorf("expected a toolName or an mcpName, got neither")
	case len(r.tools) == 0:
		r.tools = []string{"*"}
	}
	return nil
}

func oneOrMore(v any) ([]string, bool) {
	switch v := v.(type) {
	case nil:
		return nil, true
	case string:
		return []string{v}, true
	case []any:
		list := make([]string, len(v))
		for i, element := range v {
			text, ok := element.(string)
			if !ok {
				return nil, false
			}
			list[i] = text
		}
		return list, true
	}
	return nil, false
}

func (r *geminiRule) effect() string {
	if r.Decision == "ask_user" {
		return ask
	}
	return r.Decision
}

func (r *geminiRule) redirects() bool {
	return r.AllowRedirection != nil && *r.AllowRedirection || r.AllowRedirection2 != nil && *r.AllowRedirection2
}

func (r *geminiRule) reason() string { return cmp.Or(r.DenyMessage, r.DenyMessage2) }

// source returns the rule in one line.
func (r *geminiRule) source() string {
	substrings := []string{r.Decision, strings.Join(r.tools, " ")}
	add := func(name string, value *string) {
		if value != nil {
			substrings = append(substrings, name+" "+strconv.Quote(*value))
		}
	}
	add("mcpName", r.MCPName)
	if len(r.prefixes) > 0 {
		substrings = append(substrings, "commandPrefix "+strconv.Quote(strings.Join(r.prefixes, ", ")))
	}
	add("commandRegex", r.CommandRegex)
	add("argsPattern", r.ArgsPattern)
	if len(r.Modes) > 0 {
		substrings = append(substrings, "modes "+strings.Join(r.Modes, " "))
	}
	return strings.Join(append(substrings, "priority "+strconv.FormatInt(*r.Priority, 10)), " ")
}

// unsupportedCondition returns the condition of the rule that actions have no data for; empty: none.
func (r *geminiRule) unsupportedCondition() string {
	switch {
	case r.ArgsPattern != nil:
		return "rules do not match a tool's arguments as text: write an allow rule with command or path, or a condition in when"
	case r.MCPName != nil || slices.ContainsFunc(r.tools, func(t string) bool { return strings.HasPrefix(t, "mcp_") }):
		return "agents do not say for certain which server's tool it is that they use: leave it to be asked about, and let the answer be remembered"
	case r.Subagent != nil:
		return "agents do not say for which of their agents they act: write an allow rule without it"
	case r.Interactive != nil:
		return "whether somebody is there is no condition here: unattended says what counts if nobody answers"
	case len(r.ToolAnnotations) > 0:
		return "a tool's annotations are not known here: write an allow rule with on"
	}
	return ""
}

// commands returns the rule's entries about commands.
func (r *geminiRule) commands() []entry {
	base := entry{effect: r.effect(), source: r.source(), reason: r.reason(), modes: r.Modes, dropReason: r.unsupportedCondition(), command: parseCommand("*", "*")}
	if base.effect != allow && base.dropReason != "" {
		if r.MCPName != nil {
			return nil // not about commands: geminiTools handles it
		}
		base.effect = ask // the denied actions are a part of these; geminiTools reports it
	}
	switch {
	case r.CommandRegex != nil:
		base.dropReason = "rules look at a command's words, not at its text: write an allow rule with the words that it may begin with"
		base.command = regexPrefix(*r.CommandRegex)
		if base.effect == deny {
			base.effect = ask
		}
		return []entry{base}
	case len(r.prefixes) == 0:
		return []entry{base}
	}
	entries := make([]entry, len(r.prefixes))
	for i, prefix := range r.prefixes {
		entries[i] = base
		if len(r.prefixes) > 1 {
			entries[i].source = fmt.Sprintf("%s (%s)", base.source, prefix)
		}
		if prefix == "" {
			continue // any command
		}
		entries[i].command = parsePrefix(prefix)
	}
	return entries
}

// regexPrefix returns a command that begins with the complete words at the start of a regular expression.
func regexPrefix(expr string) command {
	end := strings.IndexAny(expr, `\^$.|?*+()[]{}"'`)
	if end < 0 || strings.Contains(expr, "|") && !strings.Contains(expr, "(") {
		end = 0
	}
	words := strings.LastIndexByte(expr[:end], ' ')
	if words <= 0 {
		return parseCommand("*", "*")
	}
	return parsePrefix(expr[:words])
}

// geminiTools adds rules for the tools that run no command, where the first match applies.
func (d *draft) geminiTools(rules []geminiRule) {
	groups := []struct {
		kinds []string
		tools []string // all must be allowed for the kinds to be allowed
		path  bool
	}{
		{[]string{"fs.read", "tool.read"}, []string{"read_file", "read_many_files"}, true},
		{[]string{"fs.list", "tool.search"}, []string{"list_directory", "glob", "grep_search"}, true},
		{editKinds(), []string{"write_file", "replace"}, true},
		{[]string{"tool.fetch"}, []string{"web_fetch", "google_web_search"}, false},
	}
	known := map[string]bool{"run_shell_command": true, "*": true}
	for _, group := range groups {
		for _, tool := range group.tools {
			known[tool] = true
		}
	}
	known["search_file_content"] = true // the former name of grep_search
	for _, group := range groups {
		d.geminiGroup(rules, group.kinds, group.tools, group.path)
	}
	for i := range rules {
		r := &rules[i]
		dropReason := r.unsupportedCondition()
		switch other := slices.IndexFunc(r.tools, func(t string) bool { return !known[t] }); {
		case r.effect() != allow && (other >= 0 || r.MCPName != nil):
			dropReason = cmp.Or(dropReason, "agents do not say for certain which tool it is that they use")
			d.addAskFallback(r.source(), dropReason, &permissionv1.Rule{On: otherKinds(), Mode: r.Modes, Reason: r.reason()})
		case r.effect() != allow && (dropReason != "" || r.CommandRegex != nil):
			d.drop(r.source(), "it is carried over as a rule that asks about more than it names: "+cmp.Or(dropReason, "rules look at a command's words, not at its text"))
		case r.effect() == allow && dropReason == "" && other >= 0:
			d.drop(r.source(), "agents do not say for certain which tool it is that they use ("+r.tools[other]+"): leave it to be asked about, and let the answer be remembered")
		case r.effect() == allow && dropReason != "" && !slices.Contains(r.tools, "run_shell_command") && !slices.Contains(r.tools, "*"):
			d.drop(r.source(), dropReason)
		}
	}
}

// geminiGroup adds rules for tools that correspond to one kind of action.
func (d *draft) geminiGroup(rules []geminiRule, kinds, tools []string, path bool) {
	allowed := map[string]string{} // modes in which each tool is allowed
	for i := range rules {
		r := &rules[i]
		var of []string
		for _, tool := range r.tools {
			if tool == "search_file_content" {
				tool = "grep_search"
			}
			if slices.Contains(tools, tool) {
				of = append(of, tool)
			} else if tool == "*" {
				of = append(of, tools...)
			}
		}
		if len(of) == 0 || r.MCPName != nil || len(r.prefixes) > 0 || r.CommandRegex != nil {
			continue
		}
		if r.effect() != allow {
			effect := r.effect()
			if r.unsupportedCondition() != "" {
				effect = ask
			}
			weaker := slices.ContainsFunc(rules[i+1:], func(o geminiRule) bool { return o.effect() == allow })
			if effect == ask && !weaker {
				continue
			}
			if len(allowed) > 0 && effect != allow {
				// Rules for tools have no exceptions; the strictest applies.
				d.drop(r.source(), "what rules of a higher priority allow of it is not allowed here, since the strictest counts")
			}
			d.add(r.source(), &permissionv1.Rule{Effect: effect, On: withWrites(kinds), Mode: r.Modes, Reason: r.reason()})
			continue
		}
		if r.unsupportedCondition() != "" {
			continue // already reported
		}
		modes := strings.Join(r.Modes, " ")
		for _, tool := range of {
			if have, ok := allowed[tool]; !ok || have != "" {
				allowed[tool] = modes
			}
		}
		complete := true
		for _, tool := range tools {
			// read_many_files and replace have no more permissions than the other tool of their group.
			if have, ok := allowed[tool]; (!ok || have != modes) && tool != "read_many_files" && tool != "replace" {
				complete = false
			}
		}
		if !complete {
			d.drop(r.source(), "what it allows is one kind of action together with "+strings.Join(tools, ", ")+
				", which are not told apart: it is allowed once all of them are")
			continue
		}
		rule := &permissionv1.Rule{Effect: allow, On: kinds, Mode: r.Modes}
		if path {
			rule.Path = []string{"${root}/**"}
		}
		d.add(r.source(), rule)
	}
}

// withWrites adds the kinds that remove and move to the kinds that edit.
func withWrites(kinds []string) []string {
	if kinds[0] == "fs.write" {
		return writeKinds()
	}
	return kinds
}
