package importer

import (
	"fmt"
	"slices"
	"strings"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// claude converts Claude Code's settings.json. The facts are from its documentation,
// code.claude.com/docs/en/permissions ("Permission rule syntax", "Tool-specific permission rules", "Compound commands",
// "Process wrappers", "Read and Edit", "WebFetch", "MCP"):
//
//   - Deny has precedence over ask, and ask over allow; the order within a list does not matter. Rule files work
//     likewise.
//   - Bash(TEXT) matches exactly that command. "*" matches any characters, including spaces, anywhere. " *" or ":*" at
//     the end also matches nothing; "x*" has no word boundary. Each command of a line must match by itself. timeout,
//     time, nice, nohup, stdbuf and a bare xargs are skipped, and assignments before a command are ignored.
//   - Read(PATTERN) and Edit(PATTERN) apply to all tools that read and change files. Patterns are like those of
//     gitignore: //path is absolute, ~/path is below the home directory, /path below the project's root, path and
//     ./path below the working directory; a pattern without a slash matches at any depth. Paths for other tools have no
//     effect.
//   - As the name of a tool, deny and ask accept patterns; allow accepts them only after mcp__SERVER__.
//   - An action that no rule matches is asked about, except reads in the working directory and read-only commands.
func (d *draft) claude(content []byte) error {
	top, err := readObject(content)
	if err != nil {
		return err
	}
	d.origin = "Claude Code"
	d.notes = []string{
		"What Claude Code allows by itself, reading in the workspace and commands that only read, is asked about here;",
		"the ready policy \"workspace\" has rules for it. The rules are for every agent: to keep one to some, add \"agent\".",
	}
	permissions, ok := top.get("permissions").object()
	if v := top.get("permissions"); v.isSet() && !ok {
		return fmt.Errorf("expected an object as permissions, got %s", v.raw())
	}
	lists := map[string][]string{}
	for _, effect := range []string{deny, ask, allow} {
		if lists[effect], err = texts(permissions.get(effect), "permissions."+effect); err != nil {
			return err
		}
	}
	legacy, err := texts(top.get("allowedTools"), "allowedTools")
	if err != nil {
		return err
	}
	lists[allow] = append(lists[allow], legacy...)

	tools := map[string]bool{} // allowed without a pattern
	for _, source := range lists[allow] {
		tools[source] = true
	}
	for _, effect := range []string{deny, ask, allow} {
		for _, source := range lists[effect] {
			d.claudeEntry(effect, source, tools)
		}
	}
	d.claudeMode(permissions)
	if tools["Edit"] || tools["Write"] || d.allowsEdits() {
		d.claudeProtected()
	}
	for _, name := range []string{"hooks", "sandbox"} {
		if top.get(name).isSet() {
			d.drop(name, "it is no permission, and stays in force in Claude Code itself")
		}
	}
	return nil
}

func texts(v value, field string) ([]string, error) {
	list, ok := v.list()
	if v.isSet() && !ok {
		return nil, fmt.Errorf("expected a list as %s, got %s", field, v.raw())
	}
	out := make([]string, len(list))
	for i, element := range list {
		if out[i], ok = element.string(); !ok {
			return nil, fmt.Errorf("expected texts in %s, got %s", field, element.raw())
		}
	}
	return out, nil
}

func (d *draft) claudeEntry(effect, source string, tools map[string]bool) {
	tool, specifier, scoped := strings.Cut(strings.TrimSpace(source), "(")
	if scoped {
		var closed bool
		if specifier, closed = strings.CutSuffix(specifier, ")"); !closed {
			d.claudeOtherTool(effect, source, "its brackets do not close")
			return
		}
	}
	if specifier == "" || strings.Trim(specifier, "*") == "" && tool != "Read" && tool != "Edit" {
		scoped = false // Bash(*) is equivalent to Bash
	}
	switch tool {
	case "Bash":
		d.claudeCommand(effect, source, specifier, scoped)
	case "PowerShell":
		if effect == allow {
			d.drop(source, "how PowerShell reads a line is not known here: write an allow rule with the words that a command may begin with")
			return
		}
		d.claudeCommand(effect, source, specifier, scoped)
	case "Read", "Edit":
		d.claudePath(effect, source, tool, specifier, scoped)
	case "Write", "NotebookEdit", "MultiEdit":
		switch {
		case effect != allow:
			d.claudePath(effect, source, "Edit", specifier, scoped)
		case scoped:
			d.drop(source, "Claude Code does not consult paths for this tool either: write Edit("+specifier+") there, or an allow rule with path here")
		case tool == "Write":
			// Permission to write whole files includes permission to edit them.
			d.claudePath(effect, source, "Edit", "", false)
		default:
			d.drop(source, "editing notebooks is not told from other editing here: write an allow rule on tool.edit with path")
		}
	case "Grep", "Glob", "LS":
		d.claudeSearch(effect, source, specifier, scoped)
	case "WebFetch", "WebSearch":
		d.claudeWeb(effect, source, scoped, tools["WebFetch"] && tools["WebSearch"])
	case "*":
		if effect == allow {
			d.drop(source, "Claude Code takes no pattern for a tool's name in allow rules")
			return
		}
		d.add(source, &permissionv1.Rule{Effect: effect, When: "true"})
	default:
		d.claudeOtherTool(effect, source, "agents do not say for certain which tool it is that they use")
	}
}

// claudeOtherTool handles tools that actions do not identify: those of MCP servers, agents, skills.
func (d *draft) claudeOtherTool(effect, source, dropReason string) {
	if effect == allow {
		d.drop(source, dropReason+": leave it to be asked about, and let the answer be remembered")
		return
	}
	d.addAskFallback(source, dropReason, &permissionv1.Rule{On: otherKinds()})
}

func (d *draft) claudeCommand(effect, source, specifier string, scoped bool) {
	pattern := "*"
	if scoped {
		pattern = specifier
		if prefix, ok := strings.CutSuffix(pattern, ":*"); ok {
			pattern = prefix + " *"
		}
	}
	c := parseCommand(pattern, "*")
	if effect != allow {
		d.add(source, c.restrictingRule(effect, nil))
		return
	}
	d.addAllowed(&entry{effect: allow, source: source, command: c}, nil, "")
}

func (d *draft) claudePath(effect, source, tool, specifier string, scoped bool) {
	kinds := editKinds()
	if tool == "Read" {
		kinds = readKinds()
	}
	if effect == allow {
		if !scoped || specifier == "**" || specifier == "//**" {
			d.add(source, &permissionv1.Rule{Effect: allow, On: kinds, Path: []string{"/**"}})
			return
		}
		globs, rooted, ok := claudeGlobs(specifier, false)
		if !ok {
			d.drop(source, "the pattern is not one that rules have: write an allow rule with path")
			return
		}
		rule := &permissionv1.Rule{Effect: allow, On: kinds, Path: globs}
		if rooted {
			rule.When = oneRoot
		}
		d.add(source, rule)
		return
	}
	if tool == "Edit" {
		kinds = writeKinds()
	}
	if !scoped {
		d.add(source, &permissionv1.Rule{Effect: effect, On: kinds})
		return
	}
	// A file that must not be read must not be written either, nor be an argument of a command.
	if kinds = append(kinds, commandKinds()...); tool == "Read" && effect == deny {
		kinds = nil
	}
	globs, _, ok := claudeGlobs(specifier, true)
	if !ok {
		stand := &permissionv1.Rule{On: kinds}
		if kinds == nil {
			stand.On = append(append(readKinds(), writeKinds()...), commandKinds()...)
		}
		d.addAskFallback(source, "the pattern is not one that rules have: write a rule with path", stand)
		return
	}
	d.add(source, &permissionv1.Rule{Effect: effect, On: kinds, Path: globs})
}

// claudeGlobs converts a pattern like those of gitignore to globs that match at most the same paths or, with wide, at
// least the same paths. rooted: the pattern is below a root.
func claudeGlobs(pattern string, wide bool) (globs []string, rooted, ok bool) {
	if strings.HasPrefix(pattern, "!") || strings.Contains(pattern, `\`) {
		return nil, false, false
	}
	directory := strings.HasSuffix(pattern, "/") && len(pattern) > 1
	body := strings.TrimSuffix(pattern, "/")
	base := ""
	switch {
	case strings.HasPrefix(body, "//"):
		body = strings.TrimPrefix(body, "//")
	case strings.HasPrefix(body, "~/"):
		base, body = "~", strings.TrimPrefix(body, "~/")
	case strings.HasPrefix(body, "/"), strings.HasPrefix(body, "./"):
		base, body = "${root}", strings.TrimPrefix(strings.TrimPrefix(body, "."), "/")
	case strings.Contains(body, "/"):
		base = "${root}"
	default:
		base = "${root}/**"
	}
	if body == "" {
		return nil, false, false
	}
	if wide && strings.HasPrefix(pattern, "./") && !strings.Contains(body, "/") {
		base = "${root}/**" // gitignore knows no "./", and might take it for a bare name
	}
	rooted = strings.HasPrefix(base, "${root}")
	body = escapeBraces(body)
	if directory && !wide {
		body += "/**"
	}
	globs = []string{base + "/" + body}
	if wide && !strings.HasSuffix(body, "/**") && body != "**" {
		globs = append(globs, base+"/"+body+"/**") // the content of a directory
	}
	for _, glob := range globs {
		if !isGlob(glob) {
			return nil, false, false
		}
	}
	return globs, rooted, true
}

func (d *draft) claudeSearch(effect, source, specifier string, scoped bool) {
	switch {
	case effect != allow && scoped:
		d.claudePath(effect, source, "Read", specifier, true)
	case effect != allow:
		d.add(source, &permissionv1.Rule{Effect: effect, On: []string{"tool.search", "fs.list"}})
	case scoped:
		d.drop(source, "Claude Code does not consult paths for this tool either: write Read("+specifier+") there, or an allow rule with path here")
	case strings.HasPrefix(source, "Grep"):
		d.add(source, &permissionv1.Rule{Effect: allow, On: []string{"tool.search"}})
	default:
		d.drop(source, "searching for names is not told from searching in files here: write an allow rule on tool.search")
	}
}

func (d *draft) claudeWeb(effect, source string, scoped, both bool) {
	fetch := []string{"tool.fetch"}
	switch {
	case effect == allow && (scoped || !both):
		d.drop(source, "an action on the web says neither for certain where it goes nor whether it fetches or searches: write an allow rule on tool.fetch, for all of them")
	case effect == allow:
		d.add(source, &permissionv1.Rule{Effect: allow, On: fetch})
	case scoped:
		d.addAskFallback(source, "an action on the web does not say for certain where it goes: write a rule on tool.fetch, for all of them", &permissionv1.Rule{On: fetch})
	default:
		d.add(source, &permissionv1.Rule{Effect: effect, On: fetch})
	}
}

func (d *draft) claudeMode(permissions object) {
	switch mode := permissions.get("defaultMode").text(); mode {
	case "", "default":
	case "acceptEdits":
		d.add("defaultMode: acceptEdits", &permissionv1.Rule{Effect: allow, On: editKinds(), Path: []string{"${root}/**"}})
		d.drop("defaultMode: acceptEdits", "it is carried over for edits inside the session's roots; commands such as mkdir and mv are asked about")
	case "plan":
		d.drop("defaultMode: plan", "the mode is the agent's: start the session in it, or take the ready policy \"readonly\"")
	case "dontAsk":
		d.drop("defaultMode: dontAsk", "what no rule matches is asked about, and denied where nobody answers; the ready policy \"headless\" denies more at once")
	default:
		d.drop("defaultMode: "+mode, "a rule file does not allow everything by a mode: write an allow rule for what you mean")
	}
	if v := permissions.get("additionalDirectories"); v.isSet() {
		d.drop("additionalDirectories: "+v.raw(), "a session's roots come with the session: let the client name them, or set extra_roots in acphost's configuration")
	}
}

func (d *draft) allowsEdits() bool {
	return slices.ContainsFunc(d.rules, func(rule *permissionv1.Rule) bool {
		return rule.GetEffect() == allow && len(rule.GetOn()) > 0 && rule.GetOn()[0] == "fs.write"
	})
}

// claudeProtected adds rules for the directories that Claude Code always asks about (its permission modes page,
// "Protected paths").
func (d *draft) claudeProtected() {
	d.add("its protected directories", &permissionv1.Rule{Effect: ask, On: writeKinds(),
		Path:   []string{"**/.git/**", "**/.claude/**", "**/.vscode/**", "**/.idea/**", "**/.husky/**", "**/.mcp.json", "~/.{bashrc,bash_profile,profile,zshrc,zprofile,gitconfig}"},
		Reason: "Claude Code asks about these whatever else is allowed."})
}
